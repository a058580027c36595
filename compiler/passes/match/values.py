"""Properties of values that rules match: constants of one element, types, and known shapes."""

from __future__ import annotations

import math

import numpy as np

from ....ir.dims import Dim, Expr, eq
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Constant
from ....ir.types import TensorType

Shape = tuple[Dim, ...]
# Fused, a chain rounds once. Floats of 8 bits show that (f8e8m0 holds no negative number), so a
# pattern of several operations leaves them alone.
SMOOTH = frozenset((DType.f16, DType.bf16, DType.f32, DType.f64))


def constant_scalar(graph: Graph, value: Value | None) -> float | int | None:
    """The number that a constant of one element holds, exactly; None for anything else."""
    op = None if value is None else graph.op(value.node)
    if not isinstance(op, Constant) or op.data.size != 1:
        return None
    item = op.data.reshape(-1)[0]
    if op.dtype.is_int:
        return int(item)
    return float(item) if op.dtype.is_float else None


def single_integer(graph: Graph, value: Value) -> Dim | None:
    """The only element of a known value, where it is an integer or a size."""
    known = graph.known_value(value)
    if known is None or known.size != 1 or known.dtype.kind not in "iubfO":
        return None
    item = known.reshape(-1)[0]
    if isinstance(item, Expr):
        return item
    return int(item) if np.isfinite(item) and item == int(item) else None


def split_constant_operand(graph: Graph, node: int) -> tuple[Value, float | int] | None:
    """The operands of a commutative operation of which one is a number: (the other, number)."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    for value, constant in ((left, right), (right, left)):
        found = constant_scalar(graph, constant)
        if found is not None:
            return value, found
    return None


def reciprocal(value: float | int) -> float | None:
    """1 / value where multiplying by it gives the same bits as dividing: for powers of two."""
    if not value or not math.isfinite(value) or abs(math.frexp(value)[0]) != 0.5:
        return None
    return 1 / float(value)


def shape_of(graph: Graph, value: Value | None) -> Shape | None:
    """The shape of a tensor of known rank."""
    type_ = None if value is None else graph.type(value)
    return type_.shape if isinstance(type_, TensorType) else None


def dtype_of(graph: Graph, value: Value) -> DType:
    """The element type of a tensor; `dynamic` for what is none."""
    type_ = graph.type(value)
    return type_.dtype if isinstance(type_, TensorType) else DType.dynamic


def same_shape(graph: Graph, a: Value, b: Value) -> bool:
    """Whether two values have equal shapes for certain."""
    left, right = shape_of(graph, a), shape_of(graph, b)
    if left is None or right is None or len(left) != len(right):
        return False
    return all(eq(x, y) is True for x, y in zip(left, right, strict=True))


def broadcasts_to(shape: Shape, target: Shape) -> bool | None:
    """Whether `shape` broadcasts to `target` without changing it: yes, no or unknown."""
    if len(shape) > len(target):
        return False
    answer: bool | None = True
    for have, want in zip(reversed(shape), reversed(target), strict=False):
        one, same = eq(have, 1), eq(have, want)
        if one is False and same is False:
            return False
        if not one and not same:
            answer = None
    return answer


def known_axes(graph: Graph, value: Value | None, rank: int) -> list[int] | None:
    """A known list of axes counted from 0, in its order; None where it is not known."""
    known = None if value is None else graph.known_value(value)
    if known is None or known.dtype.kind not in "iu":
        return None
    return [int(a) % rank for a in known.reshape(-1)] if rank else []
