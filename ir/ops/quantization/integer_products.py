"""Quantised values of irc's dialect: products of 8-bit integers, and integers times a scale.

Passes make these of the plain operations that files hold; `export/decompose.py` writes those again.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np

from ...dims import ceil_div, eq
from ...dims.constraints import require_broadcast, require_equal
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import Builder, Ref, cast_array
from ...types import Type, normalize_axis
from ..accumulate import computing_dtype
from ..math.elementwise import FLOATS, INTEGERS, Elementwise
from ..math.matmul import MatMul
from ..nn.convolution import Convolving
from ..shape_inference import Shape, require_dtype, same_size, tensor

BYTES = frozenset([DType.u8, DType.i8])
_OFF_CENTRE = "a zero point does not centre its operand"


def _require_bytes(**facts: Fact) -> None:
    for name, fact in facts.items():
        require_dtype(fact, name, BYTES, "u8 or i8")


def _same_type(fact: Fact, zero: Fact, name: str) -> None:
    if DType.dynamic not in (fact.tensor.dtype, zero.tensor.dtype):
        require_dtype(zero, name, [fact.tensor.dtype], f"{fact.tensor.dtype}, as what it centres")


def _check_zero(fact: Fact, zero: Fact | None, name: str, free: Collection[int]) -> None:
    """A zero point has its operand's type and broadcasts to it, differing along the axes `free`
    (counted from the end) only."""
    if zero is None:
        return
    _same_type(fact, zero, name)
    shape, own = fact.tensor.shape, zero.tensor.shape
    if shape is None or own is None:
        return
    sizes = list(zip(reversed(own), reversed(shape), range(1, len(own) + 1), strict=False))
    bad = len(own) > len(shape) or any(
        eq(have, 1) is False and (-axis not in free or eq(have, want) is False)
        for have, want, axis in sizes
    )
    if bad:
        raise ShapeError(
            f"input {name!r} does not centre its operand",
            got=f"{zero.type} for {fact.type}",
            expected="one value, or one along the axes that the product keeps",
        )
    for have, want, axis in sizes:
        if -axis in free:
            require_broadcast(have, want, _OFF_CENTRE)
        else:
            require_equal(have, 1, _OFF_CENTRE)


def _facts_of_arrays(*arrays: Array | None) -> list[Any]:
    """What evaluation knows of its inputs, so that it refuses what inference refuses."""
    return [None if a is None else Fact(tensor(DType.from_numpy(a.dtype), a.shape)) for a in arrays]


def subtract_zero_point(array: Array, zero: Array | None) -> Array:
    """8-bit integers without their zero point, in f64: integers up to 255."""
    wide = array.astype(np.float64)
    return wide if zero is None else wide - zero.astype(np.float64)


def _wrap_int32(exact: Array) -> Array:
    """Integers in f64, which sums of 16-bit products never leave, modulo 2^32."""
    return np.asarray(exact).astype(np.int64).astype(np.int32)


@dataclass(frozen=True)
class MatMulInteger(Op):
    """Sums of (a - a_zero) * (b - b_zero) as i32, modulo 2^32.

    a and b: u8 or i8, each for itself, rank 2 or more, transposed as the flags say; batch axes as
    in MatMul. A zero point has its operand's type and is subtracted from the operand as stored,
    before the transposition: one value, or one per row of the product (a_zero) or column (b_zero),
    1 along the summed axis; batch axes broadcast. Absent: 0.
    """

    kind: ClassVar[str] = "MatMulInteger"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 24
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("a"),
        Port("b"),
        Port("a_zero", optional=True),
        Port("b_zero", optional=True),
    )
    transpose_a: bool = False
    transpose_b: bool = False

    def infer(
        self, a: Fact, b: Fact, a_zero: Fact | None = None, b_zero: Fact | None = None
    ) -> tuple[Type, ...]:
        _require_bytes(a=a, b=b)
        for name, fact in (("a", a), ("b", b)):
            shape = fact.tensor.shape
            if shape is not None and len(shape) < 2:
                raise ShapeError(
                    f"input {name!r} of MatMulInteger has too few axes",
                    got=fact.type,
                    expected="rank 2 or more",
                )
        batch = range(-64, -2)
        _check_zero(a, a_zero, "a_zero", [-1 if self.transpose_a else -2, *batch])
        _check_zero(b, b_zero, "b_zero", [-2 if self.transpose_b else -1, *batch])
        sides = [Fact(tensor(DType.i32, f.tensor.shape)) for f in (a, b)]
        return MatMul(self.transpose_a, self.transpose_b).infer(*sides)

    def evaluate(
        self, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
    ) -> tuple[Array, ...]:
        self.infer(*_facts_of_arrays(a, b, a_zero, b_zero))
        product = MatMul(self.transpose_a, self.transpose_b)
        (exact,) = product.evaluate(subtract_zero_point(a, a_zero), subtract_zero_point(b, b_zero))
        return (_wrap_int32(exact),)


class _ConvInteger(Convolving):
    """Base. Sums of (x - x_zero) * (w - w_zero) as i32, modulo 2^32; x and w: u8 or i8, each for
    itself. Padding equals x_zero, so it adds nothing. A zero point has its operand's type:
    x_zero is one value; w_zero is one, or one per output channel, 1 along w's other axes."""

    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("w"),
        Port("x_zero", optional=True),
        Port("w_zero", optional=True),
    )

    def infer(
        self, data: Fact, filters: Fact, x_zero: Fact | None = None, w_zero: Fact | None = None
    ) -> tuple[Type, ...]:
        _require_bytes(x=data, w=filters)
        _check_zero(data, x_zero, "x_zero", [])
        kernel = filters.tensor.shape
        rank = 0 if kernel is None else len(kernel)
        if kernel is not None:
            _check_zero(filters, w_zero, "w_zero", range(-rank, (2 if self.grouped else 1) - rank))
        wide = [Fact(tensor(DType.i32, f.tensor.shape)) for f in (data, filters)]
        return super().infer(*wide)

    def evaluate(
        self,
        data: Array,
        filters: Array,
        x_zero: Array | None = None,
        w_zero: Array | None = None,
    ) -> tuple[Array, ...]:
        self.infer(*_facts_of_arrays(data, filters, x_zero, w_zero))
        x = subtract_zero_point(data, None if x_zero is None else x_zero.reshape(()))
        (exact,) = super().evaluate(x, subtract_zero_point(filters, w_zero))
        return (_wrap_int32(exact),)


class ConvInteger(_ConvInteger):
    """Convolution of 8-bit integers: x [N, C, spatial...], w [O, C, kernel...]."""

    kind: ClassVar[str] = "ConvInteger"


class GroupConvInteger(_ConvInteger):
    """GroupConvolution of 8-bit integers: x [N, G*C, spatial...], w [G, O, C, kernel...]."""

    kind: ClassVar[str] = "GroupConvInteger"
    grouped: ClassVar[bool] = True


@dataclass(frozen=True)
class Quantize(Elementwise):
    """saturate(round(x / scale) + zero) as u8 or i8, in f32: rounded to nearest even, then shifted,
    then saturated; NaN gives zero. scale (f32, absent: 1) and zero (of the output's type, absent:
    0) broadcast to x."""

    kind: ClassVar[str] = "Quantize"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("x"),
        Port("scale", optional=True),
        Port("zero", optional=True),
    )
    destination_type: DType

    def check_dtypes(self, *facts: Fact | None) -> None:
        x, scale, zero = (*facts, None, None)[:3]
        require_dtype(x, "x", [DType.f32], "f32")
        require_dtype(scale, "scale", [DType.f32], "f32")
        require_dtype(zero, "zero", [self.destination_type], f"{self.destination_type}")
        if self.destination_type not in BYTES:
            raise ShapeError("Quantize makes bytes", got=self.destination_type, expected="u8 or i8")

    def output_dtype(self, *dtypes: DType | None) -> DType:
        return self.destination_type

    def infer(self, *facts: Fact | None) -> tuple[Type, ...]:
        (joined,) = super().infer(*facts)
        assert facts[0] is not None
        shape = facts[0].tensor.shape
        for name, fact in zip(("scale", "zero"), facts[1:], strict=False):
            if fact is not None and fact.tensor.shape is not None and shape is not None:
                _check_spread(name, self.kind, fact.tensor.shape, shape)
        return (tensor(self.destination_type, shape),) if shape is not None else (joined,)

    def program(self, b: Builder, *x: Ref) -> Ref:
        value, scale, zero = x
        ratio = b.op("div", value, scale) if scale else value
        rounded = b.op("round_even", ratio)
        if not zero:
            return rounded
        shift = b.cast(zero, DType.f32)
        shifted = b.op("add", rounded, shift)
        return b.op("select", b.op("isnan", ratio), shift, shifted)


def _check_spread(name: str, kind: str, own: Shape, want: Shape) -> None:
    if len(own) > len(want) or any(
        eq(have, 1) is False and eq(have, size) is False
        for have, size in zip(reversed(own), reversed(want), strict=False)
    ):
        raise ShapeError(
            f"input {name!r} of {kind} does not broadcast to x", got=own, expected=want
        )


@dataclass(frozen=True)
class Dequantize(Op):
    """(x - zero) * scale in scale's type; smaller floats compute in f32 and round once.

    x: any integer type; zero has x's type, absent: 0. group = 0: scale and zero broadcast to x.
    group > 0: they have x's rank, and each of their elements along `axis` serves `group` elements
    of x (the last one the rest); along the other axes they broadcast.
    """

    kind: ClassVar[str] = "Dequantize"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("x"), Port("scale"), Port("zero", optional=True))
    axis: int = -1
    group: int = 0

    def infer(self, x: Fact, scale: Fact, zero: Fact | None = None) -> tuple[Type, ...]:
        require_dtype(x, "x", INTEGERS, "an integer type")
        require_dtype(scale, "scale", FLOATS, "a float type")
        if zero is not None:
            _same_type(x, zero, "zero")
        if self.group < 0:
            raise ShapeError("a group has 1 or more elements", got=self.group)
        shape = x.tensor.shape
        for name, fact in (("scale", scale), ("zero", zero)):
            if fact is not None and shape is not None and fact.tensor.shape is not None:
                _check_groups(self, name, fact.tensor.shape, shape)
        return (tensor(scale.tensor.dtype, shape),)

    def align(self, values: Array, shape: tuple[int, ...]) -> Array:
        """Scales or zero points as broadcasting takes them to x's shape."""
        return _repeat_groups(self, values, shape)

    def evaluate(self, x: Array, scale: Array, zero: Array | None = None) -> tuple[Array, ...]:
        dtype = DType.from_numpy(scale.dtype)
        wide = computing_dtype(dtype)
        value = cast_array(x, wide)
        with np.errstate(all="ignore"):
            if zero is not None:
                value = value - cast_array(self.align(zero, x.shape), wide)
            product = value * cast_array(self.align(scale, x.shape), wide)
        return (cast_array(np.asarray(product), dtype),)


@dataclass(frozen=True)
class AffineDequantize(Op):
    """x * scale + offset in f32: blocks of GGUF with a least value.

    x: any integer type; scale and offset are f32, and as scales of Dequantize broadcast to x or
    (group > 0) have one element along `axis` for each `group` elements of x.
    """

    kind: ClassVar[str] = "AffineDequantize"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("x"), Port("scale"), Port("offset"))
    axis: int = -1
    group: int = 0

    def infer(self, x: Fact, scale: Fact, offset: Fact) -> tuple[Type, ...]:
        require_dtype(x, "x", INTEGERS, "an integer type")
        if self.group < 0:
            raise ShapeError("a group has 1 or more elements", got=self.group)
        shape = x.tensor.shape
        for name, fact in (("scale", scale), ("offset", offset)):
            require_dtype(fact, name, [DType.f32], "f32")
            if shape is not None and fact.tensor.shape is not None:
                _check_groups(self, name, fact.tensor.shape, shape)
        return (tensor(DType.f32, shape),)

    def evaluate(self, x: Array, scale: Array, offset: Array) -> tuple[Array, ...]:
        factor, shift = (_repeat_groups(self, v, x.shape) for v in (scale, offset))
        with np.errstate(all="ignore"):
            return (np.asarray(cast_array(x, DType.f32) * factor + shift),)


def _check_groups(op: Dequantize | AffineDequantize, name: str, own: Shape, shape: Shape) -> None:
    """Sizes of scales, zero points or offsets for x of a shape."""
    want = list(shape)
    if op.group:
        if len(own) != len(shape):
            raise ShapeError(
                f"input {name!r} of {op.kind} in groups has x's rank", got=own, expected=shape
            )
        axis = normalize_axis(op.axis, len(shape))
        want[axis] = ceil_div(shape[axis], op.group)
        same_size(own[axis], want[axis], f"input {name!r} needs one element per group")
    _check_spread(name, op.kind, own, tuple(want))


def _repeat_groups(
    op: Dequantize | AffineDequantize, values: Array, shape: tuple[int, ...]
) -> Array:
    """Scales, zero points or offsets as broadcasting takes them to x's shape."""
    if not op.group:
        return values
    axis = normalize_axis(op.axis, len(shape))
    return np.repeat(values, op.group, axis)[(slice(None),) * axis + (slice(shape[axis]),)]
