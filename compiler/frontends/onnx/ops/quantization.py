"""Quantised values and products, written with plain operations (docs/numerics.md).

Bytes with scales in f32, which is most of what files hold, are one operation each: a pass would
find them again (compiler/passes/quantize/recognize_qdq.py), and half of such a model's reading
would be the detour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .....ir.dims import ceil_div, eq
from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.ops import (
    Add,
    Convert,
    Dequantize,
    Divide,
    Gather,
    IsNaN,
    MatMul,
    Multiply,
    Quantize,
    Range,
    Reshape,
    Round,
    Select,
    Subtract,
    Unsqueeze,
)
from .....ir.ops.quantization.integer_products import BYTES
from .....ir.types import format_shape
from ..files.tensors import element_type
from .elementary import convert_value, size_of, unsqueeze_value
from .logic import cast_unsaturated
from .nn.convolution import add_grouped_convolution, check_filters, split_groups

if TYPE_CHECKING:
    from ..import_context import ImportContext, ImportFunction

# Positions are written down for axes up to this size, and computed for longer ones.
_MAX_LISTED = 1 << 16
# What `output_dtype` and `precision` may name, and what may be quantised to.
_FLOATS = (DType.f32, DType.f16, DType.bf16, DType.f64)
_INTEGERS = (DType.u2, DType.u4, DType.u8, DType.u16, DType.i2, DType.i4, DType.i8, DType.i16)
_FLOAT8 = (DType.f8e4m3, DType.f8e4m3fnuz, DType.f8e5m2, DType.f8e5m2fnuz)
_CODES = (*_INTEGERS, *_FLOAT8, DType.f4e2m1)
# In what is divided where scales have a type that holds no ratios.
_RATIOS = {DType.f8e8m0: DType.f32, DType.i32: DType.f64}


def _align_scale(n: ImportContext, value: Value, x: Value, axis: int, block: int) -> Value:
    """A scale or zero point that broadcasts to x: one value, one per element of an axis, or one
    per block of an axis."""
    own = n.rank(value)
    if not block and (own == 0 or n.shape(value) == (1,)):  # also where the rank of x is unknown
        return value if own == 0 else n.add(Reshape(False), value, n.ints_value([]))
    rank = n.rank(x)
    if block:
        normalized = n.axis(axis, rank)
        _check_blocks(n, value, x, normalized, block)
        return _repeat_blocks(n, value, x, normalized, block)
    normalized = n.axis(axis, rank)
    shape, parts = n.shape(x), n.shape(value)
    if own != 1 or (shape and parts and eq(shape[normalized], parts[0]) is False):
        raise n.type_error(
            f"a scale or zero point is one value, or one per element of axis {normalized}",
            got=n.fact(value).type,
            expected=f"of {n.fact(x).type}: [] or [{shape[normalized] if shape else '?'}]",
        )
    return unsqueeze_value(n, value, [i for i in range(rank) if i != normalized])


def _check_blocks(n: ImportContext, value: Value, x: Value, axis: int, block: int) -> None:
    """Refuse scales or zero points that are not one per block."""
    if block < 0:
        raise n.type_error("a block has no size", got=block, expected="block_size of 0 or more")
    shape, own = n.shape(x), n.shape(value)
    if shape is None or own is None:
        return
    wanted = [*shape[:axis], ceil_div(shape[axis], block), *shape[axis + 1 :]]
    if len(own) != len(wanted) or any(eq(a, b) is False for a, b in zip(own, wanted, strict=True)):
        raise n.type_error(
            f"a scale or zero point is one value per block of {block} along axis {axis}",
            got=n.fact(value).type,
            expected=f"of {n.fact(x).type}: {format_shape(wanted)}",
        )


def _repeat_blocks(n: ImportContext, value: Value, x: Value, axis: int, block: int) -> Value:
    """Each element along an axis as often as a block is long, cut to the size of x."""
    shape = n.shape(x)
    size = None if shape is None else shape[axis]
    if isinstance(size, int) and size <= _MAX_LISTED:
        picks = n.ints_value(i // block for i in range(size))
    else:
        stop = n.add(Gather(), size_of(n, x, axis), n.int_value(0), n.int_value(0))
        every = n.add(Range(DType.i64), n.int_value(0), stop, n.int_value(1))
        picks = n.add(Divide(), every, n.int_value(block))
    return n.add(Gather(out_of_range="error"), value, picks, n.int_value(axis))


def _are_plain(n: ImportContext, x: Value, given: Sequence[Value | None], axis: int) -> bool:
    """Whether scale and zero point broadcast to x for certain: one each, or one per element of an
    axis."""
    shape = n.shape(x)
    for value in given:
        own = None if value is None else n.shape(value)
        if value is None or own in ((), (1,)):
            continue
        if shape is None or own is None or len(own) > min(1, len(shape)):
            return False
        if eq(own[0], shape[n.axis(axis, len(shape))]) is not True:
            return False
    return True


def quantize_linear(n: ImportContext) -> Value:
    """saturate(round(x / scale) + zero point); NaN gives the zero point."""
    x, scale, zero = n.input(0), n.input(1), n.optional(2)
    axis, block = n.integer("axis", 1), n.integer("block_size", 0)
    target = _dtype_attribute(
        n, "output_dtype", _CODES, DType.u8 if zero is None else n.dtype(zero)
    )
    if zero is not None and target is not n.dtype(zero):
        raise n.type_error(
            "output_dtype is not the zero point's element type", got=target, expected=n.dtype(zero)
        )
    wide = _dtype_attribute(n, "precision", _FLOATS, n.dtype(scale))
    wide = _RATIOS.get(wide, wide)
    saturate = n.flag("saturate", True)
    factor = _align_scale(n, scale, x, axis, block)
    spread = None if zero is None else _align_scale(n, zero, x, axis, block)
    floats = n.dtype(x) is n.dtype(scale) is wide is DType.f32
    if target in BYTES and floats and not block and _are_plain(n, x, (scale, zero), axis):
        return n.add(Quantize(target), x, factor, None if is_zero(n, zero) else spread)
    return add_quantize(n, _ratio(n, x, factor, wide), spread, target, saturate=saturate)


def _dtype_attribute(
    n: ImportContext, name: str, allowed: Sequence[DType], default: DType
) -> DType:
    """The element type that an attribute names by its number; 0 or absent: the default."""
    number = n.integer(name, 0)
    found = element_type(number, n.origin) if number else default
    if number and found not in allowed:
        raise n.type_error(
            f"{name} names an element type that is not allowed",
            got=found,
            expected=", ".join(str(d) for d in allowed),
        )
    return found


def is_zero(n: ImportContext, zero: Value | None) -> bool:
    """Whether a zero point is absent, or known to be 0."""
    known = None if zero is None else n.constant_of(zero)
    return zero is None or (known is not None and not np.any(known.astype(np.float32)))


def _ratio(n: ImportContext, x: Value, scale: Value, wide: DType) -> Value:
    """x / scale, rounded to `wide`, in f32."""
    ratio = n.add(Divide(), convert_value(n, x, wide), convert_value(n, scale, wide))
    return ratio if wide is DType.f64 else convert_value(n, ratio, DType.f32)


def add_quantize(
    n: ImportContext, ratio: Value, zero: Value | None, target: DType, *, saturate: bool = True
) -> Value:
    """A float as a quantised type: rounded to nearest even (integers), shifted, saturated."""
    integer = target.is_int
    value = n.add(Round("half_to_even"), ratio) if integer else ratio
    if zero is None or is_zero(n, zero):
        return n.add(Convert(target), value) if saturate else cast_unsaturated(n, value, target)
    shift = convert_value(n, zero, n.dtype(ratio))
    shifted = n.add(Add(), value, shift)
    if integer:
        shifted = n.add(Select(), n.add(IsNaN(), ratio), shift, shifted)
    return n.add(Convert(target), shifted) if saturate else cast_unsaturated(n, shifted, target)


def dequantize_linear(n: ImportContext) -> Value:
    """(x - zero point) * scale, in the scale's type or that of `output_dtype`."""
    x, scale, zero = n.input(0), n.input(1), n.optional(2)
    axis, block = n.integer("axis", 1), n.integer("block_size", 0)
    target = _dtype_attribute(n, "output_dtype", _FLOATS, n.dtype(scale))
    floats = n.dtype(scale) is target is DType.f32
    if n.dtype(x) in BYTES and floats and not block and _are_plain(n, x, (scale, zero), axis):
        factor = _align_scale(n, scale, x, axis, block)
        centre = None if zero is None else _align_scale(n, zero, x, axis, block)
        return n.add(Dequantize(), x, factor, centre)
    # What half-precision types can't hold exactly is subtracted and scaled in f32.
    exact = n.dtype(x).bits <= 8 and n.dtype(scale) is target
    wide = target if exact or target is DType.f64 else DType.f32
    sizes = _sizes_in_blocks(n, x, axis, block)
    given = x if sizes is None else n.add(Reshape(False), x, n.ints_value(sizes))
    normalized = n.axis(axis, n.rank(x)) if block else 0

    def align(value: Value) -> Value:
        if sizes is None:
            return _align_scale(n, value, x, axis, block)
        _check_blocks(n, value, x, normalized, block)
        return n.add(Unsqueeze(), value, n.ints_value([normalized + 1]))

    value = convert_value(n, given, wide)
    if zero is not None:
        value = n.add(Subtract(), value, convert_value(n, align(zero), wide))
    factor = align(convert_value(n, scale, wide))
    found = convert_value(n, n.add(Multiply(), value, factor), target)
    if sizes is None:
        return found
    merged_sizes = [
        *sizes[:normalized],
        sizes[normalized] * sizes[normalized + 1],
        *sizes[normalized + 2 :],
    ]
    return n.add(Reshape(False), found, n.ints_value(merged_sizes))


def _sizes_in_blocks(n: ImportContext, x: Value, axis: int, block: int) -> list[int] | None:
    """The sizes of x with the blocked axis as [blocks, block], as compressed weights are written
    (openvino's plugin multiplies other forms wrongly); None where blocks do not fill the axis."""
    shape = n.shape(x)
    sizes = [d for d in shape or () if isinstance(d, int)]
    if not block or shape is None or len(sizes) < len(shape):
        return None
    normalized = n.axis(axis, len(sizes))
    if sizes[normalized] % block:
        return None
    return [*sizes[:normalized], sizes[normalized] // block, block, *sizes[normalized + 1 :]]


def subtract_zero_point(
    n: ImportContext, value: Value, zero: Value | None, wide: DType, column: bool
) -> Value:
    """Value - zero point in a wider type; a vector is per row, or per column."""
    x = convert_value(n, value, wide)
    if zero is None:
        return x
    if is_zero(n, zero):
        return x
    return n.add(Subtract(), x, convert_value(n, _per_row(n, zero, value, column), wide))


def _per_row(n: ImportContext, value: Value, matrix: Value, column: bool) -> Value:
    """A vector of one value per row of a matrix, as a column. (Per column it broadcasts.)"""
    shape = n.shape(value)
    _check_parts(n, value, matrix, column)
    if column or shape is None or len(shape) != 1 or shape == (1,) or n.rank(matrix) < 2:
        return value
    return n.add(Unsqueeze(), value, n.ints_value([1]))


def _check_parts(n: ImportContext, value: Value, matrix: Value, column: bool) -> None:
    """Refuse a scale or zero point that is neither one number, nor one per row (or column) of a
    matrix: a vector, or of the matrix' rank with size 1 across."""
    own, shape = list(n.shape(value) or ()), list(n.shape(matrix) or ())
    if not shape or not own or own == [1]:
        return
    dimension = -1 if column else -2
    if len(shape) < 2:
        fits = len(own) == 1 and column and eq(own[0], shape[-1]) is not False
    elif len(own) == 1:
        fits = eq(own[0], shape[dimension]) is not False
    else:
        wanted = [*shape[:-2], *((1, shape[-1]) if column else (shape[-2], 1))]
        pairs = zip(reversed(own), reversed(wanted), strict=False)
        fits = len(own) <= len(shape) and all(
            eq(a, b) is not False or eq(a, 1) is not False for a, b in pairs
        )
    if not fits:
        what, forms = ("column", "[N] or [..., 1, N]") if column else ("row", "[M] or [..., M, 1]")
        raise n.type_error(
            f"a scale or zero point is one value, or one per {what}",
            got=n.fact(value).type,
            expected=f"of {n.fact(matrix).type}: {forms}",
        )


def matmul_integer(n: ImportContext) -> Value:
    """A product of 8-bit integers in 32 bits, which wrap."""
    a = subtract_zero_point(n, n.input(0), n.optional(2), DType.i32, column=False)
    b = subtract_zero_point(n, n.input(1), n.optional(3), DType.i32, column=True)
    return n.add(MatMul(), a, b)


def qlinear_matmul(n: ImportContext) -> Value:
    """m = (a_scale * b_scale) / y_scale; y = saturate(round(product * m) + y_zero_point)."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (n.input(i) for i in range(8))
    target = n.dtype(y_zero)
    integers = n.dtype(a).is_int and n.dtype(b).is_int
    wide = DType.i32 if integers else DType.f32
    product = n.add(
        MatMul(),
        subtract_zero_point(n, a, a_zero, wide, column=False),
        subtract_zero_point(n, b, b_zero, wide, column=True),
    )
    rows = convert_value(n, _per_row(n, a_scale, a, False), DType.f32)
    columns = convert_value(n, _per_row(n, b_scale, b, True), DType.f32)
    scale = n.add(Multiply(), rows, columns)
    y_rows = convert_value(n, _per_row(n, y_scale, a, False), DType.f32)
    factor = n.add(Divide(), scale, y_rows)
    value = n.add(Multiply(), convert_value(n, product, DType.f32), factor)
    return add_quantize(n, value, _per_row(n, y_zero, a, False), target)


def _per_channel(n: ImportContext, value: Value, rank: int, axis: int) -> Value:
    """A vector with one value per channel, on an axis of a tensor of that rank."""
    if n.shape(value) in ((), (1,)):
        return value
    return unsqueeze_value(n, value, [i for i in range(rank) if i != axis])


def _integer_convolution(n: ImportContext, x: int, x_zero: int, w: int, w_zero: int) -> Value:
    """A convolution of 8-bit integers in 32 bits; padding equals the zero point."""
    data = subtract_zero_point(n, n.input(x), n.optional(x_zero), DType.i32, column=True)
    filters, zero = n.input(w), n.optional(w_zero)
    check_filters(n, filters)
    groups = n.integer("group", 1)
    if zero is not None:
        zero = _per_channel(n, zero, n.rank(filters), 0)
        if groups != 1 and n.shape(zero) not in ((), (1,)):
            zero = split_groups(n, zero, groups)
    if groups != 1:
        filters = split_groups(n, filters, groups)
    return add_grouped_convolution(
        n, data, subtract_zero_point(n, filters, zero, DType.i32, column=True)
    )


def conv_integer(n: ImportContext) -> Value:
    return _integer_convolution(n, 0, 2, 1, 3)


def qlinear_conv(n: ImportContext) -> Value:
    """As QLinearMatMul, with one scale and zero point of the filters per output channel."""
    product, rank = _integer_convolution(n, 0, 2, 3, 5), n.rank(n.input(3))
    bias = n.optional(8)
    if bias is not None:
        product = n.add(Add(), product, unsqueeze_value(n, bias, [0, *range(2, rank)]))
    scale = n.add(Multiply(), n.input(1), _per_channel(n, n.input(4), rank, 1))
    factor = n.add(Divide(), scale, n.input(6))
    value = n.add(Multiply(), convert_value(n, product, DType.f32), factor)
    return add_quantize(n, value, n.input(7), n.dtype(n.input(7)))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "QuantizeLinear": {10: quantize_linear},
    "DequantizeLinear": {10: dequantize_linear},
    "MatMulInteger": {10: matmul_integer},
    "QLinearMatMul": {10: qlinear_matmul},
    "ConvInteger": {10: conv_integer},
    "QLinearConv": {10: qlinear_conv},
}
