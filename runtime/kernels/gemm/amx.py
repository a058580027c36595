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

from ....plan.specs.gemm import GemmSpec
from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, I1, I64, PTR, Value, bits_of, integer, vec
from ..emit.amx_registers import AMX_ROWS, AmxTiles, TileAddress, on_tile
from .amx_tiling import CELL_BYTES
from .context import GemmContext, TileShape
from .epilogue_overlap import DeferredEpilogue, DeferredRows
from .loops.loop_state import LoopState
from .tiling_params import Tiling

_LINE_BYTES: Final = 64


def registers(t: Tiling, rows: int) -> AmxTiles:
    """The tile registers of a kernel's tile of so many rows: as many as the tallest has, unless all
    are full anyway."""
    height = rows if t.mr > 2 * AMX_ROWS else t.mr
    return AmxTiles(tuple(min(AMX_ROWS, height - at) for at in range(0, height, AMX_ROWS)))


def fills_lines(loops: LoopState, a: Value) -> Value:
    """Whether the rows of a matrix A begin where cache lines do. Else every line of a left factor
    is two, and 128x768x768 of bytes takes 1.3 times as long as with a copy."""
    f, spec = loops.f, loops.g.spec
    row = f.mul(loops.size(spec.a.strides[-2]), spec.a.dtype.bits // 8)
    return f.icmp("eq", f.and_(f.or_(f.address(a), row), _LINE_BYTES - 1), 0)


# -- the last step of K -------------------------------------------------------------------------


def has_tail(spec: GemmSpec, kr: int) -> bool:
    """Whether the last step of K may have fewer than SIDE cells."""
    return not isinstance(spec.k, int) or -(-spec.k // kr) % AMX_ROWS != 0


class Tail:
    """The cells of a group of panels that do not fill a step, padded with zeros: in scratch, made
    once for all tiles of rows."""

    def __init__(self, loops: LoopState) -> None:
        t = loops.g.tiling
        self.loops, self.needed = loops, has_tail(loops.g.spec, t.kr)
        self.address = loops.reserve(t.panels * AMX_ROWS * t.nr if self.needed else 0)

    def copy(self, b: Value, depth: Value, panels: int) -> None:
        """Of panels that begin, for this block of K, at b."""
        if not self.needed:
            return
        f, g, t = self.loops.f, self.loops.g, self.loops.g.tiling
        access, rest = g.b_access(), f.urem(depth, AMX_ROWS)
        cell = ELEMENT[access.dtype.value]
        kind, align = vec(cell, t.lanes), bits_of(cell) // 8
        with f.if_(f.icmp("ne", rest, 0)):
            for which in range(panels):
                first = f.mul(f.sub(depth, rest), t.nr)
                across = f.mul(self.loops.size(access.across), which)
                source = f.at(b, f.add(across, first), cell)
                to = f.at(self.address, which * AMX_ROWS * t.nr, cell)
                with f.range(0, AMX_ROWS * t.nr, t.lanes, unroll=1) as at:
                    x = f.var(kind, 0)
                    with f.if_(f.icmp("slt", at, f.mul(rest, t.nr))):
                        x.set(f.load(kind, f.at(source, at, cell), align))
                    f.store(x.get(), f.at(to, at, cell), align)


# -- the tile -----------------------------------------------------------------------------------


def amx_tile_function(g: GemmContext, shape: TileShape, deferred: DeferredEpilogue) -> Function:
    """The function of a tile (micro.py), with three parameters more: how many bytes the rows
    of A are apart, where its panels' tails are, and what tile waits to be finished. Sums go to the
    buffer, all rows of the tallest tile."""
    t = g.tiling
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
    step = _AmxStep(g, f, shape, columns)
    waiting = DeferredRows(deferred, f, p["frame"], p["waiting"])
    each = -(-t.mr // max(1, t.kc // AMX_ROWS))
    k = g.spec.k
    depth = integer(-(-k // t.kr)) if isinstance(k, int) and not t.blocked else p["k"]
    rest = f.urem(depth, AMX_ROWS) if has_tail(g.spec, t.kr) else integer(0)
    whole = f.sub(depth, rest)
    with f.range(0, whole, AMX_ROWS, unroll=1) as at:
        step.multiply(at, f.at(p["b"], f.mul(at, t.nr), step.cell), step.panel, step.fetches(at))
        waiting.emit_some(at, each)
    with f.if_(f.icmp("ne", rest, 0)):
        step.multiply(whole, p["tail"], integer(AMX_ROWS * t.nr))
    waiting.rest(f.mul(f.udiv(whole, AMX_ROWS), each))
    for i, address in addresses:
        on_tile(f, "tilestored64", i, address, stride)
    return f


class _AmxStep:
    """SIDE cells of K. `panel`: cells between panels of B."""

    def __init__(
        self, g: GemmContext, f: Function, shape: TileShape, columns: Sequence[tuple[int, int]]
    ) -> None:
        self.g, self.f, self.shape, self.columns = g, f, shape, columns
        b = g.b_access()
        self.cell, self.panel = ELEMENT[b.dtype.value], g.size(f, f.params["frame"], b.across)
        fetch = g.tiling.fetch
        self.pause = f.udiv(f.mul(f.params["pace"], AMX_ROWS), fetch) if fetch else integer(0)

    def multiply(
        self, k: Value, b: Value, panel: Value, interleaved: Sequence[Callable[[], None]] = ()
    ) -> None:
        """The products of cells k, k + 1, ...; `b`: the first of them in the first panel."""
        f, t, row = self.f, self.g.tiling, self.f.params["row"]

        def a_address(down: int) -> TileAddress:
            at = f.add(f.mul(row, down * AMX_ROWS), f.mul(k, CELL_BYTES))
            return f.offset(f.params["a"], at), row

        def b_address(across: int) -> TileAddress:
            q, c = self.columns[across]
            return f.at(b, f.add(f.mul(panel, q), c), self.cell), integer(4 * t.nr)

        shape = (-(-self.shape.rows // AMX_ROWS), len(self.columns))
        registers(t, self.shape.rows).multiply(f, t.tile, shape, a_address, b_address, interleaved)

    def fetches(self, k: Value) -> list[Callable[[], None]]:
        """What asks for lines of B that will be needed later (soon and pace of micro.py), each
        for one. They are spread among a step's products: in front of its loads GPT-2 takes 1.05
        times as long."""
        f, t = self.f, self.g.tiling
        near = 3 if t.streams or t.guarded else 2
        lines: list[Callable[[], None]] = []
        for which in range(self.shape.panels if t.fetch else 0):
            panel = f.mul(self.panel, 4 * which)
            ahead = [f.offset(f.params["soon"], f.add(f.mul(k, f.params["pace"]), panel))]

            def line(ahead: list[Value] = ahead) -> None:
                f.prefetch(ahead[0], locality=near)
                ahead[0] = f.offset(ahead[0], self.pause)

            lines += [line] * t.fetch
        return lines
