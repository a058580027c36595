"""Quantised values in standard operations: converted, centred, scaled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.dtype import DType
from ...ir.errors import UnsupportedOperationError
from ...ir.graph import Node, Value
from ...ir.ops import (
    ConvInteger,
    Convolution,
    Dequantize,
    Gather,
    GroupConvInteger,
    GroupConvolution,
    MatMul,
    MatMulInteger,
    Subtract,
)
from .build import Build


def _centred(build: Build, value: Value, zero: Value | None, dtype: DType) -> Value:
    wide = build.cast(value, dtype)
    return wide if zero is None else build.op(Subtract(), wide, build.cast(zero, dtype))


def expand_integer_product(
    build: Build, record: Node, inputs: Sequence[Value | None]
) -> list[Value]:
    """The product of both operands as i32 without their zero points."""
    op = record.op
    left, right, left_zero, right_zero = (*inputs, None, None)[:4]
    assert left is not None and right is not None
    if isinstance(op, MatMulInteger):
        plain = MatMul(op.transpose_a, op.transpose_b)
    else:
        assert isinstance(op, ConvInteger | GroupConvInteger)
        kind = GroupConvolution if op.grouped else Convolution
        plain = kind(op.strides, op.pads_begin, op.pads_end, op.dilations, op.auto_pad)
    a = _centred(build, left, left_zero, DType.i32)
    return [build.op(plain, a, _centred(build, right, right_zero, DType.i32))]


def expand_dequantize(build: Build, record: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Convert, Subtract, Multiply; scales of groups repeated by a Gather."""
    op = record.op
    x, scale, zero = (*inputs, None)[:3]
    assert isinstance(op, Dequantize) and x is not None and scale is not None
    dtype = build.dtype(scale)
    # What the smaller floats hold exactly needs no wider type in between.
    narrow = build.dtype(x).bits <= 8 and dtype in (DType.f16, DType.bf16)
    wide = dtype if narrow or dtype in (DType.f32, DType.f64) else DType.f32
    factors = build.cast(scale, wide)
    shift = None if zero is None else build.cast(zero, wide)
    if op.group:
        factors = _spread(build, record, op, x, factors)
        shift = None if shift is None else _spread(build, record, op, x, shift)
    product = build.multiply(_centred(build, x, shift, wide), factors)
    return [build.cast(product, dtype)]


def _spread(build: Build, record: Node, op: Dequantize, x: Value, values: Value) -> Value:
    """Each element along the axis as often as a group is long."""
    shape = build.tensor(x).shape
    size = None if shape is None else shape[op.axis]
    if not isinstance(size, int):
        raise UnsupportedOperationError(
            "Dequantize in groups along an axis of unknown size has no standard form",
            where=record.origin or record.name,
            fix="write the dialect (dialect=True), which irc reads back",
        )
    picks = build.constant(np.arange(size, dtype=np.int64) // op.group, DType.i64)
    axis = build.number(op.axis, DType.i64)
    return build.op(Gather(), values, picks, axis)
