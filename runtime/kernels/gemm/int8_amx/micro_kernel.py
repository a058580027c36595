"""Tiles of AMX of int8 activations times compressed weights.

The products of one group of K are exact sums in tile registers. They are stored to scratch, while
the next group's products follow, and then multiplied by the scales of their rows and columns and
added to sums of f32 in the buffer that the epilogue reads:

    sum += (scale of the row * scale of the column) * (dot - zero * sum of codes)

in the order and with the roundings of the register tiles (int8_micro_kernel.py), so that the bits
are the same. A panel of weights is expanded once for all tiles of rows in a block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from .....plan.specs.base import Operand
from ....llvmir.builder import Function
from ....llvmir.values import F32, I1, I32, I64, PTR, Value, integer, number, vec
from ...emit.amx_groups import GroupProducts, GroupStep
from ...emit.amx_registers import AMX_ROWS, AmxTiles, TileAddress, release
from ..context import GemmContext, TileShape
from ..loops.loop_state import LoopState
from ..micro_kernel import KBlock, TileOrigin, WithoutBlockState
from ..packing.quantize_rows import dot_groups
from ..schedule import Int8AmxSchedule
from .expand_panel import code_shift, expand_panel_function, factors_per_group, panel_bytes
from .tiling import GroupTiles

# Rows of a tile whose sums are scaled in the body of a loop.
_UNROLLED_ROWS: Final = 8
_LINE_BYTES: Final = 64


class Int8AmxMicroKernel(WithoutBlockState):
    """The protocol MicroKernel. In scratch are the panel that tiles multiply, expanded, and the
    integer sums of one group."""

    def __init__(self, loops: LoopState, schedule: Int8AmxSchedule, finish: Function) -> None:
        self.g, self.schedule, self._finish = loops.g, schedule, finish
        spec, t = loops.g.spec, schedule
        self._panel = loops.reserve(panel_bytes(spec, t.nr) // loops.g.bytes)
        self._factors = loops.reserve(dot_groups(spec) * factors_per_group(spec) * t.nr)
        self._dots = loops.reserve(t.mr * t.nr)
        self._expand = expand_panel_function(loops.g)
        self._made: dict[TileShape, Function] = {}

    def configure(self, loops: LoopState) -> None:
        _registers(self.g).configure(loops.f)

    def release(self, loops: LoopState) -> None:
        release(loops.f)

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        what = (loops.frame, b(), first, self._panel, self._factors)
        loops.f.call_function(self._expand, *what)

    def tile(self, shape: TileShape) -> Function:
        if shape not in self._made:
            self._made[shape] = _tile_function(self.g, self.schedule, shape)
        return self._made[shape]

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        return self._panel, self._factors, self._dots, rows

    def finish(
        self, loops: LoopState, last: Value, rows: Value, origin: TileOrigin, terms: Sequence[Value]
    ) -> None:
        buffer, m, n, cols = origin
        loops.f.call_function(self._finish, loops.frame, buffer, m, n, rows, cols)


def _registers(g: GemmContext) -> AmxTiles:
    return AmxTiles((AMX_ROWS, AMX_ROWS), GroupTiles.of(g.spec).cells)


def _tile_function(g: GemmContext, t: Int8AmxSchedule, shape: TileShape) -> Function:
    """The function of a tile (micro_kernel.py), with four parameters more: the expanded panel, its
    factors, where integer sums are stored, and how many rows the tile has."""
    f = g.module.function(
        g.module.unique(f"int8_amx_{shape.rows}x{shape.vectors}"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
        + [(I64, "m"), (I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first")]
        + [("ptr noalias", "buffer"), (PTR, "soon"), (I64, "pace")]
        + [("ptr readonly", "panel"), ("ptr noalias readonly", "factors"), (PTR, "dots")]
        + [(I64, "rows")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    with f.range(0, shape.rows * t.width, g.lanes, unroll=4) as at:
        f.store(f.as_value(0, g.vector), f.at(f.params["buffer"], at, g.acc), g.align)
    tile = _GroupSteps(g, t, f, shape)

    def use(index: Value) -> None:
        tile.fetch(index)
        tile.scale(index)

    tile.products.multiply_all(integer(dot_groups(g.spec)), tile.steps, use)
    return f


class _GroupSteps:
    """What a tile does in one group of the activations."""

    def __init__(
        self, g: GemmContext, schedule: Int8AmxSchedule, f: Function, shape: TileShape
    ) -> None:
        self.g, self.schedule, self.f, self.shape = g, schedule, f, shape
        self.group = GroupTiles.of(g.spec)
        registers, line = (shape.rows // AMX_ROWS, shape.vectors), schedule.nr * g.bytes
        how = (schedule.instruction, registers, f.params["dots"], line)
        self.products = GroupProducts(f, _registers(g), *how)

    def steps(self, index: Value) -> list[GroupStep]:
        """The factors of group `index`."""
        f, t, p = self.f, self.schedule, self.f.params
        row, line = integer(t.a_row * self.g.bytes), integer(t.nr * self.g.bytes)
        width, lanes_bytes = 4 * self.group.cells, self.g.align
        a = f.offset(p["a"], f.mul(index, self.group.depth))
        b = f.offset(p["panel"], f.mul(index, self.group.depth * t.nr))

        def left(step: int, down: int) -> TileAddress:
            return f.offset(a, down * AMX_ROWS * t.a_row * self.g.bytes + step * width), row

        def right(step: int, across: int) -> TileAddress:
            return f.offset(b, step * width * t.nr + across * lanes_bytes), line

        return [(partial(left, n), partial(right, n)) for n in range(self.group.steps)]

    def fetch(self, index: Value) -> None:
        """Fetch the weights of the next panel that are this tile's share."""
        f, p = self.f, self.f.params
        share = f.mul(p["pace"], self.group.depth)
        first = f.offset(p["soon"], f.mul(index, share))
        with f.range(0, share, _LINE_BYTES, unroll=1) as at:
            f.prefetch(f.offset(first, at), locality=2)

    def scale(self, index: Value) -> None:
        """Add the stored sums of group `index` to those of f32."""
        g, f, t = self.g, self.f, self.schedule
        kind, row = vec(F32, g.lanes), factors_per_group(g.spec) * t.nr
        factors = f.at(f.params["factors"], f.mul(index, row), F32)
        columns = range(0, self.shape.vectors * g.lanes, g.lanes)
        loaded = [
            [f.load(kind, f.at(factors, at + c, F32), g.align) for at in range(0, row, t.nr)]
            for c in columns
        ]
        with f.range(0, f.params["rows"], _UNROLLED_ROWS, unroll=1) as first:
            for i in range(_UNROLLED_ROWS):
                self._scale_row(f.add(first, i), index, columns, loaded)

    def _scale_row(
        self, i: Value, index: Value, columns: Sequence[int], factors: Sequence[Sequence[Value]]
    ) -> None:
        g, f, t = self.g, self.f, self.schedule
        c = g.spec.compressed
        assert c is not None
        zero_point, groups = c.zero_point, dot_groups(g.spec)
        line = f.at(f.params["a"], f.add(f.mul(i, t.a_row), f.add(index, t.scales_at)), F32)
        scale = f.splat(f.load(F32, line), g.lanes)
        constant = None
        if not isinstance(zero_point, Operand) and zero_point + code_shift(g.spec):
            shifted = -float(zero_point + code_shift(g.spec))
            constant = number(shifted, vec(F32, g.lanes))
        # The sum of codes, and its product with the scale.
        total, product = (
            f.splat(f.load(F32, f.at(line, integer(n * groups), F32)), g.lanes) for n in (1, 2)
        )
        for column, (weight, *others) in zip(columns, factors, strict=True):
            at = f.add(f.mul(i, t.nr), column)
            dot = f.load(vec(I32, g.lanes), f.at(f.params["dots"], at, I32), g.align)
            value = f.cast(dot, F32)
            # Both the product and the difference are exact.
            zero = others.pop(0) if isinstance(zero_point, Operand) else constant
            if zero is not None:
                value = f.fma(zero, total, value)
            address = f.at(f.params["buffer"], at, g.acc)
            result = f.load(g.vector, address, g.align)
            result = f.fma(f.fmul(scale, weight), value, result)
            if others:
                result = f.fma(others[0], product, result)
            f.store(result, address, g.align)
