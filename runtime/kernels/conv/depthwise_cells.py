"""Tiles of depthwise convolutions of bytes as products of cells: four taps below each other.

An instruction multiplies four bytes of each lane by four others and adds the products to the
lane's sum. A lane is a channel, so its cell is one column of a filter, cut into parts of four rows,
and the bytes that this column meets: they come from as many rows of the data, and are brought
together once for all pixels of the tile that meet them. Rows outside of the data are zeros in a
cell; what the zero point adds is summed from the same cells of the filter and subtracted
(docs/dev/tuning/depthwise-cells.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import Function, StackVariable
from ...llvmir.values import I8, I32, Value, integer, vec
from ..emit.dot_units import SIGN_FLIP, find_unit, left_shift, xor_0x80
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import TailMask
from .addressing import ConvContext
from .tile_partition import pair_pixels_with_taps, taps_outside
from .tile_walk import ConvTile

# Rows of a filter that one cell holds.
CELL_ROWS = 4
# A byte of each row of a cell.
_EVERY_ROW = 0x01010101


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of the filter that one cell holds: those of the data that they meet (of one that is
    outside, another), the bytes of a cell that are inside (all of their bits), and the cells of the
    filter by column."""

    data: tuple[Value, ...]
    inside: Value
    filters: tuple[Value, ...]


def multiply_cells(
    g: ConvContext,
    f: Function,
    tile: ConvTile,
    sums: Sequence[StackVariable],
    tail: TailMask | None,
) -> None:
    """Add the products of a tile to its sums, which are zeros. The function's parameters are those
    of a depthwise tile."""
    p = f.params
    met = f.and_(f.icmp("slt", p["d0"], p["d1"]), f.icmp("slt", p["h0"], p["h1"]))
    with f.if_(met):
        _Cells(g, f, tile, tail).add_to(sums)


class _Cells:
    def __init__(self, g: ConvContext, f: Function, tile: ConvTile, tail: TailMask | None) -> None:
        self.g, self.f, self.tile, self.tail = g, f, tile, tail
        self.window = g.spec.window
        unit = find_unit(g.target, DType.i8, CELL_ROWS, g.lanes)
        assert unit is not None
        self.unit = unit
        self.shift = left_shift(unit, g.spec.data.dtype)
        self.strides = [g.size(f, f.params["frame"], s) for s in g.spec.data.strides[2:]]
        count = self.window.kernel[1]
        self.groups = [
            self._make_rows(range(first, min(first + CELL_ROWS, count)))
            for first in range(0, count, CELL_ROWS)
        ]

    def _make_rows(self, rows: range) -> _Rows:
        f, g, p = self.f, self.g, self.f.params
        step = f.mul(self.strides[1], self.window.dilations[1])
        data: list[Value] = []
        inside: Value = integer(0, I32)
        for byte, row in enumerate(rows):
            nearest = f.smax(p["h0"], f.smin(row, f.sub(p["h1"], 1)))
            data.append(f.at(p["data"], f.mul(nearest, step), I8))
            bits = integer(0xFF << 8 * byte, I32)
            met = f.select(f.icmp("eq", nearest, row), bits, integer(0, I32))
            inside = f.or_(inside, met)
        filters: list[Value] = []
        for column in range(self.window.kernel[2]):
            taps = [(row * self.window.kernel[2] + column) * g.lanes for row in rows]
            bytes_ = [f.load(vec(I8, g.lanes), f.at(p["weights"], at, I8)) for at in taps]
            filters.append(self._join_rows(bytes_))
        return _Rows(tuple(data), inside, tuple(filters))

    def _join_rows(self, rows: Sequence[Value]) -> Value:
        """Cells of the bytes of several rows."""
        f = self.f
        if len(rows) > 1 and self.g.lanes == 16 and self.g.target.has("avx512vbmi"):
            return self._interleave_rows(rows)
        cells: Value | None = None
        for byte, row in enumerate(rows):
            wide = f.cast(row, I32, signed_=False)
            wide = f.shl(wide, f.splat(8 * byte, self.g.lanes, I32)) if byte else wide
            cells = wide if cells is None else f.or_(cells, wide)
        assert cells is not None
        return cells

    def _interleave_rows(self, rows: Sequence[Value]) -> Value:
        """The same by one permutation of the bytes of a register."""
        f, lanes = self.f, self.g.lanes
        a, b, c, d = (*rows, *[f.splat(0, lanes, I8)] * (CELL_ROWS - len(rows)))
        wide = f.concat(f.concat(a, b), f.concat(c, d))
        order = [row * lanes + lane for lane in range(lanes) for row in range(CELL_ROWS)]
        return f.bitcast(f.shuffle(wide, None, order), self.g.vector)

    def add_to(self, sums: Sequence[StackVariable]) -> None:
        tile, w = self.tile, self.window
        every = range(w.kernel[2])
        if self.g.zeros or self.shift:
            inside = [taps_outside(tile.column_taps, kw, tile.columns) for kw in every]
            columns = [tuple(kw for kw in every if inside[kw][i]) for i in range(len(sums))]
            added = {taps: self._sum_zero_point(taps) for taps in dict.fromkeys(columns)}
            for into, taps in zip(sums, columns, strict=True):
                into.set(self.f.sub(into.get(), added[taps]))
        pairs = pair_pixels_with_taps(w, tile.column_taps, tile.columns, every)
        for at, met in pairs.items():
            for rows in self.groups:
                cells = self._load_cells(rows, at)
                for i, kw in met:
                    sums[i].set(self._multiply_add(sums[i].get(), cells, rows.filters[kw]))

    def _load_cells(self, rows: _Rows, column: int) -> Value:
        """The cells of a column of the data."""
        f, lanes = self.f, self.g.lanes
        offset = f.mul(self.strides[2], column)
        bytes_ = [
            masked_load(f, vec(I8, lanes), f.at(row, offset, I8), self.tail) for row in rows.data
        ]
        cells = xor_0x80(f, self._join_rows(bytes_), self.shift)
        return f.and_(cells, f.splat(rows.inside, lanes))

    def _sum_zero_point(self, columns: Sequence[int]) -> Value:
        """What the zero point adds to the sums of pixels that meet these columns."""
        f, g = self.f, self.g
        zero: Value = integer(SIGN_FLIP if self.shift else 0, I32)
        if g.zeros:
            byte = f.load(I8, g.zero_base(f, f.params["frame"], left=True))
            zero = f.cast(xor_0x80(f, byte, self.shift), I32, signed_=False)
        total = f.splat(0, g.lanes, I32)
        for rows in self.groups:
            cells = f.splat(f.and_(f.mul(zero, _EVERY_ROW), rows.inside), g.lanes)
            for column in columns:
                total = self._multiply_add(total, cells, rows.filters[column])
        return total

    def _multiply_add(self, total: Value, left: Value, right: Value) -> Value:
        f, unit = self.f, self.unit
        pair = (f.bitcast(left, unit.factors), f.bitcast(right, unit.factors))
        return f.call(unit.intrinsic, self.g.vector, total, *pair)
