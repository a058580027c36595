"""Structures of quantised values: compressed weights, bytes between layers, products of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import irc_compiler.ir.ops as o
import numpy as np
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Value

from .fitting import Misfit, either, last, must, some

if TYPE_CHECKING:
    from .graphs import Maker


def _codes(m: Maker, dtype: DType, shape: list[int]) -> Value:
    rng = np.random.default_rng(m.int(0, 99))
    bits = 4 if dtype in (DType.i4, DType.u4) else 8
    low = -(1 << (bits - 1)) if dtype.is_signed else 0
    return m.constant(rng.integers(low, low + (1 << bits), shape), dtype)


def _scales(m: Maker, dtype: DType, shape: list[int]) -> Value:
    rng = np.random.default_rng(m.int(0, 99))
    return m.constant(rng.integers(1, 9, shape) / 64, dtype)


def _plain(m: Maker, codes: Value, dtype: DType, around: list[int]) -> Value:
    """(codes - zero) * scale, the scales and zeros of the shape `around`."""
    y = must(m, o.Convert(dtype), codes)
    kind = m.type(codes).dtype
    if m.int(0, 1):
        zero = must(m, o.Convert(dtype), _codes(m, kind, m.pick([around, []])))
        y = must(m, o.Subtract(), y, zero)
    return must(m, o.Multiply(), y, _scales(m, dtype, m.pick([around, around, []])))


def compressed(m: Maker) -> None:
    """A product, or rows picked, whose constant is small integers times scales."""
    x, t, rank = some(m, lambda t: t.dtype in (DType.f32, DType.f16) and len(t.shape or ()) > 1)
    k, n = last(t), m.pick([1, 2, 5, 16, 17, 33])
    kind = m.pick([DType.i8, DType.u8, DType.i4, DType.u4])
    flip = bool(m.int(0, 1))
    shape, axis = ([n, k], 1) if flip else ([k, n], 0)
    groups = m.pick([g for g in (1, 1, 2, 4) if k % g == 0])
    if groups > 1:
        long = [*shape[:axis], groups, k // groups, *shape[axis + 1 :]]
        around = list(long)
        around[axis + 1] = 1
        weights = _plain(m, _codes(m, kind, long), t.dtype, around)
        weights = must(m, o.Reshape(False), weights, m.constant(shape, DType.i64))
    else:
        around = list(shape)
        around[axis] = 1
        weights = _plain(m, _codes(m, kind, shape), t.dtype, around)
    if t.dtype is DType.f16 and m.int(0, 1):
        weights = must(m, o.Convert(DType.f32), weights)
        x = must(m, o.Convert(DType.f32), x)
    if m.int(0, 3) == 0 and shape[0]:
        rows = m.constant(m.ints(m.int(1, 4), -shape[0], shape[0] - 1), DType.i64)
        must(m, o.Gather(), weights, rows, m.constant(0, DType.i64))
        return
    y = must(m, o.MatMul(False, flip), x, weights)
    if m.int(0, 1):
        either(m, o.Add(), y, m.numbers(m.type(y).dtype, [n]))


def _to_bytes(m: Maker, x: Value) -> Value:
    """A value through bytes: a chain of QDQ, FakeQuantize, or irc's own two operations."""
    dtype, how = m.type(x).dtype, m.int(0, 3)
    kind = m.pick([DType.u8, DType.i8])
    low, high = (0, 255) if kind is DType.u8 else (-128, 127)
    zero = m.pick([0, low, (low + high + 1) // 2, low + 3])
    size = m.pick([0.25, 0.5, 1 / 16])
    scale = m.constant(size, dtype)
    if how == 0:
        ends = [m.constant((end - zero) * size, dtype) for end in (low, high)]
        return must(m, o.FakeQuantize(256), x, *ends, *ends)
    if how == 1 and dtype is DType.f32:
        centre = m.constant(zero, kind)
        y = must(m, o.Quantize(kind), x, scale, centre)
        return must(m, o.Dequantize(), y, scale, centre)
    y = must(m, o.Round("half_to_even"), must(m, o.Divide(), x, scale))
    y = must(m, o.Add(), y, m.constant(zero, dtype))
    if m.int(0, 1):
        y = must(m, o.Clamp(float(low), float(high)), y)
    y = must(m, o.Convert(dtype), must(m, o.Convert(kind), y))
    y = must(m, o.Subtract(), y, m.constant(zero, dtype))
    return must(m, o.Multiply(), y, scale)


def quantised(m: Maker) -> None:
    """Products and convolutions of values that were bytes, and bytes again behind them."""
    x, t, rank = some(m, lambda t: t.dtype is DType.f32 and len(t.shape or ()) > 1)
    y = _to_bytes(m, x)
    for _ in range(m.int(0, 2)):
        y = must(m, m.pick([o.Relu(), o.Identity(), o.Add()]), y) if m.int(0, 1) else y
    shape = m.type(y).shape or ()
    if rank == 4 and isinstance(shape[1], int) and m.int(0, 2):
        outs, window = m.pick([1, 4, 16, 17]), m.pick([1, 3])
        codes = _codes(m, DType.i8, [outs, shape[1], window, window])
        filters = _plain(m, codes, DType.f32, [outs, 1, 1, 1])
        pads = (window // 2,) * 2
        op = o.Convolution((m.pick([1, 1, 2]),) * 2, pads, pads, (1, 1))
        y = must(m, op, y, filters)
        if m.int(0, 1):
            y = either(m, o.Add(), y, m.numbers(DType.f32, [1, outs, 1, 1]))
    else:
        n = m.pick([1, 4, 16, 17])
        codes = _codes(m, DType.i8, [last(t), n])
        y = must(m, o.MatMul(), y, _plain(m, codes, DType.f32, [1, n]))
        if m.int(0, 1):
            y = either(m, o.Add(), y, m.numbers(DType.f32, [n]))
    if m.int(0, 1):
        y = must(m, m.pick([o.Relu(), o.Clamp(0.0, 6.0)]), y)
    if m.int(0, 1):
        _to_bytes(m, y)


def products_of_bytes(m: Maker) -> None:
    """MatMulInteger and the convolutions of bytes, with zero points of every form."""
    x = m.value(lambda t: t.dtype in (DType.u8, DType.i8) and len(t.shape or ()) > 1)
    if x is None:
        y, _, _ = some(m, lambda t: t.dtype is DType.f32 and len(t.shape or ()) > 1)
        x = must(m, o.Quantize(m.pick([DType.u8, DType.i8])), y, m.constant(0.125, DType.f32))
    shape, dtype = m.type(x).shape or (), m.type(x).dtype
    other = m.pick([DType.u8, DType.i8])
    zero = _codes(m, dtype, m.pick([[], [1]])) if m.int(0, 1) else None
    n = m.pick([1, 3, 16, 17])
    if len(shape) in (3, 4) and isinstance(shape[1], int) and shape[1] and m.int(0, 2):
        axes = len(shape) - 2
        window = m.ints(axes, 1, 2)
        grouped = bool(m.int(0, 1))
        groups = m.pick([g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
        sizes = [groups, n, shape[1] // groups] if grouped else [n, shape[1]]
        around = [*([groups] if grouped else []), n, 1, *[1] * axes]
        zeros = _codes(m, other, m.pick([[], around])) if m.int(0, 1) else None
        cls = o.GroupConvInteger if grouped else o.ConvInteger
        ones, pads = (1,) * axes, tuple(m.ints(axes, 0, 1))
        must(m, cls(ones, pads, pads, ones), x, _codes(m, other, [*sizes, *window]), zero, zeros)
        return
    if not isinstance(shape[-1], int):
        raise Misfit
    flip = bool(m.int(0, 1))
    k = shape[-1]
    around = [n, 1] if flip else [1, n]
    zeros = _codes(m, other, m.pick([[], around])) if m.int(0, 1) else None
    right = _codes(m, other, [n, k] if flip else [k, n])
    must(m, o.MatMulInteger(False, flip), x, right, zero, zeros)
