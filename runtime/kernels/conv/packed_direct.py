"""Direct convolution of copied rows: the loops, where factors are not the data as it lies.

A unit is a block of output pixels of one image and group; its rows are copied (row_packing.py) once
for a group of panels of weights. In a copy the paddings are zeros, so that all tiles can be alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ....ir.dtype import DType
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import Module
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.kernel_entry import open_kernel, open_shared_body, share, write_entry
from ...llvmir.values import ELEMENT, I16, I64, Value, integer
from ..emit.amx_registers import load_configuration, release
from ..emit.contract import Kernel
from ..emit.x86_multiply_add_loop import cell_instruction
from ..gemm.tiling import tile_rows
from . import amx
from .addressing import ConvContext, buffers_of, taps_inside, widths
from .amx_geometry import MAX_TILE_PLACES
from .assembly.row_copies import copy_function as rows_in_assembly
from .direct import DirectLoops
from .register_tile import Micro
from .row_packing import RowCopies, copy_function
from .schedule import AmxConvSchedule, CopiedRowsSchedule, PackedSchedule
from .tile_partition import Taps, cut_axis, find_conv_unit, three_axes
from .tile_walk import ConvTile, Factors

# Calls of tiles in loops that kernels share: each reads a dozen numbers from the record.
_MAX_SHARED_CALLS: Final = 2


def generate(
    spec: ConvSpec, target: Target, symbol: str, schedule: PackedSchedule | AmxConvSchedule
) -> Kernel:
    """The kernel of a direct convolution that copies its data."""
    module = Module(target)
    wide, cut, rows = three_axes(spec), schedule.cut, schedule.rows
    assembled = assembles_tiles(wide, target, schedule)
    shares = shares_code(schedule) and not assembled
    g = ConvContext.of(wide, target, module, cut.lanes, shares=shares)
    buffers, dims = buffers_of(spec), spec.runtime_dims
    if g.record is None:
        entry = open_kernel(module, symbol, buffers, dims, only_calls=True, optimized=not assembled)
    else:
        entry = open_shared_body(module, len(buffers), dims)
    if isinstance(schedule, PackedSchedule):
        micro = Micro(g, cut, factors(g, rows))
    else:
        micro = amx.TileMicro(g, cut, factors(g, rows), schedule.instruction, schedule.cells)
    Copied(g, micro, entry, schedule).run()
    if g.record is not None:
        write_entry(module, symbol, entry.function, g.record.store_in)
    if isinstance(schedule, PackedSchedule):
        return Kernel(symbol, module.text(), max(64, rows.bytes))
    # Registers of pixels are full, beyond the last one as well.
    reach = MAX_TILE_PLACES * wide.window.strides[2] * wide.channels * 4
    beyond = reach if schedule.flat else 0
    return Kernel(symbol, module.text(), max(64, rows.bytes + beyond))


def assembles_tiles(spec: ConvSpec, target: Target, schedule: CopiedRowsSchedule) -> bool:
    """Whether the sums of tiles are functions in assembly. An entry that LLVM does not optimize
    then takes less time than one that is shared."""
    unit = find_conv_unit(spec, target, schedule.cut.lanes)
    direct = isinstance(schedule, PackedSchedule) and not spec.packed.tails
    return direct and bool(cell_instruction(unit, target))


def shares_code(schedule: CopiedRowsSchedule) -> bool:
    """Whether the kernel's loops are likely to be those of other layers, too: short ones are."""
    if schedule.across is None:
        return False
    return len(schedule.across) * len(schedule.down or (0,)) <= _MAX_SHARED_CALLS


def factors(g: ConvContext, rows: RowCopies) -> Factors:
    """How tiles walk a copy. Its rows are taps' rows: a dilation of rows is not in it."""
    spec, w = g.spec, g.spec.window
    weight = rows.cell if rows.kr > 1 else ELEMENT[spec.weights.dtype.value]
    if rows.kr == 2 and spec.weights.dtype is DType.i8:
        weight = I16  # two bytes, widened as they are read
    column_step = w.strides[2] * spec.channels
    return Factors(
        rows.value_type,
        rows.cell,
        weight,
        rows.kr,
        (rows.pitch * rows.height, rows.pitch, w.dilations[2] * spec.channels),
        (0, w.strides[1] * rows.pitch, column_step),
        (rows.height * rows.tail_pitch, rows.tail_pitch, *tail_steps(g, rows))
        if rows.tails
        else None,
    )


def tail_steps(g: ConvContext, rows: RowCopies) -> tuple[int, int]:
    """Bytes from the cells of rows below each other to those of the next output row, and pixel."""
    w = g.spec.window
    return w.strides[1] * rows.tail_pitch, w.strides[2] * rows.kr


class Copied(DirectLoops):
    def __init__(
        self,
        g: ConvContext,
        micro: Micro,
        entry: Entry,
        schedule: CopiedRowsSchedule,
    ) -> None:
        super().__init__(g, micro, entry)
        rows, tall, flat = schedule.rows, schedule.tall, schedule.flat
        self.copies, self.tall, self.flat = rows, tall, flat
        self.across, self.down = schedule.across, schedule.down
        self.tiled = isinstance(micro, amx.TileMicro)
        self.furthest, self.configured = self.f.var(I64, -1), self.f.var(I64, -1)
        self.passes = flat.passes if flat else 1
        if isinstance(micro, amx.TileMicro) and self.across is not None:
            across = sum(run.count for run in self.across)
            micro.share_fetching(across * -(-rows.down // tall) * self.passes)

    def prepare(self, tile: ConvTile) -> None:
        """Configure the registers where a tile needs another shape than the last one."""
        f, micro = self.f, self.micro
        if isinstance(micro, amx.TileMicro):
            table, number = micro.configuration(tile)
            with f.if_(f.icmp("ne", self.configured.get(), number)):
                self.configured.set(integer(number))
                load_configuration(f, self.g.address(f, table))

    def run(self) -> None:
        f, spec, cut, rows = self.f, self.spec, self.cut, self.copies
        if any(s == 0 for s in (spec.batch, spec.groups, spec.outputs, *spec.out_sizes)):
            f.ret(0)
            return
        copy = rows_in_assembly(self.g, rows) or copy_function(self.g, rows)
        down, across = self.blocks(1, rows.down, "blocks"), self.blocks(2, rows.across, "pieces")
        images = f.mul(self.size(spec.batch, "batch"), self.size(spec.groups, "groups"))
        units = f.mul(f.mul(f.mul(images, self.out[0]), down), across)
        panels = self.number("panels", cut.panels)
        lo, hi = share(f, f.mul(units, panels), self.entry.worker, self.entry.workers)
        held = f.var(I64, -1)
        with f.range(lo, hi, outer=True) as task:
            unit, panel = self.unit_of(task, units)
            piece, rest = f.urem(unit, across), f.udiv(unit, across)
            block, rest = f.urem(rest, down), f.udiv(rest, down)
            depth, image = f.urem(rest, self.out[0]), f.udiv(rest, self.out[0])
            groups = self.size(spec.groups, "groups")
            batch, group = f.udiv(image, groups), f.urem(image, groups)
            row = f.mul(block, self.number("down", rows.down))
            column = f.mul(piece, self.number("across", rows.across))
            with f.if_(f.icmp("ne", unit, held.get())):
                held.set(unit)
                first = self.group_address(batch, group)
                strides = [self.number(f"step{i}", s) for i, s in enumerate(spec.window.strides)]
                starts = [
                    f.sub(f.mul(position, stride), pad)
                    for position, stride, pad in zip(
                        (depth, row, column), strides, self.pads, strict=True
                    )
                ]
                self.g.call(f, copy, self.frame, first, self.entry.scratch, *starts)
            self.fetch(group, panel, self.panel_after(task, hi, units), self.tiles_in(row))
            self.serve((batch, group, depth, row, column), panel)
        if self.tiled:
            release(f)
        f.ret(0)

    def blocks(self, axis: int, each: int, name: str) -> Value:
        """How many blocks of output pixels an axis has."""
        size = self.spec.out_sizes[axis]
        if isinstance(size, int):
            return self.size(-(-size // each), name)
        return self.f.ceil_div(self.out[axis], self.number(f"{name}.each", each))

    def serve(self, position: tuple[Value, ...], panel: Value) -> None:
        """All tiles of a block and one panel."""
        for n in widths(self.f, panel, self.spec.outputs, self.cut.nr):
            self.block(position, panel, n)

    def panel_after(self, task: Value, end: Value, units: Value) -> Value:
        """The next task's panel; this one's at the end."""
        f = self.f
        return self.unit_of(f.smin(f.add(task, 1), f.sub(end, 1)), units)[1]

    def fetch(self, group: Value, panel: Value, following: Value, tiles: Value) -> None:
        """Let `tiles` tiles of `panel` fetch the panel that follows from afar, if it is a new one
        (panels of a group are in L2 once they have been read)."""
        f = self.f
        furthest = f.smax(self.furthest.get(), panel)
        self.furthest.set(furthest)
        weights, _ = self.panel_of(group, following)
        row = self.cut.nr * self.spec.packed.kr * self.spec.weights.dtype.bits // 8
        new = f.icmp("sgt", following, furthest)
        self.pace.set(f.select(new, f.udiv(row, tiles), 0))
        self.soon.set(weights)

    def tiles_in(self, row: Value) -> Value:
        """About how many passes over a panel the block at `row` takes."""
        f, rows = self.f, self.copies
        across = -(-rows.across // self.cut.most)
        if self.across is not None:
            across = sum(run.count for run in self.across)
        high = f.smin(f.sub(self.out[1], row), self.number("down", rows.down))
        tiles = self.number("tiles", across * self.passes)
        return f.mul(f.ceil_div(high, self.tall), tiles)

    def block(self, position: tuple[Value, ...], panel: Value, channels: int) -> None:
        """All tiles of a block and one panel of so many channels."""
        f, rows, tall = self.f, self.copies, self.tall
        batch, group, depth, row, column = position
        weights, channel = self.panel_of(group, panel)
        high = f.smin(f.sub(self.out[1], row), self.number("down", rows.down))
        assert self.micro.factors is not None
        steps = self.micro.factors.pixel_strides
        w = self.spec.window
        kernel = [self.number(f"kernel{i}", k) for i, k in enumerate(w.kernel)]
        taps = [x for k in kernel for x in (integer(0), k)]
        skips = any(run.taps for run in self.across or ())

        def emit_row(r: Value, height: int, row_taps: Taps = None) -> None:
            here = taps
            if height == 1 and skips:
                start = f.sub(f.mul(f.add(row, r), w.strides[1]), self.pads[1])
                inside = taps_inside(f, start, self.data[1], w.kernel[1], w.dilations[1])
                here = [*taps[:2], *inside, *taps[4:]]
            for n, piece in enumerate(self.pieces(column, channels)):
                size, count, first, column_taps = piece
                met = row_taps if height > 1 else None
                apart = self.flat.apart if self.flat else 0
                tile = ConvTile(height, size, met, column_taps, channels, apart=apart)
                with f.range(0, count, outer=True) as i:
                    at = f.add(f.mul(i, self.number(f"piece{n}.{channels}", size)), first)
                    tile_position = (batch, channel, depth, f.add(row, r), f.add(column, at))
                    down, right = (self.number(f"pixel{n}", steps[n]) for n in (1, 2))
                    offset = f.add(f.mul(r, down), f.mul(at, right))
                    data = f.at(self.entry.scratch, offset, rows.value_type)
                    ends = ()
                    if rows.tails:
                        down, right = tail_steps(self.g, rows)
                        offset = f.add(f.mul(r, down), f.mul(at, right))
                        last = (w.kernel[2] - 1) * rows.kr + rows.tails_at
                        ends = (f.offset(self.entry.scratch, f.add(offset, last)),)
                    self.tile(tile, data, weights, tile_position, (*here, *ends))

        if self.down is not None:
            for n, run in enumerate(self.down):
                with f.range(0, self.number(f"rows{n}.count", run.count), outer=True) as i:
                    first = self.number(f"rows{n}.start", run.start)
                    emit_row(f.add(f.mul(i, run.size), first), run.size, run.taps)
            return
        full = f.udiv(high, tall)
        with f.range(0, full, outer=True) as i:
            emit_row(f.mul(i, tall), tall)
        height = self.spec.out_sizes[1]
        if tall > 1 and isinstance(height, int) and height % tall:
            with f.if_(f.icmp("sgt", high, f.mul(full, tall))):
                emit_row(f.mul(full, tall), height % tall)

    def pieces(self, column: Value, channels: int) -> Iterator[tuple[int, Value, Value, Taps]]:
        """(size, count, first, taps) of the tiles of a block's row that begins at `column`. In a
        last panel of fewer vectors tiles are longer, and ends do not pay for code of their own."""
        f, rows = self.f, self.copies
        if self.across is not None:
            runs, wide, vectors = self.across, rows.across, -(-channels // self.cut.lanes)
            if vectors < self.cut.vectors and not self.tiled:
                most = tile_rows(self.g.target, vectors)
                runs = cut_axis(wide, wide, 1, 1, 1, 0, most)
            for n, run in enumerate(runs):
                key = f"piece{n}.{channels}"
                count = self.number(f"{key}.count", run.count)
                yield run.size, count, self.size(run.start, f"{key}.start"), run.taps
            return
        left = f.smin(f.sub(self.out[2], column), self.number("across", rows.across))
        first, size = integer(0), min(self.cut.most, rows.across)
        while size:
            count = f.udiv(f.sub(left, first), size)
            yield size, count, first, None
            first = f.add(first, f.mul(count, size))
            size = max(1, size * 5 // 12) if size > 1 else 0
