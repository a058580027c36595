"""The loops around the register tile, and how workers share them.

for each matrix of the batch
  for each NC panels of B                     (packed here, unless constant or read in place)
    for each MC tiles of rows
      for each KC of depth                    (A packed here, where that pays)
        for each panel: for each tile of rows: the register tile
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....llvmir.builder import Function
from ....llvmir.kernel_entry import share
from ....llvmir.values import ELEMENT, I1, Value, integer
from ..amx import AmxMicroKernel
from ..bf16x3.f32_micro_kernel import F32AmxMicroKernel
from ..bf16x3.f32_strips import F32Strips, reads_rows
from ..bf16x3.micro_kernel import Bf16x3MicroKernel
from ..bf16x3.split_rows import split_function
from ..epilogue import finish_function
from ..f16_micro_kernel import F16MicroKernel
from ..gemv import dot_function
from ..int8_amx.micro_kernel import Int8AmxMicroKernel
from ..int8_micro_kernel import accumulate_int8
from ..micro_kernel import MicroKernel, VectorMicroKernel, WideningMicroKernel
from ..packing.dequant import Dequantizer, walked_type
from ..packing.dequant_panels import accumulate_cells, right_function
from ..packing.panels import in_blocks, pack_a_function
from ..packing.quantize_rows import quantize_function, reads_source
from ..schedule import (
    AmxSchedule,
    Bf16x3Schedule,
    DequantSchedule,
    F16Schedule,
    F32AmxSchedule,
    Int8AmxSchedule,
    Int8Schedule,
    WideningSchedule,
)
from ..zero_point_terms import Terms
from .block_loops import TileLoops
from .loop_state import LoopState
from .m_partition import RowTiles
from .work_partition import Bounds, split_work


def make_micro_kernel(loops: LoopState, finish: Function | None) -> MicroKernel:
    """The micro-kernel of the schedule's class. finish: the epilogue of sums in a buffer."""
    schedule = loops.g.schedule
    if isinstance(schedule, F32AmxSchedule):
        assert finish is not None
        return F32AmxMicroKernel(loops, schedule, finish)
    if isinstance(schedule, AmxSchedule):
        assert finish is not None
        return AmxMicroKernel(loops, schedule, finish)
    if isinstance(schedule, Int8AmxSchedule):
        assert finish is not None
        return Int8AmxMicroKernel(loops, schedule, finish)
    if isinstance(schedule, Bf16x3Schedule):
        assert finish is not None
        return Bf16x3MicroKernel(loops, schedule, finish)
    if isinstance(schedule, WideningSchedule):
        return WideningMicroKernel(loops, finish)
    if isinstance(schedule, F16Schedule):
        return F16MicroKernel(loops.g, finish)
    if isinstance(schedule, DequantSchedule):
        return VectorMicroKernel(loops.g, finish, accumulate_cells)
    if isinstance(schedule, Int8Schedule):
        return VectorMicroKernel(loops.g, finish, accumulate_int8)
    return VectorMicroKernel(loops.g, finish)


class GemmLoops(LoopState):
    """Writes the body of one kernel."""

    # -- one matrix after the other -----------------------------------------------------------

    def matrix(self, index: Value) -> tuple[Value, Value]:
        """Addresses of A and B of a matrix of the batch; the frame gets those of the others."""
        f, g = self.f, self.g
        offsets = [integer(0)] * len(self.pointers)
        left = index
        for axis in reversed(range(len(self.space.axes))):
            if axis == 0:
                here = left
            else:
                size = self.size(self.space.axes[axis])
                here, left = f.urem(left, size), f.udiv(left, size)
            offsets = [
                f.add(at, f.mul(here, self.size(s[axis])))
                for at, s in zip(offsets, self.space.strides, strict=True)
            ]
        addresses = [
            f.at(p, at, walked_type(o))
            for p, at, o in zip(self.pointers, offsets, g.spec.operands(), strict=True)
        ]
        for i, address in zip(g.slots, addresses[2:], strict=True):
            g.set_base(f, self.frame, i, address)
        return addresses[0], addresses[1]

    # -- N = 1 --------------------------------------------------------------------------------

    def column(self, rows: int) -> None:
        """Matrix times vector, `rows` rows at a time: workers share the rows of all matrices."""
        f, g = self.f, self.g
        groups = f.ceil_div(self.m, rows)
        total = f.mul(self.product(self.space.axes), groups)
        lo, hi = share(f, total, self.entry.worker, self.entry.workers)
        dot = dot_function(g, rows)
        with f.range(lo, hi, outer=True) as unit:
            a, b = self.matrix(f.udiv(unit, groups))
            m = f.mul(f.urem(unit, groups), rows)
            at = f.at(a, f.mul(m, self.size(g.spec.a.strides[-2])), ELEMENT[g.spec.a.dtype.value])
            count = f.smin(f.sub(self.m, m), rows)
            f.call_function(dot, self.frame, at, b, m, count, self.k)

    # -- tiles --------------------------------------------------------------------------------

    def tiles(self) -> None:
        f, g, t = self.f, self.g, self.g.schedule
        self.cut = RowTiles(f, t, g.spec.m, self.m)
        count = self.cut.count
        panels = f.ceil_div(self.n, t.nr)
        a_scratch = self.reserve(t.mc * t.strip if t.pack_a != "no" else 0)
        b_scratch = self.reserve(t.nc * t.kc * t.nr if t.pack_b else 0)
        # One tile's sums, or, if they wait between blocks of K, those of a whole block.
        slots = t.panels * (t.mc * t.nc if t.blocked else 1)
        buffer = self.reserve(slots * t.mr * t.nr if t.buffered else 0)
        terms = Terms(self) if g.corrections else None
        int8 = t if isinstance(t, Int8Schedule | Int8AmxSchedule) else None
        quantize = quantize_function(g) if int8 else None
        split: Function | F32Strips | None = None
        if isinstance(t, F32AmxSchedule):
            split, in_memory = F32Strips(g, t), reads_rows(g.spec)
        elif isinstance(t, Bf16x3Schedule):
            split, in_memory = split_function(g), reads_source(g.spec)
        else:
            in_memory = quantize is not None and reads_source(g.spec)
        copies = t.pack_a != "no" and not in_memory
        pack_a = pack_a_function(g) if copies else None
        unsplit = self.reserve(t.mr * t.a_row) if split and pack_a else a_scratch
        pack_b = right_function(g) if t.pack_b else None
        finish = None
        if t.buffered:
            corrects = bool(g.corrections)
            finish = finish_function(g, t.lanes, t.width, corrects=corrects, shares=True)
            g.set_row_strides(f, self.frame)
        micro = make_micro_kernel(self, finish)
        counts = (self.product(self.space.axes), count, panels)
        work = split_work(f, counts, self.entry, t.rows_of_work, t.panel_work, t.strip_work)
        micro.configure(self)
        blocks = f.smax(f.ceil_div(self.steps, t.kc), 1) if t.blocked else integer(1)
        with f.range(*work.batch, outer=True) as index:
            a, b = self.matrix(index)
            # How many tiles in front are read where they lie, if any are.
            full = self.cut.full if t.guarded else count
            self.tiles_in_place = micro.tiles_in_place(self, a, full)
            with self.chunks(work.panels, t.nc, panels) as js:
                if pack_b and not t.blocked:
                    self.pack_b(pack_b, b, b_scratch, js, integer(0), self.steps)
                    if terms:
                        terms.sum_columns(b_scratch, js, self.steps, integer(1, I1))
                with (
                    self.chunks(work.tiles, t.mc, count) as ts,
                    f.range(0, blocks, outer=True) as block,
                ):
                    first = f.icmp("eq", block, 0)
                    last = f.icmp("eq", f.add(block, 1), blocks)
                    k0 = f.mul(block, t.kc)
                    depth = f.smin(f.sub(self.steps, k0), t.kc) if t.blocked else self.steps
                    if pack_b and t.blocked:
                        self.pack_b(pack_b, b, b_scratch, js, k0, depth)
                        if terms:
                            terms.sum_columns(b_scratch, js, depth, first)
                    if split:
                        self.split_a(split, pack_a, a, unsplit, a_scratch, ts, k0, depth)
                    elif pack_a:
                        copied = (f.smax(self.tiles_in_place, ts[0]), ts[1]) if t.in_place else ts
                        self.pack_a(pack_a, a, a_scratch, copied, k0, depth)
                    if quantize:
                        self.quantize_a(quantize, a, a_scratch, ts, copied=copies)
                    strips = a_scratch if pack_a or quantize or split else a
                    if terms:
                        terms.sum_rows(a, strips, ts, k0, depth, first)
                    addresses = (a, strips, b_scratch if pack_b else b, buffer)
                    along = (k0, depth, first, last)
                    TileLoops(self, micro, ts, js, *addresses, *along, terms).run()
        micro.release(self)

    @contextmanager
    def chunks(self, bounds: Bounds, step: int, total: Value) -> Iterator[Bounds]:
        """[lo, hi) in pieces of `step`; one piece, without a loop, where `total` is no more."""
        f, (lo, hi) = self.f, bounds
        if total.known is not None and total.known <= step:
            yield lo, hi
            return
        with f.range(lo, hi, step, outer=True) as at:
            yield at, f.smin(f.add(at, step), hi)

    def pack_a(
        self, pack: Function, a: Value, to: Value, ts: Bounds, k0: Value, depth: Value
    ) -> None:
        """Copy the strips of A of some tiles, from step k0 on."""
        f, g, t = self.f, self.g, self.g.schedule
        k0, depth = self.values(k0, depth)
        with f.range(*ts, outer=True) as tile:
            address = f.at(to, f.mul(f.urem(tile, t.mc), t.strip), g.acc)
            self.pack_tile(pack, a, address, tile, k0, depth)

    def pack_tile(
        self, pack: Function, a: Value, to: Value, tile: Value, k0: Value, depth: Value
    ) -> None:
        """Copy the strip of A of one tile, from value k0 on."""
        f, g = self.f, self.g
        m, rows = self.cut.start(tile), self.cut.rows(tile)
        source, begin = a, [m, k0]
        if not in_blocks(g.spec):
            row, step = (self.size(s) for s in g.spec.a.strides[-2:])
            at = f.add(f.mul(m, row), f.mul(k0, step))
            source, begin = f.at(a, at, ELEMENT[g.spec.a.dtype.value]), []
        f.call_function(pack, self.frame, source, to, rows, depth, *begin)

    def quantize_a(
        self, quantize: Function, a: Value, strips: Value, ts: Bounds, *, copied: bool
    ) -> None:
        """Quantize the rows of A of some tiles: `copied` ones in their strips, others from memory.
        Strips need not follow one another: a worker's first tile may be any, and a strip is where
        its number modulo MC says."""
        f, g, t = self.f, self.g, self.g.schedule
        with f.range(*ts, outer=True) as tile:
            strip = f.at(strips, f.mul(f.urem(tile, t.mc), t.strip), g.acc)
            source, apart = strip, integer(t.a_row)
            if not copied:
                apart = self.size(g.spec.a.strides[-2])
                source = f.at(a, f.mul(self.cut.start(tile), apart), g.acc)
            f.call_function(quantize, source, f.mul(apart, g.bytes), strip, self.cut.rows(tile))

    def split_a(
        self,
        split: Function | F32Strips,
        pack: Function | None,
        a: Value,
        copy: Value,
        strips: Value,
        ts: Bounds,
        k0: Value,
        depth: Value,
    ) -> None:
        """Split the rows of A of some tiles into parts, from value k0 on. pack: what copies a
        tile's rows to `copy` first; None: they are read from memory."""
        f, g, t = self.f, self.g, self.g.schedule
        with f.range(*ts, outer=True) as tile:
            strip = f.at(strips, f.mul(f.urem(tile, t.mc), t.strip), g.acc)
            if pack is not None:
                self.pack_tile(pack, a, copy, tile, k0, depth)
                source, apart = copy, integer(t.a_row)
            else:
                apart = self.size(g.spec.a.strides[-2])
                source = f.at(a, f.add(f.mul(self.cut.start(tile), apart), k0), g.acc)
            sizes = [self.cut.rows(tile), depth]
            if isinstance(split, Function):
                f.call_function(split, source, f.mul(apart, g.bytes), strip, *sizes)
            elif g.windows is None:
                split.split_rows(f, source, f.mul(apart, g.bytes), strip, *sizes)
            else:
                split.split_windows(f, a, (self.cut.start(tile), k0), strip, *sizes)

    def pack_b(
        self, pack: Function, b: Value, to: Value, js: Bounds, k0: Value, depth: Value
    ) -> None:
        """Copy some panels of B, or expand them, from step k0 on."""
        f, g, t = self.f, self.g, self.g.schedule
        k0, depth = self.values(k0, depth)
        row, column = (self.size(s) for s in g.spec.b.strides[-2:])
        with f.range(*js, outer=True) as j:
            n = f.mul(j, t.nr)
            address = f.at(to, f.mul(f.sub(j, js[0]), t.kc * t.nr), ELEMENT[g.b_cell.value])
            if g.spec.compressed:
                cells = f.offset(
                    b, f.mul(j, Dequantizer(g.spec, g.lanes, fused=g.target.fma).panel)
                )
                what = (cells, j, address, k0)
            else:
                at = f.at(b, f.add(f.mul(n, column), f.mul(k0, row)), ELEMENT[g.spec.b.dtype.value])
                what = (at, address, f.sub(self.n, n))
            f.call_function(pack, self.frame, *what, depth)
