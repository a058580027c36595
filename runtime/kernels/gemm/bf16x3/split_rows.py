"""Rows of f32 as three rows of bf16 whose sum they are.

The first one has the upper 16 bits of each value, the second those of the remainder, the third the
remainder of both, at most 8 bits: the sum is exact, but for what is below the smallest normal
number.
(Henry, Tang and Heinecke: "Leveraging the bfloat16 Artificial Intelligence Datatype For
Higher-Precision Computations", ARITH 2019.) An infinity has zeros behind it.
"""

from __future__ import annotations

from typing import Final

from .....plan.packing.panel_params import BF16_TERMS
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I16, I32, I64, Value, integer, vec
from ...emit.strided_loops import masked_load
from ...emit.tail_mask import tail_mask
from ..context import GemmContext
from ..packing.quantize_rows import dot_groups
from ..schedule import Bf16x3Schedule
from .tiling import SumTiles

# The bits of f32 that bf16 has.
_UPPER_BITS: Final = -0x10000
# Values of K in the order in which pairs are cut out of cells of 4-bit weights: the lower and the
# upper 16 bits of a cell have four each.
_PAIRS: Final = (0, 4, 1, 5, 2, 6, 3, 7)


def has_row_sums(spec: GemmSpec) -> bool:
    """Whether sums are corrected by those of the rows' values (expand_weights.py)."""
    c = spec.compressed
    assert c is not None
    return c.offset is not None or not isinstance(c.zero_point, int)


def split_function(g: GemmContext) -> Function:
    """split(source, apart, strip, rows, k): `rows` rows of f32, `apart` bytes apart, k values each,
    as the term rows of a strip; rows behind them are zeros. Behind the term rows are the sums of
    each row's values, group by group."""
    spec, t = g.spec, g.schedule
    assert isinstance(t, Bf16x3Schedule) and isinstance(spec.k, int)
    depth = SumTiles.of(spec).depth
    sums = t.kc // depth
    f = g.module.function(
        g.module.unique("split"),
        [("ptr", "source"), (I64, "apart"), ("ptr", "strip"), (I64, "rows"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    rest = spec.k % depth
    with f.range(0, p["rows"], outer=True) as i:
        source = f.offset(p["source"], f.mul(i, p["apart"]))
        row = _SplitRow(g, f, source, f.at(p["strip"], f.mul(i, BF16_TERMS * t.term_row), F32))
        totals = f.at(p["strip"], f.add(f.mul(i, sums), t.sums_at), F32)
        full = f.udiv(p["k"], depth)
        with f.range(0, full, outer=True) as index:
            row.split(f.mul(index, depth), depth, depth, f.at(totals, index, F32))
        if rest:
            with f.if_(f.icmp("ne", f.urem(p["k"], depth), 0)):
                row.split(f.mul(full, depth), rest, depth, f.at(totals, full, F32))
    line = vec(F32, g.lanes)
    first = f.mul(p["rows"], BF16_TERMS * t.term_row)
    with f.range(first, t.sums_at, g.lanes, unroll=1) as at:
        f.store(f.as_value(0, line), f.at(p["strip"], at, F32), g.align)
    with f.range(f.mul(p["rows"], sums), t.mr * sums, unroll=1) as at:
        f.store(f.as_value(0, F32), f.at(p["strip"], f.add(at, t.sums_at), F32))
    assert t.blocked or sums == dot_groups(spec)
    return f


class _SplitRow:
    """One row that is split. source: its f32; terms: the first of its term rows."""

    def __init__(self, g: GemmContext, f: Function, source: Value, terms: Value) -> None:
        self.g, self.f, self.source, self.terms = g, f, source, terms

    def split(self, start: Value, count: int, depth: int, total: Value) -> None:
        """`count` values from `start` on, and zeros up to `depth`; their sum at `total`."""
        g, f = self.g, self.f
        lanes = g.lanes if depth % g.lanes == 0 else g.lanes // 2
        added = f.var(vec(F32, lanes), 0)
        for at in range(0, depth, lanes):
            k, left = f.add(start, at), count - at
            tail = tail_mask(f, lanes, integer(left)) if 0 < left < lanes else None
            x = f.as_value(0, vec(F32, lanes))
            if left > 0:
                x = masked_load(f, vec(F32, lanes), f.at(self.source, k, F32), tail)
            added.set(f.fadd(added.get(), x))
            self._store(x, k)
        if has_row_sums(g.spec):
            f.store(f.reduce("fadd", added.get()), total)

    def _store(self, x: Value, k: Value) -> None:
        """The terms of a vector of values, from value k on."""
        f, t = self.f, self.g.schedule
        assert isinstance(t, Bf16x3Schedule)
        lanes, words = x.lanes, vec(I16, 2 * x.lanes)
        eights = self.g.spec.b.dtype.bits == 4
        order = [c + j for c in range(0, lanes, 8) for j in _PAIRS] if eights else range(lanes)
        for term in range(BF16_TERMS):
            bits = f.bitcast(x, vec(I32, lanes))
            upper = f.shuffle(f.bitcast(x, words), None, [2 * i + 1 for i in order])
            row = f.at(self.terms, term * t.term_row, F32)
            f.store(upper, f.at(row, k, I16), 2 * lanes)
            if term + 1 < BF16_TERMS:
                high = f.bitcast(f.and_(bits, _UPPER_BITS), x.type)
                # Infinities, too, have nothing left.
                x = f.select(f.fcmp("oeq", x, high), 0.0, f.fsub(x, high))
