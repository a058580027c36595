"""Tiles of AMX: a square of sums in tile registers, 16 cells of K at a time.

Left factors are strips of A, packed as rows of cells (or rows of A that are whole steps, where they
lie); right factors are panels of B as they are packed for the vector unit of the same cells, zero
points included. Up to 16 rows alone meet 64 columns, since one product waits for the last one
(tiles.py). 32 rows meet 32, or 48.

Sums go through the buffer that the epilogue reads. Tiles are configured once per call: rows of
sums and of A as many as the tallest tile has, everything else full. What a shorter tile computes
in the rows below its own is never read. The last step of K reads strips and a copy of the panel's
end that are padded with zeros, and nothing past an operand's end.

One instruction sums the even and the odd values of 16 cells apart, adds the two, and adds what it
gets to the sum. So blocks of K are whole steps, and every product with N > 1 that has these cells
goes through tiles, whatever its M: the order of additions depends on the Target alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, I1, I64, PTR, Value, bits_of, integer, vec
from ..emit.amx_registers import AMX_ROWS, AmxTiles, TileAddress, on_tile, release
from .amx_tiling import CELL_BYTES
from .context import GemmContext, TileShape
from .epilogue_overlap import DeferredEpilogue, DeferredRows
from .loops.loop_state import LoopState
from .loops.work_partition import Bounds
from .micro_kernel import KBlock, TileOrigin
from .schedule import AmxSchedule, TileSchedule

_LINE_BYTES: Final = 64


def registers(t: TileSchedule, rows: int) -> AmxTiles:
    """The tile registers of a kernel's tile of so many rows: as many as the tallest has, unless all
    are full anyway."""
    height = rows if t.mr > 2 * AMX_ROWS else t.mr
    return AmxTiles(tuple(min(AMX_ROWS, height - at) for at in range(0, height, AMX_ROWS)))


class AmxMicroKernel:
    """Tiles of AMX, finished while the next one is computed.

    In scratch are, made once for all tiles of rows, the cells of a group of panels that do not fill
    a step of K, padded with zeros.
    """

    selects_in_place = True

    def __init__(self, loops: LoopState, schedule: AmxSchedule, finish: Function) -> None:
        self.g, self.schedule, t = loops.g, schedule, schedule
        self._tail = loops.reserve(t.panels * AMX_ROWS * t.nr if t.tail else 0)
        self.deferred = DeferredEpilogue(loops.f, loops.g, schedule, finish)
        self._made: dict[TileShape, Function] = {}

    def configure(self, loops: LoopState) -> None:
        registers(self.schedule, self.schedule.mr).configure(loops.f)

    def release(self, loops: LoopState) -> None:
        release(loops.f)

    def tiles_in_place(self, loops: LoopState, a: Value, tiles: Value) -> Value:
        """None where the rows of a matrix A do not begin where cache lines do. Else every line of a
        left factor is two, and reading takes longer than a copy
        (docs/dev/tuning/amx-unaligned-rows.md)."""
        if not self.schedule.in_place:
            return tiles
        f, spec = loops.f, loops.g.spec
        row = f.mul(loops.size(spec.a.strides[-2]), spec.a.dtype.bits // 8)
        aligned = f.icmp("eq", f.and_(f.or_(f.address(a), row), _LINE_BYTES - 1), 0)
        return f.select(aligned, tiles, integer(0))

    def begin_block(self, loops: LoopState, tiles: Bounds, panels: Bounds) -> None:
        self.deferred.clear(loops.f)

    def end_block(self, loops: LoopState) -> None:
        self.deferred.flush(loops.f, loops.frame)

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        """Copy the cells behind whole steps."""
        f, g, t = loops.f, self.g, self.schedule
        if not t.tail:
            return
        panel, (_, depth) = b(), block
        access, rest = g.b_access(), f.urem(depth, AMX_ROWS)
        cell = ELEMENT[access.dtype.value]
        kind, align = vec(cell, t.lanes), bits_of(cell) // 8
        with f.if_(f.icmp("ne", rest, 0)):
            for which in range(panels):
                first = f.mul(f.sub(depth, rest), t.nr)
                across = f.mul(loops.size(access.across), which)
                source = f.at(panel, f.add(across, first), cell)
                to = f.at(self._tail, which * AMX_ROWS * t.nr, cell)
                with f.range(0, AMX_ROWS * t.nr, t.lanes, unroll=1) as at:
                    x = f.var(kind, 0)
                    with f.if_(f.icmp("slt", at, f.mul(rest, t.nr))):
                        x.set(f.load(kind, f.at(source, at, cell), align))
                    f.store(x.get(), f.at(to, at, cell), align)

    def expanded_panel(self, b: Value) -> Value:
        return b

    def tile(self, shape: TileShape) -> Function:
        if shape not in self._made:
            made = amx_tile_function(self.g, self.schedule, shape, self.deferred)
            self._made[shape] = made
        return self._made[shape]

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        return row, self._tail, self.deferred.address

    def finish(
        self, loops: LoopState, last: Value, rows: Value, origin: TileOrigin, terms: Sequence[Value]
    ) -> None:
        f = loops.f
        self.deferred.defer(f, f.select(last, rows, 0), (*origin, *terms))


# -- the tile -----------------------------------------------------------------------------------


def amx_tile_function(
    g: GemmContext, t: AmxSchedule, shape: TileShape, deferred: DeferredEpilogue
) -> Function:
    """The function of a tile (micro_kernel.py), with three parameters more: how many bytes the rows
    of A are apart, where its panels' tails are, and what tile waits to be finished. Sums go to the
    buffer, all rows of the tallest tile."""
    f = g.module.function(
        g.module.unique(f"amx_{shape.rows}x{shape.panels}x{shape.vectors}"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
        + [(I64, "m"), (I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first")]
        + [(PTR, "buffer"), (PTR, "soon"), (I64, "pace"), (I64, "row")]
        + [("ptr readonly", "tail"), ("ptr readonly", "waiting")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    columns = [(q, v * t.lanes) for q in range(shape.panels) for v in range(shape.vectors)]
    tiles = registers(t, shape.rows)
    sums = [
        (tiles.total(down, across), down * AMX_ROWS * t.width + q * t.nr + c)
        for down in range(-(-shape.rows // AMX_ROWS))
        for across, (q, c) in enumerate(columns)
    ]
    stride = integer(t.width * g.bytes)
    addresses = [(i, f.at(p["buffer"], at, g.acc)) for i, at in sums]
    with f.if_(p["first"] if t.blocked else True) as branch:
        for i, _ in addresses:
            on_tile(f, "tilezero", i)
        branch.else_()
        for i, address in addresses:
            on_tile(f, "tileloadd64", i, address, stride)
    step = _AmxStep(g, t, f, shape, columns)
    waiting = DeferredRows(deferred, f, p["frame"], p["waiting"])
    each = -(-t.mr // max(1, t.kc // AMX_ROWS))
    k = g.spec.k
    depth = integer(-(-k // t.kr)) if isinstance(k, int) and not t.blocked else p["k"]
    rest = f.urem(depth, AMX_ROWS) if t.tail else integer(0)
    full = f.sub(depth, rest)
    with f.range(0, full, AMX_ROWS, unroll=1) as at:
        step.multiply(at, f.at(p["b"], f.mul(at, t.nr), step.cell), step.panel, step.fetches(at))
        waiting.emit_some(at, each)
    with f.if_(f.icmp("ne", rest, 0)):
        step.multiply(full, p["tail"], integer(AMX_ROWS * t.nr))
    waiting.rest(f.mul(f.udiv(full, AMX_ROWS), each))
    for i, address in addresses:
        on_tile(f, "tilestored64", i, address, stride)
    return f


class _AmxStep:
    """SIDE cells of K. `panel`: cells between panels of B."""

    def __init__(
        self,
        g: GemmContext,
        schedule: AmxSchedule,
        f: Function,
        shape: TileShape,
        columns: Sequence[tuple[int, int]],
    ) -> None:
        self.schedule, self.f, self.shape, self.columns = schedule, f, shape, columns
        b = g.b_access()
        self.cell, self.panel = ELEMENT[b.dtype.value], g.size(f, f.params["frame"], b.across)
        fetch = schedule.fetch
        self.pause = f.udiv(f.mul(f.params["pace"], AMX_ROWS), fetch) if fetch else integer(0)

    def multiply(
        self, k: Value, b: Value, panel: Value, interleaved: Sequence[Callable[[], None]] = ()
    ) -> None:
        """The products of cells k, k + 1, ...; `b`: the first of them in the first panel."""
        f, t, row = self.f, self.schedule, self.f.params["row"]

        def a_address(down: int) -> TileAddress:
            at = f.add(f.mul(row, down * AMX_ROWS), f.mul(k, CELL_BYTES))
            return f.offset(f.params["a"], at), row

        def b_address(across: int) -> TileAddress:
            q, c = self.columns[across]
            return f.at(b, f.add(f.mul(panel, q), c), self.cell), integer(4 * t.nr)

        shape = (-(-self.shape.rows // AMX_ROWS), len(self.columns))
        registers(t, self.shape.rows).multiply(
            f, t.instruction, shape, a_address, b_address, interleaved
        )

    def fetches(self, k: Value) -> list[Callable[[], None]]:
        """Prefetches of lines of B that later tiles read (soon and pace of micro_kernel.py), to be
        spread among a step's products: in front of its loads they take time
        (docs/dev/tuning/amx-panel-order.md)."""
        f, t = self.f, self.schedule
        lines: list[Callable[[], None]] = []
        for which in range(self.shape.panels if t.fetch else 0):
            panel = f.mul(self.panel, 4 * which)
            ahead = [f.offset(f.params["soon"], f.add(f.mul(k, f.params["pace"]), panel))]

            def line(ahead: list[Value] = ahead) -> None:
                f.prefetch(ahead[0], locality=t.fetch_level)
                ahead[0] = f.offset(ahead[0], self.pause)

            lines += [line] * t.fetch
        return lines
