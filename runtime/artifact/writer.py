"""Writing an artefact: graph and weights once, plans that point into them (reader.py)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, cast

import numpy as np

from ...ir.deferred_array import StoredArray, unpack_stored
from ...ir.dtype import DType
from ...ir.errors import UsageError, VerificationError
from ...ir.int4 import is_four_bit, pack_int4
from ...ir.lazy_dataclass import dataclass
from ...plan.plan import Plan
from ...plan.serialization import encode_plan
from ...plan.target import Target
from .code import CODE, Images, pack_images
from .container_format import ALIGN_BYTES, Writer
from .reader import (
    ATTACHMENT,
    DERIVED,
    GRAPH,
    MAX_ATTACHMENTS,
    MAX_NAME,
    PLAN,
    WEIGHTS,
    Artifact,
    Options,
    PlanEntry,
    version,
)
from .weights import Array

# Where the graph's writer put an array of this element type in the weights; None: nowhere.
Locate = Callable[[Array, DType], int | None]
# Writes the weights to a stream; returns the graph's text and how to find an array in them.
WriteGraph = Callable[[BinaryIO], tuple[str, Locate]]


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """A plan with what it was made for, and the arrays behind its constants."""

    options: Options
    target: Target
    plan: Plan
    weights: Mapping[int, StoredArray]
    code: Images | None = None


def stored_plan(artifact: Artifact, entry: PlanEntry) -> StoredPlan:
    """A plan of another artefact with its arrays, to be written again."""
    read = artifact.read_plan(entry)
    return StoredPlan(entry.options, entry.target, read.plan, read.arrays())


def write_artifact(
    stream: BinaryIO,
    write_graph: WriteGraph,
    options: Options,
    plans: Sequence[StoredPlan],
    extensions: Sequence[str] = (),
    attachments: Mapping[str, bytes] | None = None,
) -> list[str]:
    """Write an artefact to a seekable stream. `options` are those that a load takes by default,
    `extensions` the kinds of the operations of users that it needs, `attachments` bytes by name
    that are stored with the model.

    A plan that cannot be written as data (it holds text) is left out and made again by every
    load. Returns the reasons, one per such plan.
    """
    writer = Writer(stream)
    weights = writer.begin(WEIGHTS)
    text, locate = write_graph(cast(BinaryIO, writer))
    graph = writer.begin(GRAPH)
    writer.write(text.encode())
    derived = _Derived(writer)

    def encode_array(stored: StoredArray, dtype: DType) -> list[Any]:
        array = unpack_stored(stored)
        offset = locate(array, dtype)
        where = derived.add_array(array, dtype) if offset is None else (weights, offset)
        return [*where, dtype.value, [int(d) for d in array.shape]]

    refused: list[str] = []
    listed: list[tuple[StoredPlan, bytes]] = []
    for each in plans:
        try:
            encoded, arrays = _encode(each)
        except VerificationError as error:
            refused.append(error.what)
            continue
        data = {"plan": encoded, "weights": [encode_array(*a) for a in arrays]}
        listed.append((each, json.dumps(data, separators=(",", ":"), allow_nan=False).encode()))
    entries: list[dict[str, Any]] = []
    for each, content in listed:
        section = writer.begin(PLAN)
        writer.write(content)
        entry: dict[str, Any] = {"options": dict(each.options), "target": each.target.to_dict()}
        entry |= {"version": version(), "section": section}
        if each.code is not None:
            entry["kernels"], packed = pack_images(each.code)
            entry["code"] = writer.begin(CODE)
            writer.write(packed)
        entries.append(entry)
    content = {"version": version(), "options": dict(options), "graph": graph, "weights": weights}
    if extensions:
        content["extensions"] = list(extensions)
    if attachments:
        if len(attachments) > MAX_ATTACHMENTS or not all(
            0 < len(n) <= MAX_NAME for n in attachments
        ):
            got = f"{len(attachments)}: {', '.join(attachments)}"[:200]
            expected = f"at most {MAX_ATTACHMENTS}, with names of 1 to {MAX_NAME} characters"
            raise UsageError("attachments are out of range", got=got, expected=expected)
        attached = content["attachments"] = dict[str, int]()
        for name, data in attachments.items():
            attached[name] = writer.begin(ATTACHMENT)
            writer.write(data)
    writer.finish({**content, "plans": entries})
    return refused


def _encode(stored: StoredPlan) -> tuple[Any, list[tuple[StoredArray, DType]]]:
    """A plan as JSON, and the arrays that it names by number, with their types: those behind its
    constants, then those inside control flow."""
    types = {c.source: c.source_dtype for c in stored.plan.constants}
    arrays = list[tuple[StoredArray, DType]]()
    arrays += [(stored.weights[n], types[n]) for n in range(len(stored.weights))]

    def keep(array: Array, dtype: DType) -> int:
        arrays.append((array, dtype))
        return len(arrays) - 1

    encoded = encode_plan(stored.plan, keep)
    if any(dtype is DType.string for _, dtype in arrays):
        raise VerificationError("text among the constants of a plan cannot be stored")
    return encoded, arrays


class _Derived:
    """The section of derived arrays, begun with the first; each content once, aligned."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._section: int | None = None
        self._end = 0
        self._offsets: dict[tuple[int, bytes], int] = {}

    def add_array(self, array: Array, dtype: DType) -> tuple[int, int]:
        """Section and offset."""
        if self._section is None:
            self._section = self._writer.begin(DERIVED)
        native = np.ascontiguousarray(array, dtype.numpy)
        if is_four_bit(dtype):
            native = pack_int4(native)
        data = native.reshape(-1).view(np.uint8).data if native.size else memoryview(b"")
        key = len(data), hashlib.sha256(data).digest()
        offset = self._offsets.get(key)
        if offset is None:
            pad = -self._end % ALIGN_BYTES
            self._writer.write(bytes(pad))
            offset = self._offsets[key] = self._end + pad
            self._end = offset + self._writer.write(data)
        return self._section, offset
