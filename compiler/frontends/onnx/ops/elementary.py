"""Importers made from a class: operators that are one operation of ours, and shared steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .....ir.dims import Dim, product
from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.op import Op
from .....ir.ops import (
    Concat,
    Constant,
    Convert,
    Identity,
    ReduceProd,
    Reshape,
    ShapeOf,
    Slice,
    Unsqueeze,
)

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction


def unary(cls: Callable[..., Op], **attributes: Any) -> ImportFunction:
    """One input, one operation with fixed attributes."""
    return lambda n: n.add(cls(**attributes), n.input(0))


def binary(cls: Callable[..., Op], **attributes: Any) -> ImportFunction:
    """Two inputs that broadcast as NumPy's do (operator set 7 and later)."""
    return lambda n: n.add(cls(**attributes), n.input(0), n.input(1))


def aligned_binary(cls: Callable[..., Op], **attributes: Any) -> ImportFunction:
    """Two inputs by the rule before operator set 7: with `broadcast`, the second one is aligned to
    the axes of the first from `axis` on (at the end where there is no `axis`)."""

    def load(n: ImportContext) -> Value:
        a, b = n.input(0), align_axes(n, n.input(0), n.input(1))
        return n.add(cls(**attributes), a, b)

    return load


def align_axes(n: ImportContext, a: Value, b: Value) -> Value:
    """`b` reshaped to the axes of `a` that the attributes `axis` and `broadcast` name."""
    if not n.flag("broadcast"):
        if n.shape(a) is not None and n.shape(b) is not None and n.rank(a) != n.rank(b):
            raise n.type_error(
                "without the attribute broadcast, both inputs must have one shape",
                got=f"{n.fact(a).type} and {n.fact(b).type}",
            )
        return b
    if not n.has("axis"):
        return b
    rank, own = n.rank(a), n.rank(b)
    behind = rank - n.axis(n.integer("axis"), rank) - own
    if behind < 0:
        raise n.type_error("the second input reaches beyond the first", got=n.fact(b).type)
    return unsqueeze_value(n, b, range(own, own + behind))


def variadic(cls: Callable[..., Op]) -> ImportFunction:
    """Any number of inputs, joined pair by pair from the left."""

    def load(n: ImportContext) -> Value:
        first, *rest = n.all_inputs() or [n.input(0)]
        if not rest:
            return n.add(Identity(), first)
        for value in rest:
            first = n.add(cls(), first, value)
        return first

    return load


def convert_value(n: ImportContext, value: Value, dtype: DType) -> Value:
    """The value in an element type; itself where it has it."""
    return value if n.dtype(value) is dtype else n.add(Convert(dtype), value)


def unsqueeze_value(n: ImportContext, value: Value, axes: Sequence[int]) -> Value:
    """The value with axes of size 1 inserted; a constant's data is reshaped at once."""
    if not axes:
        return value
    data = n.constant_of(value)
    if data is not None and n.builder.graph.op(value.node).kind == "Constant":
        return reshaped_constant(n, value, np.expand_dims(data, tuple(axes)).shape)
    return n.add(Unsqueeze(), value, n.ints_value(list(axes)))


def reshaped_constant(n: ImportContext, value: Value, shape: Sequence[int]) -> Value:
    """The data of a Constant in another shape, without a copy."""
    data = n.constant_of(value)
    assert data is not None
    return n.add(Constant.of(data.reshape(tuple(shape)), n.dtype(value)))


def sizes_of(n: ImportContext, value: Value) -> Value:
    """The sizes of a value as an i64 vector."""
    return n.add(ShapeOf(DType.i64), value)


def size_of(n: ImportContext, value: Value, axis: int) -> Value:
    """The size of one axis (0 or more) as an i64 vector of one element."""
    bounds = [n.ints_value([axis]), n.ints_value([axis + 1]), n.ints_value([1])]
    return n.add(Slice(), sizes_of(n, value), *bounds)


def flatten_value(n: ImportContext, value: Value, axis: int) -> Value:
    """The value as a matrix: axes before `axis` (0..rank) and axes from it on."""
    shape = n.shape(value)
    if shape is None:
        raise n.unsupported_error("an input of unknown rank")
    first, second = product(shape[:axis]), product(shape[axis:])
    target = _target(first, second)
    if target is not None:
        return n.add(Reshape(), value, n.ints_value(target))
    if axis == 1:
        return n.add(Reshape(special_zero=True), value, n.ints_value([0, -1]))
    sizes = sizes_of(n, value)
    cut, zero, one = n.ints_value([axis]), n.ints_value([0]), n.ints_value([1])
    end = n.ints_value([len(shape)])
    parts = [
        n.add(ReduceProd(keep_dims=True), n.add(Slice(), sizes, start, stop, one), zero)
        for start, stop in ((zero, cut), (cut, end))
    ]
    return n.add(Reshape(), value, n.add(Concat(axis=0), *parts))


def _target(first: Dim, second: Dim) -> list[int] | None:
    """A target with at most one -1 that is right also where a size is 0."""
    if isinstance(first, int) and isinstance(second, int):
        return [first, second]
    if isinstance(second, int) and second:
        return [-1, second]
    if isinstance(first, int) and first:
        return [first, -1]
    return None
