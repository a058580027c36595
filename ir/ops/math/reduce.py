"""Reductions over a list of axes.

A reduction is prologue (per element), one of six kinds, and epilogue (per result); lowering
reads these three, and `evaluate` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ... import dims
from ...dtype import DType
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import Builder, Ref, cast_array, evaluate_program
from ...scalar.program import Program
from ...types import TensorType, Type
from ..accumulate import computing_dtype
from ..shape_inference import (
    axes_in,
    count_of,
    fresh_symbol,
    ints_of,
    left_over,
    require_dtype,
    unique_axes,
    unknown_shape,
)
from .elementwise import BOOLEAN, INTEGERS, NUMBERS, holds_sizes


@dataclass(frozen=True)
class Reduction(Op):
    """Base. `axes` is a list of axes or a single one; an empty list reduces nothing."""

    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes"))
    # sum, max, min, prod, any or all, as in specs.ReduceSpec.
    reduction: ClassVar[str] = "sum"
    allowed: ClassVar[frozenset[DType]] = NUMBERS
    rule: ClassVar[str] = "a numeric type"
    keep_dims: bool = False

    def prologue(self, b: Builder, x: Ref) -> Ref:
        """What is reduced, from an element in its computing type."""
        return x

    def epilogue(self, b: Builder, total: Ref, count: Ref) -> Ref:
        """The result, from the reduced value and the number of elements, of the same type."""
        return total

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        data = inputs[0]
        if data is None or data.dtype is DType.dynamic:
            return 0
        instrs = self.programs(data.dtype)[0].instrs
        # A prologue of several instructions makes elements that are stored before the reduction.
        return data.elements * instrs[-1].dtype.numpy.itemsize if len(instrs) > 1 else 0

    def infer(self, data: Fact, axes: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", self.allowed, self.rule)
        require_dtype(axes, "axes", INTEGERS, "an integer type")
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        known = axes_in(axes, len(shape))
        if known is not None:
            sizes = [1 if i in known else d for i, d in enumerate(shape)]
            if not self.keep_dims:
                sizes = [d for i, d in enumerate(shape) if i not in known]
            return (TensorType(dtype, tuple(sizes)),)
        if self.keep_dims:
            return (TensorType(dtype, tuple(fresh_symbol(self) for _ in shape)),)
        count = count_of(axes)
        unknown = None if count is None else unknown_shape(self, left_over(len(shape), count))
        return (TensorType(dtype, unknown),)

    def programs(self, dtype: DType) -> tuple[Program, Program]:
        """Prologue and epilogue for elements of a type; computing types are between them."""
        wide = computing_dtype(dtype)
        first, last = Builder(), Builder()
        before = self.prologue(first, first.cast(first.input(0, dtype), wide))
        total, count = last.input(0, before.dtype), last.input(1, before.dtype)
        after = self.epilogue(last, total, count)
        return first.finish(before), last.finish(last.cast(after, dtype))

    def evaluate(self, data: Array, axes: Array) -> tuple[Array, ...]:
        listed = tuple(unique_axes(ints_of(axes), data.ndim))
        if holds_sizes(data):
            return (self._on_sizes(data, listed),)
        before, after = self.programs(DType.from_numpy(data.dtype))
        (elements,) = evaluate_program(before, [data])
        total = _reduce(self.reduction, elements, listed)
        size = int(np.prod([data.shape[a] for a in listed], dtype=np.int64))
        count = np.array(size).astype(total.dtype)
        (out,) = evaluate_program(after, [total, count])
        return (out if self.keep_dims else out.reshape(_drop_axes(out.shape, listed)),)

    def _on_sizes(self, data: Array, axes: tuple[int, ...]) -> Array:
        function = _ON_SIZES.get(self.kind)
        if function is None:
            raise TypeError(f"{self.kind} is not defined on symbolic sizes")
        for axis in sorted(axes, reverse=True):
            data = np.asarray(function.reduce(data, axis=axis))
            data = np.expand_dims(data, axis) if self.keep_dims else data
        return data


def _drop_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(d for i, d in enumerate(shape) if i not in axes)


def _reduce(kind: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Reduced with axes kept; f32 sums and products in f64 with one rounding."""
    if not axes:
        return x
    with np.errstate(all="ignore"):
        if kind in ("any", "all"):
            return np.asarray((np.any if kind == "any" else np.all)(x, axis=axes, keepdims=True))
        dtype = DType.from_numpy(x.dtype)
        if kind in ("sum", "prod"):
            function: Callable[..., Any] = np.sum if kind == "sum" else np.prod
            wide = np.float64 if dtype.is_float else x.dtype
            return cast_array(np.asarray(function(x, axis=axes, keepdims=True, dtype=wide)), dtype)
        least, most = (False, True) if dtype is DType.boolean else _neutral_min_max(dtype)
        if kind == "max":
            return np.asarray(np.max(x, axis=axes, keepdims=True, initial=least))
        return np.asarray(np.min(x, axis=axes, keepdims=True, initial=most))


def _neutral_min_max(dtype: DType) -> tuple[Any, Any]:
    """The neutral elements of max and min."""
    if dtype.is_float:
        return -np.inf, np.inf
    return dtype.numpy.type(dtype.min), dtype.numpy.type(dtype.max)


_ON_SIZES: dict[str, Any] = {
    "ReduceSum": np.add,
    "ReduceProd": np.multiply,
    "ReduceMax": np.frompyfunc(dims.maximum, 2, 1),
    "ReduceMin": np.frompyfunc(dims.minimum, 2, 1),
}


class ReduceSum(Reduction):
    kind: ClassVar[str] = "ReduceSum"
    evaluates_shapes: ClassVar[bool] = True


class ReduceProd(Reduction):
    kind: ClassVar[str] = "ReduceProd"
    reduction: ClassVar[str] = "prod"
    evaluates_shapes: ClassVar[bool] = True


class ReduceMax(Reduction):
    kind: ClassVar[str] = "ReduceMax"
    reduction: ClassVar[str] = "max"
    evaluates_shapes: ClassVar[bool] = True
    allowed = NUMBERS | BOOLEAN


class ReduceMin(Reduction):
    kind: ClassVar[str] = "ReduceMin"
    reduction: ClassVar[str] = "min"
    evaluates_shapes: ClassVar[bool] = True
    allowed = NUMBERS | BOOLEAN


class ReduceMean(Reduction):
    """The sum over the count; of integers truncated toward zero."""

    kind: ClassVar[str] = "ReduceMean"

    def epilogue(self, b: Builder, total: Ref, count: Ref) -> Ref:
        return b.op("div", total, count)


class ReduceL1(Reduction):
    kind: ClassVar[str] = "ReduceL1"
    version: ClassVar[int] = 4

    def prologue(self, b: Builder, x: Ref) -> Ref:
        return b.op("abs", x)


class ReduceL2(Reduction):
    """The root of the sum of squares; of integers truncated."""

    kind: ClassVar[str] = "ReduceL2"
    version: ClassVar[int] = 4

    def prologue(self, b: Builder, x: Ref) -> Ref:
        return b.op("mul", x, x)

    def epilogue(self, b: Builder, total: Ref, count: Ref) -> Ref:
        if total.dtype.is_float:
            return b.op("sqrt", total)
        return b.cast(b.op("sqrt", b.cast(total, DType.f64)), total.dtype)


class ReduceLogicalAnd(Reduction):
    kind: ClassVar[str] = "ReduceLogicalAnd"
    reduction: ClassVar[str] = "all"
    allowed = BOOLEAN
    rule = "boolean"


class ReduceLogicalOr(Reduction):
    kind: ClassVar[str] = "ReduceLogicalOr"
    reduction: ClassVar[str] = "any"
    allowed = BOOLEAN
    rule = "boolean"
