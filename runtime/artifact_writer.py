"""Writing an artefact: graph and weights once, plans that point into them (artifact.py)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, cast

import numpy as np

from ..ir.dtype import DType
from ..ir.errors import VerificationError
from ..ir.plan import Plan
from ..ir.plan_codec import encode_plan
from ..ir.target import Target
from .artifact import DERIVED, GRAPH, PLAN, WEIGHTS, Artifact, Options, PlanEntry, version
from .container import ALIGN, Writer
from .stored_weights import Array

# Where the graph's writer put an array of this element type in the weights; None: nowhere.
Locate = Callable[[Array, DType], int | None]
# Writes the weights to a stream; returns the graph's text and how to find an array in them.
WriteGraph = Callable[[BinaryIO], tuple[str, Locate]]
_Find = Callable[[Array, DType], tuple[int, int] | None]


@dataclass(frozen=True, eq=False)
class StoredPlan:
    """A plan with what it was made for, and the arrays behind its constants."""

    options: Options
    target: Target
    plan: Plan
    weights: Mapping[int, Array]


def stored_plan(artifact: Artifact, entry: PlanEntry) -> StoredPlan:
    """A plan of another artefact with its arrays, to be written again."""
    read = artifact.read_plan(entry)
    return StoredPlan(entry.options, entry.target, read.plan, read.arrays())


def write_artifact(
    stream: BinaryIO, write_graph: WriteGraph, options: Options, plans: Sequence[StoredPlan]
) -> list[str]:
    """Write an artefact to a seekable stream. `options` are those that a load takes by default.

    A plan that cannot be written as data (it holds a graph) is left out and made again by every
    load. Returns the reasons, one per such plan.
    """
    writer = Writer(stream)
    weights = writer.begin(WEIGHTS)
    text, locate = write_graph(cast(BinaryIO, writer))
    graph = writer.begin(GRAPH)
    writer.write(text.encode())
    listed: list[tuple[StoredPlan, Any]] = []
    refused: list[str] = []
    for each in plans:
        try:
            listed.append((each, encode_plan(each.plan)))
        except VerificationError as error:
            refused.append(error.what)
    derived = _Derived(writer)

    def find(array: Array, dtype: DType) -> tuple[int, int] | None:
        offset = locate(array, dtype)
        return None if offset is None else (weights, offset)

    places = [_table(p, derived, find) for p, _ in listed]
    entries: list[dict[str, Any]] = []
    for (each, encoded), table in zip(listed, places, strict=True):
        section = writer.begin(PLAN)
        data = {"plan": encoded, "weights": table}
        writer.write(json.dumps(data, separators=(",", ":"), allow_nan=False).encode())
        entries.append(
            {
                "options": dict(each.options),
                "target": asdict(each.target),
                "version": version(),
                "section": section,
            }
        )
    writer.finish(
        {
            "version": version(),
            "options": dict(options),
            "graph": graph,
            "weights": weights,
            "plans": entries,
        }
    )
    return refused


def _table(stored: StoredPlan, derived: _Derived, find: _Find) -> list[list[Any]]:
    """Where each weight source lies, its bytes written if they are nowhere yet."""
    types = {c.source: c.dtype for c in stored.plan.constants}
    table: list[list[Any]] = []
    for source in range(len(stored.weights)):
        array, dtype = stored.weights[source], types[source]
        section, offset = find(array, dtype) or derived.place(array, dtype)
        table.append([section, offset, dtype.value, [int(d) for d in array.shape]])
    return table


class _Derived:
    """The section of derived arrays, begun with the first; each content once, aligned."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._section: int | None = None
        self._end = 0
        self._places: dict[tuple[int, bytes], int] = {}

    def place(self, array: Array, dtype: DType) -> tuple[int, int]:
        """Section and offset."""
        if self._section is None:
            self._section = self._writer.begin(DERIVED)
        if dtype is DType.string:
            raise VerificationError("text among the constants of a plan cannot be stored")
        native = np.ascontiguousarray(array, dtype.numpy)
        data = native.reshape(-1).view(np.uint8).data if native.size else memoryview(b"")
        key = len(data), hashlib.sha256(data).digest()
        offset = self._places.get(key)
        if offset is None:
            pad = -self._end % ALIGN
            self._writer.write(bytes(pad))
            offset = self._places[key] = self._end + pad
            self._end = offset + self._writer.write(data)
        return self._section, offset
