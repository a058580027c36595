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

from .....plan.packing.panel_params import BF16_TERMS
from ....llvmir.builder import Function
from ....llvmir.values import I1, I64, PTR, Value, integer
from ...emit.amx_registers import AMX_ROWS, TileAddress, on_tile
from ..amx import AmxMicroKernel, registers
from ..context import GemmContext, TileShape
from ..epilogue_overlap import DeferredEpilogue, DeferredRows
from ..loops.loop_state import LoopState
from ..loops.work_partition import Bounds
from ..micro_kernel import KBlock
from ..schedule import F32AmxSchedule
from .f32_terms import STEP_VALUES, PanelExpansion

# Terms of A times terms of B. Term 3 of A is term 0 without infinities.
_PAIRS: Final = ((2, 0), (0, 0), (1, 0), (1, 1), (3, 1), (3, 2))
_STEP_BYTES: Final = 2 * STEP_VALUES


class F32AmxMicroKernel(AmxMicroKernel):
    """Tiles of AMX, with the terms of two panels in scratch: of the one that they multiply and of
    the next one."""

    selects_in_place = False

    def __init__(self, loops: LoopState, schedule: F32AmxSchedule, finish: Function) -> None:
        super().__init__(loops, schedule, finish)
        f, t = loops.f, schedule
        size = BF16_TERMS * t.kc // 2 * t.nr
        self._buffers = [loops.reserve(size) for _ in range(2)]
        self._expansion = PanelExpansion(f, loops.g)
        # Rows of cells of the next panel that a step of a tile expands; the panel being multiplied.
        self._pace, self._current = f.var(I64), f.var(PTR)
        self._panels: Bounds = (integer(0), integer(0))
        self._functions: dict[TileShape, Function] = {}
        self._split = schedule

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
            self._expansion.begin(f, panel, depth, self._buffer(f, first))
        self._expansion.finish(f)
        self._current.set(self._buffer(f, first))
        following = f.add(first, 1)
        with f.if_(f.icmp("slt", following, end)):
            after = f.at(panel, loops.size(g.b_access().across), g.acc)
            self._expansion.begin(f, after, depth, self._buffer(f, following))

    def _buffer(self, f: Function, panel: Value) -> Value:
        """Where the terms of a panel are."""
        return f.select(f.icmp("eq", f.and_(panel, 1), 0), *self._buffers)

    def tile(self, shape: TileShape) -> Function:
        if shape not in self._functions:
            made = _tile_function(self.g, self._split, shape, self._deferred, self._expansion)
            self._functions[shape] = made
        return self._functions[shape]

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        waiting = self._deferred.address
        return self._current.get(), self._expansion.address, self._pace.get(), waiting


def _tile_function(
    g: GemmContext,
    t: F32AmxSchedule,
    shape: TileShape,
    deferred: DeferredEpilogue,
    expansion: PanelExpansion,
) -> Function:
    """The function of a tile (micro_kernel.py), with four parameters more: the terms of its panel,
    the panel that is expanded meanwhile and how many of its rows in each step, and what tile waits
    to be finished."""
    f = g.module.function(
        g.module.unique(f"f32_amx_{shape.rows}x{shape.vectors}"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), (PTR, "b"), (I64, "m")]
        + [(I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first"), (PTR, "buffer"), (PTR, "soon")]
        + [(I64, "pace"), (PTR, "terms"), (PTR, "expanded"), (I64, "count")]
        + [("ptr readonly", "waiting")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, tiles = f.params, registers(t, shape.rows)
    down = -(-shape.rows // AMX_ROWS)
    sums = [
        (tiles.total(i, v), f.at(p["buffer"], i * AMX_ROWS * t.width + v * t.lanes, g.acc))
        for i in range(down)
        for v in range(shape.vectors)
    ]
    stride = integer(t.width * g.bytes)
    with f.if_(p["first"] if t.blocked else True) as branch:
        for register, _ in sums:
            on_tile(f, "tilezero", register)
        branch.else_()
        for register, address in sums:
            on_tile(f, "tileloadd64", register, address, stride)
    waiting = DeferredRows(deferred, f, p["frame"], p["waiting"])
    each = -(-t.mr // max(1, t.kc // STEP_VALUES))
    row, panel_row = integer(t.term_row * g.bytes), integer(t.nr * g.bytes)
    steps = f.ceil_div(p["k"], STEP_VALUES)
    with f.range(0, steps, unroll=1) as step:

        def left(i: int, term: int, step: Value = step) -> TileAddress:
            at = (term * t.mr + i * AMX_ROWS) * t.term_row * g.bytes
            return f.offset(p["a"], f.add(f.mul(step, _STEP_BYTES), at)), row

        def right(v: int, term: int, step: Value = step) -> TileAddress:
            at = (term * t.kc // 2 * t.nr + v * t.lanes) * g.bytes
            at_step = f.mul(step, AMX_ROWS * t.nr * g.bytes)
            return f.offset(p["terms"], f.add(at_step, at)), panel_row

        tiles.multiply_terms(f, t.instruction, (down, shape.vectors), left, right, _PAIRS)
        f.call_function(expansion.expand, p["expanded"], p["count"])
        waiting.emit_some(f.mul(step, AMX_ROWS), each)
    waiting.rest(f.mul(steps, each))
    for register, address in sums:
        on_tile(f, "tilestored64", register, address, stride)
    return f
