"""Tiles of AMX of f32 rows times f32 panels, at the accuracy of f32.

Both factors are sums of three bf16 numbers (f32_terms.py). Of the nine products of such numbers the
six largest are added, in f32; the other three are below 2^-22 of the whole. Each sum is one chain:
in each step of K the six products follow one another.

While tiles multiply a panel, each of their steps expands a few rows of the next panel: the unit
that multiplies tiles and those of vectors work at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .....plan.packing.panel_params import BF16_STEP_VALUES, BF16_TERMS
from ....llvmir.builder import Function
from ....llvmir.values import I1, I64, PTR, Value, integer
from ...emit.amx_registers import AMX_ROWS, AmxTiles, TileAddress, on_tile
from ..amx import AmxMicroKernel
from ..context import TileShape
from ..epilogue_overlap import DeferredRows
from ..loops.loop_state import LoopState
from ..loops.work_partition import Bounds
from ..micro_kernel import KBlock
from ..schedule import F32AmxSchedule
from .f32_terms import LEFT_TERMS, PanelExpansion, panel_terms_apart

# Terms of A times terms of B. Term 3 of A is term 0 without infinities.
_PAIRS: Final = ((2, 0), (0, 0), (1, 0), (1, 1), (3, 1), (3, 2))


class F32AmxMicroKernel(AmxMicroKernel):
    """Tiles of AMX, with the terms of two panels in scratch: of the one that they multiply and of
    the next one."""

    selects_in_place = False

    def __init__(self, loops: LoopState, schedule: F32AmxSchedule, finish: Function) -> None:
        super().__init__(loops, schedule, finish)
        f, size = loops.f, BF16_TERMS * panel_terms_apart(schedule) // loops.g.bytes
        self._buffers = [loops.reserve(size) for _ in range(2)]
        self.expansion = PanelExpansion(f, loops.g)
        # Rows of cells of the next panel that a step of a tile expands; the panel being multiplied.
        self._pace, self._current = f.var(I64), f.var(PTR)
        self._panels: Bounds = (integer(0), integer(0))
        self.split = schedule

    def begin_block(self, loops: LoopState, tiles: Bounds, panels: Bounds) -> None:
        super().begin_block(loops, tiles, panels)
        f = loops.f
        self._pace.set(f.ceil_div(AMX_ROWS, f.smax(f.sub(tiles[1], tiles[0]), 1)))
        self._panels = panels

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        """Finish the expansion of this panel, which the first one begins, and begin that of the
        next one."""
        f, g, (begin, end) = loops.f, loops.g, self._panels
        panel, (_, depth) = b(), block
        with f.if_(f.icmp("eq", first, begin)):
            self.expansion.begin(f, panel, depth, self._buffer(f, first))
        self.expansion.finish(f)
        self._current.set(self._buffer(f, first))
        following = f.add(first, 1)
        with f.if_(f.icmp("slt", following, end)):
            after = f.at(panel, loops.size(g.b_access().across), g.acc)
            self.expansion.begin(f, after, depth, self._buffer(f, following))

    def _buffer(self, f: Function, panel: Value) -> Value:
        """Where the terms of a panel are."""
        return f.select(f.icmp("eq", f.and_(panel, 1), 0), *self._buffers)

    def tile(self, shape: TileShape) -> Function:
        """Tiles of other rows and vectors have other registers; all else is an argument."""
        down = -(-shape.rows // AMX_ROWS)
        shape = TileShape(down * AMX_ROWS, shape.vectors, 1, edge=False)
        if shape not in self._made:
            self._made[shape] = _tile_function(self, shape)
        return self._made[shape]

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        t, bytes_ = self.split, self.g.bytes
        functions = (self.expansion.expand, self.deferred.finish)
        sizes = (
            t.term_row * bytes_,
            t.mr * t.term_row * bytes_,
            panel_terms_apart(t),
            -(-t.mr // max(1, t.kc // BF16_STEP_VALUES)),
        )
        return (
            *(self._current.get(), self.expansion.address, self._pace.get(), self.deferred.address),
            *(Value(PTR, f"@{function.symbol}") for function in functions),
            *(integer(size) for size in sizes),
        )


def _tile_function(micro: F32AmxMicroKernel, shape: TileShape) -> Function:
    """The function of a tile (micro_kernel.py), with more parameters: the terms of its panel, the
    panel that is expanded meanwhile and how many of its rows in each step, what tile waits to be
    finished; the functions that do both; bytes between rows of A, its terms, and those of the
    panel; rows of the waiting tile that a step finishes.

    Its text names no number and no function of a kernel, so all kernels share its code.
    """
    g, t = micro.g, micro.split
    f = g.module.function(
        g.module.unique(f"f32_amx_{shape.rows}x{shape.vectors}"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), (PTR, "b"), (I64, "m")]
        + [(I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first"), (PTR, "buffer"), (PTR, "soon")]
        + [(I64, "pace"), (PTR, "terms"), (PTR, "expanded"), (I64, "count"), (PTR, "waiting")]
        + [(PTR, "expand"), (PTR, "finish"), (I64, "row"), (I64, "a_apart"), (I64, "b_apart")]
        + [(I64, "each")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, tiles = f.params, AmxTiles((AMX_ROWS,) * (2 if t.mr > AMX_ROWS else 1))
    down = shape.rows // AMX_ROWS
    sums = [
        (tiles.total(i, v), f.at(p["buffer"], i * AMX_ROWS * t.width + v * t.lanes, g.acc))
        for i in range(down)
        for v in range(shape.vectors)
    ]
    stride = integer(t.width * g.bytes)
    with f.if_(p["first"]) as branch:
        for register, _ in sums:
            on_tile(f, "tilezero", register)
        branch.else_()
        for register, address in sums:
            on_tile(f, "tileloadd64", register, address, stride)
    waiting = DeferredRows(micro.deferred, f, p["frame"], p["waiting"], p["finish"])
    lefts = [f.offset(p["a"], f.mul(p["a_apart"], term)) for term in range(BF16_TERMS)]
    word = f.offset(p["a"], f.mul(p["a_apart"], LEFT_TERMS))
    lefts.append(f.offset(p["a"], f.load(I64, word)))
    rights = [f.offset(p["terms"], f.mul(p["b_apart"], term)) for term in range(BF16_TERMS)]
    below, panel_row = f.mul(p["row"], AMX_ROWS), integer(t.nr * g.bytes)
    steps = f.ceil_div(p["k"], BF16_STEP_VALUES)
    with f.range(0, steps, unroll=1) as step:
        a_step, b_step = f.mul(step, 2 * BF16_STEP_VALUES), f.mul(step, AMX_ROWS * t.nr * g.bytes)

        def left(i: int, term: int) -> TileAddress:
            at = f.add(a_step, below) if i else a_step
            return f.offset(lefts[term], at), p["row"]

        def right(v: int, term: int) -> TileAddress:
            return f.offset(rights[term], f.add(b_step, v * t.lanes * g.bytes)), panel_row

        tiles.multiply_terms(f, t.instruction, (down, shape.vectors), left, right, _PAIRS)
        expand = micro.expansion.expand
        f.call_function(expand, p["expanded"], p["count"], address=p["expand"])
        waiting.call_some(f.mul(step, p["each"]), p["each"])
    waiting.rest(f.mul(steps, p["each"]))
    for register, address in sums:
        on_tile(f, "tilestored64", register, address, stride)
    return f
