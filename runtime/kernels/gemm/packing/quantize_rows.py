"""Rows of A as int8 with a scale per group of K: dynamic quantization of activations.

A quantized row begins with its codes, K bytes, padded with zeros to whole cells of 8 or, for tiles,
to whole groups. From element `scales_at` of f32 on it has one scale per group, one sum of codes per
group (an i32, times minus the zero, where all weights have one zero that dot products begin with),
and, for weights with offsets, the product of the two. Rows of f32 that are adjacent elements are
read in place; others are packed as f32 first and quantized in place, with the scales behind them. A
scale is the largest magnitude of its group / 127; a code is x * (127 / largest magnitude), rounded
to nearest even. A NaN or an infinity makes the scale one, and so the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .....ir.dtype import DType
from .....ir.lazy_dataclass import dataclass
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I8, I32, I64, Value, integer, vec
from ..context import GemmContext
from ..schedule import Int8AmxSchedule, Int8Schedule

# Elements of K that quantized rows are padded to: those of a cell of 4-bit weights.
CELL_VALUES: Final = 8
MAX_CODE: Final = 127
# Codes of a cell of 4-bit weights: those of the lower four bits of each byte come first.
_HALVES: Final = (0, 2, 4, 6, 1, 3, 5, 7)
# 1.5 x 2^23: a number of a smaller magnitude that is added to it is rounded to an integer.
_ROUNDS: Final = 1.5 * 2.0**23
_ROUNDS_BITS: Final = 0x4B400000
# f32 elements of a cache line.
_LINE: Final = 16
# Vectors of a group that stay in registers between its two passes.
_MAX_UNROLLED_VECTORS: Final = 8
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


def code_bytes(spec: GemmSpec, *, tiles: bool) -> int:
    """Bytes of a row's codes. tiles: groups have one depth, the last one included."""
    groups = dot_groups(spec)
    if not tiles or groups == 1:
        return padded_depth(spec)
    assert spec.compressed is not None
    return groups * spec.compressed.dot_group


def reads_source(spec: GemmSpec) -> bool:
    """Whether rows are quantized as they are in memory: whole vectors of adjacent f32."""
    plain = spec.a.dtype is DType.f32 and spec.a_cast is None and spec.a.strides[-1] == 1
    blocks = spec.a_m_split is not None or spec.a_k_split is not None
    return plain and not blocks and spec.k == padded_depth(spec)


def row_layout(spec: GemmSpec, *, tiles: bool) -> tuple[int, int]:
    """f32 elements of a quantized row in front of its scales, and up to the next row: an odd number
    of lines, as rows a power of two apart would share cache sets."""
    front = padded_depth(spec)
    if reads_source(spec):
        front = -(-code_bytes(spec, tiles=tiles) // 4)
    return front, (-(-(front + 3 * dot_groups(spec)) // _LINE) | 1) * _LINE


def quantize_function(g: GemmContext) -> Function:
    """quantize(source, apart, rows, count): `count` rows of f32, `apart` bytes apart, quantized to
    `rows`, which may be the same memory."""
    spec, k, t = g.spec, padded_depth(g.spec), g.schedule
    assert isinstance(t, Int8Schedule | Int8AmxSchedule)
    assert spec.compressed is not None and isinstance(spec.k, int)
    group, groups = spec.compressed.dot_group, dot_groups(spec)
    f = g.module.function(
        g.module.unique("quantize"),
        [("ptr", "source"), (I64, "apart"), ("ptr", "rows"), (I64, "count")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    full, rest = divmod(k, group)
    end = code_bytes(spec, tiles=isinstance(t, Int8AmxSchedule))
    with f.range(0, f.params["count"], outer=True) as i:
        source = f.offset(f.params["source"], f.mul(i, f.params["apart"]))
        row = f.at(f.params["rows"], f.mul(i, t.a_row), F32)
        for pad in range(spec.k, k):
            f.store(f.as_value(0, F32), f.at(source, pad, F32))
        rows = _Row(g, f, source, row, t.scales_at)
        with f.range(0, full, outer=True) as index:
            rows.quantize(index, group)
        if rest:
            rows.quantize(integer(full), rest)
        for pad in range(k, end, CELL_VALUES):
            f.store(f.as_value(0, I64), f.offset(row, pad), CELL_VALUES)
    assert groups == full + bool(rest)
    return f


@dataclass(frozen=True)
class _Row:
    """One row that is quantized. source: its f32; row: its codes, and scales from element
    `scales_at` on."""

    g: GemmContext
    f: Function
    source: Value
    row: Value
    scales_at: int

    def quantize(self, index: Value, count: int) -> None:
        """Group `index`, of `count` elements."""
        g, f = self.g, self.f
        assert g.spec.compressed is not None
        start = f.mul(index, g.spec.compressed.dot_group)
        wide = 2 * CELL_VALUES
        lanes = wide if g.lanes >= wide and count % wide == 0 else CELL_VALUES
        unrolled = count <= _MAX_UNROLLED_VECTORS * g.lanes
        floats, integers = vec(F32, lanes), vec(I32, lanes)
        kept: list[Value] = []
        largest = f.var(integers, 0)

        def load(e: Value) -> Value:
            return f.load(floats, f.at(self.source, e, F32))

        def compare(e: Value) -> None:
            x = load(e)
            kept.append(x)
            bits = f.and_(f.bitcast(x, integers), 0x7FFFFFFF)
            largest.set(f.smax(largest.get(), bits))  # of a NaN, more than of any number

        self._each(start, count, lanes, compare, unrolled=unrolled)
        magnitude = f.bitcast(f.reduce("smax", largest.get()), F32)
        small = f.fcmp("olt", magnitude, _LEAST_MAGNITUDE)
        factor = f.select(small, 0.0, f.fdiv(float(MAX_CODE), magnitude))
        factors, sums = f.splat(factor, lanes), f.var(integers, 0)

        def encode(e: Value) -> None:
            x = kept.pop(0) if unrolled else load(e)
            scaled = f.fadd(f.fmul(x, factors), _ROUNDS)
            codes = f.sub(f.bitcast(scaled, integers), _ROUNDS_BITS)
            sums.set(f.add(sums.get(), codes))
            _store_codes(f, g.spec, codes, f.offset(self.row, e))

        self._each(start, count, lanes, encode, unrolled=unrolled)
        groups = integer(dot_groups(g.spec))
        at = f.at(self.row, f.add(index, self.scales_at), F32)
        scale = f.fdiv(magnitude, float(MAX_CODE))
        total = f.reduce("add", sums.get())
        zero = g.schedule.common_zero if isinstance(g.schedule, Int8Schedule) else 0
        values = [scale, f.mul(total, -zero) if zero else f.cast(total, F32)]
        if g.spec.compressed.offset is not None:
            values.append(f.fmul(scale, f.cast(total, F32)))
        for value in values:
            f.store(value, at)
            at = f.at(at, groups, F32)

    def _each(
        self, start: Value, count: int, lanes: int, body: Callable[[Value], None], *, unrolled: bool
    ) -> None:
        """The vectors of a group, one after the other."""
        f = self.f
        if unrolled:
            for e in range(0, count, lanes):
                body(f.add(start, e))
            return
        with f.range(start, f.add(start, count), lanes, unroll=1) as e:
            body(e)


def _store_codes(f: Function, spec: GemmSpec, codes: Value, to: Value) -> None:
    """Cells of codes, in the order in which weights of their size are cut out of theirs."""
    if spec.b.dtype.bits == 4:
        cells = range(0, codes.lanes, CELL_VALUES)
        codes = f.shuffle(codes, None, [c + h for c in cells for h in _HALVES])
    f.store(f.cast(codes, I8), to, CELL_VALUES)
