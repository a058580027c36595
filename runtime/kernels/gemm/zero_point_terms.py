"""The terms of zero points in a product's loops: where they lie, and when they are summed."""

from __future__ import annotations

from ...llvmir.values import ELEMENT, Value, bits_of
from .loops.loop_state import LoopState
from .loops.work_partition import Bounds
from .zero_point_schedule import column_sums_function, column_terms_function, row_terms_function


class Terms:
    """Scratch for the terms of the rows of a block, of one group of panels, and, where panels are
    packed at run time, the sums of their columns."""

    def __init__(self, loops: LoopState) -> None:
        g, t = loops.g, loops.g.schedule
        c = g.corrections
        self.loops, self.g = loops, g
        self.rows = loops.reserve(t.mc * 2 * t.mr if c.row_terms else 0)
        # Twice where the terms of the panel before are still needed (epilogue_overlap.py).
        self.columns = loops.reserve(t.panels * (4 if t.defers_epilogue else 2) * t.nr)
        self.sums = loops.reserve(t.nc * t.nr if t.pack_b else 0)
        self._sum = column_sums_function(g) if t.pack_b and c.left != "none" else None
        self._columns = column_terms_function(g)
        here, packed = t.pack_a == "no" or t.in_place, t.pack_a != "no"
        self._in_place = row_terms_function(g, in_place=True) if c.row_terms and here else None
        self._packed = row_terms_function(g, in_place=False) if c.row_terms and packed else None

    def sum_columns(self, b: Value, js: Bounds, depth: Value, first: Value) -> None:
        """Sum the columns of panels that have just been packed."""
        f, g, t = self.loops.f, self.g, self.g.schedule
        if self._sum is None:
            return
        with f.range(*js, outer=True) as j:
            right = f.sub(j, js[0])
            panel = f.at(b, f.mul(right, t.kc * t.nr), ELEMENT[g.b_cell.value])
            to = f.at(self.sums, f.mul(right, t.nr), g.acc)
            f.call_function(self._sum, self.loops.frame, panel, to, depth, first)

    def sum_rows(
        self, a: Value, strips: Value, ts: Bounds, k0: Value, depth: Value, first: Value
    ) -> None:
        """Sum the rows of some tiles over one block of K."""
        loops, f, g, t = self.loops, self.loops.f, self.g, self.g.schedule
        values = loops.values(k0, depth)[1]
        from_strips = ts[0]
        if self._in_place:
            until = f.smin(loops.tiles_in_place, ts[1]) if t.in_place else ts[1]
            from_strips = f.smax(until, ts[0])
            access = g.a_access(in_place=True)
            across, step = loops.size(access.across), loops.size(access.step)
            with f.range(ts[0], until, outer=True) as tile:
                m = loops.cut.start(tile)
                at = f.at(a, f.add(f.mul(m, across), f.mul(k0, step)), ELEMENT[access.dtype.value])
                pair, rows = (at, self._row_terms(tile)), loops.cut.rows(tile)
                f.call_function(self._in_place, loops.frame, *pair, m, rows, depth, values, first)
        if self._packed:
            with f.range(from_strips, ts[1], outer=True) as tile:
                at = f.at(strips, f.mul(f.urem(tile, t.mc), t.strip), g.acc)
                m, rows = loops.cut.start(tile), loops.cut.rows(tile)
                pair = (at, self._row_terms(tile))
                f.call_function(self._packed, loops.frame, *pair, m, rows, depth, values, first)

    def of_columns(self, b: Value, j0: Value, j: Value, panels: int) -> None:
        """Make the terms of the columns of panels j, j + 1, ..."""
        loops, f, g, t = self.loops, self.loops.f, self.g, self.g.schedule
        access = g.b_access()
        cell = ELEMENT[access.dtype.value]
        for which in range(panels):
            n = f.mul(f.add(j, which), t.nr)
            if t.pack_b:
                sums = f.at(self.sums, f.mul(f.add(f.sub(j, j0), which), t.nr), g.acc)
            else:
                # Behind the rows of a packed constant.
                end = f.mul(f.add(f.add(j, which), 1), loops.size(access.across))
                sums_size = g.packed_b().sums_size * g.spec.b.dtype.bits // bits_of(cell)
                at = f.sub(end, sums_size)
                sums = f.at(b, at, cell)
            to = f.at(self._columns_of(f.sub(j, j0)), which * 2 * t.nr, g.acc)
            cols = f.sub(loops.n, n)
            f.call_function(self._columns, loops.frame, sums, to, n, cols)

    def at_tile(self, tile: Value, right: Value) -> tuple[Value, Value]:
        """The terms of a tile's rows, and of the panels at hand, the first of which is the block's
        panel `right`."""
        return self._row_terms(tile), self._columns_of(right)

    def _columns_of(self, right: Value) -> Value:
        """Groups of panels, and the single ones behind them, take turns."""
        f, t = self.loops.f, self.g.schedule
        if not t.defers_epilogue:
            return self.columns
        turn = f.and_(f.add(f.udiv(right, t.panels), f.urem(right, t.panels)), 1)
        return f.at(self.columns, f.mul(turn, t.panels * 2 * t.nr), self.g.acc)

    def _row_terms(self, tile: Value) -> Value:
        f, t = self.loops.f, self.g.schedule
        if not self.g.corrections.row_terms:
            return self.rows
        return f.at(self.rows, f.mul(f.urem(tile, t.mc), 2 * t.mr), self.g.acc)
