"""The artefact (.irc): a portable graph, its weights once, and plans for machines that ran it.

Sections of the container (container_format.py): "weights" is the content of the graph's .bin,
"graph" its XML text, "derived" holds arrays that passes made of weights, and each "plan" is JSON: a
Plan and, per weight source, which bytes of which section it is. The manifest says for which options
and which Target each plan was made; options are data that this module compares and never reads.

A plan is used where options, Target, irc's version and the plan's vocabulary are those at hand;
otherwise the caller makes one again from the graph. Nothing in a file is believed: every field is
checked, then specs and plan are verified as if forged. A plan may have a section "code" with
its kernels' machine code, which is read only if the user trusts the file (code.py). Sections
"attachment" hold what a caller stored with the model by name, a tokenizer for example.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final, cast

from ...ir.dtype import DType
from ...ir.errors import ArtifactError, Error, MemoryLimitError, VerificationError
from ...ir.extensions import require_extensions
from ...ir.lazy_dataclass import dataclass
from ...ir.limits.format_bytes import format_size
from ...ir.limits.host_memory import default_max_memory
from ...ir.serialization.dataclass_json import decode, invalid_data_error
from ...ir.types import MAX_RANK
from ...plan.plan import Plan
from ...plan.serialization import decode_plan, vocabulary
from ...plan.target import Target
from ...plan.verify.plan import verify_plan
from ...plan.verify.specs import verify_specs
from ..jit.program import CompiledPlan
from ..machine.memory_planner import page_memory
from .code import CODE, Images, unpack_images
from .container_format import Bytes
from .container_reader import Container, ReadRequest
from .weights import Array, PlanReader, SectionSlice

Options = Mapping[str, Any]

WEIGHTS: Final = "weights"
GRAPH: Final = "graph"
DERIVED: Final = "derived"
PLAN: Final = "plan"
ATTACHMENT: Final = "attachment"
# What a section should hold, where no check says it closer.
_WRITTEN: Final = "what irc wrote, unchanged"
_MAX_EXTENSIONS: Final = 1000
MAX_ATTACHMENTS: Final = 1000
MAX_NAME: Final = 200
_MAX_ELEMENTS: Final = 1 << 47
# Kernels take some blocks of the size of caches.
_MAX_SCRATCH: Final = 1 << 28


@functools.cache
def version() -> str:
    """irc's version and the vocabulary of its plans: a plan of another one is made again."""
    try:
        number = importlib.metadata.version("irc-compiler")
    except importlib.metadata.PackageNotFoundError:
        number = "unknown"
    return f"{number} {vocabulary()}"


@dataclass(frozen=True, eq=False)
class PlanEntry:
    """A plan that the manifest lists: what it was made for, and its section."""

    options: Options
    target: Target
    section: int
    # Machine code: its section, and what is where in it (code.py reads it if trusted).
    code: tuple[int, Any] | None = None


class Artifact:
    """An open artefact. Everything it returns was checked against its digest first.

    options: those of the net that was exported. plans: the plans that this irc can use (made by
    the same version), for whatever Target. All damage is an ArtifactError; MemoryLimitError where
    arrays would take more than `max_memory` bytes. It stays readable when its file is replaced.
    """

    def __init__(
        self, source: str | os.PathLike[str] | Bytes, *, max_memory: int | None = None
    ) -> None:
        self._file = Container(source)
        self.max_memory = default_max_memory() if max_memory is None else max_memory
        self.name = self._file.name
        content = self._file.content
        self._require_extensions(content)
        self.options = self._options(content)
        self._graph = self._section(content, "graph", GRAPH)
        self._weights = self._section(content, "weights", WEIGHTS)
        listed = content.get("plans")
        if not isinstance(listed, list):
            raise self._file.fail("the manifest lists no plans", repr(listed)[:80], "a list")
        self._attachments = self._read_attachments(content.get("attachments", {}))
        self.plans = [p for entry in listed if (p := self._read_entry(entry)) is not None]

    def _require_extensions(self, content: dict[str, Any]) -> None:
        """Refuse a file whose operations of users are not registered."""
        found = content.get("extensions", [])
        names = cast("list[Any]", found) if isinstance(found, list) else [None]
        if len(names) > _MAX_EXTENSIONS or not all(isinstance(n, str) for n in names):
            raise self._file.fail("the manifest's extensions are wrong", repr(found)[:80], "names")
        require_extensions([str(n)[:200] for n in names], self.name)

    def _read_attachments(self, found: Any) -> dict[str, int]:
        """Section by name."""
        named = cast("dict[str, Any]", found) if isinstance(found, dict) else {"": None}
        if len(named) > MAX_ATTACHMENTS or not all(0 < len(n) <= MAX_NAME for n in named):
            raise self._file.fail(
                "the manifest's attachments are wrong", repr(found)[:80], "sections by name"
            )
        return {name: self._section(named, name, ATTACHMENT) for name in named}

    def _options(self, entry: dict[str, Any]) -> Options:
        found = entry.get("options")
        if not isinstance(found, dict):
            raise self._file.fail("the manifest has no options", repr(found)[:80], "an object")
        return found

    def _section(self, entry: dict[str, Any], name: str, kind: str) -> int:
        number, sections = entry.get(name), self._file.sections
        known = type(number) is int and 0 <= number < len(sections)
        if not known or sections[cast(int, number)].kind != kind:
            expected = f"the number of a section of kind {kind!r}"
            raise self._file.fail(f"the manifest's {name} is wrong", repr(number)[:80], expected)
        return cast(int, number)

    def _read_entry(self, entry: Any) -> PlanEntry | None:
        if not isinstance(entry, dict) or not isinstance(entry.get("version"), str):
            raise self._file.fail("the manifest lists a bad plan", repr(entry)[:80])
        if entry["version"] != version():
            return None
        with self.report_as_file_error("the manifest lists a bad plan"):
            target = Target.from_dict(entry.get("target"))
        code = None
        if "code" in entry:
            code = self._section(entry, "code", CODE), entry.get("kernels")
        section = self._section(entry, "section", PLAN)
        return PlanEntry(self._options(entry), target, section, code)

    def find(self, options: Options, target: Target) -> PlanEntry | None:
        """The plan for these options and this Target."""
        fitting = (p for p in self.plans if p.target == target and p.options == options)
        return next(fitting, None)

    @contextlib.contextmanager
    def report_as_file_error(self, what: str, section: int | None = None) -> Iterator[None]:
        """Errors inside the block are the file's fault: ArtifactErrors that say so."""
        try:
            yield
        except (ArtifactError, MemoryLimitError, MemoryError):
            raise
        except Error as error:
            parts = [f"{k} {v}" for k, v in (("got", error.got), ("at", error.where)) if v]
            got = "; ".join([error.what, *parts])
            expected = error.expected or _WRITTEN
            raise self._file.fail(what, got[:500], expected, section=section) from error
        except Exception as error:
            # What a generator or an operation makes of data that only looks right.
            got = f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
            raise self._file.fail(what, got, _WRITTEN, section=section) from error

    def read_graph(self) -> tuple[bytes, Array]:
        """The graph's XML text and the content of its .bin, after a check of the whole file."""
        text, weights = (self._file.sections[n] for n in (self._graph, self._weights))
        self._check_memory(text.size + weights.size)
        memory, data = bytearray(text.size), page_memory(weights.size)
        self._file.fill(
            [ReadRequest(text.offset, memoryview(memory)), ReadRequest(weights.offset, data.data)]
        )
        data.flags.writeable = False
        return bytes(memory), data

    @property
    def attachments(self) -> tuple[str, ...]:
        """Names of what was stored with the model."""
        return tuple(self._attachments)

    def read_attachment(self, name: str) -> bytes:
        """What was stored under this name, every digest checked."""
        section = self._attachments[name]
        self._check_memory(self._file.sections[section].size)
        return self._file.read(section)

    def read_code(self, entry: PlanEntry) -> Images:
        """The code stored with a plan, every digest checked: whole, not harmless."""
        if entry.code is None:
            return {}
        section, table = entry.code
        self._check_memory(self._file.sections[section].size)
        content = self._file.read(section)
        with self.report_as_file_error("stored code is broken", section):
            return unpack_images(table, content)

    def read_plan(self, entry: PlanEntry) -> PlanReader:
        """A verified plan; its arrays are read on demand."""
        data = self._file.parse(self._file.read(entry.section), "plan")
        with self.report_as_file_error("a stored plan is broken", entry.section):
            if set(data) != {"plan", "weights"}:
                raise invalid_data_error(sorted(data)[:9], "plan, weights")
            slices = self._read_slices(data["weights"])
            reader = PlanReader(slices, self._file)
            plan = reader.plan = decode_plan(data["plan"], reader.inner_array)
            if plan.target_key != entry.target.key():
                got, wanted = plan.target_key, entry.target.key()
                raise VerificationError("the plan is for another Target", got=got, expected=wanted)
            verify_specs(plan.specs(), entry.target)
            verify_plan(plan)
            _verify_ports(plan)
            for c in plan.constants:
                reader.check(c.source, c.source_dtype, c.shape)
            sources = {c.source for c in plan.constants}
            if sources != set(range(len(sources))):
                raise invalid_data_error(
                    sorted(sources)[:20], f"weights numbered 0..{len(sources) - 1}"
                )
        return reader

    def _read_slices(self, table: Any) -> list[SectionSlice]:
        """The section slices of all arrays. No two overlap unless they are the same bytes."""
        if not isinstance(table, list):
            raise invalid_data_error(table, "a table of weights")
        listed = [decode(tuple[int, int, DType, tuple[int, ...]], e) for e in table]
        slices = [SectionSlice(*e) for e in listed]
        for p in slices:
            self._check_slice(p)
        ranges = sorted({(p.section, p.offset, p.nbytes) for p in slices if p.nbytes})
        for (section, offset, size), after in zip(ranges, ranges[1:], strict=False):
            if section == after[0] and offset + size > after[1]:
                raise invalid_data_error(after, "arrays that do not overlap")
        self._check_memory(sum(size for _, _, size in ranges))
        return slices

    def _check_slice(self, p: SectionSlice) -> None:
        sections = self._file.sections
        good = 0 <= p.section < len(sections) and sections[p.section].kind in (WEIGHTS, DERIVED)
        if not good or len(p.shape) > MAX_RANK or any(d < 0 for d in p.shape):
            raise invalid_data_error(p, "an array of the weights")
        if p.dtype in (DType.dynamic, DType.string) or math.prod(p.shape) > _MAX_ELEMENTS:
            raise invalid_data_error(p, "an array of numbers")
        size = sections[p.section].size
        if p.offset < 0 or p.offset + p.nbytes > size:
            raise invalid_data_error(p, f"an array within the section's {size} bytes")

    def _check_memory(self, size: int) -> None:
        if size > self.max_memory:
            raise MemoryLimitError(
                "the artefact's weights do not fit into the memory allowed",
                where=self.name,
                got=format_size(size),
                expected=f"at most {format_size(self.max_memory)} (max_memory)",
                fix="raise max_memory",
            )

    def copy_to(self, stream: BinaryIO) -> None:
        """Write the whole artefact again, after a check of all of it."""
        self._file.copy_to(stream)


def _verify_ports(plan: Plan) -> None:
    """The declared type of a port is that of its slot: inputs are checked by it."""
    for port in (*plan.inputs, *plan.outputs):
        if port.type != plan.slots[port.slot]:
            got, expected = str(port.type), str(plan.slots[port.slot])
            raise VerificationError(
                "a port and its slot differ in type", where=port.name, got=got, expected=expected
            )
    for region in plan.regions:
        for body in () if region.terminal is None else region.terminal.bodies:
            _verify_ports(body)


def verify_program(program: CompiledPlan) -> None:
    """VerificationError where a program made of a stored plan would need absurd memory, or where
    the sizes of a region without symbols contradict each other (others: with the first shapes)."""
    if program.scratch > _MAX_SCRATCH:
        raise VerificationError("a kernel wants too much scratch memory", got=program.scratch)
    for region, tables in zip(program.plan.regions, program.tables, strict=True):
        if not region.symbols:
            tables.sizes({})
    for inner in program.bodies:
        for body in inner:
            verify_program(body)
