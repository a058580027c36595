"""One panel of queries against one block of keys: scores, their exponentials, the new sums.

The softmax runs along with the blocks ("online": Milakov and Gimelshein, 2018; Dao et al.,
"FlashAttention", 2022): a panel keeps the largest score so far, the sum of exponentials relative to
it, and the mixture of values so far, and scales both down where a block brings a larger score.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.attention import BLOCK_KEYS, AttentionSpec
from ...llvmir.builder import StackVariable
from ...llvmir.values import ELEMENT, F32, I32, I64, PTR, Value, constants, vec
from ...vecmath import bf16_results
from ...vecmath.exp import exp_falling, tanh
from ..gemm.packing.pack_cells import Side, cells_of_rows
from .products import Products

_MINUS = -float("inf")


@dataclass(frozen=True)
class AttentionScratch:
    """Bytes of the scratch memory: what panels keep (`panels` times `panel`, in it the queries,
    then sums, largest scores, totals, and of bytes the terms of queries and the factor of sums) and
    what one block needs (of bytes, the terms of keys)."""

    panels: int
    queries: int
    sums: int
    largest: int
    totals: int
    terms: int
    factor: int
    panel: int
    scores: int
    exponentials: int
    mask: int
    keys: int
    values: int
    key_terms: int
    total: int


def layout_of(p: Products, panels: int) -> AttentionScratch:
    """The scratch memory of groups of that many panels."""
    spec, row = p.spec, p.nr * 4
    padded = -(-spec.head_size // (p.lanes * p.kr)) * p.lanes
    sums = padded * row
    largest = sums + -(-spec.value_size // p.lanes) * p.lanes * row
    totals = largest + row
    terms = totals + row
    factor = terms + (0 if spec.quantization is None else row)
    panel = factor + (0 if spec.quantization is None else row)
    scores = panels * panel
    exponentials = scores + BLOCK_KEYS * row if p.mixture.unit else scores
    mask = exponentials + BLOCK_KEYS * row
    turned = spec.mask is not None and spec.mask.strides[-2] != 0
    keys = mask + (BLOCK_KEYS * row if turned else 0)
    copied = p.scores.schedule.pack_a != "no", p.mixture.schedule.pack_a != "no"
    values = keys + (BLOCK_KEYS * p.scores.schedule.a_row * 4 if copied[0] else 0)
    key_terms = values + (p.value_cells * 4 if copied[1] else 0)
    total = key_terms + (0 if spec.quantization is None else BLOCK_KEYS * 4)
    state = (0, sums, largest, totals, terms, factor, panel)
    block = (scores, exponentials, mask, keys, values, key_terms)
    return AttentionScratch(panels, *state, *block, total)


class KeyBlock:
    """Writes attend(frame, scratch, panel, keys, values, mask, first, begin, count): `count` keys
    from number `begin` on, for the panel whose first query is number `first`. `mask`: where the
    element of both is, or the turned mask."""

    def __init__(
        self, p: Products, spec: AttentionSpec, layout: AttentionScratch, vectors: int
    ) -> None:
        self.p, self.spec, self.layout, self.vectors = p, spec, layout, vectors
        names = ("scratch", "panel", "keys", "values", "mask")
        f = p.module.function(
            p.module.unique(f"attend_{vectors}"),
            [("ptr noalias", "frame"), *((PTR, n) for n in names)]
            + [(I64, n) for n in ("first", "begin", "count")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        self.f, self.kind = f, vec(F32, p.lanes)
        self.count = f.params["count"]
        self.scores = f.offset(f.params["scratch"], layout.scores)
        self.exponentials = f.offset(f.params["scratch"], layout.exponentials)
        # Scores wait as they are where nothing but a positive scale is to be applied to them.
        self.bare = (
            spec.mask is None and spec.causal is None and spec.scale > 0 and not spec.softcap
        )
        self.write()

    def write(self) -> None:
        f, p, panel = self.f, self.p, self.f.params["panel"]
        frame, layout = f.params["frame"], self.layout
        queries = f.offset(panel, layout.queries)
        p.score_tiles(f, frame, self.vectors, f.params["keys"], queries, self.scores, self.count)
        largest = self.find_largest()
        sums = f.offset(panel, layout.sums)
        self.exponentiate(self.rescale(largest, sums))
        steps = f.ceil_div(self.count, p.weight_kr)
        p.mixture_tiles(f, frame, self.vectors, f.params["values"], self.exponentials, sums, steps)

    # -- rows of a panel ----------------------------------------------------------------------

    def row(self, base: Value, key: Value | int) -> list[Value]:
        """Addresses of the vectors of one row."""
        f, p = self.f, self.p
        start = f.mul(f.as_value(key, I64), p.nr)
        return [f.at(base, f.add(start, v * p.lanes), F32) for v in range(self.vectors)]

    def load(self, base: Value, key: Value | int) -> list[Value]:
        return [self.f.load(self.kind, at, 4 * self.p.lanes) for at in self.row(base, key)]

    def store(self, values: Sequence[Value], base: Value, key: Value | int) -> None:
        for x, at in zip(values, self.row(base, key), strict=True):
            self.f.store(x, at, 4 * self.p.lanes)

    def variables(self, values: Sequence[Value]) -> list[StackVariable]:
        return [self.f.var(self.kind, x) for x in values]

    def score_loader(self) -> Callable[[Value], list[Value]]:
        """What loads the scores of a key: as numbers of f32, where they are sums of bytes."""
        f, layout, panel = self.f, self.layout, self.f.params["panel"]
        if self.spec.quantization is None:
            return lambda key: self.load(self.scores, key)
        whole = vec(I32, self.p.lanes)
        align = 4 * self.p.lanes
        own = [f.load(whole, at, align) for at in self.row(f.offset(panel, layout.terms), 0)]
        factors = self.load(f.offset(panel, layout.factor), 0)
        terms = f.offset(f.params["scratch"], layout.key_terms)

        def load(key: Value) -> list[Value]:
            term = f.splat(f.load(I32, f.at(terms, key, I32)), self.p.lanes)
            sums = [f.load(whole, at, align) for at in self.row(self.scores, key)]
            sums = [f.add(x, f.add(y, term)) for x, y in zip(sums, own, strict=True)]
            return [f.fmul(f.cast(x, F32), y) for x, y in zip(sums, factors, strict=True)]

        return load

    # -- the softmax --------------------------------------------------------------------------

    def find_largest(self) -> list[Value]:
        """The largest x of every query; x replaces the scores, unless they are bare."""
        f, spec = self.f, self.spec
        found = self.variables([f.as_value(_MINUS, self.kind)] * self.vectors)

        load_scores = self.score_loader()

        def visit(key: Value, hidden: list[Value] | None) -> None:
            xs = load_scores(key)
            if self.bare and spec.quantization is not None:
                self.store(xs, self.scores, key)
            if not self.bare:
                xs = self.mask_scores(xs, key)
                if hidden is not None:
                    at = f.splat(f.cast(key, I32), self.p.lanes)
                    pairs = zip(xs, hidden, strict=True)
                    xs = [f.select(f.icmp("sgt", at, h), _MINUS, x) for x, h in pairs]
                self.store(xs, self.scores, key)
            for v, x in zip(found, xs, strict=True):
                v.set(f.max_or(x, v.get()))

        def sweep(hidden: list[Value] | None) -> None:
            # Masks take code of their own, which hides a loop's.
            turns = 1 if hidden is not None else 4 if self.bare else 2
            full = f.mul(f.udiv(self.count, turns), turns)
            with f.range(0, full, turns, unroll=1) as key:
                for u in range(turns):
                    visit(f.add(key, u), hidden)
            if turns > 1:
                with f.range(full, self.count, unroll=1) as key:
                    visit(key, hidden)

        if spec.causal is None:
            sweep(None)
        else:
            # The last key of this block that the panel's first query sees.
            offset = self.p.scores.size(f, f.params["frame"], spec.causal)
            last = f.sub(f.add(f.params["first"], offset), f.params["begin"])
            with f.if_(f.icmp("slt", last, f.sub(self.count, 1))) as branch:
                low = f.splat(f.cast(f.smax(last, -(1 << 20)), I32), self.p.lanes)
                lanes = [
                    constants(range(v * self.p.lanes, (v + 1) * self.p.lanes), I32)
                    for v in range(self.vectors)
                ]
                sweep([f.add(low, c) for c in lanes])
                branch.else_()
                sweep(None)
        largest = [v.get() for v in found]
        return [f.fmul(x, spec.scale) for x in largest] if self.bare else largest

    def mask_scores(self, xs: list[Value], key: Value) -> list[Value]:
        """x of scores: scaled, with the mask."""
        f, mask = self.f, self.spec.mask
        if self.spec.softcap:
            xs = [tanh(f, f.fmul(x, self.spec.scale)) for x in xs]
        scale = self.spec.softcap or self.spec.scale
        if mask is None:
            return [f.fmul(x, scale) for x in xs]
        if mask.strides[-2] == 0:
            element = ELEMENT[mask.dtype.value]
            along = self.p.scores.size(f, f.params["frame"], mask.strides[-1])
            one = f.load(element, f.at(f.params["mask"], f.mul(key, along), element))
            one = f.cast(one, F32, signed_=False)
            given = [f.splat(one, self.p.lanes)] * self.vectors
        else:
            given = self.load(f.params["mask"], key)
        if mask.dtype is DType.boolean:
            pairs = zip(xs, given, strict=True)
            scaled = ((f.fmul(x, scale), m) for x, m in pairs)
            return [f.select(f.fcmp("une", m, 0.0), x, self.spec.masked_value) for x, m in scaled]
        return [f.fma(x, scale, m) for x, m in zip(xs, given, strict=True)]

    def rescale(self, found: list[Value], sums: Value) -> list[Value]:
        """Take up the block's largest values: what the panel has so far is relative to them from
        now on. Returns what to subtract from x."""
        f, layout, panel = self.f, self.layout, self.f.params["panel"]
        largest, totals = f.offset(panel, layout.largest), f.offset(panel, layout.totals)
        before = self.load(largest, 0)
        now = [f.max_or(a, b) for a, b in zip(found, before, strict=True)]
        self.store(now, largest, 0)
        # While nothing is visible there is nothing to be relative to; -inf minus itself is NaN.
        base = [f.select(f.fcmp("oeq", x, _MINUS), 0.0, x) for x in now]
        # Before the first block a panel has seen nothing, or a sink.
        first = nullcontext() if self.spec.sink else f.if_(f.icmp("ne", f.params["begin"], 0))
        with first:
            factors = [exp_falling(f, f.fsub(a, b)) for a, b in zip(before, base, strict=True)]

            def scale(where: Value, key: Value | int) -> None:
                xs = self.load(where, key)
                xs = [f.fmul(x, y) for x, y in zip(xs, factors, strict=True)]
                self.store(xs, where, key)

            scale(totals, 0)
            with f.range(0, self.spec.value_size, unroll=1) as d:
                scale(sums, d)
        return base

    def exponentiate(self, base: list[Value]) -> None:
        """e ** (x - base) over x, as the second product reads it; totals grow."""
        f, p = self.f, self.p
        totals = f.offset(f.params["panel"], self.layout.totals)
        sums = self.variables(self.load(totals, 0))
        to_bf16 = self.spec.compute_dtype is DType.bf16  # as factors of the second product
        compute_power = bf16_results.exp_falling if to_bf16 else exp_falling

        def powers(key: Value) -> list[Value]:
            xs = self.load(self.scores, key)
            if self.bare:
                xs = [f.fmul(x, self.spec.scale) for x in xs]
            made = [compute_power(f, f.fsub(x, b)) for x, b in zip(xs, base, strict=True)]
            for s, e in zip(sums, made, strict=True):
                s.set(f.fadd(s.get(), e))
            return made

        def cells(cell: Value, rows: Sequence[list[Value]]) -> None:
            g, side = p.mixture, Side(DType.f32, p.mixture.acc, 0)
            made = [cells_of_rows(g, f, side, c) for c in zip(*rows, strict=True)]
            for x, at in zip(made, self.row(self.exponentials, cell), strict=True):
                f.store(x, at, 4 * p.lanes)

        # The last cell may hold keys that are not there: scores of no weight.
        done = f.ceil_div(self.count, p.weight_kr)
        if p.weight_kr > 1:
            with f.range(self.count, f.mul(done, p.weight_kr), unroll=1) as key:
                self.store([f.as_value(_MINUS, self.kind)] * self.vectors, self.scores, key)
        with f.range(0, done, unroll=1) as cell:
            first = f.mul(cell, p.weight_kr)
            cells(cell, [powers(f.add(first, u)) for u in range(p.weight_kr)])
        if p.step > 1:
            with f.range(done, f.mul(f.ceil_div(done, p.step), p.step), unroll=1) as cell:
                self.store([f.as_value(0.0, self.kind)] * self.vectors, self.exponentials, cell)
        self.store([s.get() for s in sums], totals, 0)
