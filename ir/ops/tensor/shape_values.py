"""Values made from shapes and numbers: ShapeOf, Range, Eye."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from ...dims import Dim, ceil_div, maximum
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..math.elementwise import holds_sizes
from ..shape_inference import (
    fresh_symbol,
    int_of,
    ints_of,
    known_dims,
    known_int,
    one_dtype,
    require_rank,
    require_single,
)


class ShapeOf1(Op):
    """ShapeOf of operation set 1: i64."""

    kind: ClassVar[str] = "ShapeOf"
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    evaluates_shapes: ClassVar[bool] = True

    def infer(self, data: Fact) -> tuple[Type, ...]:
        shape = data.tensor.shape
        return (TensorType(DType.i64, (fresh_symbol(self) if shape is None else len(shape),)),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        return (np.array(data.shape, dtype=np.int64),)


@dataclass(frozen=True)
class ShapeOf(Op):
    """The sizes of a tensor."""

    kind: ClassVar[str] = "ShapeOf"
    version: ClassVar[int] = 3
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    evaluates_shapes: ClassVar[bool] = True
    output_type: DType = DType.i64

    def infer(self, data: Fact) -> tuple[Type, ...]:
        shape = data.tensor.shape
        return (
            TensorType(self.output_type, (fresh_symbol(self) if shape is None else len(shape),)),
        )

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        return (np.array(data.shape, dtype=self.output_type.numpy),)


class _Range(Op):
    """Base. start, start + step, ... before stop."""

    kind: ClassVar[str] = "Range"
    scratch_width: ClassVar[int] = 20
    inputs: ClassVar[tuple[Port, ...]] = (Port("start"), Port("stop"), Port("step"))
    evaluates_shapes: ClassVar[bool] = True

    def _length(self, start: Fact, stop: Fact, step: Fact) -> Dim:
        facts = (start, stop, step)
        values = [f.value for f in facts]
        if all(v is not None and v.dtype.kind != "O" for v in values):
            return _count(*(v.reshape(-1)[0] for v in values))  # type: ignore[union-attr]
        sizes = [known_dims(f) for f in facts]
        by = known_int(step)
        if by is None or sizes[0] is None or sizes[1] is None:
            return fresh_symbol(self)
        if by == 0:
            raise ShapeError("a range has step 0", expected="a step other than 0")
        span = sizes[1][0] - sizes[0][0] if by > 0 else sizes[0][0] - sizes[1][0]
        return maximum(ceil_div(span, abs(by)), 0)

    def _infer(self, dtype: DType, *facts: Fact) -> tuple[Type, ...]:
        for port, fact in zip(self.inputs, facts, strict=True):
            if fact.tensor.shape != (1,):
                require_rank(fact, port.name, 0)
        return (TensorType(dtype, (self._length(*facts),)),)


def _count(start: np.generic, stop: np.generic, step: np.generic) -> int:
    first, last, by = start.item(), stop.item(), step.item()
    if by == 0:
        raise ShapeError("a range has step 0", expected="a step other than 0")
    if all(isinstance(v, int) for v in (first, last, by)):
        return max(-((first - last) // by), 0)
    span = (float(last) - float(first)) / float(by)
    if not math.isfinite(span):
        raise ShapeError("a range has no finite length", got=f"{first}, {last}, {by}")
    return max(math.ceil(span), 0)


def _range(start: Array, stop: Array, step: Array, dtype: DType) -> Array:
    if any(holds_sizes(a) for a in (start, stop, step)):
        raise TypeError("a range of symbolic length")
    first, last, by = (a.reshape(-1)[0] for a in (start, stop, step))
    count = np.arange(_count(first, last, by))
    if dtype.is_float:
        return cast_array(np.float64(first) + count * np.float64(by), dtype)
    integers = cast_array(np.asarray(first), DType.i64), cast_array(np.asarray(by), DType.i64)
    return cast_array(integers[0] + count * integers[1], dtype)


class Range1(_Range):
    """Range of operation set 1: the inputs' type."""

    def infer(self, start: Fact, stop: Fact, step: Fact) -> tuple[Type, ...]:
        return self._infer(one_dtype(start, stop, step), start, stop, step)

    def evaluate(self, start: Array, stop: Array, step: Array) -> tuple[Array, ...]:
        dtype = DType.i64 if start.dtype == object else DType.from_numpy(start.dtype)
        return (_range(start, stop, step, dtype),)


@dataclass(frozen=True)
class Range(_Range):
    version: ClassVar[int] = 4
    output_type: DType

    def infer(self, start: Fact, stop: Fact, step: Fact) -> tuple[Type, ...]:
        return self._infer(self.output_type, start, stop, step)

    def evaluate(self, start: Array, stop: Array, step: Array) -> tuple[Array, ...]:
        return (_range(start, stop, step, self.output_type),)


@dataclass(frozen=True)
class Eye(Op):
    """Ones on diagonal `diagonal_index` of matrices, zeros elsewhere."""

    kind: ClassVar[str] = "Eye"
    version: ClassVar[int] = 9
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("num_rows"),
        Port("num_columns"),
        Port("diagonal_index"),
        Port("batch_shape", optional=True),
    )
    output_type: DType

    def infer(
        self, rows: Fact, columns: Fact, diagonal: Fact, batch: Fact | None = None
    ) -> tuple[Type, ...]:
        for name, fact in (("num_rows", rows), ("num_columns", columns), ("diagonal", diagonal)):
            require_single(fact, name)
        sizes: list[Dim] = []
        for fact in (rows, columns):
            known = known_dims(fact)
            sizes.append(known[0] if known else fresh_symbol(self))
        leading: list[Dim] | None = [] if batch is None else known_dims(batch)
        shape = None if leading is None else (*leading, *sizes)
        return (TensorType(self.output_type, shape),)

    def evaluate(
        self, rows: Array, columns: Array, diagonal: Array, batch: Array | None = None
    ) -> tuple[Array, ...]:
        one = np.eye(int_of(rows), int_of(columns), int_of(diagonal))
        leading = [] if batch is None else ints_of(batch)
        filled = np.broadcast_to(one, (*leading, *one.shape))
        return (cast_array(filled, self.output_type).copy(),)
