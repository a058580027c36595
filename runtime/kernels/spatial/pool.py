"""Pooling: the largest element or the sum of each window, vectors along channels.

A task is one output row of one image, cut into blocks of channels. Taps outside the data are left
out by their bounds, which are found once per row and pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....plan.specs.base import Size
from ....plan.specs.convolution import Window
from ....plan.specs.pooling import PoolSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import READ, WRITE, open_kernel, share
from ...llvmir.values import I1, Value, integer
from ..conv.addressing import taps_inside
from ..emit.casts import cast
from ..emit.contract import Kernel
from ..emit.scalar_program import emit_program, program_types
from ..emit.shared_sizes import SharedSizes
from ..emit.strided_loops import Lane, RuntimeSizes, base_pointer
from ..emit.tail_mask import TailMask, tail_mask
from ..rows.reduce import Join

# Vectors of channels that one walk over a window serves.
_UNROLL = 4
# Taps of a row up to which they are written out.
_MAX_UNROLLED_TAPS = 4
Bounds = tuple[Value, Value]


def generate(spec: PoolSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a pool."""
    if spec.kind not in ("max", "sum"):
        raise UnsupportedOperationError("no kernel pools by this", got=spec.kind)
    module = Module(target)
    shared = SharedSizes(spec.runtime_dims)
    spec = _share_sizes(shared, spec, target)
    entry = open_kernel(module, symbol, [READ, WRITE], shared.runtime_dims, numbers=shared.numbers)
    f, sizes = entry.function, RuntimeSizes(entry.function, entry.dims)
    pointers = [
        base_pointer(f, sizes, p, o) for p, o in zip(entry.buffers, spec.operands(), strict=True)
    ]
    _PoolKernel(spec, f, sizes, pointers).run(entry.worker, entry.workers)
    f.ret(0)
    return Kernel(symbol, module.text())


def _share_sizes(shared: SharedSizes, spec: PoolSpec, target: Target) -> PoolSpec:
    """The spec with its sizes as parameters, but for the window's own and the strides of lanes."""
    data, out = (
        replace(o, strides=(shared.share(s[0]), s[1], *shared.share_all(s[2:])))
        for o, s in ((shared.share_offset(o), o.strides) for o in spec.operands())
    )
    return replace(
        spec,
        batch=shared.share(spec.batch),
        channels=shared.share_row(spec.channels, _lane_count(spec, target), _UNROLL),
        in_sizes=shared.share_all(spec.in_sizes),
        out_sizes=shared.share_all(spec.out_sizes),
        window=replace(spec.window, pads=shared.share_all(spec.window.pads)),
        pads_end=shared.share_all(spec.pads_end),
        data=data,
        out=out,
    )


def _lane_count(spec: PoolSpec, target: Target) -> int:
    return target.lanes(max(spec.acc.bits, spec.data.dtype.bits, spec.out.dtype.bits, 8))


class _PoolKernel:
    def __init__(
        self, spec: PoolSpec, f: Function, sizes: RuntimeSizes, pointers: Sequence[Value]
    ) -> None:
        self.spec, self.f, self.sizes, self.pointers = spec, f, sizes, pointers
        self.join = Join(f, spec.kind, spec.acc)
        self.lanes = _lane_count(spec, f.target)
        self.rank = len(spec.in_sizes)
        self.inside = [sizes.value(s) for s in spec.in_sizes]
        self.pads = [sizes.value(s) for s in spec.window.pads]
        self.ends = [sizes.value(s) for s in spec.pads_end]
        data, out = spec.data.strides, spec.out.strides
        self.source = [sizes.value(s) for s in (data[0], *data[2:])]
        self.target = [sizes.value(s) for s in (out[0], *out[2:])]
        self.lines = (
            Lane(f, sizes, spec.data.dtype, data[1], self.lanes),
            Lane(f, sizes, spec.out.dtype, out[1], self.lanes),
        )

    def run(self, worker: Value, workers: Value) -> None:
        """This worker's output rows; a row is all pixels of the last axis."""
        f, spec = self.f, self.spec
        outer: list[Size] = [spec.batch, *spec.out_sizes[:-1]]
        lo, hi = share(f, self.sizes.product(outer), worker, workers)
        with f.range(lo, hi, unroll=1) as row:
            left, positions = row, list[Value]()
            for size in reversed(outer[1:]):
                n = self.sizes.value(size)
                positions.insert(0, f.urem(left, n))
                left = f.udiv(left, n)
            with f.range(0, self.sizes.value(spec.out_sizes[-1]), unroll=1) as last:
                self.pool_at(left, [*positions, last])

    def pool_at(self, batch: Value, positions: Sequence[Value]) -> None:
        """One output pixel: the taps inside the data, then block after block of channels."""
        f, w = self.f, self.spec.window
        source, target = f.mul(batch, self.source[0]), f.mul(batch, self.target[0])
        taps: list[Bounds] = []
        count = integer(1)
        for axis, position in enumerate(positions):
            start = f.sub(f.mul(position, w.strides[axis]), self.pads[axis])
            bounds = taps_inside(f, start, self.inside[axis], w.kernel[axis], w.dilations[axis])
            taps.append(bounds)
            count = f.mul(count, self.count_taps(axis, start, bounds, w))
            source = f.add(source, f.mul(start, self.source[1 + axis]))
            target = f.add(target, f.mul(position, self.target[1 + axis]))
        line, out = self.lines
        out.begin(f.at(self.pointers[1], target, out.element), reads=False)
        data = f.at(self.pointers[0], source, line.element)
        n, block = self.sizes.value(self.spec.channels), self.lanes * _UNROLL
        block_end = f.round_down(n, block)
        with f.range(0, block_end, block, unroll=1) as c:
            self.block(data, c, [None] * _UNROLL, taps, count)
        with f.range(block_end, n, self.lanes, unroll=1) as c:
            left = f.sub(n, c)
            whole = n.known is None and n.is_multiple(self.lanes)
            with f.if_(integer(1, I1) if whole else f.icmp("sge", left, self.lanes)) as branch:
                self.block(data, c, [None], taps, count)
                branch.else_()
                self.block(data, c, [tail_mask(f, self.lanes, left)], taps, count)

    def count_taps(self, axis: int, start: Value, bounds: Bounds, w: Window) -> Value:
        """How many taps of one axis count."""
        f, mode = self.f, self.spec.counted
        if mode == "window":
            return integer(w.kernel[axis])
        if mode == "padded":
            # The padded axis begins `pad` before the data; no window begins before it.
            room = f.add(f.add(self.inside[axis], self.pads[axis]), self.ends[axis])
            begin = f.add(start, self.pads[axis])
            bounds = taps_inside(f, begin, room, w.kernel[axis], w.dilations[axis])
        return f.smax(f.sub(bounds[1], bounds[0]), 0)

    def block(
        self,
        data: Value,
        channel: Value,
        tails: Sequence[TailMask | None],
        taps: Sequence[Bounds],
        count: Value,
    ) -> None:
        f, spec, (line, out) = self.f, self.spec, self.lines
        accumulators = [f.var(self.join.start(self.lanes).type) for _ in tails]
        for h in accumulators:
            h.set(self.join.start(self.lanes))

        def walk(axis: int, at: Value) -> None:
            if axis == self.rank:
                line.begin(at)
                for u, (h, tail) in enumerate(zip(accumulators, tails, strict=True)):
                    x = line.load(f.add(channel, u * self.lanes), tail)
                    h.set(self.join(h.get(), cast(f, x, spec.data.dtype, spec.acc)))
                return
            step = f.mul(self.source[1 + axis], spec.window.dilations[axis])
            kernel, (lo, hi) = spec.window.kernel[axis], taps[axis]
            if axis < self.rank - 1 or kernel > _MAX_UNROLLED_TAPS:
                with f.range(lo, hi, unroll=1) as k:
                    walk(axis + 1, f.at(at, f.mul(k, step), line.element))
                return
            # All taps of a row, as nearly everywhere: no loop.
            with f.if_(f.icmp("eq", f.sub(hi, lo), kernel)) as branch:
                for k in range(kernel):
                    walk(axis + 1, f.at(at, f.mul(step, k), line.element))
                branch.else_()
                with f.range(lo, hi, unroll=1) as k:
                    walk(axis + 1, f.at(at, f.mul(k, step), line.element))

        walk(0, data)
        number = f.splat(cast(f, count, DType.i64, spec.acc), self.lanes)
        kind = program_types(spec.epilogue)[0]
        for u, (h, tail) in enumerate(zip(accumulators, tails, strict=True)):
            (y,) = emit_program(f, spec.epilogue, [h.get(), number], lanes=self.lanes)
            y = cast(f, y, kind, spec.out.dtype)
            out.store(y, f.add(channel, u * self.lanes), tail)
