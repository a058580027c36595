"""Compressed weights as right factors of tiles: bf16 numbers, and factors of groups in f32.

A weight is (code - centre) * scale + offset. The difference is an integer that bf16 holds exactly:
the centre is the zero point where all weights have one, else it is in the middle of the codes, and
the offset is what remains of zero points or offsets.
"""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np

from .....plan.specs.base import Operand
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I16, I32, I64, Value, integer, vec
from ..context import GemmContext
from ..packing.dequant import Dequantizer
from .split_rows import has_row_sums
from .tiling import SumTiles

_CODE_BITS: Final = 4
# How far ahead weights are fetched to L2: those that are fetched to L1 from memory would keep its
# few line fill buffers busy.
_FAR_BYTES: Final = 8 << 10
# The same of factors.
_FAR_FACTOR_BYTES: Final = 2 << 10


def find_centre(spec: GemmSpec) -> int:
    """What is subtracted from codes before they are multiplied."""
    c = spec.compressed
    assert c is not None
    if not has_row_sums(spec):
        assert isinstance(c.zero_point, int)
        return c.zero_point
    return 0 if spec.b.dtype.is_signed else 1 << spec.b.dtype.bits - 1


def factors_per_sum(spec: GemmSpec) -> int:
    """Vectors of factors per group and vector of columns: the scale, then the offset, if any."""
    return 1 + has_row_sums(spec)


def expand_function(g: GemmContext) -> Function:
    """expand(cells, k, to): the `k` rows of a panel whose weights begin at `cells`, as bf16 at
    `to`, and zeros up to the end of the last group."""
    spec = g.spec
    f = g.module.function(
        g.module.unique("expand_weights"),
        [("ptr noalias readonly", "cells"), (I64, "k"), ("ptr noalias", "to")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, weights = f.params, ExpandedWeights(g, f)
    e, depth = weights.e, SumTiles.of(spec).depth
    rows = f.ceil_div(p["k"], e.kr)
    with f.range(0, rows, unroll=2) as row:
        weights.expand_row(p["cells"], p["to"], row)
    if e.k % depth:
        # What is behind K meets zeros, and has to be a number.
        end = f.mul(f.ceil_div(p["k"], depth), depth * 2 * e.nr)
        with f.range(f.mul(rows, weights.row_bytes), end, g.align, unroll=1) as at:
            f.store(f.as_value(0, vec(I32, g.lanes)), f.offset(p["to"], at), g.align)
    return f


def copy_factors_function(g: GemmContext) -> Function:
    """copy_factors(frame, panel, first, count, to): scales and offsets of `count` groups of a
    panel, from number `first` on, as f32 at `to`."""
    f = g.module.function(
        g.module.unique("copy_factors"),
        [("ptr noalias", "frame"), (I64, "panel"), (I64, "first"), (I64, "count")]
        + [("ptr noalias", "to")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, nr, size = f.params, g.schedule.nr, factors_per_sum(g.spec) * g.schedule.nr
    factors = SumFactors(g, f, p["frame"], p["panel"])
    with f.range(0, p["count"], unroll=1) as index:
        to = f.at(p["to"], f.mul(index, size), F32)
        for column in range(0, nr, g.lanes):
            for i, value in enumerate(factors.load(f.add(p["first"], index), column)):
                f.store(value, f.at(to, i * nr + column, F32), g.align)
    return f


class SumFactors:
    """Reads what the sums of a panel's columns are multiplied by; fetches what is read later."""

    def __init__(self, g: GemmContext, f: Function, frame: Value, panel: Value) -> None:
        self.f, self.panel = f, panel
        self.e = Dequantizer(g.spec, g.lanes, fused=True)
        self.pointers = g.scaling_pointers(f, frame)

    def load(self, index: Value, column: int) -> list[Value]:
        """Of group number `index`, as tiles count them, and a vector of columns: the scales, and
        what is added to weights without their centre."""
        f, e = self.f, self.e
        centre, depth = float(find_centre(e.spec)), SumTiles.of(e.spec).depth
        group = f.udiv(f.mul(index, depth), e.group) if depth != e.group else index
        if column == 0:
            self._fetch(group)
        found = e.load_factors(f, self.pointers, self.panel, group, integer(column), 0)
        if not has_row_sums(e.spec):
            return [found.scale]
        if isinstance(e.compressed.zero_point, Operand):
            assert found.zero is not None
            return [found.scale, f.fmul(f.fsub(centre, found.zero), found.scale)]
        assert found.offset is not None
        return [found.scale, f.fma(found.scale, centre, found.offset)]

    def _fetch(self, group: Value) -> None:
        f, e = self.f, self.e
        row = f.mul(f.add(f.mul(self.panel, e.spec.groups()), group), e.nr)
        for pointer, operand in zip(self.pointers, e.spec.scaling(), strict=True):
            at = f.add(f.mul(row, operand.dtype.bits // 8), _FAR_FACTOR_BYTES)
            f.prefetch(f.offset(pointer, at), locality=2)


class ExpandedWeights:
    """Writes rows of cells as pairs of bf16: neighbours along K of one column."""

    def __init__(self, g: GemmContext, f: Function) -> None:
        self.g, self.f, self.lanes, self.centre = g, f, g.lanes, find_centre(g.spec)
        self.e = e = Dequantizer(g.spec, g.lanes, fused=True)
        # Bytes of a row of cells, expanded.
        self.row_bytes = e.kr * 2 * e.nr
        self._table: Value | None = None
        if e.dtype.bits == _CODE_BITS:
            kind = vec(I16, 2 * g.lanes)
            table = g.module.table(self._numbers(2 * g.lanes), I16)
            self._table = f.load(kind, table)

    def expand_row(self, cells: Value, to: Value, row: Value | int) -> None:
        """Row number `row` of the cells at `cells`, to its place in those at `to`."""
        f, g, e = self.f, self.g, self.e
        source = f.offset(cells, f.mul(row, e.row))
        to = f.offset(to, f.mul(row, self.row_bytes))
        for at in range(0, e.row, g.align):
            f.prefetch(f.offset(source, at + g.schedule.fetch_distance))
            f.prefetch(f.offset(source, at + _FAR_BYTES), locality=2)
            for i, pair in enumerate(self.cut(f.load(vec(I32, self.lanes), f.offset(source, at)))):
                f.store(pair, f.offset(to, at + i * e.row), g.align)

    def _numbers(self, count: int) -> list[int]:
        """The bf16 numbers of 4-bit codes, again and again: an index may have higher bits."""
        codes = np.arange(count) % (1 << _CODE_BITS)
        if self.e.dtype.is_signed:
            codes = np.where(codes < 8, codes, codes - 16)
        return (codes - self.centre).astype(ml_dtypes.bfloat16).view(np.int16).tolist()

    def cut(self, cells: Value) -> list[Value]:
        """The pairs of a vector of cells, in the order of split_rows.py."""
        return self._look_up(cells) if self._table is not None else self._convert(cells)

    def _look_up(self, cells: Value) -> list[Value]:
        """Four pairs: the codes of the lower 16 bits, next to those of the upper ones."""
        f, words = self.f, vec(I16, 2 * self.lanes)
        assert self._table is not None
        found: list[Value] = []
        for i in range(4):
            index = f.bitcast(f.lshr(cells, _CODE_BITS * i), words)
            name = "llvm.x86.avx512.permvar.hi.512"
            found.append(f.call(name, words, self._table, index))
        return found

    def _convert(self, cells: Value) -> list[Value]:
        """Two pairs of bytes, which become floats that end in 16 bits of zeros."""
        f, e = self.f, self.e
        bits = [f.bitcast(self._float(cells, j), vec(I32, self.lanes)) for j in range(e.kr)]
        upper = [f.lshr(x, 16) if j % 2 == 0 else x for j, x in enumerate(bits)]
        return [f.or_(upper[j], upper[j + 1]) for j in range(0, e.kr, 2)]

    def _float(self, cells: Value, j: int) -> Value:
        """Value `j` of each cell less the centre."""
        f = self.f
        top = f.shl(cells, 24 - 8 * j)
        value = f.cast(f.ashr(top, 24) if self.e.dtype.is_signed else f.lshr(top, 24), F32)
        return f.fsub(value, float(self.centre)) if self.centre else value
