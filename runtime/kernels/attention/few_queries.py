"""Few queries against many keys: the lanes are keys for scores, and elements of values for sums.

A panel of queries (block.py) leaves most lanes empty where there are one or few of them, as where a
decoder reads one token. Here rows of all heads that share keys and values are taken together, so
that a block of them is read once:

for each tile of keys of a block: turned around, then multiplied by every row of queries
for each row: mask, largest score, exponentials
for each row: exponentials times values, added to its sums

A score is one chain over the elements of a key, a sum one chain over the keys, and a total too: the
order of a panel, so that a row's bits do not depend on which of both ways it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.attention import BLOCK_KEYS, AttentionSpec
from ....plan.specs.base import Operand
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import ELEMENT, F32, I32, I64, Value, constants, vec
from ...vecmath.exp import exp_falling, tanh
from ..emit.gather_lanes import gather
from ..emit.row_codes import CodeReader
from ..emit.tail_mask import TailMask, tail_mask
from ..emit.transpose_registers import transpose_registers
from .copies import stored_result

# Rows of queries that share a block of keys and values, and those of one register tile.
MAX_ROWS: Final = 16
_TILE_ROWS: Final = 4
_LINE_BYTES: Final = 64
_MINUS = -float("inf")


def most_queries(spec: AttentionSpec, target: Target) -> int:
    """Up to how many queries per matrix are few: 0 where vectors do not divide a row of keys or
    values, and where these are bytes. Their factors are not rounded to another type."""
    lanes = target.lanes(32)
    if spec.quantization is not None:
        return 0
    divided = spec.head_size % lanes == 0 and spec.value_size % lanes == 0
    few = lanes // 2 if divided else 0
    return few if not isinstance(spec.queries, int) or spec.queries <= few else 0


@dataclass(frozen=True)
class FewScratch:
    """Bytes of the scratch memory: per row its query, sums, scores, largest score and total; a
    mask, and a tile of keys. `query` and `value`: bytes of a row of them."""

    query: int
    value: int
    queries: int
    sums: int
    scores: int
    largest: int
    totals: int
    masks: int
    keys: int
    total: int

    @classmethod
    def of(cls, spec: AttentionSpec, lanes: int, turns_masks: bool) -> FewScratch:
        """The layout for a spec."""
        query, value, score = spec.head_size * 4, spec.value_size * 4, BLOCK_KEYS * 4
        sums = MAX_ROWS * query
        scores = sums + MAX_ROWS * value
        largest = scores + MAX_ROWS * score
        totals = largest + MAX_ROWS * 4
        masks = totals + MAX_ROWS * 4
        keys = masks + (score if turns_masks else 0)
        total = keys + spec.head_size * 4 * lanes * 4
        return cls(query, value, 0, sums, scores, largest, totals, masks, keys, total)


# Parameters of a function that prefetches, for each row of values, the key that is read a block
# after its own. soon: that of row 0; left: how many rows still have one in the same head; after:
# what takes the place of `soon` for later rows, whose successors are keys of other heads; apart:
# bytes between keys.
_KEYS_AHEAD: Final = [("ptr", "soon"), (I64, "left"), ("ptr", "after"), (I64, "apart")]
# Parameters of functions that prefetch the values of the keys that they read, `apart` bytes apart.
_VALUES_AHEAD: Final = [("ptr", "values"), (I64, "apart")]


class FewQueries:
    """Functions for up to MAX_ROWS rows against one block of keys."""

    def __init__(self, spec: AttentionSpec, target: Target, module: Module) -> None:
        self.spec, self.module, self.lanes = spec, module, target.lanes(32)
        self.kind, self.registers = vec(F32, self.lanes), target.registers
        self.layout = FewScratch.of(spec, self.lanes, spec.mask is not None)
        self.tile = 4 * self.lanes
        self.turn_keys = self._write_turn_keys()
        self.score = [self._write_scores(q) for q in range(1, _TILE_ROWS + 1)]
        self.softmax = self._write_softmax()
        if spec.mask is not None:
            self.copy_mask = self._write_copy_mask(spec.mask)
        self.mix = [self._write_mixture(q) for q in range(1, _TILE_ROWS + 1)]

    def function(self, name: str, params: list[tuple[str, str]]) -> Function:
        """An internal function of the module."""
        return self.module.function(
            self.module.unique(name), params, attributes="nounwind noinline", linkage="internal"
        )

    def chunks(self, f: Function, rows: Value, call: Callable[[int, Value], None]) -> None:
        """call(q, first row): chunks of q rows that cover `rows`."""
        full = f.mul(f.udiv(rows, _TILE_ROWS), _TILE_ROWS)
        with f.range(0, full, _TILE_ROWS, outer=True) as row:
            call(_TILE_ROWS, row)
        for q in range(1, _TILE_ROWS):
            with f.if_(f.icmp("eq", f.sub(rows, full), q)):
                call(q, full)

    def _list_lines(self, operand: Operand, space: int) -> list[int]:
        """Where the cache lines of a row of keys or values begin."""
        size = self.spec.iteration_spaces()[space][-1]
        assert isinstance(size, int)
        return list(range(0, size * operand.dtype.bits // 8, _LINE_BYTES))

    def _list_value_lines(self) -> tuple[list[int], list[int]]:
        """Lines of a value that are fetched while keys are turned around, and those while scores
        are computed: a processor drops a prefetch where too many lines are on their way."""
        lines = self._list_lines(self.spec.value, 2)
        middle = -(-len(lines) // 2)
        return lines[:middle], lines[middle:]

    # -- scores -------------------------------------------------------------------------------

    def _write_turn_keys(self) -> Function:
        """turn_keys(source, stride, to, count, *_VALUES_AHEAD): `count` keys, `stride` bytes apart,
        as rows of one element each of a tile of keys. The last key fills up the tile."""
        spec, lanes = self.spec, self.lanes
        f = self.function(
            "turn_keys",
            [("ptr noalias readonly", "source"), (I64, "stride"), ("ptr noalias", "to")]
            + [(I64, "count"), *_VALUES_AHEAD],
        )
        last, element = f.sub(f.params["count"], 1), ELEMENT[spec.key.dtype.value]
        codes = spec.codes[0]
        reader = None if codes is None else CodeReader(f, codes, lanes)
        with f.range(0, f.params["count"], lanes, outer=True) as key:
            rows: list[Value] = []
            for i in range(lanes):
                index = f.smin(f.add(key, i), last)
                rows.append(f.offset(f.params["source"], f.mul(index, f.params["stride"])))

            def store(start: Value, columns: Sequence[Value], key: Value = key) -> None:
                fetched = self._list_values_ahead(f, start, key, last)
                share = -(-len(fetched) // lanes)
                for d, x in enumerate(columns):
                    at = f.add(f.mul(f.add(start, d), self.tile), key)
                    f.store(x, f.at(f.params["to"], at, F32), 4 * lanes)
                    for address in fetched[d * share : (d + 1) * share]:
                        f.prefetch(address, locality=2)
                    # LLVM would put all of them in front of the loads, where most are dropped.
                    f.assembly("void", "", "~{memory}")

            if reader is not None:
                for segment in reader.segments:
                    pair = reader.load_pairs_of_rows(rows, segment.group)
                    with f.range(segment.start, segment.end, lanes, outer=True) as start:
                        store(start, reader.load_square(rows, start, segment, pair))
            else:
                with f.range(0, spec.head_size, lanes, outer=True) as start:
                    square = [f.load(vec(element, lanes), f.at(r, start, element)) for r in rows]
                    store(start, transpose_registers(f, [f.cast(x, F32) for x in square]))
        return f

    def _list_values_ahead(self, f: Function, start: Value, key: Value, last: Value) -> list[Value]:
        """Lines to fetch along with the elements from `start` on of keys from `key` on: those of as
        many values as these elements are of all."""
        lanes, (lines, _) = self.lanes, self._list_value_lines()
        count = -(-lanes * lanes // self.spec.head_size)
        first = f.add(key, f.mul(f.udiv(start, lanes), count))
        rows = [f.smin(f.add(first, i), last) for i in range(count)]
        values = [f.offset(f.params["values"], f.mul(row, f.params["apart"])) for row in rows]
        return [f.offset(value, line) for value in values for line in lines]

    def _write_scores(self, q: int) -> Function:
        """scores(queries, keys, to, *_VALUES_AHEAD): q rows of queries times the keys of a tile."""
        spec, lanes = self.spec, self.lanes
        f = self.function(
            f"few_scores_{q}",
            [("ptr noalias readonly", "queries"), ("ptr noalias readonly", "keys")]
            + [("ptr noalias", "to"), *_VALUES_AHEAD],
        )
        # Sums, elements of queries, and one vector of keys.
        across = 4 if q * 4 + q + 1 <= self.registers else 2
        for first in range(0, 4, across):
            sums = [[f.var(self.kind, 0.0) for _ in range(across)] for _ in range(q)]
            with f.range(0, spec.head_size, unroll=1) as d:
                if first == 0:
                    self._prefetch_values(f, d)
                wide: list[Value] = []
                for i in range(q):
                    at = f.add(d, i * spec.head_size)
                    wide.append(f.splat(f.load(F32, f.at(f.params["queries"], at, F32)), lanes))
                for v in range(across):
                    at = f.add(f.mul(d, self.tile), (first + v) * lanes)
                    k = f.load(self.kind, f.at(f.params["keys"], at, F32), 4 * lanes)
                    for row, x in zip(sums, wide, strict=True):
                        row[v].set(f.fma(k, x, row[v].get()))
            for i, row in enumerate(sums):
                for v, s in enumerate(row):
                    at = i * BLOCK_KEYS + (first + v) * lanes
                    f.store(s.get(), f.at(f.params["to"], at, F32), 4 * lanes)
        return f

    def _prefetch_values(self, f: Function, d: Value) -> None:
        """Fetch the other lines of a tile's values, some along with each element d of the keys."""
        size = self.spec.head_size
        first = f.udiv(f.mul(d, self.tile), size)
        for i in range(max(1, self.tile // size)):
            value = f.offset(f.params["values"], f.mul(f.add(first, i), f.params["apart"]))
            for line in self._list_value_lines()[1]:
                f.prefetch(f.offset(value, line), locality=2)

    # -- softmax ------------------------------------------------------------------------------

    def _write_softmax(self) -> Function:
        """softmax(scratch, row, mask, last, count): the scores of a row become exponentials, and
        what it has so far is relative to the largest score from now on. mask: a mask as f32; last:
        the last key of the block that the row sees."""
        spec, lanes, layout = self.spec, self.lanes, self.layout
        f = self.function(
            "few_softmax",
            [("ptr noalias", "scratch"), (I64, "row"), ("ptr noalias readonly", "mask")]
            + [(I64, "last"), (I64, "count")],
        )
        scratch, row = f.params["scratch"], f.params["row"]
        scores = f.offset(scratch, f.add(f.mul(row, BLOCK_KEYS * 4), layout.scores))
        sums = f.offset(scratch, f.add(f.mul(row, layout.value), layout.sums))
        largest, total = (
            f.offset(scratch, f.add(f.mul(row, 4), at)) for at in (layout.largest, layout.totals)
        )
        ramp = constants(range(lanes), I32)
        last = f.smin(f.params["last"], f.sub(f.params["count"], 1))
        limit = f.splat(f.cast(f.smax(last, -1), I32), lanes)
        found = f.var(self.kind, _MINUS)
        with f.range(0, f.params["count"], lanes, unroll=1) as key:
            x = f.load(self.kind, f.at(scores, key, F32), 4 * lanes)
            x = self._mask_scores(f, x, f.at(f.params["mask"], key, F32))
            index = f.add(f.splat(f.cast(key, I32), lanes), ramp)
            x = f.select(f.icmp("sgt", index, limit), _MINUS, x)
            f.store(x, f.at(scores, key, F32), 4 * lanes)
            found.set(f.max_or(x, found.get()))
        before = f.load(F32, largest)
        now = f.max_or(f.reduce("max_or", found.get()), before)
        f.store(now, largest)
        # While nothing is visible there is nothing to be relative to; -inf minus itself is NaN.
        base = f.select(f.fcmp("oeq", now, _MINUS), 0.0, now)
        factor = exp_falling(f, f.splat(f.fsub(before, base), lanes))
        f.store(f.fmul(f.load(F32, total), f.extract(factor, 0)), total)
        with f.range(0, spec.value_size, lanes, unroll=1) as d:
            at = f.at(sums, d, F32)
            f.store(f.fmul(f.load(self.kind, at, 4 * lanes), factor), at, 4 * lanes)
        shift = f.splat(base, lanes)
        with f.range(0, f.params["count"], lanes, unroll=1) as key:
            at = f.at(scores, key, F32)
            x = f.load(self.kind, at, 4 * lanes)
            f.store(exp_falling(f, f.fsub(x, shift)), at, 4 * lanes)
        return f

    def _mask_scores(self, f: Function, x: Value, mask: Value) -> Value:
        """x of scores: scaled, with the mask at an address."""
        spec = self.spec
        if spec.softcap:
            x = tanh(f, f.fmul(x, spec.scale))
        scale = spec.softcap or spec.scale
        if spec.mask is None:
            return f.fmul(x, scale)
        given = f.load(self.kind, mask, 4 * self.lanes)
        if spec.mask.dtype is DType.boolean:
            return f.select(f.fcmp("une", given, 0.0), f.fmul(x, scale), spec.masked_value)
        return f.fma(x, scale, given)

    def _write_copy_mask(self, mask: Operand) -> Function:
        """copy_mask(source, stride, to, count): `count` elements of a row of the mask, `stride`
        elements apart, as f32 (booleans: 1 or 0)."""
        lanes, element = self.lanes, ELEMENT[mask.dtype.value]
        f = self.function(
            "copy_mask",
            [("ptr noalias readonly", "source"), (I64, "stride"), ("ptr noalias", "to")]
            + [(I64, "count")],
        )
        stride, count = f.params["stride"], f.params["count"]

        def copy(key: Value, tail: TailMask | None, *, dense: bool) -> None:
            at = f.at(f.params["source"], f.mul(key, stride), element)
            x = (
                f.load(vec(element, lanes), at)
                if dense
                else gather(f, element, lanes, at, stride, tail)
            )
            f.store(f.cast(x, F32, signed_=False), f.at(f.params["to"], key, F32), 4 * lanes)

        full = f.mul(f.udiv(count, lanes), lanes)
        with f.if_(f.icmp("eq", stride, 1)) as branch:
            with f.range(0, full, lanes, unroll=1) as key:
                copy(key, None, dense=True)
            branch.else_()
            with f.range(0, full, lanes, unroll=1) as key:
                copy(key, None, dense=False)
        with f.if_(f.icmp("slt", full, count)):
            copy(full, tail_mask(f, lanes, f.sub(count, full)), dense=False)
        return f

    # -- mixture ------------------------------------------------------------------------------

    def _write_mixture(self, q: int) -> Function:
        """mixture(values, stride, weights, sums, totals, count, *_KEYS_AHEAD): add `count` values,
        `stride` bytes apart, times the exponentials of q rows to their sums, and these to their
        totals."""
        spec, lanes = self.spec, self.lanes
        f = self.function(
            f"few_mixture_{q}",
            [("ptr noalias readonly", "values"), (I64, "stride")]
            + [("ptr noalias readonly", "weights"), ("ptr noalias", "sums")]
            + [("ptr noalias", "totals"), (I64, "count"), *_KEYS_AHEAD],
        )
        totals = [f.at(f.params["totals"], i, F32) for i in range(q)]
        chains = [f.var(F32, f.load(F32, a)) for a in totals]
        with f.range(0, f.params["count"], unroll=4) as key:
            for i, chain in enumerate(chains):
                chain.set(f.fadd(chain.get(), self._load_weight(f, key, i)))
        for a, chain in zip(totals, chains, strict=True):
            f.store(chain.get(), a)
        # Sums, weights, and one vector of values, which codes need a scale and a minimum for.
        others = q + (3 if spec.row_bits else 1)
        vectors = spec.value_size // lanes
        across = max(1, min(8, (self.registers - others) // q))
        pieces = -(-vectors // across)
        for piece in range(pieces):
            starts = range(piece * vectors // pieces, (piece + 1) * vectors // pieces)
            self._add_piece(f, q, [v * lanes for v in starts], prefetches=piece == 0)
        return f

    def _load_weight(self, f: Function, key: Value, row: int) -> Value:
        return f.load(F32, f.at(f.params["weights"], f.add(key, row * BLOCK_KEYS), F32))

    def _add_piece(self, f: Function, q: int, starts: Sequence[int], *, prefetches: bool) -> None:
        """The sums of q rows at some elements of the values."""
        spec, lanes = self.spec, self.lanes
        addresses = [
            [f.at(f.params["sums"], i * spec.value_size + d, F32) for d in starts] for i in range(q)
        ]
        sums = [[f.var(self.kind, f.load(self.kind, a, 4 * lanes)) for a in row]
                for row in addresses]  # fmt: skip
        with f.range(0, f.params["count"], unroll=1) as key:
            row = f.offset(f.params["values"], f.mul(key, f.params["stride"]))
            if prefetches:
                self._prefetch_key(f, key)
            load = self._open_value(f, row)
            wide = [f.splat(self._load_weight(f, key, i), lanes) for i in range(q)]
            for n, start in enumerate(starts):
                v = load(start)
                for chains, x in zip(sums, wide, strict=True):
                    chains[n].set(f.fma(v, x, chains[n].get()))
        for row, chains in zip(addresses, sums, strict=True):
            for a, s in zip(row, chains, strict=True):
                f.store(s.get(), a, 4 * lanes)

    def _prefetch_key(self, f: Function, row: Value) -> None:
        """Fetch the key that is read a block after that of a row of values."""
        here = f.icmp("slt", row, f.params["left"])
        base = f.select(here, f.params["soon"], f.params["after"])
        key = f.offset(base, f.mul(row, f.params["apart"]))
        for line in self._list_lines(self.spec.key, 1):
            f.prefetch(f.offset(key, line), locality=2)

    def _open_value(self, f: Function, row: Value) -> Callable[[int], Value]:
        """What gives a vector of f32 from element `start` on of the value at an address."""
        codes = self.spec.codes[1]
        if codes is not None:
            reader = CodeReader(f, codes, self.lanes)
            pairs = reader.load_pairs(row)
            return lambda start: reader.load(row, start, pairs)
        element = ELEMENT[self.spec.value.dtype.value]
        kind = vec(element, self.lanes)
        return lambda start: f.cast(f.load(kind, f.at(row, start, element)), F32)


def copy_query(few: FewQueries, f: Function, address: Value, row: Value, scratch: Value) -> None:
    """Store a query as f32 in a row of the scratch memory, whose sums begin with nothing."""
    spec, lanes, layout = few.spec, few.lanes, few.layout
    element = ELEMENT[spec.query.dtype.value]
    to = f.offset(scratch, f.mul(row, layout.query))
    with f.range(0, spec.head_size, lanes, unroll=1) as d:
        x = f.load(vec(element, lanes), f.at(address, d, element))
        f.store(f.cast(x, F32), f.at(to, d, F32), 4 * lanes)
    sums = f.offset(scratch, f.add(f.mul(row, layout.value), layout.sums))
    with f.range(0, spec.value_size, lanes, unroll=1) as d:
        f.store(f.as_value(0.0, few.kind), f.at(sums, d, F32), 4 * lanes)


def store_row(
    few: FewQueries, f: Function, row: Value, scratch: Value, to: Value, none: Value
) -> None:
    """Write a row's sums divided by its total. none: there are no keys at all."""
    spec, lanes, layout = few.spec, few.lanes, few.layout
    total = f.load(F32, f.offset(scratch, f.add(f.mul(row, 4), layout.totals)))
    empty = f.fcmp("oeq", total, 0.0)
    if not spec.zero_masked_rows:
        empty = f.and_(empty, none)
    factor = f.splat(f.select(empty, 0.0, f.fdiv(1.0, total)), lanes)
    element = ELEMENT[spec.out.dtype.value]
    sums = f.offset(scratch, f.add(f.mul(row, layout.value), layout.sums))
    with f.range(0, spec.value_size, lanes, unroll=1) as d:
        x = f.fmul(f.load(few.kind, f.at(sums, d, F32), 4 * lanes), factor)
        f.store(stored_result(f, spec, x), f.at(to, d, element))
