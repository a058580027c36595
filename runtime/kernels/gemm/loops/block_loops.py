"""The loops over panels of B and tiles of rows: everything inside one block of K."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from .....ir.lazy_dataclass import dataclass
from ....llvmir.values import ELEMENT, Value, bits_of, integer
from ..context import TileShape
from ..micro_kernel import MicroKernel
from ..schedule import Int8AmxSchedule, WideningSchedule
from ..zero_point_terms import Terms
from .loop_state import LoopState
from .work_partition import Bounds


@dataclass(frozen=True)
class TileLoops:
    """The two innermost loops: tiles `ts` times panels `js`, one block of K deep. k0 and depth
    count steps of K.

    `strips` and `b` are packed copies, or the matrices themselves, as `a` always is. `buffer`
    receives sums; `terms` are those of zero points, if there are any.
    """

    loops: LoopState
    micro: MicroKernel
    ts: Bounds
    js: Bounds
    a: Value
    strips: Value
    b: Value
    buffer: Value
    k0: Value
    depth: Value
    first: Value
    last: Value
    terms: Terms | None

    def run(self) -> None:
        """Groups of panels, single panels, and the edge: panels outside, tiles of rows inside."""
        self.micro.begin_block(self.loops, self.ts, self.js)
        self.all_panels()
        self.micro.end_block(self.loops)

    def all_panels(self) -> None:
        """What `run` does in between."""
        loops, t = self.loops, self.loops.g.schedule
        f, (j0, j1) = loops.f, self.js
        rest = f.urem(loops.n, t.nr)
        full_vectors = t.vectors
        edge = TileShape(0, full_vectors, 1, edge=True)
        if rest.known is not None:
            vectors = -(-rest.known // t.lanes)
            edge = TileShape(0, vectors, 1, edge=rest.known % t.lanes != 0)
        if t.buffered and (loops.g.spec.packed or t.pack_b):
            # Panels are padded, and `finish` knows where the columns end: no masks in tiles.
            edge = TileShape(0, full_vectors if t.brief else edge.vectors, 1, edge=False)
        plain = rest.known == 0 or edge == TileShape(0, full_vectors, 1, edge=False)
        full = j1 if plain else f.smin(f.udiv(loops.n, t.nr), j1)
        singles = j0
        if f.udiv(loops.n, t.nr).known != 0 or plain:
            if t.panels > 1:
                groups = f.udiv(f.smax(f.sub(full, j0), 0), t.panels)
                if t.guarded:  # two rows have enough chains in one panel
                    groups = f.select(f.icmp("eq", loops.m, 1), groups, 0)
                singles = f.add(j0, f.mul(groups, t.panels))
                with f.range(j0, singles, t.panels, outer=True) as j:
                    self.panel(j, TileShape(0, full_vectors, t.panels, edge=False))
            with f.range(singles, full, outer=True) as j:
                self.panel(j, TileShape(0, full_vectors, 1, edge=False))
        if not plain:
            # At most one edge panel, and only the worker that has the last panel has it.
            with f.range(f.smax(full, j0), j1, outer=True) as j:
                self.panel(j, edge)

    def panel(self, j: Value, shape: TileShape) -> None:
        """All tiles of rows of one panel (or group of panels); how high they are is open."""
        loops, t = self.loops, self.loops.g.schedule
        f, (t0, t1) = loops.f, self.ts
        if self.terms:
            self.terms.of_columns(self.b, self.js[0], j, shape.panels)
        block = (self.k0, self.depth)
        self.micro.begin_panels(loops, lambda: self.b_panel_address(j), j, block, shape.panels)
        if t.guarded and shape.panels > 1:
            with f.range(t0, t1, outer=True) as tile:
                self.tile(shape, (1,), j, tile, integer(1))
            return
        if t.in_place and not self.micro.selects_in_place:
            full = f.smin(loops.tiles_in_place, t1)
            with f.range(t0, full, outer=True) as tile:
                self.tile(replace(shape, in_place=True), (t.mr,), j, tile, integer(t.mr))
            t0 = f.smax(full, t0)
        if not t.guarded:
            longer, low = loops.cut.longer(), t.heights[-1]
            if longer:
                with f.range(t0, f.smin(t1, longer), outer=True) as tile:
                    self.tile(shape, (t.mr,), j, tile, integer(t.mr))
                t0 = f.smax(t0, longer)
            with f.range(t0, t1, outer=True) as tile:
                self.tile(shape, (low,), j, tile, integer(low))
            return
        with f.range(t0, t1, outer=True) as tile:
            self.tile(shape, t.heights, j, tile, loops.cut.rows(tile))

    def shortest(self, heights: Sequence[int], rows: Value, call: Callable[[int], None]) -> None:
        """Call with the shortest height that holds `rows`."""
        f = self.loops.f
        if len(heights) == 1:
            call(heights[0])
            return
        with f.if_(f.icmp("sgt", rows, heights[1])) as branch:
            call(heights[0])
            branch.else_()
            self.shortest(heights[1:], rows, call)

    def tile(
        self, shape: TileShape, heights: Sequence[int], j: Value, tile: Value, rows: Value
    ) -> None:
        """One tile, of the shortest of `heights` that holds its rows."""
        loops, g = self.loops, self.loops.g
        f, t = loops.f, g.schedule
        m, n = loops.cut.start(tile), f.mul(j, t.nr)
        down, right = f.sub(tile, self.ts[0]), f.sub(j, self.js[0])
        a, row = self.a_tile_address(m, tile, in_place=shape.in_place)
        b = self.b_panel_address(j)
        # Rows of all buffers are as long as those of a group of panels.
        slot = f.mul(right, t.mc) if t.blocked else integer(0)
        slot = f.mul(f.add(slot, down) if t.blocked else slot, t.mr * t.width)
        buffer = f.at(self.buffer, slot, g.acc)
        cols = f.sub(loops.n, n)
        soon, pace = self.prefetch_pointer(b, down, shape.panels)
        terms = self.terms.at_tile(tile, right) if self.terms else ()
        if t.in_place and self.micro.selects_in_place:
            unpacked, a_row = self.a_tile_address(m, tile, in_place=True)
            in_place = f.icmp("slt", tile, loops.tiles_in_place)
            a = f.select(in_place, unpacked, a)
            row = f.select(in_place, a_row, row)
        more = self.micro.more_arguments(row, rows, terms)

        def call(height: int) -> None:
            f.call_function(
                self.micro.tile(replace(shape, rows=height)), loops.frame, a,
                self.micro.expanded_panel(b),
                m, n, cols, self.depth, self.first, buffer, soon, pace, *more,
            )  # fmt: skip

        self.shortest(heights, rows, call)
        if t.buffered and not t.stores_sums(in_place=shape.in_place):
            return  # finished
        cols = f.smin(cols, shape.panels * t.nr)
        self.micro.finish(loops, self.last, rows, (buffer, m, n, cols), terms)

    def a_tile_address(self, m: Value, tile: Value, *, in_place: bool) -> tuple[Value, Value]:
        """Where a tile's rows of A are, for this block of K, and how many bytes they are apart."""
        loops, f, g, t = self.loops, self.loops.f, self.loops.g, self.loops.g.schedule
        a = g.a_access(in_place=in_place)
        across, element = loops.size(a.across), ELEMENT[a.dtype.value]
        if t.pack_a == "no" or in_place:
            base, at = self.a, f.add(f.mul(m, across), f.mul(self.k0, loops.size(a.step)))
        else:
            base, at = self.strips, f.mul(f.urem(tile, t.mc), t.strip)
        return f.at(base, at, element), f.mul(across, bits_of(element) // 8)

    def b_panel_address(self, j: Value) -> Value:
        """Where panel j begins, for this block of K."""
        loops, f, b = self.loops, self.loops.f, self.loops.g.b_access()
        if loops.g.schedule.pack_b:
            at = f.mul(f.sub(j, self.js[0]), loops.size(b.across))
        else:
            at = f.add(f.mul(j, loops.size(b.across)), f.mul(self.k0, loops.size(b.step)))
        return f.at(self.b, at, ELEMENT[b.dtype.value])

    def prefetch_pointer(self, b: Value, down: Value, panels: int) -> tuple[Value, Value]:
        """What a tile fetches ahead: its piece of the next panels, or, where tiles of a panel are
        one, what the tile itself reads a little later. And bytes per step of K."""
        f, g, t = self.loops.f, self.loops.g, self.loops.g.schedule
        if not t.fetch:
            return b, integer(0)
        row = integer(t.nr * t.kr * g.spec.b.dtype.bits // 8)
        own = f.offset(b, t.fetch_distance)
        if t.streams:
            return own, row
        tiles = f.sub(self.ts[1], self.ts[0])
        single = f.icmp("sle", tiles, 1)
        pace = f.udiv(row, f.smax(tiles, 1))
        group = f.mul(self.loops.steps, f.mul(row, panels))
        following = f.add(group, f.mul(f.mul(down, self.depth), pace))
        if isinstance(t, Int8AmxSchedule | WideningSchedule):  # its own panel is expanded already
            return f.offset(b, following), pace
        return f.select(single, own, f.offset(b, following)), pace
