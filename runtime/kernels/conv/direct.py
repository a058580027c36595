"""Direct convolution: the loops around the register tile, and how workers share them.

A unit is one tile of output rows of one image and group, or a segment of it where rows are few and
long. Units times panels of weights are one list of tasks, group of panels by group
(tile_partition.py), of which each worker takes a contiguous part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.lazy_dataclass import dataclass
from ....plan.packing.layouts import PackedLayout
from ....plan.specs.base import Size
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.kernel_entry import open_kernel, share
from ...llvmir.values import ELEMENT, I64, PTR, Value, integer
from ..emit.contract import Kernel
from .addressing import ConvContext, buffers_of, places_inside, taps_inside, widths
from .register_tile import Micro
from .schedule import DirectSchedule
from .tile_partition import Run, three_axes
from .tile_walk import ConvTile


def generate(spec: ConvSpec, target: Target, symbol: str, schedule: DirectSchedule) -> Kernel:
    """The kernel of a direct convolution."""
    module = Module(target)
    wide, cut = three_axes(spec), schedule.cut
    g = ConvContext.of(wide, target, module, cut.lanes)
    entry = open_kernel(
        module, symbol, buffers_of(spec), spec.runtime_dims, only_calls=True, optimized=False
    )
    DirectLoops(g, Micro(g, cut), entry).run()
    return Kernel(symbol, module.text())


@dataclass(frozen=True)
class _OutputRow:
    """The position of a unit: segment, image, group, first pixel of its rows; its data and its
    taps."""

    segment: Value
    batch: Value
    group: Value
    depth: Value
    row: Value
    data: Value
    d: tuple[Value, Value]
    h: tuple[Value, Value]


class DirectLoops:
    """Writes the body of one kernel."""

    def __init__(self, g: ConvContext, micro: Micro, entry: Entry) -> None:
        self.g, self.micro, self.cut, self.entry = g, micro, micro.cut, entry
        self.f, self.spec = entry.function, g.spec
        f = self.f
        size = max(8, g.frame_bytes)
        self.frame = f.stack(size) if g.record is None else g.record.open_frame(f, size)
        for i, d in enumerate(entry.dims):
            g.set_dim(f, self.frame, i, d)
        spec = self.spec
        self.out = [self.size(s, f"out{i}") for i, s in enumerate(spec.out_sizes)]
        self.data = [self.size(s, f"data{i}") for i, s in enumerate(spec.in_sizes)]
        # Windows with and without paddings have the same text, but for axes that all kernels lack.
        self.pads = [
            self.number(f"pad{i}", s)
            if isinstance(s, int) and spec.in_sizes[i] != 1
            else self.size(s, f"pad{i}")
            for i, s in enumerate(spec.window.pads)
        ]
        self.pointers = [
            f.at(p, self.size(o.offset, f"offset{i}"), ELEMENT[o.dtype.value])
            for i, (p, o) in enumerate(zip(entry.buffers, spec.operands(), strict=True))
        ]
        for zero in self.pointers[2 : 2 + len(g.zeros)]:
            g.set_base(f, self.frame, len(g.walked_operands), zero)
            self.pointers.remove(zero)
        if g.record is None:
            g.set_strides(f, self.frame)
        # What the next tile fetches ahead; passes of a tile over its panel.
        self.passes = 1
        self.soon, self.pace = f.var(PTR, self.pointers[1]), f.var(I64, 0)

    def size(self, size: Size, name: str) -> Value:
        """A size or a stride; zero and one are in the text."""
        if not isinstance(size, int):
            return self.entry.dims[size.index]
        return integer(size) if size in (0, 1) else self.number(name, size)

    def number(self, name: str, x: int) -> Value:
        """A number of the layer."""
        return self.g.number(self.f, f"loops.{name}", x)

    def run(self) -> None:
        f, spec, cut = self.f, self.spec, self.cut
        if any(s == 0 for s in (spec.batch, spec.groups, spec.outputs, *spec.out_sizes)):
            f.ret(0)
            return
        row_tiles = self.out[1] if cut.rows is None else integer(sum(r.count for r in cut.rows))
        images = f.mul(self.size(spec.batch, "batch"), spec.groups)
        units = f.mul(f.mul(f.mul(images, self.out[0]), row_tiles), cut.segments)
        lo, hi = share(f, f.mul(units, cut.panels), self.entry.worker, self.entry.workers)
        with f.range(lo, hi, outer=True) as task:
            unit, panel = self.unit_of(task, units)
            segment, rest = f.urem(unit, cut.segments), f.udiv(unit, cut.segments)
            tile, rest = f.urem(rest, row_tiles), f.udiv(rest, row_tiles)
            depth, image = f.urem(rest, self.out[0]), f.udiv(rest, self.out[0])
            batch, group = f.udiv(image, spec.groups), f.urem(image, spec.groups)
            position = segment, batch, group, depth
            self.rows(tile, lambda run, row: self.unit(*position, row, run, panel))
        f.ret(0)

    def unit_of(self, task: Value, units: Value) -> tuple[Value, Value]:
        """Unit and panel of a task: all units take a group of panels before the next group."""
        f, cut = self.f, self.cut
        group, panels = self.number("group", cut.group), self.number("panels", cut.panels)
        full = f.mul(units, group)
        first = f.mul(f.udiv(task, full), group)
        inside, wide = f.urem(task, full), f.smin(f.sub(panels, first), group)
        return f.udiv(inside, wide), f.add(first, f.urem(inside, wide))

    def group_address(self, batch: Value, group: Value) -> Value:
        """The address of the first value that a group sees of an image."""
        f, spec = self.f, self.spec
        strides = [self.size(s, f"stride{i}") for i, s in enumerate(spec.data.strides[:2])]
        channels = self.number("channels", spec.channels)
        at = f.add(f.mul(batch, strides[0]), f.mul(f.mul(group, channels), strides[1]))
        return f.at(self.pointers[0], at, ELEMENT[spec.data.dtype.value])

    def panel_of(self, group: Value, panel: Value) -> tuple[Value, Value]:
        """A panel's weights, and its first channel."""
        f, spec, nr = self.f, self.spec, self.cut.nr
        _, k, n = spec.matrices
        packed = PackedLayout.of(spec.packed, k, n)
        size, panel_size = (
            self.number("packed", packed.size),
            self.number("size", packed.panel_size),
        )
        at = f.add(f.mul(group, size), f.mul(panel, panel_size))
        weights = f.at(self.pointers[1], at, ELEMENT[spec.weights.dtype.value])
        outputs = self.number("outputs", spec.outputs)
        return weights, f.add(f.mul(group, outputs), f.mul(panel, nr))

    def rows(self, tile: Value, visit: Callable[[Run | None, Value], None]) -> None:
        """The run that a tile of rows belongs to, and its first row."""
        f, runs = self.f, self.cut.rows
        if runs is None:
            visit(None, tile)
            return
        first = 0
        for run in runs:
            # Tiles of one run alone need no test.
            inside = f.icmp("ult", f.sub(tile, first), run.count) if len(runs) > 1 else True
            with f.if_(inside):
                visit(run, f.add(f.mul(f.sub(tile, first), run.size), run.start))
            first += run.count

    def unit(
        self,
        segment: Value,
        batch: Value,
        group: Value,
        depth: Value,
        row: Value,
        run: Run | None,
        panel: Value,
    ) -> None:
        f, spec, w = self.f, self.spec, self.spec.window
        strides = [self.size(s, f"stride{i}") for i, s in enumerate(spec.data.strides)]
        at, starts = integer(0), list[Value]()
        for axis, position in enumerate((depth, row, integer(0))):
            start = f.sub(f.mul(position, w.strides[axis]), self.pads[axis])
            at = f.add(at, f.mul(start, strides[2 + axis]))
            starts.append(start)
        d = taps_inside(f, starts[0], self.data[0], w.kernel[0], w.dilations[0])
        h = integer(0), integer(w.kernel[1])
        if run is None or run.size == 1:
            h = taps_inside(f, starts[1], self.data[1], w.kernel[1], w.dilations[1])
        data = f.at(self.group_address(batch, group), at, ELEMENT[spec.data.dtype.value])
        here = _OutputRow(segment, batch, group, depth, row, data, d, h)
        for channels in widths(self.f, panel, self.spec.outputs, self.cut.nr):
            self.columns(here, run, panel, channels)

    def columns(self, here: _OutputRow, run: Run | None, panel: Value, channels: int) -> None:
        """All tiles of a unit and one panel."""
        f, cut = self.f, self.cut
        weights, channel = self.panel_of(here.group, panel)
        # A single row takes its taps at run time.
        alone = run is None or run.size == 1
        rows, taps = (1, None) if run is None or alone else (run.size, run.taps)

        def call(tile: ConvTile, column: Value, w: tuple[Value, Value] | None = None) -> None:
            self.call(here, tile, column, weights, channel, w)

        if cut.columns is not None:
            for c in cut.columns:
                tile = ConvTile(rows, c.size, taps, c.taps, channels)
                with f.range(*self.tiles_of(here.segment, c.count), outer=True) as i:
                    call(tile, f.add(f.mul(i, c.size), c.start))
            return
        self.loose_columns(here.segment, channels, call)

    def tiles_of(self, segment: Value, count: Value | int) -> tuple[Value | int, Value | int]:
        """The first of a segment's tiles, and the first behind them."""
        f, segments = self.f, self.cut.segments
        if segments == 1:
            return 0, count
        return (
            f.udiv(f.mul(segment, count), segments),
            f.udiv(f.mul(f.add(segment, 1), count), segments),
        )

    def loose_columns(self, segment: Value, channels: int, call: Callable[..., None]) -> None:
        """A row whose length is read at run time: edges pixel by pixel, between them tiles."""
        f, w, out = self.f, self.spec.window, self.out[2]
        reach = (w.kernel[2] - 1) * w.dilations[2]
        lo, hi = places_inside(f, out, self.data[2], self.pads[2], reach, w.strides[2])

        def edge(begin: Value, count: Value) -> None:
            first, last = self.tiles_of(segment, count)
            with f.range(f.add(begin, first), f.add(begin, last), outer=True) as q:
                start = f.sub(f.mul(q, w.strides[2]), self.pads[2])
                taps = taps_inside(f, start, self.data[2], w.kernel[2], w.dilations[2])
                call(ConvTile(1, 1, None, None, channels, ragged=True), q, taps)

        edge(integer(0), lo)
        begin, width = lo, self.cut.most
        while width:
            count = f.udiv(f.sub(hi, begin), width)
            tile = ConvTile(1, width, None, None, channels)
            with f.range(*self.tiles_of(segment, count), outer=True) as i:
                call(tile, f.add(begin, f.mul(i, width)))
            begin = f.add(begin, f.mul(count, width))
            width = max(1, width * 5 // 12) if width > 1 else 0
        edge(hi, f.sub(out, hi))

    def call(
        self,
        here: _OutputRow,
        tile: ConvTile,
        column: Value,
        weights: Value,
        channel: Value,
        w: tuple[Value, Value] | None,
    ) -> None:
        f, spec = self.f, self.spec
        step = f.mul(self.size(spec.data.strides[4], "stride4"), spec.window.strides[2])
        data = f.at(here.data, f.mul(column, step), ELEMENT[spec.data.dtype.value])
        across = w if w is not None else (integer(0), integer(spec.window.kernel[2]))
        position = (here.batch, channel, here.depth, here.row, column)
        self.tile(tile, data, weights, position, (*here.d, *here.h, *across))

    def prepare(self, tile: ConvTile) -> None:
        """The code before the call of a tile."""

    def tile(
        self,
        tile: ConvTile,
        data: Value,
        weights: Value,
        position: Sequence[Value],
        taps: Sequence[Value],
    ) -> None:
        """Compute a tile whose first pixel and channel are at `position`."""
        f, g = self.f, self.g
        for i, (pointer, o) in enumerate(zip(self.pointers[2:], g.walked_operands, strict=True)):
            at = integer(0)
            for axis, (index, stride) in enumerate(zip(position, o.strides, strict=True)):
                at = f.add(at, f.mul(index, self.size(stride, f"operand{i}.{axis}")))
            g.set_base(f, self.frame, i, f.at(pointer, at, ELEMENT[o.dtype.value]))
        self.prepare(tile)
        soon, pace = self.soon.get(), self.pace.get()
        self.micro.compute(f, self.frame, tile, (data, weights, *taps, soon, pace))
        steps = self.spec.matrices[1] // self.spec.packed.kr
        steps = self.number("steps", steps * self.passes)
        self.soon.set(f.offset(soon, f.mul(pace, steps)))
