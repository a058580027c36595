"""Factors of f32 as sums of three bf16 numbers: rows of A in strips, panels of B in scratch.

The first number is the value rounded to bf16, the second the rest rounded to bf16, the third what
remains, of which bf16 holds all bits but for what is below the smallest normal number. (Henry, Tang
and Heinecke: "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations", ARITH 2019.)

A row of A has a fourth one, for an infinity times the lower numbers of B, which may be zero: the
first one again, but 0 for an infinity.
"""

from __future__ import annotations

from typing import Final

from .....ir.dtype import DType
from .....plan.packing.panel_params import BF16_TERMS
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I16, I32, I64, PTR, Value, vec
from ...emit.strided_loops import masked_load
from ...emit.tail_mask import tail_mask
from ..context import GemmContext
from ..schedule import TileSchedule

# Numbers per value of a row, of which the last one is the first one without infinities.
LEFT_TERMS: Final = BF16_TERMS + 1
# Values of K in one step of a product of tiles.
STEP_VALUES: Final = 32
# The bits of f32 that bf16 has, and half of the last one.
_UPPER_BITS: Final = -0x10000
_HALF_BIT: Final = 0x8000
_INFINITY_BITS: Final = 0x7F800000
# How far ahead of those that are expanded weights are fetched.
_FETCH_BYTES: Final = 2 << 10
# Where the words of the panel that is expanded are: its next two rows, where they go, how many
# rows of cells remain, how many of those have two values of K, whether the next one has one, and
# how many bytes terms are apart.
_SOURCE, _TO, _LEFT, _FULL, _ODD, _APART = range(0, 48, 8)
_WORDS_BYTES: Final = 48


def reads_rows(spec: GemmSpec) -> bool:
    """Whether rows of A are split as they are in memory: adjacent elements of f32."""
    plain = spec.a.dtype is DType.f32 and spec.a_cast is None and spec.a.strides[-1] == 1
    return plain and spec.a_m_split is None and spec.a_k_split is None


def split_rows_function(g: GemmContext) -> Function:
    """split(source, apart, strip, rows, k, row, term): `rows` rows of f32, `apart` bytes apart, k
    values each, as rows of the LEFT_TERMS terms of a strip; zeros fill the last step. row, term:
    bytes between rows and between terms of the strip."""
    f = g.module.function(
        g.module.unique("split_rows"),
        [("ptr", "source"), (I64, "apart"), ("ptr", "strip"), (I64, "rows"), (I64, "k")]
        + [(I64, "row"), (I64, "term")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    full = f.mul(f.udiv(p["k"], STEP_VALUES), STEP_VALUES)
    last = f.stack(4 * STEP_VALUES)
    with f.range(0, p["rows"], outer=True) as i:
        source = f.offset(p["source"], f.mul(i, p["apart"]))
        row = f.offset(p["strip"], f.mul(i, p["row"]))
        with f.if_(f.icmp("slt", full, p["k"])):
            for at in range(0, STEP_VALUES, g.lanes):
                k = f.add(full, at)
                tail = tail_mask(f, g.lanes, f.sub(p["k"], k))
                x = masked_load(f, vec(F32, g.lanes), f.at(source, k, F32), tail)
                f.store(x, f.at(last, at, F32), g.align)
        with f.range(0, p["k"], STEP_VALUES, unroll=1) as k:
            in_memory = f.icmp("slt", k, full)
            _split_step(g, f, f.select(in_memory, f.at(source, k, F32), last), f.at(row, k, I16))
    return f


def _split_step(g: GemmContext, f: Function, source: Value, to: Value) -> None:
    """The terms of the values of one step at `source`: of the first one, at `to`."""
    lanes = g.lanes
    kind = vec(F32, lanes)
    steps = range(0, STEP_VALUES, lanes)
    values = [f.load(kind, f.at(source, at, F32), g.bytes) for at in steps]
    tops = [_round_to_nearest(f, x) for x in values]
    finite = f.var(vec(I16, STEP_VALUES), _upper_words(f, tops))
    first, rest = [f.var(kind, top) for top in tops], [f.var(kind) for _ in tops]
    for x, top, variable in zip(values, tops, rest, strict=True):
        variable.set(f.fsub(x, top))
    largest = f.intrinsic("umax", *(f.bitcast(f.fabs(x), vec(I32, lanes)) for x in tops))
    special = f.icmp("uge", largest, _INFINITY_BITS)
    with f.if_(f.icmp("ne", f.bitcast(special, f"i{lanes}"), 0)):
        for x, top, variable in zip(values, first, rest, strict=True):
            top.set(_cut(f, x, top.get()))
            variable.set(_subtract(f, x, top.get()))
        finite.set(_upper_words(f, [_without_infinities(f, top.get()) for top in first]))
    second = [_round_to_nearest(f, x.get()) for x in rest]
    third = [f.fsub(x.get(), top) for x, top in zip(rest, second, strict=True)]
    terms = [_upper_words(f, [x.get() for x in first]), _upper_words(f, second)]
    for term, words in enumerate([*terms, _upper_words(f, third), finite.get()]):
        f.store(words, f.offset(to, f.mul(f.params["term"], term)), 2 * STEP_VALUES)


def _round_to_nearest(f: Function, x: Value) -> Value:
    """Lanes of f32 rounded to bf16, as f32: to the nearest one, ties away from zero."""
    word = f.bitcast(x, vec(I32, x.lanes))
    return f.bitcast(f.and_(f.add(word, _HALF_BIT), _UPPER_BITS), x.type)


def _cut(f: Function, x: Value, top: Value) -> Value:
    """The first term of each lane: x without its lower bits where rounding it gives an infinity or
    NaN, so that the largest numbers stay finite, and infinities what they are."""
    cut = f.bitcast(f.and_(f.bitcast(x, vec(I32, x.lanes)), _UPPER_BITS), x.type)
    return f.select(f.fcmp("ueq", f.fabs(top), float("inf")), cut, top)


def _subtract(f: Function, x: Value, top: Value) -> Value:
    """What the first term leaves: of an infinity nothing."""
    return f.select(f.fcmp("oeq", x, top), f.as_value(0, x.type), f.fsub(x, top))


def _without_infinities(f: Function, top: Value) -> Value:
    infinite = f.fcmp("oeq", f.fabs(top), float("inf"))
    return f.select(infinite, f.as_value(0, top.type), top)


def _upper_words(f: Function, floats: list[Value]) -> Value:
    """The upper halves of the lanes of two vectors."""
    words = [f.bitcast(x, vec(I16, 2 * x.lanes)) for x in floats]
    return f.shuffle(words[0], words[1], range(1, 2 * words[0].lanes, 2))


class PanelExpansion:
    """A panel of B that is expanded to terms, row of cells by row, while tiles multiply another
    one. Its words are in memory of the kernel's own: `address`."""

    def __init__(self, f: Function, g: GemmContext) -> None:
        self.g, self.address = g, f.stack(_WORDS_BYTES)
        self.expand = _expand_function(g)

    def begin(self, f: Function, panel: Value, depth: Value, to: Value) -> None:
        """A panel of `depth` values of K, which begins at `panel`."""
        steps = f.ceil_div(depth, STEP_VALUES)
        self._store(f, _SOURCE, panel)
        self._store(f, _TO, to)
        self._store(f, _LEFT, f.mul(steps, STEP_VALUES // 2))
        self._store(f, _FULL, f.udiv(depth, 2))
        self._store(f, _ODD, f.and_(depth, 1))
        self._store(f, _APART, f.as_value(panel_terms_apart(self.g.schedule), I64))

    def finish(self, f: Function) -> None:
        """Expand the remaining rows."""
        left = f.load(I64, f.offset(self.address, _LEFT))
        with f.if_(f.icmp("sgt", left, 0)):
            f.call_function(self.expand, self.address, left)

    def _store(self, f: Function, at: int, value: Value) -> None:
        f.store(value, f.offset(self.address, at))


def _expand_function(g: GemmContext) -> Function:
    """expand(words, count): the next `count` rows of cells of a panel, or those that remain. Its
    text names no number of a kernel but NR, so all kernels share its code."""
    t = g.schedule
    f = g.module.function(
        g.module.unique("expand_panel"),
        [("ptr noalias", "words"), (I64, "count")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    words = {
        at: f.load(kind, f.offset(f.params["words"], at))
        for at, kind in ((_SOURCE, PTR), (_TO, PTR), (_LEFT, I64), (_FULL, I64))
        + ((_ODD, I64), (_APART, I64))
    }
    count = f.smin(f.params["count"], words[_LEFT])
    full = f.smin(count, words[_FULL])
    row_bytes = t.nr * g.bytes
    # What is behind K meets zeros of A, and has to be finite: the last row of an odd K, and zeros.
    behind, zeros = f.stack(2 * row_bytes), f.as_value(0, g.vector)
    single = f.and_(f.icmp("eq", full, words[_FULL]), f.icmp("ne", words[_ODD], 0))
    source = f.offset(words[_SOURCE], f.mul(full, 2 * row_bytes))
    with f.if_(f.icmp("slt", full, count)):
        for c in range(0, 2 * t.nr, g.lanes):
            f.store(zeros, f.at(behind, c, g.acc), g.align)
        with f.if_(single):
            for c in range(0, t.nr, g.lanes):
                x = f.load(g.vector, f.at(source, c, g.acc), g.bytes)
                f.store(x, f.at(behind, c, g.acc), g.align)
    with f.range(0, count, unroll=1) as row:
        pair_of_rows = f.offset(words[_SOURCE], f.mul(row, 2 * row_bytes))
        for at in range(0, 2 * row_bytes, 64):
            f.prefetch(f.offset(pair_of_rows, at + _FETCH_BYTES))
        inside = f.icmp("slt", row, full)
        pair_of_rows = f.select(inside, pair_of_rows, behind)
        for c in range(0, t.nr, g.lanes):
            addresses = [f.at(pair_of_rows, i * t.nr + c, g.acc) for i in range(2)]
            pair = [f.load(g.vector, x, g.bytes) for x in addresses]
            _store_terms(g, f, words, f.add(f.mul(row, t.nr), c), pair)
    for at, value in (
        (_SOURCE, source),
        (_TO, f.offset(words[_TO], f.mul(count, row_bytes))),
        (_LEFT, f.sub(words[_LEFT], count)),
        (_FULL, f.sub(words[_FULL], full)),
    ):
        f.store(value, f.offset(f.params["words"], at))
    return f


def _store_terms(
    g: GemmContext, f: Function, words: dict[int, Value], at: Value, pair: list[Value]
) -> None:
    """The terms of two neighbours along K, as cells, from element `at` of each term on."""
    for term in range(BF16_TERMS):
        last = term + 1 == BF16_TERMS
        tops = pair if last else [_round_to_nearest(f, x) for x in pair]
        low, high = (f.bitcast(x, vec(I32, g.lanes)) for x in tops)
        cell = f.or_(f.lshr(low, 16), f.and_(high, _UPPER_BITS))
        to = f.offset(words[_TO], f.mul(words[_APART], term))
        f.store(cell, f.at(to, at, g.acc), g.align)
        pair = [f.fsub(x, top) for x, top in zip(pair, tops, strict=True)]


def panel_terms_apart(t: TileSchedule) -> int:
    """Bytes between the terms of an expanded panel."""
    return 2 * t.kc * t.nr
