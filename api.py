"""The public face: read, save and compile models; call what was compiled.

This is where the two halves meet: the compiler makes a plan for the Target that the runtime
reports, the runtime turns the plan into a program, and a CompiledModel owns all three.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from .compiler.options import PRECISIONS, Options, Shapes, from_recipe, to_recipe
from .ir.dim import Dim
from .ir.errors import InputError, ModelFormatError, UsageError
from .ir.types import TensorType

if TYPE_CHECKING:
    import numpy as np

    from .compiler.trace import Trace
    from .ir.graph import Graph
    from .ir.plan import Plan, PlanPort
    from .runtime.artifact import Artifact, PlanEntry
    from .runtime.program import Program

    # A path, bytes, or an onnx.ModelProto (a class that is not imported for its name alone).
    Source = str | os.PathLike[str] | bytes | Any


@dataclass(frozen=True)
class PortInfo:
    """One input or output of a model: `shape` holds an int or a symbol's text per axis, None for
    an unknown rank; `dtype` is OpenVINO's element name ("f32", "i64", ...)."""

    name: str
    names: tuple[str, ...]
    shape: tuple[int | str, ...] | None
    dtype: str


def _port(name: str, names: Sequence[str], type_: Any) -> PortInfo:
    if not isinstance(type_, TensorType):
        return PortInfo(name, tuple(names), None, str(type_))
    shape = None if type_.shape is None else tuple(_size(d) for d in type_.shape)
    return PortInfo(name, tuple(names), shape, type_.dtype.value)


def _size(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


class Model:
    """A model as read: its portable graph, inferred. `graph` may be inspected, not changed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def name(self) -> str:
        """The model's own name."""
        return self.graph.name

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        """The inputs in the order in which a call takes them."""
        return tuple(self._info(n) for n in self.graph.parameters)

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        """The outputs in the order in which a call returns them."""
        return tuple(self._info(n) for n in self.graph.results)

    def _info(self, node: int) -> PortInfo:
        record = self.graph.node(node)
        names = sorted(record.names[0]) if record.names else []
        return _port(names[0] if names else record.name, names, record.types[0])

    def __repr__(self) -> str:
        return f"<irc.Model {self.name!r}: {len(self.graph)} operations>"


def read_model(
    source: Source,
    weights: str | os.PathLike[str] | bytes | None = None,
    *,
    declared_shapes: Literal["check", "ignore"] = "check",
) -> Model:
    """Read a model: a path (.onnx, .xml), the bytes of either, or an onnx.ModelProto.

    weights: the .bin of an XML file that does not lie beside it. declared_shapes "ignore" accepts
    XML whose declared shapes or types contradict inference.
    Raises ModelFormatError, ShapeError or UnsupportedOperationError.
    """
    if _is_xml(source):
        from .compiler.frontends.xml.reader import read_xml

        return Model(read_xml(source, weights, declared_shapes=declared_shapes))  # type: ignore[arg-type]
    from .compiler.frontends.onnx.reader import read_onnx

    return Model(read_onnx(source))


def _is_xml(source: Source) -> bool:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source[:256]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    if not isinstance(source, str | os.PathLike):
        return False
    suffix = Path(source).suffix.lower()
    if suffix not in (".xml", ".onnx"):
        raise ModelFormatError(
            "the file's name does not say what it is",
            where=str(source),
            got=suffix or "no suffix",
            expected=".onnx or .xml" + (" (a .irc file is compiled already)" * (suffix == ".irc")),
        )
    return suffix == ".xml"


def save_model(
    model: Model | Source, path: str | os.PathLike[str], *, compress_to_fp16: bool = False
) -> None:
    """Write IR version 11 (`path` and the .bin beside it) in standard operation sets.

    compress_to_fp16 stores f32 weights as f16 with a decompressing conversion. Both files appear
    whole or not at all.
    """
    from .compiler.export.xml import write_xml

    held = model if isinstance(model, Model) else read_model(model)
    write_xml(held.graph, path, compress_to_fp16=compress_to_fp16)


def compile_model(
    source: Model | Source,
    *,
    precision: str | None = None,
    num_threads: int | None = None,
    shapes: Shapes | None = None,
    max_memory: int | None = None,
    declared_shapes: Literal["check", "ignore"] = "check",
    verify: bool | None = None,
) -> CompiledModel:
    """Compile a model for this machine.

    source: a path (.onnx, .xml, .irc), bytes, an onnx.ModelProto or a Model. precision: "f32" (the
    default), or "bf16" (matrix products take bf16 operands). num_threads: None for the CPUs this
    process may use. shapes: fixed sizes by input name. max_memory: bytes for any tensor or arena.
    verify: check the graph after every pass (default: IRC_VERIFY=1). A .irc keeps the precision
    and shapes that it was compiled with where none are given here.
    Raises an irc.Error that says what is wrong, where, and what to do.
    """
    if precision not in (None, *PRECISIONS):
        raise UsageError("unknown precision", got=precision, expected=" or ".join(PRECISIONS))
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".irc":
        return CompiledModel.load(
            source,
            precision=precision,
            num_threads=num_threads,
            shapes=shapes,
            max_memory=max_memory,
        )
    if isinstance(source, Model):
        model = source
    else:
        model = read_model(source, declared_shapes=declared_shapes)
    checked = os.environ.get("IRC_VERIFY") == "1" if verify is None else verify
    options = Options(precision=precision or "f32", verify=checked)
    return CompiledModel(model, options, num_threads, shapes=shapes, max_memory=max_memory)


class Outputs(tuple[Any, ...]):
    """The results of a call: by position, by name, or unpacked. Each array is the caller's own."""

    _names: dict[str, int]

    def __new__(cls, arrays: Sequence[Any], names: dict[str, int]) -> Outputs:
        made = super().__new__(cls, arrays)
        made._names = names
        return made

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            at = self._names.get(key)
            if at is None:
                raise InputError(
                    "unknown output", got=key, expected=", ".join(self._names) or "no names"
                )
            return super().__getitem__(at)
        return super().__getitem__(key)

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)


class BoundCall:
    """A call with fixed buffers: reads the bound arrays as they are now, returns the same output
    arrays every time, overwritten by the next call. Nothing is allocated."""

    def __init__(self, call: Any, names: dict[str, int]) -> None:
        self._call, self._names = call, names

    def __call__(self) -> Any:
        """Run; the outputs as one array (a single output) or a list in order."""
        return self._call()


class CompiledModel:
    """A model ready to run on this machine; call it like a function.

    Calls are thread-safe. `inputs` and `outputs` describe the ports, `plan` what runs, `trace`
    what the passes did, `report()` how it runs.
    """

    def __init__(
        self,
        model: Model,
        options: Options,
        num_threads: int | None = None,
        *,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
    ) -> None:
        from .compiler.lowering import lower
        from .runtime.machine import host_target

        self.options, self._shapes = options, shapes or {}
        self._model: Model | None = model
        self._stored: tuple[Artifact, PlanEntry] | None = None
        self.trace: Trace | None = None
        plan, self._weights = lower(self.graph, host_target(), options)
        self._start(plan, self._weights, num_threads, max_memory)

    def _start(
        self,
        plan: Plan,
        weights: Mapping[int, np.ndarray[Any, Any]],
        num_threads: int | None,
        max_memory: int | None,
    ) -> None:
        from .runtime.cache import default_cache
        from .runtime.machine import host_target
        from .runtime.program import build_program
        from .runtime.session import Session

        self.plan: Plan = plan
        self.program: Program = build_program(
            plan, weights, host_target(), code_cache=default_cache()
        )
        self.session = Session(self.program, num_threads=num_threads, max_memory=max_memory)
        self._inputs = {n: i for i, p in enumerate(plan.inputs) for n in (p.name, *p.names)}
        self._outputs = {n: i for i, p in enumerate(plan.outputs) for n in (p.name, *p.names)}
        self._run = self.session.run
        self._count = len(plan.inputs)

    @property
    def model(self) -> Model:
        """The model that was compiled; of an artefact, its portable graph, read when asked for."""
        if self._model is None:
            assert self._stored is not None
            self._model = _stored_model(self._stored[0])
        return self._model

    @cached_property
    def graph(self) -> Graph:
        """The optimised graph."""
        from .compiler.pipeline import optimise
        from .compiler.shapes import fix_shapes

        graph = fix_shapes(self.model.graph.copy(), self._shapes)
        self.trace = optimise(graph, self.options)
        return graph

    @property
    def inputs(self) -> tuple[PortInfo, ...]:
        """The inputs in order."""
        return tuple(self._info(p) for p in self.plan.inputs)

    @property
    def outputs(self) -> tuple[PortInfo, ...]:
        """The outputs in order."""
        return tuple(self._info(p) for p in self.plan.outputs)

    @staticmethod
    def _info(port: PlanPort) -> PortInfo:
        return _port(port.name, port.names, port.type)

    def __call__(self, inputs: Any = None, /, **named: Any) -> Outputs:
        """Run. `inputs`: one array, a list in order, or a mapping by name; or keyword arguments.

        Returns fresh arrays. Raises InputError for a missing, unknown or unfitting input.
        """
        return Outputs(self._run(self._ordered(inputs, named)), self._outputs)

    def bind(self, inputs: Any = None, /, **named: Any) -> BoundCall:
        """Fix the input arrays and output buffers; the result is called without arguments."""
        return BoundCall(self.session.bind(self._ordered(inputs, named)), self._outputs)

    def _ordered(self, inputs: Any, named: Mapping[str, Any]) -> list[Any]:
        if isinstance(inputs, Mapping):
            named = {**inputs, **named} if named else inputs
        elif inputs is not None:
            listed = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
            if named or len(listed) != self._count:
                raise InputError(
                    "the number of inputs is wrong",
                    got=len(listed) + len(named),
                    expected=f"{self._count}: {', '.join(p.name for p in self.plan.inputs)}",
                )
            return listed
        values: list[Any] = [None] * self._count
        for name, value in named.items():
            at = self._inputs.get(name)
            if at is None:
                raise InputError("unknown input", got=name, expected=self._input_names())
            values[at] = value
        for value, port in zip(values, self.plan.inputs, strict=True):
            if value is None:
                raise InputError("an input is missing", where=port.name, expected=str(port.type))
        return values

    def _input_names(self) -> str:
        return ", ".join(p.name for p in self.plan.inputs) or "no inputs"

    def report(self) -> str:
        """How the model runs: steps, kernels, precision, and every step outside native code."""
        from .compiler.report import report

        return report(self.plan, self.trace)

    def export(self, path: str | os.PathLike[str], *, also: Sequence[CompiledModel] = ()) -> None:
        """Write the compiled model as one `.irc` file, whole or not at all.

        It holds the model's portable graph, its weights once, and this net's plan. also: nets of
        the same model with other options, whose plans are stored with it.
        """
        from .compiler.export.files import replacing
        from .compiler.export.xml import write_net
        from .runtime.artifact_writer import StoredPlan, write_artifact
        from .runtime.machine import host_target

        with replacing(Path(path)) as (stream,):
            if self._stored is not None and not also:
                self._stored[0].copy_to(stream)
                return
            nets = [self, *also]
            plans = [StoredPlan(n._recipe, host_target(), n.plan, n._arrays()) for n in nets]

            def write_graph(to: BinaryIO) -> tuple[str, Any]:
                text, weights = write_net(self.model.graph, to, dialect=True)
                return text, weights.find

            write_artifact(stream, write_graph, self._recipe, plans)

    @property
    def _recipe(self) -> dict[str, Any]:
        return to_recipe(self.options, self._shapes)

    def _arrays(self) -> Mapping[int, np.ndarray[Any, Any]]:
        """The arrays behind the plan's constants."""
        return self._weights if self._stored is None else self._stored[0].read_arrays(...)

    @classmethod
    def load(
        cls,
        source: str | os.PathLike[str] | bytes,
        *,
        precision: str | None = None,
        num_threads: int | None = None,
        shapes: Shapes | None = None,
        max_memory: int | None = None,
    ) -> CompiledModel:
        """Load a `.irc` file (or its content) for this machine.

        Its plan for this machine and these options (by default those it was compiled with) is
        verified and used; where it has none, the stored graph is compiled again. Raises
        ArtifactError where it is damaged or of another version.
        """
        from .runtime.artifact import Artifact
        from .runtime.machine import host_target

        stored = Artifact(source, max_memory=max_memory)
        with stored.blamed("the artefact's options are broken"):
            options, fixed = from_recipe(stored.options)
        options = options if precision is None else replace(options, precision=precision)
        fixed = fixed if shapes is None else shapes
        entry = stored.find(to_recipe(options, fixed), host_target())
        if entry is None:
            model = _stored_model(stored)
            return cls(model, options, num_threads, shapes=fixed, max_memory=max_memory)
        net = cls.__new__(cls)
        net.options, net._shapes, net.trace = options, fixed, None
        net._model, net._stored = None, (stored, entry)
        plan, weights = stored.read_plan(entry)
        with stored.blamed("a stored plan cannot be used", entry.section):
            net._start(plan, weights, num_threads, max_memory)
        return net

    def __repr__(self) -> str:
        return f"<irc.CompiledModel {self.plan.name!r}: {len(self.plan.kernel_steps())} kernels>"


def _stored_model(stored: Artifact) -> Model:
    """The portable graph of an artefact."""
    from .compiler.frontends.xml.reader import read_xml

    text, weights = stored.read_graph()
    with stored.blamed("the artefact's graph is broken"):
        return Model(read_xml(text, weights))
