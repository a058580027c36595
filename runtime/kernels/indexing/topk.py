"""The best elements along an axis, and their positions.

The first few of chains that are side by side are ranked in registers, a chain per lane. The best
one of a chain of neighbours is found by vectors along it. All else is ranked in the results: the
best so far in order or, where they are many, as a heap that is sorted in the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ....plan.specs.scan_topk import TopKSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import I1, I32, I64, PTR, Value, bits_of, integer, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.strided_loops import RuntimeSizes, emit_vectors, masked_load, masked_store
from ..emit.tail_mask import TailMask
from .chains import are_side_by_side, each_chain, each_vector_of_chains, open_chains

# Up to so many ranks are kept in registers, and in order in memory; more are a heap.
_MAX_IN_REGISTERS = 8
_MAX_SORTED = 32
# Vectors along a chain that are compared at a time.
_UNROLL = 4
# Chains of so many elements have positions of 64 bits.
_LONG_CHAIN = (1 << 31) - 1

# (element, position) of one rank, of as many chains as there are lanes.
_Ranked = tuple[Value, Value]


def rank(spec: TopKSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a rank spec. UnsupportedOperationError for types without one."""
    module, k = open_chains(spec.runtime_dims, spec.data.dtype, 2, target, symbol)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    lanes = target.lanes(spec.data.dtype.bits)
    limit = spec.limit
    few = limit is not None and 1 <= limit <= _MAX_IN_REGISTERS
    if few and are_side_by_side(spec.axes, spec.operands(), lanes):
        in_lanes = _Vectors(spec, f, sizes, lanes)
        for pointers, tail in each_vector_of_chains(k, sizes, spec.axes, spec.operands(), lanes):
            in_lanes.rank_chains(pointers, tail)
    elif limit == 1 and spec.data.strides[-1] == 1:
        along = _Vectors(spec, f, sizes, lanes)
        with each_chain(k, sizes, spec.axes, spec.operands()) as pointers:
            along.find_best(pointers)
    else:
        ordered = limit is not None and limit <= _MAX_SORTED
        memory = (_Sorted if ordered else _Heap)(spec, module, f, sizes, lanes)
        with each_chain(k, sizes, spec.axes, spec.operands()) as pointers:
            memory.rank_chain(pointers)
    f.ret(0)
    return Kernel(symbol, module.text())


def _is_better(f: Function, x: Value, than: Value, spec: TopKSpec) -> Value:
    if not spec.data.dtype.is_float:
        return f.icmp("sgt" if spec.largest else "slt", x, than)
    more = f.fcmp("ogt" if spec.largest else "olt", x, than)
    high, low = (x, than) if spec.largest else (than, x)
    return f.or_(more, f.and_(f.fcmp("uno", high, high), f.fcmp("ord", low, low)))


def _is_ahead(f: Function, x: _Ranked, than: _Ranked, spec: TopKSpec) -> Value:
    """Whether x is the better one or, among equals, the first."""
    same = f.not_(_is_better(f, than[0], x[0], spec))
    first = f.icmp("slt", x[1], than[1])
    return f.or_(_is_better(f, x[0], than[0], spec), f.and_(same, first))


class _Vectors:
    """Ranks elements in vector registers."""

    def __init__(self, spec: TopKSpec, f: Function, sizes: RuntimeSizes, lanes: int) -> None:
        self.spec, self.f, self.sizes, self.lanes = spec, f, sizes, lanes
        self.size, self.element = sizes.value(spec.size), memory_type(spec.data.dtype)
        # Ranks that there are.
        self.made = f.smin(sizes.value(spec.count), self.size)
        known = self.size.known
        self.position = I64 if known is None or known >= _LONG_CHAIN else I32
        self.vector, self.positions = vec(self.element, lanes), vec(self.position, lanes)

    def splat_position(self, i: Value) -> Value:
        return self.f.splat(self.f.cast(i, self.position), self.lanes)

    def rank_chains(self, pointers: Sequence[Value], tail: TailMask | None) -> None:
        """The first ranks of chains that begin at these addresses, side by side."""
        f, spec = self.f, self.spec
        assert spec.limit is not None
        step, last = self.sizes.value(spec.data.strides[-1]), (1 << bits_of(self.position) - 1) - 1
        none = f.splat(integer(last, self.position), self.lanes)
        ranks = [
            (f.var(self.vector, f.as_value(0, self.vector)), f.var(self.positions, none))
            for _ in range(spec.limit)
        ]
        with f.range(0, self.size, unroll=1) as i:
            at = f.at(pointers[0], f.mul(i, step), self.element)
            x = masked_load(f, self.vector, at, tail), self.splat_position(i)
            takes = None
            for n, (value, position) in enumerate(ranks):
                held = value.get(), position.get()
                # The first elements fill the ranks, whatever is there.
                fills = f.splat(f.icmp("sle", i, n), self.lanes)
                better = f.or_(_is_better(f, x[0], held[0], spec), fills)
                # What moves to the next rank moves all others on, also its equals.
                takes = better if takes is None else f.or_(takes, better)
                value.set(f.select(takes, x[0], held[0]))
                position.set(f.select(takes, x[1], held[1]))
                x = f.select(takes, held[0], x[0]), f.select(takes, held[1], x[1])
        found = [(value.get(), position.get()) for value, position in ranks]
        if spec.by_index:
            # Ranks that there are not go last.
            there = [f.icmp("sgt", self.made, n) for n in range(len(found))]
            found = [
                (x, f.select(is_there, i, none))
                for is_there, (x, i) in zip(there, found, strict=True)
            ]
            self.sort_by_position(found)
        for n, ranked in enumerate(found):
            with f.if_(f.icmp("sgt", self.made, n)):
                self.store(ranked, n, pointers, tail)

    def sort_by_position(self, ranks: list[_Ranked]) -> None:
        f = self.f
        for end in range(len(ranks) - 1, 0, -1):
            for n in range(end):
                a, b = ranks[n], ranks[n + 1]
                swaps = f.icmp("sgt", a[1], b[1])
                ranks[n] = f.select(swaps, b[0], a[0]), f.select(swaps, b[1], a[1])
                ranks[n + 1] = f.select(swaps, a[0], b[0]), f.select(swaps, a[1], b[1])

    def store(
        self, ranked: _Ranked, n: int, pointers: Sequence[Value], tail: TailMask | None
    ) -> None:
        """Rank n of chains side by side."""
        f = self.f
        operands = (self.spec.values, self.spec.indices)
        for x, pointer, operand in zip(ranked, pointers[1:], operands, strict=True):
            element = memory_type(operand.dtype)
            at = f.at(pointer, f.mul(n, self.sizes.value(operand.strides[-1])), element)
            masked_store(f, f.cast(x, element), at, tail)

    def find_best(self, pointers: Sequence[Value]) -> None:
        """The best element of a chain of neighbours."""
        f, spec, lanes = self.f, self.spec, self.lanes
        with f.if_(f.icmp("sgt", self.made, 0)):
            first, zero = f.load(self.element, pointers[0]), f.as_value(0, self.positions)
            best = [
                (f.var(self.vector, f.splat(first, lanes)), f.var(self.positions, zero))
                for _ in range(_UNROLL)
            ]
            for i, tails in emit_vectors(f, self.size, lanes, _UNROLL):
                for n, ((value, position), tail) in enumerate(zip(best, tails, strict=False)):
                    at = f.add(i, n * lanes)
                    read = f.at(pointers[0], at, self.element)
                    x, held = masked_load(f, self.vector, read, tail), value.get()
                    takes = _is_better(f, x, held, spec)
                    if tail is not None:
                        takes = f.and_(takes, tail.mask)
                    here = f.add(f.iota(lanes, self.position), self.splat_position(at))
                    value.set(f.select(takes, x, held))
                    position.set(f.select(takes, here, position.get()))
            ranked = [(value.get(), position.get()) for value, position in best]
            while len(ranked) > 1:
                ranked = [self.choose(*ranked[n : n + 2]) for n in range(0, len(ranked), 2)]
            self.store_best(ranked[0], pointers)

    def choose(self, x: _Ranked, y: _Ranked) -> _Ranked:
        ahead = _is_ahead(self.f, x, y, self.spec)
        return self.f.select(ahead, x[0], y[0]), self.f.select(ahead, x[1], y[1])

    def store_best(self, ranked: _Ranked, pointers: Sequence[Value]) -> None:
        """The best one of all lanes."""
        f, lanes = self.f, self.lanes
        found = f.var(self.element), f.var(self.position)
        if lanes == 1:
            best = ranked
        else:
            buffers = [f.stack(bits_of(x.element) * lanes // 8) for x in ranked]
            for x, buffer in zip(ranked, buffers, strict=True):
                f.store(x, buffer)

            def lane(n: Value) -> _Ranked:
                types = (self.element, self.position)
                loads = [f.load(t, f.at(b, n, t)) for b, t in zip(buffers, types, strict=True)]
                return loads[0], loads[1]

            for variable, x in zip(found, lane(integer(0)), strict=True):
                variable.set(x)
            with f.range(1, lanes, unroll=1) as n:
                chosen = self.choose(lane(n), (found[0].get(), found[1].get()))
                for variable, x in zip(found, chosen, strict=True):
                    variable.set(x)
            best = found[0].get(), found[1].get()
        for x, pointer, operand in zip(
            best, pointers[1:], (self.spec.values, self.spec.indices), strict=True
        ):
            f.store(f.cast(x, memory_type(operand.dtype)), pointer)


class _Memory(ABC):
    """Ranks a chain in the memory of its results: the best so far are there, the worst of them at
    rank `worst`."""

    name: ClassVar[str]

    def __init__(
        self, spec: TopKSpec, module: Module, f: Function, sizes: RuntimeSizes, lanes: int
    ) -> None:
        self.spec, self.module, self.f, self.sizes, self.lanes = spec, module, f, sizes, lanes
        self.types = memory_type(spec.values.dtype), memory_type(spec.indices.dtype)
        self.steps = [sizes.value(o.strides[-1]) for o in (spec.values, spec.indices)]
        self.by_value = self.write_order(f"{self.name}_by_value", by_index=False)
        self.by_index = None
        if spec.by_index:
            self.by_index = self.write_order(f"{self.name}_by_index", by_index=True)

    @abstractmethod
    def write_order(self, name: str, *, by_index: bool) -> Function:
        """The function that puts one element where it belongs, by elements or by indices."""

    def rank_chain(self, pointers: Sequence[Value]) -> None:
        """The results of one chain."""
        f = self.f
        size, count = self.sizes.value(self.spec.size), self.sizes.value(self.spec.count)
        kept = f.smin(count, size)
        with f.if_(f.icmp("sgt", kept, 0)):
            self.take_first(kept, pointers)
            self.visit_others(kept, size, pointers)
            self.finish(kept, pointers)

    @abstractmethod
    def take_first(self, kept: Value, pointers: Sequence[Value]) -> None:
        """Fill the ranks with the first elements."""

    @abstractmethod
    def worst(self, kept: Value) -> Value:
        """Which rank the worst one of the best has."""

    @abstractmethod
    def replace_worst(self, x: Value, i: Value, kept: Value, pointers: Sequence[Value]) -> None:
        """Put element x, at position i, among the best in place of the worst one."""

    @abstractmethod
    def finish(self, kept: Value, pointers: Sequence[Value]) -> None:
        """Sort the ranks as the spec says."""

    def visit_others(self, kept: Value, size: Value, pointers: Sequence[Value]) -> None:
        """Compare the elements behind the first `kept` with the worst of the best."""
        f, lanes = self.f, self.lanes
        worst = self.rank_addresses(pointers[1:], self.steps, self.worst(kept))[0]

        def visit(i: Value) -> None:
            x = self.load(pointers, i)
            with f.if_(_is_better(f, x, f.load(self.types[0], worst), self.spec)):
                self.replace_worst(x, i, kept, pointers)

        vectors_end = kept
        if self.spec.data.strides[-1] == 1 and lanes > 1:
            vectors_end = f.add(kept, f.round_down(f.sub(size, kept), lanes))
            kind = vec(self.types[0], lanes)
            with f.range(kept, vectors_end, lanes, unroll=1) as first:
                x = f.load(kind, f.at(pointers[0], first, self.types[0]))
                than = f.splat(f.load(self.types[0], worst), lanes)
                mask = f.bitcast(_is_better(f, x, than, self.spec), f"i{lanes}")
                left = f.var(I64, f.cast(mask, I64, signed_=False))
                with f.while_(lambda: f.icmp("ne", left.get(), 0)):
                    bits = left.get()
                    lane = f.intrinsic("cttz", bits, integer(1, I1), returns=I64)
                    visit(f.add(first, lane))
                    left.set(f.and_(bits, f.sub(bits, 1)))
        with f.range(vectors_end, size, unroll=1) as i:
            visit(i)

    def load(self, pointers: Sequence[Value], i: Value) -> Value:
        """Element i of the chain."""
        f, step = self.f, self.sizes.value(self.spec.data.strides[-1])
        return f.load(self.types[0], f.at(pointers[0], f.mul(i, step), self.types[0]))

    def rank_addresses(
        self, results: Sequence[Value], steps: Sequence[Value], n: Value, f: Function | None = None
    ) -> list[Value]:
        """Where the element and the index of rank n are."""
        f = f or self.f
        walked = zip(results, steps, self.types, strict=True)
        return [f.at(pointer, f.mul(n, step), t) for pointer, step, t in walked]

    def store(self, ranked: _Ranked, pointers: Sequence[Value], n: Value) -> None:
        for y, to in zip(ranked, self.rank_addresses(pointers[1:], self.steps, n), strict=True):
            self.f.store(y, to)

    def open_function(self, name: str, numbers: Sequence[tuple[str, str]]) -> _RanksOfFunction:
        """A function of the results' addresses and steps, and of `numbers`."""
        pointers = [(f"{PTR} noalias", "values"), (f"{PTR} noalias", "indices")]
        results = [*pointers, (I64, "value_step"), (I64, "index_step")]
        f = self.module.function(
            name, [*results, *numbers], attributes="nounwind noinline", linkage="internal"
        )
        return _RanksOfFunction(self, f)

    def call(self, callee: Function, pointers: Sequence[Value], *numbers: Value) -> None:
        self.f.call_function(callee, *pointers[1:], *self.steps, *numbers)


class _RanksOfFunction:
    """Ranks by the parameters of a function that `open_function` made."""

    def __init__(self, memory: _Memory, f: Function) -> None:
        self.memory, self.f = memory, f

    def _addresses(self, n: Value) -> list[Value]:
        p = self.f.params
        results, steps = (p["values"], p["indices"]), (p["value_step"], p["index_step"])
        return self.memory.rank_addresses(results, steps, n, self.f)

    def load(self, n: Value) -> _Ranked:
        types = self.memory.types
        value, index = (self.f.load(t, a) for t, a in zip(types, self._addresses(n), strict=True))
        return value, index

    def store(self, x: _Ranked, n: Value) -> None:
        for y, to in zip(x, self._addresses(n), strict=True):
            self.f.store(y, to)

    def is_behind(self, x: _Ranked, than: _Ranked, *, by_index: bool) -> Value:
        if by_index:
            return self.f.icmp("sgt", x[1], than[1])
        return _is_ahead(self.f, than, x, self.memory.spec)


class _Sorted(_Memory):
    """The best so far in order: a better one moves the worse ones on."""

    name = "insert"

    def write_order(self, name: str, *, by_index: bool) -> Function:
        """insert(results..., x, index, end): puts x in front of those of the first `end` ranks that
        are behind it, which move on by one."""
        numbers = [(self.types[0], "x"), (self.types[1], "index"), (I64, "end")]
        ranks = self.open_function(name, numbers)
        f, p = ranks.f, ranks.f.params
        x, at, go = (p["x"], p["index"]), f.var(I64, p["end"]), f.var(I1)
        go.set(f.icmp("sgt", p["end"], 0))
        with f.while_(go.get):
            before = f.sub(at.get(), 1)
            held = ranks.load(before)
            # By value x comes last of its equals, as it comes last in the chain.
            behind = _is_better(f, x[0], held[0], self.spec)
            if by_index:
                behind = ranks.is_behind(held, x, by_index=True)
            with f.if_(behind) as branch:
                ranks.store(held, at.get())
                at.set(before)
                go.set(f.icmp("sgt", before, 0))
                branch.else_()
                go.set(integer(0, I1))
        ranks.store(x, at.get())
        f.ret()
        return f

    def take_first(self, kept: Value, pointers: Sequence[Value]) -> None:
        with self.f.range(0, kept, unroll=1) as i:
            self.insert(self.load(pointers, i), i, i, pointers)

    def worst(self, kept: Value) -> Value:
        return self.f.sub(kept, 1)

    def replace_worst(self, x: Value, i: Value, kept: Value, pointers: Sequence[Value]) -> None:
        self.insert(x, i, self.worst(kept), pointers)

    def insert(self, x: Value, i: Value, end: Value, pointers: Sequence[Value]) -> None:
        self.call(self.by_value, pointers, x, self.f.cast(i, self.types[1]), end)

    def finish(self, kept: Value, pointers: Sequence[Value]) -> None:
        if self.by_index is None:
            return
        f = self.f
        with f.range(1, kept, unroll=1) as n:
            addresses = self.rank_addresses(pointers[1:], self.steps, n)
            x = [f.load(t, a) for t, a in zip(self.types, addresses, strict=True)]
            self.call(self.by_index, pointers, *x, n)


class _Heap(_Memory):
    """The best so far as a heap, whose root, rank 0, is the worst of them."""

    name = "sift"

    def write_order(self, name: str, *, by_index: bool) -> Function:
        """sift(results..., root, end): moves what is at `root` of a heap of `end` elements down
        until nothing below it is behind it."""
        ranks = self.open_function(name, [(I64, "root"), (I64, "end")])
        f, p = ranks.f, ranks.f.params
        moved, at, child = ranks.load(p["root"]), f.var(I64, p["root"]), f.var(I64)
        child.set(f.add(f.mul(p["root"], 2), 1))
        with f.while_(lambda: f.icmp("slt", child.get(), p["end"])):
            left = child.get()
            right = f.smin(f.add(left, 1), f.sub(p["end"], 1))
            pair = ranks.load(left), ranks.load(right)
            chosen = ranks.is_behind(pair[1], pair[0], by_index=by_index)
            lower = f.select(chosen, right, left)
            down = tuple(f.select(chosen, y, x) for x, y in zip(*pair, strict=True))
            with f.if_(ranks.is_behind((down[0], down[1]), moved, by_index=by_index)) as branch:
                ranks.store((down[0], down[1]), at.get())
                at.set(lower)
                child.set(f.add(f.mul(lower, 2), 1))
                branch.else_()
                child.set(p["end"])
        ranks.store(moved, at.get())
        f.ret()
        return f

    def take_first(self, kept: Value, pointers: Sequence[Value]) -> None:
        with self.f.range(0, kept, unroll=1) as i:
            self.store((self.load(pointers, i), self.f.cast(i, self.types[1])), pointers, i)
        self.build(self.by_value, kept, pointers)

    def worst(self, kept: Value) -> Value:
        return integer(0)

    def replace_worst(self, x: Value, i: Value, kept: Value, pointers: Sequence[Value]) -> None:
        self.store((x, self.f.cast(i, self.types[1])), pointers, integer(0))
        self.call(self.by_value, pointers, integer(0), kept)

    def finish(self, kept: Value, pointers: Sequence[Value]) -> None:
        self.sort(self.by_value, kept, pointers)
        if self.by_index is not None:
            self.build(self.by_index, kept, pointers)
            self.sort(self.by_index, kept, pointers)

    def build(self, by: Function, kept: Value, pointers: Sequence[Value]) -> None:
        """Make a heap of all ranks."""
        f = self.f
        half = f.udiv(kept, 2)
        with f.range(0, half, unroll=1) as n:
            self.call(by, pointers, f.sub(f.sub(half, 1), n), kept)

    def sort(self, by: Function, kept: Value, pointers: Sequence[Value]) -> None:
        """The ranks of a heap in order: its root, which is behind all others, goes to the end."""
        f, zero = self.f, integer(0)
        with f.range(1, kept, unroll=1) as n:
            end = f.sub(kept, n)
            ends = [self.rank_addresses(pointers[1:], self.steps, at) for at in (zero, end)]
            for t, root, last in zip(self.types, *ends, strict=True):
                x, y = f.load(t, root), f.load(t, last)
                f.store(y, root)
                f.store(x, last)
            self.call(by, pointers, zero, end)
