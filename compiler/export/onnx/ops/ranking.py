"""Elements in order: the largest, those that are not 0, the distinct ones; one-hot."""

from __future__ import annotations

from .....ir.dtype import DType
from .....ir.ops import Bucketize, OneHot, OneHot1, TopK1, Unique
from .....ir.types import normalize_axis
from ..context import ExportContext, Exported, ExportFunction


def _top_k(n: ExportContext) -> Exported:
    """Sorted by value; by position, positions are sorted in turn."""
    op, dtype = n.op, n.dtype(0)
    assert isinstance(op, TopK1)
    x, wide = n.input(0), dtype
    if not n.takes("TopK", dtype):
        wide = DType.f32 if dtype.is_float else DType.i64
        x = n.cast(x, wide)
    known = n.known_ints(1)
    k = (
        n.ints(known)
        if known is not None
        else n.add("Reshape", n.input_as(1, DType.i64), n.ints([1]))
    )
    largest = int(op.mode.lower() == "max")
    values, indices = n.add_all("TopK", [x, k], 2, axis=op.axis, largest=largest, sorted=1)
    if op.sort.lower() == "index":
        indices, _ = n.add_all("TopK", [indices, k], 2, axis=op.axis, largest=0, sorted=1)
        values = n.add("GatherElements", x, indices, axis=op.axis)
    values = values if wide is dtype else n.cast(values, dtype)
    return [values, n.cast(indices, DType.i32) if op.index_element_type is DType.i32 else indices]


def _non_zero(n: ExportContext) -> Exported:
    found = n.add("NonZero", n.input(0))
    to = n.out_type().dtype
    return found if to is DType.i64 else n.cast(found, to)


def _one_hot(n: ExportContext) -> Exported:
    """Indices below 0 count from the end in ONNX."""
    op = n.op
    assert isinstance(op, OneHot1)
    normalizes = isinstance(op, OneHot) and op.negative_indices_mode.lower() == "normalize"
    if not normalizes or not n.takes("OneHot", n.dtype(2), 2):
        return _one_hot_compared(n, op.axis, normalizes=normalizes)
    values = n.add("Concat", *(n.add("Reshape", n.input(p), n.ints([1])) for p in (3, 2)), axis=0)
    depth = n.flatten_scalar(1, DType.i64)
    return n.add("OneHot", n.input_as(0, DType.i64), depth, values, axis=op.axis)


def _one_hot_compared(n: ExportContext, axis: int, *, normalizes: bool) -> str:
    """Indices compared with every index along the new axis: those out of range mark nothing."""
    rank = n.rank(0)
    at = normalize_axis(axis, rank + 1)
    zero, one = n.int_scalar(0), n.int_scalar(1)
    indices = n.input_as(0, DType.i64)
    if normalizes:
        counted = n.add("Add", indices, n.flatten_scalar(1, DType.i64))
        indices = n.add("Where", n.add("Less", indices, zero), counted, indices)
    wide = n.add("Unsqueeze", indices, n.ints([at]))
    positions = n.add("Range", zero, n.flatten_scalar(1, DType.i64), one)
    behind = rank - at
    if behind:
        positions = n.add("Reshape", positions, n.ints([-1, *[1] * behind]))
    return n.add("Where", n.add("Equal", wide, positions), n.flatten_scalar(2), n.flatten_scalar(3))


def _bucketize(n: ExportContext) -> Exported:
    """How many bounds lie below a value."""
    op = n.cast_op(Bucketize)
    both = (n.dtype(0), n.dtype(1))
    wide = DType.f64 if any(t.is_float for t in both) else DType.i64
    x = n.add("Unsqueeze", n.input_as(0, wide), n.ints([-1]))
    compare = "Greater" if op.with_right_bound else "GreaterOrEqual"
    below = n.cast(n.add(compare, x, n.input_as(1, wide)), DType.i64)
    count = n.reduce("ReduceSum", below, [-1], keep=False)
    return count if op.output_type is DType.i64 else n.cast(count, op.output_type)


def _unique(n: ExportContext) -> Exported:
    op = n.cast_op(Unique)
    axis = None if n.optional(1) is None else n.ints_of(1, "an axis")[0]
    wide = n.dtype(0) if n.takes("Unique", n.dtype(0)) else DType.f32
    found = n.add_all("Unique", [n.input_as(0, wide)], 4, axis=axis, sorted=int(op.sorted))
    found[0] = found[0] if wide is n.dtype(0) else n.cast(found[0], n.dtype(0))
    types = [None, op.index_element_type, op.index_element_type, op.count_element_type]
    return [
        name if t in (None, DType.i64) else n.cast(name, t)
        for name, t in zip(found, types, strict=True)
    ]


EXPORTERS: dict[str, ExportFunction] = {
    "TopK": _top_k,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Bucketize": _bucketize,
    "Unique": _unique,
}
