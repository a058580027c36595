"""Rows of A as int8 with a scale per group of K: dynamic quantization of activations.

A row is packed as f32 first, then quantized in place: K bytes, padded with zeros to whole cells of
8, and behind the f32 elements one scale per group and one sum of codes per group, in f32. A scale
is the largest magnitude of its group / 127; a code is x * (127 / largest magnitude), rounded to
nearest even. A NaN or an infinity makes the scale one, and so the results.
"""

from __future__ import annotations

from typing import Final

from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I8, I32, I64, Value, integer, vec
from ..context import GemmContext

# Elements of K that quantized rows are padded to: those of a cell of 4-bit weights.
CELL_VALUES: Final = 8
MAX_CODE: Final = 127
# Codes of a cell of 4-bit weights: those of the lower four bits of each byte come first.
_HALVES: Final = (0, 2, 4, 6, 1, 3, 5, 7)
# 1.5 x 2^23: a number of a smaller magnitude that is added to it is rounded to an integer.
_ROUNDS: Final = 1.5 * 2.0**23
_ROUNDS_BITS: Final = 0x4B400000
# Groups of smaller magnitudes are zeros: 127 / magnitude is not to overflow.
_LEAST_MAGNITUDE: Final = 2.0**-100


def padded_depth(spec: GemmSpec) -> int:
    """K in whole cells."""
    assert isinstance(spec.k, int)
    return -(-spec.k // CELL_VALUES) * CELL_VALUES


def dot_groups(spec: GemmSpec) -> int:
    """Groups of K with a scale of A each."""
    assert spec.compressed is not None and isinstance(spec.k, int)
    return -(-spec.k // spec.compressed.dot_group)


def row_elements(spec: GemmSpec) -> int:
    """f32 elements that a quantized row takes."""
    return padded_depth(spec) + 2 * dot_groups(spec)


def quantize_function(g: GemmContext) -> Function:
    """quantize(rows, count): `count` packed rows of f32, quantized in place."""
    spec, k = g.spec, padded_depth(g.spec)
    assert spec.compressed is not None and isinstance(spec.k, int)
    group, groups = spec.compressed.dot_group, dot_groups(spec)
    f = g.module.function(
        g.module.unique("quantize"),
        [("ptr noalias", "rows"), (I64, "count")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    floats, integers = vec(F32, CELL_VALUES), vec(I32, CELL_VALUES)
    with f.range(0, f.params["count"], outer=True) as i:
        row = f.at(f.params["rows"], f.mul(i, g.schedule.a_row), F32)
        for pad in range(spec.k, k):
            f.store(f.as_value(0, F32), f.at(row, pad, F32))
        with f.range(0, groups, outer=True) as index:
            start = f.mul(index, group)
            end = f.smin(f.add(start, group), k)
            largest = f.var(integers, 0)
            with f.range(start, end, CELL_VALUES, unroll=1) as e:
                bits = f.and_(f.load(integers, f.at(row, e, F32)), 0x7FFFFFFF)
                largest.set(f.smax(largest.get(), bits))  # of a NaN, more than of any number
            magnitude = f.bitcast(f.reduce("smax", largest.get()), F32)
            small = f.fcmp("olt", magnitude, _LEAST_MAGNITUDE)
            factor = f.select(small, 0.0, f.fdiv(float(MAX_CODE), magnitude))
            sums = f.var(integers, 0)
            with f.range(start, end, CELL_VALUES, unroll=1) as e:
                x = f.load(floats, f.at(row, e, F32))
                scaled = f.fadd(f.fmul(x, f.splat(factor, CELL_VALUES)), _ROUNDS)
                codes = f.sub(f.bitcast(scaled, integers), _ROUNDS_BITS)
                sums.set(f.add(sums.get(), codes))
                _store_codes(f, spec, codes, f.offset(row, e))
            at = f.at(row, f.add(index, k), F32)
            f.store(f.fdiv(magnitude, float(MAX_CODE)), at)
            total = f.cast(f.reduce("add", sums.get()), F32)
            f.store(total, f.at(at, integer(groups), F32))
    return f


def _store_codes(f: Function, spec: GemmSpec, codes: Value, to: Value) -> None:
    """One cell of codes, in the order in which weights of its size are cut out of theirs."""
    codes = f.shuffle(codes, None, _HALVES) if spec.b.dtype.bits == 4 else codes
    f.store(f.cast(codes, I8), to)
