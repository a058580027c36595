"""The loops around a block: matrices of the batch, groups of panels of queries, blocks of keys.

for each group of panels of one matrix              (workers share panels)
  queries packed, sums cleared
  for each block of keys                            (keys and values copied here, if they are)
    for each panel: one block (block.py)
  results stored

Where there are few queries, rows of all heads that share keys take the place of panels
(few_queries.py). Keys and values that are codes are dequantized block by block for panels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....ir.dtype import DType
from ....ir.row_codes import RowCodes
from ....plan.specs.attention import AttentionSpec
from ....plan.specs.base import Operand, Size
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.values import ELEMENT, F32, I64, Value, integer, vec
from ..emit.contract import Kernel
from ..emit.row_codes import CodeReader
from ..emit.strided_loops import coalesce
from ..gemm.packing.panels import pack_a_function
from .amx import products_of
from .block import KeyBlock, layout_of
from .byte_terms import sum_keys, sum_queries
from .copies import pack_queries, store_results, turn_mask
from .few_queries import MAX_ROWS, FewQueries, copy_query, most_queries, store_row
from .products import BLOCK_KEYS, Products

# Panels that share a block of keys, and a copy of it.
_PANELS_PER_GROUP = 4


def generate(spec: AttentionSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of an attention."""
    made = AttentionLoops(spec, target, symbol)
    made.write()
    made.f.ret(0)
    return Kernel(symbol, made.module.text(), made.scratch_bytes)


class AttentionLoops:
    """Writes the body of one kernel."""

    def __init__(self, spec: AttentionSpec, target: Target, symbol: str) -> None:
        self.spec, self.module = spec, Module(target)
        operands = spec.operands()
        buffers = [*[READ] * (len(operands) - 1), WRITE]
        self.entry = open_kernel(self.module, symbol, buffers, spec.runtime_dims)
        f = self.f = self.entry.function
        p = self.p = products_of(dequantize_spec(spec), target, self.module)
        self.most = most_queries(spec, target)
        self.few = FewQueries(spec, target, self.module) if self.most else None
        panels = _PANELS_PER_GROUP
        if isinstance(spec.queries, int):
            panels = max(1, min(panels, -(-spec.queries // p.nr)))
        self.layout = layout_of(p, panels)
        self.dequantized = self.layout.total
        self.scratch_bytes = self.layout.total
        for codes, operand in zip(spec.codes, (p.spec.key, p.spec.value), strict=True):
            self.scratch_bytes += 0 if codes is None else BLOCK_KEYS * _row_bytes(operand)
        if self.few is not None:
            self.scratch_bytes = max(self.scratch_bytes, self.few.layout.total)
        self.frame = f.stack(8 * (1 + spec.runtime_dims))
        for i, d in enumerate(self.entry.dims):
            p.scores.set_dim(f, self.frame, i, d)
        self.queries, self.keys = self.size(spec.queries), self.size(spec.keys)
        self.causal = None if spec.causal is None else self.size(spec.causal)
        rank = len(spec.batch)
        self.space = coalesce(spec.batch, [o.strides[:rank] for o in operands])
        self.pointers = [
            f.at(b, self.size(o.offset), ELEMENT[o.dtype.value])
            for b, o in zip(self.entry.buffers, operands, strict=True)
        ]
        self.dequantize = [None if c is None else dequantize_block(p, c) for c in spec.codes]
        self.byte_terms: tuple[Function, ...] = ()
        if spec.quantization is not None:
            self.byte_terms = sum_queries(p, self.layout), sum_keys(p, self.layout)
        self.pack = pack_queries(p, spec)
        self.finish = store_results(p, spec)
        masked = spec.mask is not None and spec.mask.strides[-2] != 0
        self.turn = turn_mask(p, spec) if masked else None
        copied = [g.schedule.pack_a != "no" for g in (p.scores, p.mixture)]
        self.pack_keys = pack_a_function(p.scores) if copied[0] else None
        self.pack_values = p.pack_values() if copied[1] else None
        self.blocks = self.variants()

    def variants(self) -> tuple[Function | None, Function | None]:
        """Blocks for panels of all registers, and for those whose queries fill one: what occurs."""
        spec, p = self.spec, self.p
        most = p.nr // p.lanes
        wide, narrow = most > 1, True
        if isinstance(spec.queries, int):
            rest = spec.queries % p.nr
            wide = most > 1 and (spec.queries >= p.nr or rest > p.lanes)
            narrow = most == 1 or 0 < rest <= p.lanes
        one = KeyBlock(p, spec, self.layout, 1).f if narrow else None
        return KeyBlock(p, spec, self.layout, most).f if wide else None, one

    def size(self, size: Size) -> Value:
        return integer(size) if isinstance(size, int) else self.entry.dims[size.index]

    def matrix(self, index: Value) -> list[Value]:
        """Where the operands of a matrix of the batch begin."""
        f = self.f
        offsets, left = [integer(0)] * len(self.pointers), index
        for axis in reversed(range(len(self.space.axes))):
            here = left
            if axis:
                size = self.size(self.space.axes[axis])
                here, left = f.urem(left, size), f.udiv(left, size)
            offsets = [
                f.add(at, f.mul(here, self.size(s[axis])))
                for at, s in zip(offsets, self.space.strides, strict=True)
            ]
        return [
            f.at(b, at, ELEMENT[o.dtype.value])
            for b, at, o in zip(self.pointers, offsets, self.spec.operands(), strict=True)
        ]

    def write(self) -> None:
        f = self.f
        if self.few is None:
            self.write_panels()
            return
        with f.if_(f.icmp("sle", self.queries, self.most)) as branch:
            self.write_few(self.few)
            branch.else_()
            self.write_panels()

    def write_panels(self) -> None:
        """Panels of queries, which workers share."""
        f, p = self.f, self.p
        p.configure(f)
        across = f.ceil_div(self.queries, p.nr)
        total = across
        for axis in self.space.axes:
            total = f.mul(total, self.size(axis))
        lo, hi = share(f, total, self.entry.worker, self.entry.workers)
        at = f.var(I64, lo)
        with f.while_(lambda: f.icmp("slt", at.get(), hi)):
            panel = at.get()
            first = f.urem(panel, across)
            left = f.smin(f.sub(across, first), f.sub(hi, panel))
            count = f.smin(left, self.layout.panels)
            self.group(self.matrix(f.udiv(panel, across)), first, count)
            at.set(f.add(panel, count))
        p.release(f)

    # -- one group ----------------------------------------------------------------------------

    def group(self, addresses: list[Value], first: Value, count: Value) -> None:
        """`count` panels of one matrix from number `first` on."""
        f, p, spec = self.f, self.p, self.spec
        query, key, value, *given, out = addresses
        numbers = given.pop() if spec.quantization is not None else None
        masks = given if spec.mask is not None else []
        scratch, layout = self.entry.scratch, self.layout
        with f.range(0, count, outer=True) as i:
            state, start, rows = self.panel(f.add(first, i), i)
            address = self.row(query, spec.query, start)
            f.call_function(self.pack, self.frame, address, f.offset(state, layout.queries), rows)
            self.clear(state)
            if numbers is not None:
                f.call_function(self.byte_terms[0], state, numbers)
            if spec.sink is not None:
                self.begin_with(spec.sink, given[-1], state, start, rows)
        keys = self.keys
        if self.causal is not None:
            last = f.sub(f.smin(f.mul(f.add(first, count), p.nr), self.queries), 1)
            keys = f.smin(keys, self.count_visible_keys(last, integer(0)))
        with f.range(0, keys, BLOCK_KEYS, outer=True) as begin:
            length = f.smin(f.sub(keys, begin), BLOCK_KEYS)
            self.prefetch_block(key, value, f.add(begin, BLOCK_KEYS), length)
            k, v = self.row(key, spec.key, begin), self.row(value, spec.value, begin)
            k, v = self.dequantize_rows(k, v, length)
            if numbers is not None:
                f.call_function(self.byte_terms[1], self.frame, scratch, k, length, numbers)
            if self.pack_keys:
                to = f.offset(scratch, layout.keys)
                f.call_function(self.pack_keys, self.frame, k, to, length, spec.head_size)
                k = to
            if self.pack_values:
                to = f.offset(scratch, layout.values)
                f.call_function(self.pack_values, self.frame, v, to, spec.value_size, length)
                v = to
            with f.range(0, count, outer=True) as i:
                self.block(addresses, masks, f.add(first, i), i, (begin, length), (k, v))
        with f.range(0, count, outer=True) as i:
            state, start, rows = self.panel(f.add(first, i), i)
            none = f.icmp("eq", self.keys, 0)
            sums, totals = (f.offset(state, b) for b in (layout.sums, layout.totals))
            address = self.row(out, spec.out, start)
            f.call_function(self.finish, self.frame, sums, totals, address, rows, none)

    def dequantize_rows(self, k: Value, v: Value, length: Value) -> tuple[Value, Value]:
        """Where the rows of keys and values of a block are as floats."""
        f, spec, found, to = self.f, self.spec, list[Value](), self.dequantized
        floats = (self.p.spec.key, self.p.spec.value)
        for n, (at, operand) in enumerate(((k, spec.key), (v, spec.value))):
            function = self.dequantize[n]
            if function is not None:
                made = f.offset(self.entry.scratch, to)
                f.call_function(function, at, self.size(operand.strides[-2]), made, length)
                at, to = made, to + BLOCK_KEYS * _row_bytes(floats[n])
            found.append(at)
        return found[0], found[1]

    # -- few queries --------------------------------------------------------------------------

    def write_few(self, few: FewQueries) -> None:
        """Rows of queries, which workers share: those of all heads that read the same keys."""
        f, axes, groups = self.f, self.space.axes, integer(1)
        if axes and self.space.strides[1][-1] == 0 == self.space.strides[2][-1]:
            groups = self.size(axes[-1])
        rows = f.mul(groups, self.queries)
        total = self.queries
        for axis in axes:
            total = f.mul(total, self.size(axis))
        lo, hi = share(f, total, self.entry.worker, self.entry.workers)
        at = f.var(I64, lo)
        with f.while_(lambda: f.icmp("slt", at.get(), hi)):
            row = at.get()
            first = f.urem(row, rows)
            count = f.smin(f.smin(f.sub(rows, first), f.sub(hi, row)), MAX_ROWS)
            head = f.mul(f.udiv(row, rows), groups)
            # The heads whose keys are read next, or these again where no rows are left.
            after = f.mul(f.udiv(f.smin(f.add(row, count), f.sub(hi, 1)), rows), groups)
            self.rows_of_queries(few, (head, after), first, count)
            at.set(f.add(row, count))

    def rows_of_queries(
        self, few: FewQueries, heads: tuple[Value, Value], first: Value, count: Value
    ) -> None:
        """`count` rows from number `first` on of the heads from heads[0] on, queries innermost.
        heads[1]: the first head of the rows behind them."""
        f, spec, layout, scratch = self.f, self.spec, few.layout, self.entry.scratch
        head, after = heads

        def addresses(i: Value) -> tuple[list[Value], Value]:
            row = f.add(first, i)
            return self.matrix(f.add(head, f.udiv(row, self.queries))), f.urem(row, self.queries)

        with f.range(0, count, outer=True) as i:
            found, query = addresses(i)
            copy_query(few, f, self.row(found[0], spec.query, query), i, scratch)
            score, total = f.as_value(-float("inf"), F32), 0.0
            if spec.sink is not None:
                element = ELEMENT[spec.sink.dtype.value]
                at = f.mul(query, self.size(spec.sink.strides[-1]))
                score = f.cast(f.load(element, f.at(found[-2], at, element)), F32)
                total = 1.0
            f.store(score, f.at(f.offset(scratch, layout.largest), i, F32))
            f.store(f.as_value(total, F32), f.at(f.offset(scratch, layout.totals), i, F32))
        _, key, value, *_ = self.matrix(head)
        _, key_after, *_ = self.matrix(after)
        keys = self.keys
        if self.causal is not None:
            last = f.sub(self.queries, 1)
            keys = f.smin(keys, self.count_visible_keys(last, integer(0)))
        with f.range(0, keys, BLOCK_KEYS, outer=True) as begin:
            length = f.smin(f.sub(keys, begin), BLOCK_KEYS)
            # A block later: behind the last row, the first rows of other heads follow.
            distance = f.smin(keys, BLOCK_KEYS)
            left = f.sub(f.sub(keys, begin), distance)
            ahead = (
                self.row(key, spec.key, f.add(begin, distance)),
                left,
                self.row(key_after, spec.key, f.sub(0, left)),
            )
            self.block_of_rows(few, addresses, count, (begin, length), (key, value), ahead)
        with f.range(0, count, outer=True) as i:
            found, query = addresses(i)
            none = f.icmp("eq", self.keys, 0)
            store_row(few, f, i, scratch, self.row(found[-1], spec.out, query), none)

    def block_of_rows(
        self,
        few: FewQueries,
        addresses: Callable[[Value], tuple[list[Value], Value]],
        count: Value,
        block: tuple[Value, Value],
        operands: tuple[Value, Value],
        ahead: tuple[Value, Value, Value],
    ) -> None:
        """`count` rows against the keys [begin, begin + length). ahead: where the keys of the next
        block are, as few_queries.py prefetches them."""
        f, spec, layout, scratch = self.f, self.spec, few.layout, self.entry.scratch
        begin, length = block
        strides = [
            f.mul(self.size(o.strides[-2]), o.dtype.bits // 8) for o in (spec.key, spec.value)
        ]
        with f.range(0, length, few.tile, outer=True) as start:
            source, values = (
                self.row(at, operand, f.add(begin, start))
                for at, operand in zip(operands, (spec.key, spec.value), strict=True)
            )
            keys = f.offset(scratch, layout.keys)
            here = f.smin(f.sub(length, start), few.tile)
            fetched = values, strides[1]
            f.call_function(few.turn_keys, source, strides[0], keys, here, *fetched)

            def score(q: int, row: Value) -> None:
                query = f.offset(scratch, f.mul(row, layout.query))
                to = f.at(scratch, f.add(f.mul(row, BLOCK_KEYS), start), F32)
                to = f.offset(to, layout.scores)
                f.call_function(few.score[q - 1], query, keys, to, *fetched)

            few.chunks(f, count, score)
        with f.range(0, count, outer=True) as i:
            found, query = addresses(i)
            mask = f.offset(scratch, layout.masks)
            if spec.mask is not None:
                along, element = self.size(spec.mask.strides[-1]), ELEMENT[spec.mask.dtype.value]
                at = f.at(self.row(found[3], spec.mask, query), f.mul(begin, along), element)
                f.call_function(few.copy_mask, at, along, mask, length)
            last = f.sub(length, 1)
            if self.causal is not None:
                last = f.sub(self.count_visible_keys(query, begin), 1)
            f.call_function(few.softmax, scratch, i, mask, last, length)
        source = self.row(operands[1], spec.value, begin)

        def mix(q: int, row: Value) -> None:
            weights = f.offset(scratch, f.add(f.mul(row, BLOCK_KEYS * 4), layout.scores))
            sums = f.offset(scratch, f.add(f.mul(row, layout.value), layout.sums))
            totals = f.at(f.offset(scratch, layout.totals), row, F32)
            given = (source, strides[1], weights, sums, totals, length)
            f.call_function(few.mix[q - 1], *given, *ahead, strides[0])

        few.chunks(f, count, mix)

    def prefetch_block(self, key: Value, value: Value, begin: Value, count: Value) -> None:
        """Fetch rows of keys and values that the next block reads into the second cache."""
        f, spec = self.f, self.spec
        _, keys, values, *_ = spec.iteration_spaces()
        sides = ((key, spec.key, keys[-1]), (value, spec.value, values[-1]))
        with f.range(0, count, unroll=1) as row:
            for address, operand, size in sides:
                start = self.row(address, operand, f.add(begin, row))
                assert isinstance(size, int)
                for line in range(0, size * operand.dtype.bits // 8, 64):
                    f.prefetch(f.offset(start, line), locality=2)

    def block(
        self,
        addresses: list[Value],
        masks: list[Value],
        panel: Value,
        i: Value,
        keys: tuple[Value, Value],
        packed: tuple[Value, Value],
    ) -> None:
        """One panel against the keys [begin, begin + length), as far as it sees them."""
        f, spec, (begin, length) = self.f, self.spec, keys
        state, start, rows = self.panel(panel, i)
        if self.causal is not None:
            last = f.sub(f.add(start, rows), 1)
            length = f.smin(length, self.count_visible_keys(last, begin))
        mask = addresses[0]
        with f.if_(f.icmp("sgt", length, 0)):
            if masks:
                assert spec.mask is not None
                element = ELEMENT[spec.mask.dtype.value]
                along = f.mul(begin, self.size(spec.mask.strides[-1]))
                mask = f.at(self.row(masks[0], spec.mask, start), along, element)
            if self.turn:
                to = f.offset(self.entry.scratch, self.layout.mask)
                f.call_function(self.turn, self.frame, mask, to, rows, length)
                mask = to
            wide, narrow = self.blocks
            given = (self.frame, self.entry.scratch, state, *packed, mask, start, begin, length)
            if wide is None or narrow is None:
                made = wide or narrow
                assert made is not None
                f.call_function(made, *given)
                return
            with f.if_(f.icmp("sgt", rows, self.p.lanes)) as branch:
                f.call_function(wide, *given)
                branch.else_()
                f.call_function(narrow, *given)

    def panel(self, number: Value, i: Value) -> tuple[Value, Value, Value]:
        """(what panel i of the group keeps, its first query, how many queries it has)."""
        f, nr = self.f, self.p.nr
        start = f.mul(number, nr)
        rows = f.smin(f.sub(self.queries, start), nr)
        return f.offset(self.entry.scratch, f.mul(i, self.layout.panel)), start, rows

    def count_visible_keys(self, query: Value, begin: Value) -> Value:
        """How many keys from `begin` on a query would see if there were no end to them."""
        assert self.causal is not None
        f = self.f
        return f.smax(f.sub(f.add(f.add(query, self.causal), 1), begin), 0)

    def row(self, address: Value, operand: Operand, row: Value) -> Value:
        """The address of a row of a matrix."""
        at = self.f.mul(row, self.size(operand.strides[-2]))
        return self.f.at(address, at, ELEMENT[operand.dtype.value])

    def begin_with(
        self, sink: Operand, address: Value, state: Value, start: Value, rows: Value
    ) -> None:
        """A panel that has seen one score per query, of no value."""
        f, layout, element = self.f, self.layout, ELEMENT[sink.dtype.value]
        with f.range(0, rows, outer=True) as row:
            at = f.mul(f.add(start, row), self.size(sink.strides[-1]))
            score = f.cast(f.load(element, f.at(address, at, element)), F32)
            f.store(score, f.at(f.offset(state, layout.largest), row, F32))
            f.store(f.as_value(1.0, F32), f.at(f.offset(state, layout.totals), row, F32))

    def clear(self, state: Value) -> None:
        """Nothing seen so far."""
        f, p, layout = self.f, self.p, self.layout
        kind = vec(F32, p.lanes)
        for begin, end, value in (
            (layout.sums, layout.largest, 0.0),
            (layout.largest, layout.totals, -float("inf")),
            (layout.totals, layout.panel, 0.0),
        ):
            with f.range(begin, end, 4 * p.lanes, outer=True) as b:
                f.store(f.as_value(value, kind), f.offset(state, b), 4 * p.lanes)


def dequantize_spec(spec: AttentionSpec) -> AttentionSpec:
    """The attention that panels compute: keys and values that are codes are rows of f32, a line
    more than they hold apart: rows a power of two apart would share cache sets."""
    if not spec.row_bits:
        return spec
    key, value = (Operand(DType.f32, (size + 16, 1)) for size in (spec.head_size, spec.value_size))
    return replace(spec, key=key, value=value, row_bits=0)


def _row_bytes(operand: Operand) -> int:
    stride = operand.strides[-2]
    assert isinstance(stride, int)
    return stride * 4


def dequantize_block(p: Products, codes: RowCodes) -> Function:
    """dequantize(source, stride, to, count): `count` rows of codes, `stride` bytes apart, as f32
    rows of `dequantize_spec`."""
    f = p.module.function(
        p.module.unique("dequantize"),
        [("ptr noalias readonly", "source"), (I64, "stride"), ("ptr noalias", "to")]
        + [(I64, "count")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    reader = CodeReader(f, codes, p.lanes)
    with f.range(0, f.params["count"], unroll=1) as i:
        row = f.offset(f.params["source"], f.mul(i, f.params["stride"]))
        pairs, to = reader.load_pairs(row), f.at(f.params["to"], f.mul(i, codes.size + 16), F32)
        for start in range(0, codes.size, p.lanes):
            f.store(reader.load(row, start, pairs), f.at(to, start, F32))
    return f
