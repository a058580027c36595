"""Where the tiles of rows of a product begin, and how the last rows of a dynamic M are cut."""

from __future__ import annotations

from .....plan.specs.base import Size
from ....llvmir.builder import Function
from ....llvmir.values import Value, integer
from ..schedule import TileSchedule


class RowTiles:
    """M rows as tiles. `last` is the number of the last tile, `full` how many in front are of full
    height; both mean something for guarded tiles."""

    def __init__(self, f: Function, schedule: TileSchedule, size: Size, m: Value) -> None:
        self.f, self.schedule, self.size, self.m = f, schedule, size, m
        self.count = f.ceil_div(m, schedule.mr)
        self.last = f.sub(self.count, 1)
        self.full, self._shift = f.udiv(m, schedule.mr), integer(0)
        if schedule.guarded and len(schedule.heights) > 1:
            self._join_few(schedule.heights[1])

    def _join_few(self, second: int) -> None:
        """One or two rows alone have too few chains; with the tile before them they make two of the
        second height, which costs less than one tall tile and a very short one."""
        f, mr = self.f, self.schedule.mr
        rest = f.urem(self.m, mr)
        few = f.icmp("ult", f.sub(rest, 1), max(0, 2 * second - mr))
        few = f.and_(few, f.icmp("sgt", self.count, 1))
        self._shift = f.select(few, integer(mr - second), integer(0))
        self.full = f.sub(self.full, f.cast(few, "i64"))

    def start(self, tile: Value) -> Value:
        """The first row of a tile: of a known M, the first `longer` tiles are taller."""
        f, t = self.f, self.schedule
        if t.guarded:
            moved = f.select(f.icmp("eq", tile, self.last), self._shift, integer(0))
            return f.sub(f.mul(tile, t.mr), moved)
        low, longer = t.heights[-1], self.longer()
        if self._overlaps():
            return f.smin(f.mul(tile, low), f.sub(self.m, low))
        taller = f.mul(f.smin(tile, longer), t.mr - low)
        return f.add(f.mul(tile, low), taller) if longer else f.mul(tile, low)

    def rows(self, tile: Value) -> Value:
        """How many rows a tile has."""
        f = self.f
        if self._overlaps():
            return integer(self.schedule.mr)
        return f.sub(f.smin(self.start(f.add(tile, 1)), self.m), self.start(tile))

    def _overlaps(self) -> bool:
        """Whether the last tile computes rows of the tile before it again: tiles of a known M have
        one height, which does not divide it."""
        t, m = self.schedule, self.size
        return not t.guarded and isinstance(m, int) and len(t.heights) == 1 and m % t.mr != 0

    def longer(self) -> int:
        """How many tiles have the larger of the two heights of a known M."""
        heights, m = self.schedule.heights, self.size
        assert isinstance(m, int)
        if len(heights) == 1:
            return 0
        most = range(m // heights[0], 0, -1)
        return next(count for count in most if (m - count * heights[0]) % heights[1] == 0)
