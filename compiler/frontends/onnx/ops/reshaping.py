"""The same elements in another shape or order; values repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Broadcast,
    Concat,
    Identity,
    Reshape,
    Squeeze,
    Tile,
    Transpose,
    Unsqueeze,
)
from .elementary import convert_value, flatten_value

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction


def reshape_attribute(n: ImportContext) -> Value:
    return n.add(Reshape(special_zero=True), n.input(0), n.ints_value(n.integers("shape")))


def reshape(n: ImportContext) -> Value:
    """A 0 copies the input's size, unless `allowzero`."""
    allowed = n.flag("allowzero")
    target = n.known_integers(n.input(1))
    if allowed and target is not None and 0 in target and -1 in target:
        raise n.type_error("with allowzero, a target has no 0 together with a -1", got=target)
    return n.add(Reshape(special_zero=not allowed), n.input(0), n.input(1))


def transpose(n: ImportContext) -> Value:
    """Without `perm` the axes are reversed."""
    x, perm = n.input(0), n.optional_integers("perm")
    shape = n.shape(x)
    if perm is None:
        perm = [] if shape is None else list(reversed(range(len(shape))))
    if shape is not None and sorted(perm) != list(range(len(shape))):
        raise n.type_error(
            "perm has to list every axis once", got=perm, expected=f"0 to {len(shape) - 1}"
        )
    return n.add(Identity(), x) if shape == () else n.add(Transpose(), x, n.ints_value(perm))


def squeeze_attribute(n: ImportContext) -> Value:
    axes = n.optional_integers("axes")
    return n.add(Squeeze(), n.input(0), None if axes is None else n.ints_value(axes))


def squeeze(n: ImportContext) -> Value:
    return n.add(Squeeze(), n.input(0), n.optional(1))


def unsqueeze_attribute(n: ImportContext) -> Value:
    return n.add(Unsqueeze(), n.input(0), n.ints_value(n.integers("axes")))


def unsqueeze(n: ImportContext) -> Value:
    return n.add(Unsqueeze(), n.input(0), n.input(1))


def flatten(n: ImportContext) -> Value:
    x = n.input(0)
    rank, axis = n.rank(x), n.integer("axis", 1)
    if not -rank <= axis <= rank:
        raise n.type_error("axis is out of range", got=axis, expected=f"{-rank}..{rank}")
    return flatten_value(n, x, axis + rank if axis < 0 else axis)


def expand(n: ImportContext) -> Value:
    return n.add(Broadcast("bidirectional"), n.input(0), n.input(1))


def tile_axis(n: ImportContext) -> Value:
    """Before version 6: one axis is repeated; both numbers are inputs of the data's type."""
    x, axis = n.input(0), n.constant_of(n.input(2))
    if axis is None or axis.size != 1:
        raise n.unsupported_error("Tile along an axis that is not a constant")
    rank = n.rank(x)
    at = n.axis(int(axis.reshape(-1)[0]), rank)
    count = n.add(Reshape(), convert_value(n, n.input(1), DType.i64), n.ints_value([1]))
    parts = [n.ints_value([1] * at), count, n.ints_value([1] * (rank - at - 1))]
    return n.add(Tile(), x, n.add(Concat(axis=0), *parts))


def tile(n: ImportContext) -> Value:
    x, repeats = n.input(0), n.input(1)
    shape, count = n.shape(x), n.shape(repeats)
    if shape is not None and count is not None and isinstance(count[0], int):
        if count[0] != len(shape):
            raise n.type_error("Tile repeats every axis", got=count[0], expected=len(shape))
    return n.add(Tile(), x, repeats)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Reshape": {1: reshape_attribute, 5: reshape},
    "Transpose": {1: transpose},
    "Squeeze": {1: squeeze_attribute, 13: squeeze},
    "Unsqueeze": {1: unsqueeze_attribute, 13: unsqueeze},
    "Flatten": {1: flatten},
    "Expand": {8: expand},
    "Tile": {1: tile_axis, 6: tile},
}
