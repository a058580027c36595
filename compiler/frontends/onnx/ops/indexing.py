"""Elements picked by index or written to an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Add,
    Broadcast,
    FloorMod,
    Gather,
    GatherElements,
    GatherND,
    NonZero,
    Range,
    Reshape,
    ScatterElementsUpdate,
    ScatterNDUpdate,
    Squeeze,
)
from .elementary import size_of, sizes_of, unsqueeze_value

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

_REDUCTIONS = {"none": "none", "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def gather(n: ImportContext) -> Value:
    """Indices out of range are an error (ONNX leaves them undefined; ours is to refuse)."""
    axis = n.int_value(n.integer("axis", 0))
    return n.add(Gather(out_of_range="error"), n.input(0), n.input(1), axis)


def gather_elements(n: ImportContext) -> Value:
    return n.add(GatherElements(n.integer("axis", 0)), n.input(0), n.input(1))


def gather_nd(n: ImportContext) -> Value:
    return n.add(GatherND(n.integer("batch_dims", 0)), n.input(0), n.input(1))


def _reduction(n: ImportContext) -> str:
    name = n.text("reduction", "none")
    if name not in _REDUCTIONS:
        raise n.error("unknown reduction", got=name, expected=", ".join(_REDUCTIONS))
    return _REDUCTIONS[name]


def scatter_elements(n: ImportContext) -> Value:
    op = ScatterElementsUpdate(_reduction(n))
    axis = n.int_value(n.integer("axis", 0))
    return n.add(op, n.input(0), n.input(1), n.input(2), axis)


def scatter_nd(n: ImportContext) -> Value:
    return n.add(ScatterNDUpdate(_reduction(n)), n.input(0), n.input(1), n.input(2))


def tensor_scatter(n: ImportContext) -> Value:
    """A cache with updates written along an axis, from the index of each batch on (default 0)."""
    cache, update, start = n.input(0), n.input(1), n.optional(2)
    mode = n.text("mode", "linear")
    if mode not in ("linear", "circular"):
        raise n.error("unknown mode of TensorScatter", got=mode, expected="linear or circular")
    rank = n.rank(cache)
    axis = n.axis(n.integer("axis", -2), rank)
    if axis == 0:
        raise n.type_error("TensorScatter does not write along the batch")
    length = n.add(Reshape(), size_of(n, update, axis), n.ints_value([]))
    indices = n.add(Range(DType.i64), n.int_value(0), length, n.int_value(1))
    indices = unsqueeze_value(n, indices, [i for i in range(rank) if i != axis])
    if start is not None:
        indices = n.add(Add(), indices, unsqueeze_value(n, start, range(1, rank)))
    if mode == "circular":
        indices = n.add(FloorMod(), indices, size_of(n, cache, axis))
    indices = n.add(Broadcast("bidirectional"), indices, sizes_of(n, update))
    return n.add(ScatterElementsUpdate(), cache, indices, update, n.int_value(axis))


def compress(n: ImportContext) -> Value:
    """Elements (or slices along an axis) whose condition holds."""
    x, axis = n.input(0), n.integer("axis", 0)
    if not n.has("axis"):
        x = n.add(Reshape(), x, n.ints_value([-1]))
    picks = n.add(Squeeze(), n.add(NonZero(), n.input(1)), n.ints_value([0]))
    return n.add(Gather(out_of_range="error"), x, picks, n.int_value(axis))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Gather": {1: gather},
    "GatherElements": {11: gather_elements},
    "GatherND": {11: gather_nd},
    "Scatter": {9: scatter_elements},
    "ScatterElements": {11: scatter_elements},
    "ScatterND": {11: scatter_nd},
    "NonZero": {9: lambda n: n.add(NonZero(), n.input(0))},
    "Compress": {9: compress},
    "TensorScatter": {24: tensor_scatter},
}
