"""Elements ranked, counted or marked: TopK, ArgMax, OneHot, CumSum, Unique, triangles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Add,
    CumProd,
    CumSum,
    Gather,
    GreaterEqual,
    LessEqual,
    OneHot,
    Range,
    Reshape,
    Reverse,
    Select,
    Squeeze,
    Subtract,
    TopK,
    Unique,
    Unsqueeze,
)
from .elementary import convert_value, flatten_value, size_of, sizes_of

if TYPE_CHECKING:
    from ..import_context import ImportContext, Imported, ImportFunction


def _scalar(n: ImportContext, value: Value) -> Value:
    """A value of one element, as a scalar."""
    return value if n.shape(value) == () else n.add(Reshape(), value, n.ints_value([]))


def top_k_attribute(n: ImportContext) -> Imported:
    op = TopK(n.integer("axis", -1), "max", "value", DType.i64)
    return n.add_all(op, n.input(0), n.int_value(n.integer("k")))


def top_k(n: ImportContext) -> Imported:
    """Unsorted results may come in any order, so they come sorted too."""
    mode = "max" if n.flag("largest", True) else "min"
    n.flag("sorted", True)
    op = TopK(n.integer("axis", -1), mode, "value", DType.i64)
    return n.add_all(op, n.input(0), _scalar(n, n.input(1)))


def arg(mode: str) -> ImportFunction:
    """The position of the largest or smallest element; the first of equal ones."""

    def load(n: ImportContext) -> Value:
        x, keep = n.input(0), n.flag("keepdims", True)
        axis = n.axis(n.integer("axis", 0), n.rank(x))
        last = n.flag("select_last_index")
        found = _add_arg_extremum(
            n, n.add(Reverse(), x, n.ints_value([axis])) if last else x, axis, mode
        )
        if last:
            end = n.add(Subtract(), size_of(n, x, axis), n.ints_value([1]))
            found = n.add(Subtract(), end, found)
        return found if keep else n.add(Squeeze(), found, n.ints_value([axis]))

    return load


def _add_arg_extremum(n: ImportContext, x: Value, axis: int, mode: str) -> Value:
    return n.add_all(TopK(axis, mode, "value", DType.i64), x, n.int_value(1))[1]


def hardmax(n: ImportContext) -> Value:
    x = n.input(0)
    return _hardmax(n, x, n.axis(n.integer("axis", -1), n.rank(x)))


def flat_hardmax(n: ImportContext) -> Value:
    """Before version 13: over all axes from `axis` on, as if they were one."""
    x = n.input(0)
    rows = flatten_value(n, x, n.axis(n.integer("axis", 1), n.rank(x)))
    return n.add(Reshape(), _hardmax(n, rows, 1), sizes_of(n, x))


def _hardmax(n: ImportContext, x: Value, axis: int) -> Value:
    """1 at the first of the largest elements along an axis, else 0."""
    index = n.add(Squeeze(), _add_arg_extremum(n, x, axis, "max"), n.ints_value([axis]))
    depth = _scalar(n, size_of(n, x, axis))
    return n.add(OneHot(axis), index, depth, n.like(x, 1), n.like(x, 0))


def one_hot(n: ImportContext) -> Value:
    """`values` are (off, on); negative indices count from the end."""
    indices = convert_value(n, n.input(0), DType.i64)
    depth = _scalar(n, convert_value(n, n.input(1), DType.i64))
    values, axis = n.input(2), n.int_value(0)
    on, off = (n.add(Gather(), values, n.int_value(i), axis) for i in (1, 0))
    op = OneHot(n.integer("axis", -1), "normalize")
    return n.add(op, indices, depth, on, off)


def cumulative(cls: type[CumSum]) -> ImportFunction:
    def load(n: ImportContext) -> Value:
        op = cls(n.flag("exclusive"), n.flag("reverse"))
        return n.add(op, n.input(0), _scalar(n, n.input(1)))

    return load


def unique(n: ImportContext) -> Imported:
    axis = n.int_value(n.integer("axis")) if n.has("axis") else None
    return n.add_all(Unique(n.flag("sorted", True)), n.input(0), axis)


def triangle(n: ImportContext) -> Value:
    """Elements on and above (or below) diagonal k of each matrix; 0 elsewhere."""
    x, k = n.input(0), n.optional(1)
    rank = n.rank(x)
    if rank < 2:
        raise n.type_error("Trilu takes matrices", got=n.fact(x).type, expected="rank 2 or more")
    zero, one = n.int_value(0), n.int_value(1)
    rows, columns = (
        n.add(Range(DType.i64), zero, _scalar(n, size_of(n, x, axis)), one)
        for axis in (rank - 2, rank - 1)
    )
    if k is not None:
        rows = n.add(Add(), rows, _scalar(n, k))
    rows = n.add(Unsqueeze(), rows, n.ints_value([1]))
    compare = GreaterEqual() if n.flag("upper", True) else LessEqual()
    keep = n.add(compare, n.add(Unsqueeze(), columns, n.ints_value([0])), rows)
    dtype = n.dtype(x)
    return n.add(Select(), keep, x, n.constant(np.zeros((), dtype.numpy), dtype))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "TopK": {1: top_k_attribute, 10: top_k},
    "ArgMax": {1: arg("max")},
    "ArgMin": {1: arg("min")},
    "Hardmax": {1: flat_hardmax, 13: hardmax},
    "OneHot": {9: one_hot},
    "CumSum": {11: cumulative(CumSum)},
    "CumProd": {26: cumulative(CumProd)},
    "Unique": {11: unique},
    "Trilu": {14: triangle},
}
