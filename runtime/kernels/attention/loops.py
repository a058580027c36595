"""The loops around a block: matrices of the batch, groups of panels of queries, blocks of keys.

for each group of panels of one matrix              (workers share panels)
  queries packed, sums cleared
  for each block of keys                            (keys and values copied here, if they are)
    for each panel: one block (block.py)
  results stored
"""

from __future__ import annotations

from ....plan.specs.attention import AttentionSpec
from ....plan.specs.base import Operand, Size
from ....plan.target import Target
from ...jit.llvm import BRIEF
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.values import ELEMENT, F32, I64, Value, integer, vec
from ..emit.contract import Kernel
from ..emit.strided_loops import coalesce
from ..gemm.packing.panels import pack_a_function
from .amx import products_of
from .block import KeyBlock, layout_of
from .copies import pack_queries, store_results, turn_mask
from .products import BLOCK_KEYS

# Panels that share a block of keys, and a copy of it.
_PANELS_PER_GROUP = 4


def generate(spec: AttentionSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of an attention."""
    made = AttentionLoops(spec, target, symbol)
    made.write()
    made.f.ret(0)
    return Kernel(symbol, made.module.text() + BRIEF, made.layout.total)


class AttentionLoops:
    """Writes the body of one kernel."""

    def __init__(self, spec: AttentionSpec, target: Target, symbol: str) -> None:
        self.spec, self.module = spec, Module(target)
        operands = spec.operands()
        buffers = [*[READ] * (len(operands) - 1), WRITE]
        self.entry = open_kernel(self.module, symbol, buffers, spec.runtime_dims)
        f = self.f = self.entry.function
        p = self.p = products_of(spec, target, self.module)
        panels = _PANELS_PER_GROUP
        if isinstance(spec.queries, int):
            panels = max(1, min(panels, -(-spec.queries // p.nr)))
        self.layout = layout_of(p, panels)
        self.frame = f.stack(p.frame_bytes)
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
        masks = given if spec.mask is not None else []
        scratch, layout = self.entry.scratch, self.layout
        with f.range(0, count, outer=True) as i:
            state, start, rows = self.panel(f.add(first, i), i)
            address = self.row(query, spec.query, start)
            f.call_function(self.pack, self.frame, address, f.offset(state, layout.queries), rows)
            self.clear(state)
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

    def prefetch_block(self, key: Value, value: Value, begin: Value, count: Value) -> None:
        """Fetch rows of keys and values that the next block reads into the second cache."""
        f, spec = self.f, self.spec
        sides = ((key, spec.key, spec.head_size), (value, spec.value, spec.value_size))
        with f.range(0, count, unroll=1) as row:
            for address, operand, size in sides:
                start = self.row(address, operand, f.add(begin, row))
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
