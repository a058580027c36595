"""Depthwise convolution: every channel has filters of its own, so vectors lie along channels.

A task is one output row of one image and one vector of channels; the row is cut into tiles whose
sums stay in registers. What neighbouring pixels read in common is loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ....plan.specs.base import Size
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import AssemblyFunction, Function, Module, StackVariable
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.kernel_entry import open_kernel, share
from ...llvmir.values import ELEMENT, I64, Value, integer, vec
from ..emit.contract import Kernel
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import TailMask
from .addressing import (
    ConvContext,
    ConvEpilogue,
    TilePosition,
    buffers_of,
    places_inside,
    taps_inside,
    widths,
)
from .assembly.depthwise import write_sums, write_tile
from .depthwise_cells import multiply_cells
from .schedule import DepthwiseSchedule
from .tile_partition import known_axis, pair_pixels_with_taps, taps_outside, three_axes
from .tile_walk import ConvTile


def generate(spec: ConvSpec, target: Target, symbol: str, schedule: DepthwiseSchedule) -> Kernel:
    """The kernel of a depthwise convolution whose data has a channel stride of 1."""
    module = Module(target)
    wide = three_axes(spec)
    g = ConvContext.of(wide, target, module, schedule.lanes)
    entry = open_kernel(module, symbol, buffers_of(spec), spec.runtime_dims, only_calls=True)
    _DepthwiseLoops(g, entry, schedule).run()
    return Kernel(symbol, module.text())


class _DepthwiseLoops:
    def __init__(self, g: ConvContext, entry: Entry, schedule: DepthwiseSchedule) -> None:
        self.g, self.entry, self.f, self.spec = g, entry, entry.function, g.spec
        self.schedule = schedule
        f, spec = self.f, g.spec
        self.frame = f.stack(max(8, g.frame_bytes))
        for i, d in enumerate(entry.dims):
            g.set_dim(f, self.frame, i, d)
        self.out = [self.size(s) for s in spec.out_sizes]
        self.data = [self.size(s) for s in spec.in_sizes]
        self.pads = [self.size(s) for s in spec.window.pads]
        self.pointers = [
            f.at(p, self.size(o.offset), ELEMENT[o.dtype.value])
            for p, o in zip(entry.buffers, spec.operands(), strict=True)
        ]
        for zero in self.pointers[2 : 2 + len(g.zeros)]:
            g.set_base(f, self.frame, len(g.walked_operands), zero)
            self.pointers.remove(zero)
        g.set_strides(f, self.frame)
        self.most = schedule.columns
        self.tiles: dict[ConvTile, Function | AssemblyFunction] = {}
        # Of tiles in assembly whose epilogue LLVM compiles, once for all of them.
        self.sums: dict[ConvTile, AssemblyFunction] = {}
        self.epilogues: dict[int, Function] = {}
        self.buffer = f.stack(self.most * g.lanes * g.bytes)

    def size(self, size: Size) -> Value:
        return integer(size) if isinstance(size, int) else self.entry.dims[size.index]

    def run(self) -> None:
        f, g, spec, w = self.f, self.g, self.spec, self.spec.window
        if any(s == 0 for s in (spec.batch, spec.groups, *spec.out_sizes)):
            f.ret(0)
            return
        blocks = -(-spec.groups // g.lanes)
        rows = f.mul(f.mul(self.size(spec.batch), self.out[0]), self.out[1])
        lo, hi = share(f, f.mul(rows, blocks), self.entry.worker, self.entry.workers)
        strides = [self.size(s) for s in spec.data.strides]
        with f.range(lo, hi, outer=True) as task:
            unit, block = f.udiv(task, blocks), f.urem(task, blocks)
            row, rest = f.urem(unit, self.out[1]), f.udiv(unit, self.out[1])
            depth, batch = f.urem(rest, self.out[0]), f.udiv(rest, self.out[0])
            channel = f.mul(block, g.lanes)
            at = f.add(f.mul(batch, strides[0]), channel)
            taps: list[Value] = []
            for axis, position in enumerate((depth, row, integer(0))):
                start = f.sub(f.mul(position, w.strides[axis]), self.pads[axis])
                at = f.add(at, f.mul(start, strides[2 + axis]))
                if axis < 2:
                    taps += taps_inside(
                        f, start, self.data[axis], w.kernel[axis], w.dilations[axis]
                    )
            data = f.at(self.pointers[0], at, ELEMENT[spec.data.dtype.value])
            size = w.kernel[0] * w.kernel[1] * w.kernel[2] * g.lanes
            weights = f.at(self.pointers[1], f.mul(block, size), ELEMENT[spec.weights.dtype.value])
            position = (batch, channel, depth, row)
            for channels in widths(f, block, spec.groups, g.lanes):
                self.columns(data, weights, taps, position, channels)
        f.ret(0)

    def columns(
        self,
        data: Value,
        weights: Value,
        taps: Sequence[Value],
        position: tuple[Value, ...],
        channels: int,
    ) -> None:
        """The tiles of one row."""
        f, w, out = self.f, self.spec.window, self.out[2]
        known = known_axis(self.spec, 2, self.most)
        every = integer(0), integer(w.kernel[2])

        def call(tile: ConvTile, column: Value, across: tuple[Value, Value] = every) -> None:
            self.call(tile, data, weights, (*taps, *across), (*position, column))

        if known is not None:
            for run in known:
                tile = ConvTile(1, run.size, None, run.taps, channels)
                with f.range(0, run.count, outer=True) as i:
                    call(tile, f.add(f.mul(i, run.size), run.start))
            return
        reach = (w.kernel[2] - 1) * w.dilations[2]
        lo, hi = places_inside(f, out, self.data[2], self.pads[2], reach, w.strides[2])
        tile = ConvTile(1, self.most, None, None, channels)
        count = f.udiv(f.sub(hi, lo), self.most)
        with f.range(0, count, outer=True) as i:
            call(tile, f.add(lo, f.mul(i, self.most)))
        rest = f.add(lo, f.mul(count, self.most))
        for begin, end in ((integer(0), lo), (rest, out)):
            with f.range(begin, end, outer=True) as q:
                start = f.sub(f.mul(q, w.strides[2]), self.pads[2])
                across = taps_inside(f, start, self.data[2], w.kernel[2], w.dilations[2])
                call(ConvTile(1, 1, None, None, channels, ragged=True), q, across)

    def call(
        self,
        tile: ConvTile,
        data: Value,
        weights: Value,
        taps: tuple[Value, ...],
        position: tuple[Value, ...],
    ) -> None:
        f, g, spec = self.f, self.g, self.spec
        for i, (pointer, o) in enumerate(zip(self.pointers[2:], g.walked_operands, strict=True)):
            at = integer(0)
            for index, stride in zip(position, o.strides, strict=True):
                at = f.add(at, f.mul(index, self.size(stride)))
            g.set_base(f, self.frame, i, f.at(pointer, at, ELEMENT[o.dtype.value]))
        step = f.mul(self.size(spec.data.strides[4]), spec.window.strides[2])
        data = f.at(data, f.mul(position[-1], step), ELEMENT[spec.data.dtype.value])
        self.make(tile)
        arguments = (self.frame, data, weights, *taps)
        if tile in self.tiles:
            f.call_function(self.tiles[tile], *arguments)
            return
        f.call_function(self.sums[tile], *arguments, self.buffer)
        if tile.channels not in self.epilogues:
            self.epilogues[tile.channels] = epilogue_function(g, tile.channels)
        epilogue = self.epilogues[tile.channels]
        f.call_function(epilogue, self.frame, self.buffer, integer(tile.columns))

    def make(self, tile: ConvTile) -> None:
        """The tile's function, at its first use; without the epilogue where that is long."""
        if tile in self.tiles or tile in self.sums:
            return
        what = self.g, f"tile_{tile.columns}", _PARAMETERS, tile, self.schedule
        if self.schedule.cells and not tile.ragged:
            self.tiles[tile] = cells_function(self.g, tile, self.schedule)
            return
        made = write_tile(*what)
        if made is None and not self.schedule.inline_epilogue:
            sums = write_sums(*what)
            if sums is not None:
                self.sums[tile] = sums
                return
        self.tiles[tile] = made or tile_function(self.g, tile, self.schedule)


_PARAMETERS = [
    *[("ptr noalias", "frame"), ("ptr noalias readonly", "data")],
    ("ptr noalias readonly", "weights"),
    *[(I64, n) for n in ("d0", "d1", "h0", "h1", "w0", "w1")],
]


def epilogue_function(g: ConvContext, channels: int) -> Function:
    """finish(frame, buffer, columns): the epilogue of a tile's sums in a buffer."""
    f = g.module.function(
        g.module.unique("finish"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "buffer"), (I64, "columns")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    (tail,) = g.tails(f, channels)
    epilogue = ConvEpilogue(g, f, f.params["frame"], shares=True)
    epilogue.share([(0, tail)])
    _finish_buffer(g, f, epilogue, (f.params["buffer"], f.params["columns"]), tail)
    return f


def _finish_buffer(
    g: ConvContext,
    f: Function,
    epilogue: ConvEpilogue,
    sums: tuple[Value, Value],
    tail: TailMask | None,
) -> None:
    """The epilogue of the sums in a buffer; sums: its address, and how many they are."""
    (buffer, columns), align = sums, g.lanes * g.bytes
    with f.range(0, columns, unroll=1) as i:
        value = f.load(g.vector, f.offset(buffer, f.mul(i, align)), align)
        epilogue.finish(value, TilePosition(integer(0), i, 0, tail))


def tile_function(g: ConvContext, tile: ConvTile, schedule: DepthwiseSchedule) -> Function:
    """tile(frame, data, weights, d0, d1, h0, h1, w0, w1), as of a direct convolution, of one
    vector of channels."""
    spec, w = g.spec, g.spec.window
    f = g.module.function(
        g.module.unique(f"tile_{tile.columns}"),
        _PARAMETERS,
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, (tail,) = f.params, g.tails(f, tile.channels)
    element, weight = ELEMENT[spec.data.dtype.value], ELEMENT[spec.weights.dtype.value]
    spatial = [g.size(f, p["frame"], s) for s in spec.data.strides[2:]]
    across = [f.mul(s, d) for s, d in zip(spatial, w.dilations, strict=True)]
    sums = [f.var(g.vector, 0) for _ in range(tile.columns)]
    zero = f.splat(g.zero_number(f, p["frame"]), g.lanes) if g.zeros else integer(0)

    def load_weights(row: Value, kw: Value | int) -> Value:
        at = f.at(row, f.mul(kw, g.lanes), weight)
        return g.factor(f, f.load(vec(weight, g.lanes), at), spec.weights.dtype)

    def load_data(row: Value, offset: Value | int) -> Value:
        at = f.at(row, f.mul(offset, spatial[2]), element)
        x = g.factor(f, masked_load(f, vec(element, g.lanes), at, tail), spec.data.dtype)
        return f.sub(x, zero) if g.zeros else x

    def add(into: StackVariable, x: Value, y: Value) -> None:
        into.set(g.multiply_add(f, x, y, into.get()))

    def turns(data: Value, weights: Value, lo: Value | int, hi: Value | int) -> None:
        """Taps that all pixels meet, one by one."""
        with f.range(lo, hi, unroll=1) as kw:
            y = load_weights(weights, kw)
            for i, into in enumerate(sums):
                offset = f.add(f.mul(kw, w.dilations[2]), i * w.strides[2])
                add(into, load_data(data, offset), y)

    def accumulate_taps(data: Value, weights: Value, taps: Sequence[int]) -> None:
        filters = {kw: load_weights(weights, kw) for kw in taps}
        pairs = pair_pixels_with_taps(w, tile.column_taps, tile.columns, taps)
        for at, met in pairs.items():
            x = load_data(data, at)
            for i, kw in met:
                add(sums[i], x, filters[kw])

    def row(data: Value, weights: Value) -> None:
        if tile.ragged:
            turns(data, weights, p["w0"], p["w1"])
            return
        every = range(w.kernel[2])
        # Written out, the taps of long rows would be long code of spilled sums.
        if schedule.unrolls:
            accumulate_taps(data, weights, every)
            return
        full = [all(taps_outside(tile.column_taps, kw, tile.columns)) for kw in every]
        for met, some in groupby(every, full.__getitem__):
            taps = list(some)
            if met:
                turns(data, weights, taps[0], taps[-1] + 1)
            else:
                accumulate_taps(data, weights, taps)

    with f.range(p["d0"], p["d1"], unroll=1) as kd, f.range(p["h0"], p["h1"], unroll=1) as kh:
        at = f.add(f.mul(kd, across[0]), f.mul(kh, across[1]))
        taps = f.mul(f.add(f.mul(kd, w.kernel[1]), kh), w.kernel[2] * g.lanes)
        row(f.at(p["data"], at, element), f.at(p["weights"], taps, weight))
    _finish(g, f, tile, schedule, sums, tail)
    return f


def cells_function(g: ConvContext, tile: ConvTile, schedule: DepthwiseSchedule) -> Function:
    """The same function by products of cells."""
    f = g.module.function(
        g.module.unique(f"cells_{tile.columns}"),
        _PARAMETERS,
        attributes="nounwind noinline",
        linkage="internal",
    )
    (tail,) = g.tails(f, tile.channels)
    sums = [f.var(g.vector, 0) for _ in range(tile.columns)]
    multiply_cells(g, f, tile, sums, tail)
    _finish(g, f, tile, schedule, sums, tail)
    return f


def _finish(
    g: ConvContext,
    f: Function,
    tile: ConvTile,
    schedule: DepthwiseSchedule,
    sums: Sequence[StackVariable],
    tail: TailMask | None,
) -> None:
    """The epilogue of a tile's sums, for each of them or through a buffer."""
    epilogue = ConvEpilogue(g, f, f.params["frame"])
    if schedule.inline_epilogue:
        epilogue.finish_tile(
            [value.get() for value in sums],
            [TilePosition(integer(0), integer(i), 0, tail) for i in range(tile.columns)],
        )
        return
    epilogue.share([(0, tail)])
    align = g.lanes * g.bytes
    buffer = f.stack(tile.columns * align)
    for i, value in enumerate(sums):
        f.store(value.get(), f.offset(buffer, i * align), align)
    _finish_buffer(g, f, epilogue, (buffer, integer(tile.columns)), tail)
