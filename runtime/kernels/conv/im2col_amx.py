"""Convolution by im2col on AMX tiles, where a row of taps is not a multiple of a step of K.

Besides each tile of pixels lies a buffer with a row per pixel: all values that the pixel sees, in
the order of the packed weights, zeros where these are padded. A row is whole steps of cells. Cells
that do not fill the last step leave a gap of zeros in front of its own, and the step's weights
begin so much earlier: weights are multiplied by zeros then, and nothing behind a panel is read.

A row is written once for a few panels of weights, from rows that are copied as for the other
kernels (row_packing.py). Few channels and odd ones come here: first layers above all.
"""

from __future__ import annotations

from collections.abc import Callable

from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.kernel_entry import open_kernel
from ...llvmir.values import I64, Value, bits_of, constants, integer, vec
from ..emit.contract import Kernel
from .addressing import ConvContext, buffers_of, widths
from .amx import TileMicro
from .amx_geometry import MAX_TILE_PLACES
from .packed_direct import Copied, factors, tail_steps
from .row_packing import RowCopies
from .schedule import Im2colSchedule
from .tile_partition import three_axes
from .tile_walk import ConvTile, Factors

_LINE_BYTES = 64


def generate(spec: ConvSpec, target: Target, symbol: str, schedule: Im2colSchedule) -> Kernel:
    """The kernel of a convolution that unfolds its pixels."""
    module, wide, rows = Module(target), three_axes(spec), schedule.rows
    g = ConvContext.of(wide, target, module, schedule.cut.lanes)
    entry = open_kernel(module, symbol, buffers_of(spec), spec.runtime_dims, only_calls=True)
    Unfolded(g, UnfoldedMicro(g, schedule, factors(g, rows)), entry, schedule).run()
    scratch = _line_bytes(rows) + MAX_TILE_PLACES * schedule.unfolding.pitch + _LINE_BYTES
    return Kernel(symbol, module.text(), scratch)


class UnfoldedMicro(TileMicro):
    """The functions of tiles that read unfolded pixels, one row of them."""

    def __init__(self, g: ConvContext, schedule: Im2colSchedule, factors: Factors) -> None:
        self.unfolding = schedule.unfolding
        cells = self.unfolding.cells
        super().__init__(g, schedule.cut, factors, schedule.instruction, cells)
        self.pixel_bytes = self.unfolding.pitch

    def walk(self, f: Function, first: Value, step: Callable[[Value, Value], None]) -> None:
        p, u = f.params, self.unfolding
        with f.range(0, u.steps, unroll=1) as k:
            # The cell of the weights with which a step begins.
            first_cell = f.smin(f.mul(k, u.cells), u.total - u.cells)
            there = f.mul(first_cell, 4 * self.cut.nr)
            step(f.offset(first, f.mul(k, 4 * u.cells)), f.offset(p["weights"], there))


def _line_bytes(rows: RowCopies) -> int:
    return -(-rows.bytes // _LINE_BYTES) * _LINE_BYTES


class Unfolded(Copied):
    """The loops: each tile's pixels are unfolded for the panels of a task."""

    def __init__(
        self, g: ConvContext, micro: UnfoldedMicro, entry: Entry, schedule: Im2colSchedule
    ) -> None:
        rows = schedule.rows
        super().__init__(g, micro, entry, schedule)
        self.panels_per_copy = schedule.panels_per_copy
        self.unfold = _unfold_function(g, rows, micro)
        self.unfolded = self.f.offset(entry.scratch, _line_bytes(rows))

    def serve(self, position: tuple[Value, ...], panel: Value) -> None:
        """All tiles of a block, and the panels of task `panel`."""
        f, rows = self.f, self.copies
        batch, group, depth, row, column = position
        assert self.micro.factors is not None
        w, (_, down, right) = self.spec.window, self.micro.factors.pixel_strides
        # Parameters of other kernels' tiles: taps, and tails.
        taps = [x for k in w.kernel for x in (integer(0), integer(k))]
        taps += [self.unfolded] * rows.tails
        panels = self.panels_per_copy
        first = f.mul(panel, panels)
        last = f.smin(f.add(first, panels), -(-self.spec.outputs // self.cut.nr))
        high = f.smin(f.sub(self.out[1], row), rows.down)
        with f.range(0, high, outer=True) as r:
            for size, count, begin, _ in self.pieces(column, self.spec.outputs):
                with f.range(0, count, outer=True) as i:
                    at = f.add(f.mul(i, size), begin)
                    offset = f.add(f.mul(r, down), f.mul(at, right))
                    data = f.at(self.entry.scratch, offset, rows.value_type)
                    below, across = tail_steps(self.g, rows)
                    tails = f.add(f.mul(r, below), f.mul(at, across))
                    ends = f.offset(self.entry.scratch, f.add(tails, rows.tails_at))
                    f.call_function(self.unfold, data, ends, self.unfolded, size)
                    with f.range(first, last, outer=True) as which:
                        weights, channel = self.panel_of(group, which)
                        tile_position = (batch, channel, depth, f.add(row, r), f.add(column, at))
                        for n in widths(f, which, self.spec.outputs, self.cut.nr):
                            tile = ConvTile(1, size, None, None, n)
                            self.tile(tile, self.unfolded, weights, tile_position, taps)


def _unfold_function(g: ConvContext, rows: RowCopies, micro: UnfoldedMicro) -> Function:
    """unfold(data, tails, to, count): write the rows of `count` pixels whose tap 0 begins at
    `data`, and its cells of rows below each other at `tails`."""
    f = g.module.function(
        "unfold",
        [("ptr noalias readonly", "data"), ("ptr noalias readonly", "tails")]
        + [("ptr noalias", "to"), (I64, "count")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    assert micro.factors is not None
    p, factors, u = f.params, micro.factors, micro.unfolding
    each = bits_of(rows.value_type) // 8
    _, across = tail_steps(g, rows)
    with f.range(0, p["count"], unroll=1) as q:
        data = f.offset(p["data"], f.mul(q, factors.pixel_strides[2] * each))
        tails = f.offset(p["tails"], f.mul(q, across))
        to = f.offset(p["to"], f.mul(q, u.pitch))
        zeros = 0
        for piece in u.pieces:
            end = piece.to + piece.count
            if piece.depth is None:
                if end > zeros:
                    kind = _kind(_width(piece.count))
                    f.store(f.as_value(0, kind), f.offset(to, piece.to))
                continue
            if piece.tails:
                assert factors.tails is not None
                at = f.offset(tails, piece.depth * factors.tails[0] + piece.row * factors.tails[1])
                at = f.offset(at, piece.column * rows.kr)
            else:
                taps = zip((piece.depth, piece.row, piece.column), factors.taps, strict=True)
                at = f.offset(data, sum(t * s for t, s in taps) * each + piece.skip)
            zeros = _move(f, at, f.offset(to, piece.to), piece.count) + piece.to
    return f


def _width(count: int) -> int:
    """Bytes of the vector that so many are moved with."""
    return min(_LINE_BYTES, max(4, 1 << (count - 1).bit_length()))


def _kind(width: int) -> str:
    return vec(I64, width // 8) if width > 8 else f"i{8 * width}"


def _move(f: Function, source: Value, to: Value, count: int) -> int:
    """Copy bytes, and zeros behind them; returns how many are written. What is read beyond `count`
    are values of other pixels, in the copy or behind it."""
    at = 0
    while at < count:
        width = _width(count - at)
        x = f.load(_kind(width), f.offset(source, at))
        if count - at < width:
            x = f.and_(x, _leading_ones(width, count - at))
        f.store(x, f.offset(to, at))
        at += width
    return at


def _leading_ones(width: int, count: int) -> Value:
    """Ones in the first bytes of a vector."""
    word = (1 << 8 * count) - 1
    if width <= 8:
        return integer(word, f"i{8 * width}")
    words = [word >> 64 * i & (1 << 64) - 1 for i in range(width // 8)]
    return constants([w - (w >> 63 << 64) for w in words], I64)
