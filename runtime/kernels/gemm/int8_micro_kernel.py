"""Register tiles of int8 activations times compressed weights.

Per group of K: sum += (scale of the row * scale of the column) * (dot - zero * sum of codes), where
`dot` is a sum of integer products, exact, and the groups follow one another in ascending order.
Where all weights have one zero, `dot` begins with what is subtracted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import Function, StackVariable
from ...llvmir.values import F32, I16, I32, Value, integer, vec
from ..emit.byte_dots import MAX_NARROW_DOTS, ByteDots
from .context import GemmContext, TileShape
from .packing.dequant import Dequantizer, GroupFactors
from .packing.quantize_rows import dot_groups
from .schedule import Int8Schedule

_LINE_BYTES = 64
# Cells whose code is written out; more are a loop.
_MAX_UNROLLED_CELLS = 8
_LOWER_HALVES = 0x0F0F0F0F


@dataclass(frozen=True)
class Int8Tile:
    """What the steps of one tile share. columns: (panel, column in it) of each vector; shape: rows
    and vectors."""

    g: GemmContext
    f: Function
    shape: TileShape
    columns: Sequence[tuple[int, int]]
    dequantizer: Dequantizer
    dots: ByteDots

    def read_weights(self, cell: Value) -> list[list[Value]]:
        """Bytes of weights of one cell, for each vector: of 4-bit ones two, else one."""
        f, e = self.f, self.dequantizer
        row = f.offset(f.params["b"], f.mul(cell, e.row))
        ahead = self.g.schedule.fetch_distance
        for line in range(0, e.row, _LINE_BYTES):
            f.prefetch(f.offset(row, line + ahead))
        found: list[list[Value]] = []
        flips = self.dots.flipped_bits(e.dtype)
        for panel, within in self.columns:
            x = f.load(vec(I32, self.g.lanes), f.offset(row, panel * e.panel + 4 * within))
            x = f.xor(x, flips) if flips else x
            if e.dtype.bits == 8:
                found.append([x])
            else:
                halves = (x, f.lshr(x, 4))
                found.append([f.and_(h, _LOWER_HALVES) for h in halves])
        return found

    def read_codes(self, row: int, cell: Value, half: int) -> Value:
        """Four codes of a row, in every lane."""
        f, kr = self.f, self.dequantizer.kr
        line = f.at(f.params["a"], row * self.g.schedule.a_row, F32)
        x = f.load(I32, f.offset(line, f.add(f.mul(cell, kr), 4 * half)))
        return f.splat(x, self.g.lanes)

    def add_cells(self, first: Value, count: int, sums: list[list[StackVariable]]) -> None:
        """Add the dot products of `count` cells to i32 sums, one per row and vector."""
        if not self.sums_in_16_bits:
            self._each_cell(first, count, lambda cell: self.add_cell(cell, sums))
            return
        f, most = self.f, MAX_NARROW_DOTS // 2
        kind = vec(I16, 2 * self.g.lanes)
        for start in range(0, count, most):
            narrow = [[f.var(kind, 0) for _ in row] for row in sums]
            self._each_cell(
                f.add(first, start),
                min(most, count - start),
                lambda cell, narrow=narrow: self.add_cell(cell, narrow),
            )
            for row, narrow_row in zip(sums, narrow, strict=True):
                for s, n in zip(row, narrow_row, strict=True):
                    s.set(f.add(s.get(), self.dots.widen(f, n.get())))

    def _each_cell(self, first: Value, count: int, add: Callable[[Value], None]) -> None:
        """Cells one after the other: in a loop for several rows, whose sums fill the registers;
        written out, LLVM would compute row after row and spill the weights."""
        if self.shape.rows == 1:
            for c in range(count):
                add(self.f.add(first, c))
            return
        with self.f.range(0, count, unroll=1) as c:
            add(self.f.add(first, c))

    def add_cell(self, cell: Value, sums: list[list[StackVariable]]) -> None:
        """Add the dot products of one cell, whose weights are read once for all rows."""
        f, dots, small = self.f, self.dots, self.dequantizer.dtype.bits == 4
        weights = self.read_weights(cell)
        for half in range(len(weights[0])):
            for i, row in enumerate(sums):
                x = self.read_codes(i, cell, half)
                for w, s in zip(weights, row, strict=True):
                    if self.sums_in_16_bits:
                        s.set(dots.add_narrow(f, s.get(), w[half], x))
                    else:
                        s.set(dots.add(f, s.get(), w[half], x, small=small))

    @property
    def sums_in_16_bits(self) -> bool:
        """Whether products of a few cells are summed in 16 bits before they are widened."""
        return self.dequantizer.dtype.bits == 4 and self.dots.sums_in_16_bits

    def add_group(
        self, index: Value, first: Value, cells: int, sums: list[list[StackVariable]]
    ) -> None:
        """Add one group of the activations, `cells` cells from `first` on, to sums of f32."""
        g, f = self.g, self.f
        dots = [
            [f.var(vec(I32, g.lanes), begin) for _ in row]
            for row, begin in zip(sums, self.read_first_sums(index), strict=True)
        ]
        full = cells // _MAX_UNROLLED_CELLS * _MAX_UNROLLED_CELLS
        if cells <= _MAX_UNROLLED_CELLS:
            full = 0
        with f.range(0, full, _MAX_UNROLLED_CELLS, unroll=1) as c:
            self.add_cells(f.add(first, c), _MAX_UNROLLED_CELLS, dots)
        self.add_cells(f.add(first, full), cells - full, dots)
        factors = self.read_factors(index)
        groups = dot_groups(g.spec)
        for i, row in enumerate(sums):
            line = self.find_scale(index, i)
            # The scale, the sum of codes, and their product.
            scale, total, product = (
                f.splat(f.load(F32, f.at(line, integer(n * groups), F32)), g.lanes)
                for n in range(3)
            )
            for c, s, dot in zip(factors, row, dots[i], strict=True):
                value = f.cast(dot.get(), F32)
                if c.zero is not None:
                    value = f.fsub(value, f.fmul(c.zero, total))
                s.set(f.fma(f.fmul(scale, c.scale), value, s.get()))
                if c.offset is not None:
                    s.set(f.fma(c.offset, product, s.get()))

    def read_first_sums(self, index: Value) -> list[Value | int]:
        """What the dot products of each row begin with in a group of the activations."""
        g, f = self.g, self.f
        assert isinstance(g.schedule, Int8Schedule)
        if not g.schedule.common_zero:
            return [0] * self.shape.rows
        totals = [
            f.at(self.find_scale(index, i), integer(dot_groups(g.spec)), F32)
            for i in range(self.shape.rows)
        ]
        return [f.splat(f.load(I32, at), g.lanes) for at in totals]

    def find_scale(self, index: Value, row: int) -> Value:
        """Where the scale of a row is in a group of the activations; its other numbers follow,
        `dot_groups` elements apart."""
        g, f = self.g, self.f
        assert isinstance(g.schedule, Int8Schedule)
        at = f.add(index, row * g.schedule.a_row + g.schedule.scales_at)
        return f.at(f.params["a"], at, F32)

    def read_factors(self, index: Value) -> list[GroupFactors]:
        """Scales, and zeros or offsets that are not part of dot products, of each vector's columns
        in a group of the activations."""
        f, g, e = self.f, self.g, self.dequantizer
        pointers = g.scaling_pointers(f, f.params["frame"])
        panel = f.udiv(f.params["n"], e.nr)
        assert g.spec.compressed is not None
        group = f.udiv(f.mul(index, g.spec.compressed.dot_group), e.group)
        shift = self.dots.shift(e.dtype)
        found = [
            e.load_factors(f, pointers, f.add(panel, p), group, integer(c), shift)
            for p, c in self.columns
        ]
        assert isinstance(g.schedule, Int8Schedule)
        return [replace(c, zero=None) for c in found] if g.schedule.common_zero else found


def accumulate_int8(
    g: GemmContext,
    f: Function,
    shape: TileShape,
    columns: Sequence[int],
    sums: list[list[StackVariable]],
) -> None:
    """Add the products of all of K to the sums of a tile: rows of vectors at `columns`."""
    assert g.spec.compressed is not None and isinstance(g.spec.k, int)
    e = Dequantizer(g.spec, g.lanes, fused=g.target.fma)
    placed = [divmod(c, e.nr) for c in columns]
    tile = Int8Tile(g, f, shape, placed, e, ByteDots(g.target, g.lanes))
    cells = g.spec.compressed.dot_group // e.kr
    full, rest = divmod(-(-g.spec.k // e.kr), cells)
    with f.range(0, full, outer=True) as index:
        tile.add_group(index, f.mul(index, cells), cells, sums)
    if rest:
        tile.add_group(integer(full), integer(full * cells), rest, sums)
