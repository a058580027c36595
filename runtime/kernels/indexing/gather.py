"""Gather: blocks of `inner` elements picked along one axis by an index, each checked.

Bits are copied, whatever the type. Results are split over workers as one run of elements, at
multiples of 64, so that a few long blocks are shared too.
"""

from __future__ import annotations

from dataclasses import replace

from ....ir.errors import UnsupportedOperationError
from ....plan.specs.base import GATHER_OUT_OF_RANGE
from ....plan.specs.gather_scatter import GatherSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import BufferAssumptions, open_kernel, share
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.values import I32, I64, Value, integer, number, vec
from ..emit.casts import memory_type
from ..emit.contract import Kernel
from ..emit.shared_sizes import SharedSizes
from ..emit.strided_loops import RuntimeSizes, each_pair, masked_load, masked_store
from ..emit.tail_mask import tail_mask

_SPLIT_ELEMENTS = 64
_UNROLL = 4


def generate(spec: GatherSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a gather spec. UnsupportedOperationError for types without one."""
    if not spec.index.dtype.is_int:
        raise UnsupportedOperationError("gather takes integer indices", got=spec.index.dtype)
    module = Module(target)
    buffers = [BufferAssumptions(), BufferAssumptions(), BufferAssumptions(writes=True)]
    is_empty = 0 in (spec.outer, spec.count, spec.inner)
    shared = SharedSizes(spec.runtime_dims)
    spec = _share_sizes(shared, spec) if spec.packed is None else spec
    k = open_kernel(module, symbol, buffers, shared.runtime_dims, numbers=shared.numbers)
    if not is_empty:
        kind = _GatherKernel if spec.packed is None else _PackedGatherKernel
        kind(spec, k).run(k.worker, k.workers)
    k.function.ret(0)
    return Kernel(symbol, module.text())


def _share_sizes(shared: SharedSizes, spec: GatherSpec) -> GatherSpec:
    """The spec with its sizes as parameters, but for the strides of lanes and short blocks."""
    data, out = (
        replace(o, strides=(*shared.share_all(o.strides[:-1]), o.strides[-1]))
        for o in (shared.share_offset(o) for o in (spec.data, spec.out))
    )
    index = shared.share_offset(spec.index)
    short = isinstance(spec.inner, int) and spec.inner <= _SPLIT_ELEMENTS
    return replace(
        spec,
        outer=shared.share(spec.outer),
        axis=shared.share(spec.axis),
        count=shared.share(spec.count),
        inner=spec.inner if short else shared.share(spec.inner),
        data=data,
        index=replace(index, strides=shared.share_all(index.strides)),
        out=out,
    )


class _GatherKernel:
    def __init__(self, spec: GatherSpec, k: Entry) -> None:
        self.spec, self.f, self.scratch = spec, k.function, k.scratch
        f = self.f
        sizes = self.sizes = RuntimeSizes(f, k.dims)
        bits = max(8, spec.data.dtype.bits)
        memory_type(spec.data.dtype)  # refuses types that are not whole bytes
        self.element = f"i{bits}"
        operands = spec.operands()
        types = [self.element, memory_type(spec.index.dtype), self.element]
        self.data, self.index, self.out = (
            f.at(b, sizes.value(o.offset), t)
            for b, o, t in zip(k.buffers, operands, types, strict=True)
        )
        self.contiguous = spec.data.strides[-1] == 1 and spec.out.strides[-1] == 1
        self.lanes = f.target.lanes(bits)
        if isinstance(spec.inner, int):
            self.lanes = min(self.lanes, 1 << max(0, spec.inner - 1).bit_length())
        if not self.contiguous:
            self.lanes = 1

    def run(self, worker: Value, workers: Value) -> None:
        f, spec = self.f, self.spec
        count, inner = self.sizes.value(spec.count), self.sizes.value(spec.inner)
        positions = f.mul(self.sizes.value(spec.outer), count)
        if isinstance(spec.inner, int) and spec.inner <= _SPLIT_ELEMENTS:
            lo, hi = share(f, positions, worker, workers, _SPLIT_ELEMENTS // spec.inner)
            with f.if_(f.icmp("slt", lo, hi)):
                with each_pair(f, lo, hi, count) as (o, i):
                    self.copy(o, i, integer(0), inner)
            return
        lo, hi = share(f, f.mul(positions, inner), worker, workers, _SPLIT_ELEMENTS)
        with f.if_(f.icmp("slt", lo, hi)):
            first, last = f.udiv(lo, inner), f.ceil_div(hi, inner)
            with each_pair(f, first, last, count) as (o, i):
                begin = f.mul(f.add(f.mul(o, count), i), inner)
                self.copy(o, i, f.smax(f.sub(lo, begin), 0), f.smin(f.sub(hi, begin), inner))

    def copy(self, o: Value, i: Value, begin: Value, end: Value) -> None:
        """Elements [begin, end) of the block at (o, i)."""
        f, spec = self.f, self.spec
        size = self.sizes.value(spec.axis)
        out = self.target(o, i)
        picked = self.pick(i)
        wrapped = picked
        if spec.index.dtype.is_signed:
            negative = f.icmp("slt", picked, 0)
            wrapped = f.select(negative, f.add(picked, size), picked)
        bad = f.icmp("uge", wrapped, size)
        if spec.out_of_range == "error":
            with f.if_(bad):
                f.store(i, self.scratch)
                f.ret(GATHER_OUT_OF_RANGE)
            self.move(self.source(o, wrapped), out, begin, end)
            return
        with f.if_(bad) as branch:
            self.move(None, out, begin, end)
            branch.else_()
            self.move(self.source(o, wrapped), out, begin, end)

    def pick(self, i: Value) -> Value:
        f, dtype = self.f, self.spec.index.dtype
        at = f.mul(i, self.sizes.value(self.spec.index.strides[0]))
        type_ = memory_type(dtype)
        return f.cast(f.load(type_, f.at(self.index, at, type_)), I64, signed_=dtype.is_signed)

    def source(self, o: Value, picked: Value) -> Value:
        """The address of a block of data."""
        return self.address(self.data, self.spec.data.strides, o, picked)

    def target(self, o: Value, i: Value) -> Value:
        """The address of a block of the output."""
        return self.address(self.out, self.spec.out.strides, o, i)

    def address(self, base: Value, strides: tuple, o: Value, i: Value) -> Value:  # type: ignore[type-arg]
        f = self.f
        step, along = (self.sizes.value(s) for s in strides[:2])
        return f.at(base, f.add(f.mul(o, step), f.mul(i, along)), self.element)

    def move(self, source: Value | None, to: Value, begin: Value, end: Value) -> None:
        """Copy, or write zeros where there is no source."""
        f, lanes = self.f, self.lanes
        if not self.contiguous:
            self.move_strided(source, to, begin, end)
            return
        type_ = vec(self.element, lanes)
        n = f.sub(end, begin)

        def vectors(at: Value, count: int, left: Value | None) -> None:
            tail = None if left is None else tail_mask(f, lanes, left)
            positions = [f.add(at, u * lanes) for u in range(count)]
            values = [
                number(0, type_)
                if source is None
                else masked_load(f, type_, f.at(source, p, self.element), tail)
                for p in positions
            ]
            for p, v in zip(positions, values, strict=True):
                masked_store(f, v, f.at(to, p, self.element), tail)

        block = lanes * _UNROLL
        full, vector_end = f.round_down(n, block), f.round_down(n, lanes)
        with f.range(0, full, block, unroll=1) as at:
            vectors(f.add(begin, at), _UNROLL, None)
        with f.range(full, vector_end, lanes, unroll=1) as at:
            vectors(f.add(begin, at), 1, None)
        if lanes > 1:
            with f.if_(f.icmp("slt", vector_end, n)):
                vectors(f.add(begin, vector_end), 1, f.sub(n, vector_end))

    def move_strided(self, source: Value | None, to: Value, begin: Value, end: Value) -> None:
        f, spec = self.f, self.spec
        step, out_step = (self.sizes.value(o.strides[-1]) for o in (spec.data, spec.out))
        with f.range(begin, end, unroll=1) as e:
            value = integer(0, self.element)
            if source is not None:
                value = f.load(self.element, f.at(source, f.mul(e, step), self.element))
            f.store(value, f.at(to, f.mul(e, out_step), self.element))


class _PackedGatherKernel(_GatherKernel):
    """Columns of a packed matrix, cell by cell: a block is a row of 32-bit numbers."""

    def __init__(self, spec: GatherSpec, k: Entry) -> None:
        assert spec.packed is not None and isinstance(spec.inner, int)
        self.f, self.scratch, self.sizes = k.function, k.scratch, RuntimeSizes(k.function, k.dims)
        self.width = spec.packed.nr
        self.spec = replace(spec, inner=spec.inner // spec.packed.kr)
        f, offset = self.f, self.sizes.value
        data, index, out = k.buffers
        self.data, self.out = data, f.offset(out, offset(spec.out.offset))
        self.index = f.at(index, offset(spec.index.offset), memory_type(spec.index.dtype))

    def source(self, o: Value, picked: Value) -> Value:
        f, words = self.f, self.sizes.value(self.spec.inner)
        panel, lane = f.udiv(picked, self.width), f.urem(picked, self.width)
        return f.at(self.data, f.add(f.mul(f.mul(panel, words), self.width), lane), I32)

    def target(self, o: Value, i: Value) -> Value:
        f = self.f
        return f.offset(self.out, f.mul(i, self.sizes.value(self.spec.out.strides[1])))

    def move(self, source: Value | None, to: Value, begin: Value, end: Value) -> None:
        f = self.f
        with f.range(begin, end, unroll=1) as e:
            value = integer(0, I32)
            if source is not None:
                value = f.load(I32, f.at(source, f.mul(e, self.width), I32))
            f.store(value, f.at(to, e, I32), 1)
