"""Tiles of AMX of f32 rows times compressed weights, at the accuracy of f32.

A row is three rows of bf16 (split_rows.py), weights are integers that bf16 holds (
expand_weights.py), so products are exact. Those of one group of K are added in f32 in tile
registers. Their sums are stored to scratch, while the next group's products follow; then the three
sums of a row are added, the smallest ones first, multiplied by the scales of their columns, and
added to sums of f32 in the buffer that the epilogue reads:

    sum += scale * (third + second + first) [+ offset * sum of the row's values]

A row has the same bits alone and among others: no sum is shared by two rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from .....plan.packing.panel_params import BF16_TERMS
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I1, I64, PTR, Value, integer, vec
from ...emit.amx_groups import GroupProducts, GroupStep
from ...emit.amx_registers import (
    AMX_ROWS,
    AmxTiles,
    TileAddress,
    load_configuration,
    release,
)
from ..context import GemmContext, TileShape
from ..loops.loop_state import LoopState
from ..micro_kernel import KBlock, TileOrigin, WithoutBlockState
from ..packing.dequant import Dequantizer
from ..packing.quantize_rows import dot_groups
from ..schedule import Bf16x3Schedule
from .expand_weights import (
    ExpandedWeights,
    SumFactors,
    copy_factors_function,
    expand_function,
    factors_per_sum,
)
from .split_rows import has_row_sums
from .tiling import REGISTER_ROWS, SumTiles, expanded_sums

_INSTRUCTION: Final = "llvm.x86.tdpbf16ps"
# Bytes of weights that are expanded before they are multiplied, by a tile that does so itself: what
# was just stored cannot be loaded as tiles yet.
_AHEAD_BYTES: Final = 8 << 10


class Bf16x3MicroKernel(WithoutBlockState):
    """The protocol MicroKernel. In scratch are the weights that tiles multiply, expanded, and the
    sums of one group."""

    def __init__(self, loops: LoopState, schedule: Bf16x3Schedule, finish: Function) -> None:
        self.g, self.schedule, self._finish = loops.g, schedule, finish
        spec, t = loops.g.spec, schedule
        # One tile alone expands a group while it multiplies the last one.
        sums = _groups_ahead(spec) if t.few else expanded_sums(spec)
        self._weights = loops.reserve(sums * SumTiles.of(spec).depth * t.nr // 2)
        self._factors = loops.reserve(0 if t.few else sums * factors_per_sum(spec) * t.nr)
        self._dots = loops.reserve(2 * AMX_ROWS * t.nr)
        self._expand = expand_function(loops.g)
        self._copy_factors = None if t.few else copy_factors_function(loops.g)
        self._made: dict[TileShape, Function] = {}

    def configure(self, loops: LoopState) -> None:
        f, g, t = loops.f, self.g, self.schedule
        tall = _registers(g, t.mr, t).configuration()
        if not t.few:
            load_configuration(f, f.module.table(tall, I64))
            return
        low = _registers(g, 1, t).configuration()
        tables = f.module.table([*tall, *low], I64)
        single = f.icmp("eq", loops.m, 1)
        load_configuration(f, f.at(tables, f.select(single, len(tall), 0), I64))

    def release(self, loops: LoopState) -> None:
        release(loops.f)

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        if self._copy_factors is None:
            return
        f, e, (k0, depth) = loops.f, SumTiles.of(self.g.spec), block
        row = Dequantizer(self.g.spec, self.g.lanes, fused=True)
        cells = f.offset(b(), f.mul(f.udiv(k0, row.kr), row.row))
        f.call_function(self._expand, cells, depth, self._weights)
        groups = (f.udiv(k0, e.depth), f.ceil_div(depth, e.depth))
        f.call_function(self._copy_factors, loops.frame, first, *groups, self._factors)

    def tile(self, shape: TileShape) -> Function:
        if shape not in self._made:
            self._made[shape] = _tile_function(self.g, self.schedule, shape, self._expand)
        return self._made[shape]

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        return self._weights, self._factors, self._dots

    def finish(
        self, loops: LoopState, last: Value, rows: Value, origin: TileOrigin, terms: Sequence[Value]
    ) -> None:
        buffer, m, n, cols = origin
        with loops.f.if_(last):
            loops.f.call_function(self._finish, loops.frame, buffer, m, n, rows, cols)


def _groups_ahead(spec: GemmSpec) -> int:
    """How many groups of weights are expanded ahead: a power of two."""
    group = SumTiles.of(spec).depth * 2 * (spec.packed.nr if spec.packed else 1)
    return 1 << max(1, (_AHEAD_BYTES // group).bit_length() - 1)


def _registers(g: GemmContext, height: int, t: Bf16x3Schedule) -> AmxTiles:
    """The registers of tiles of so many rows: as many as the tallest has, but where all rows are
    one."""
    height = 1 if t.few and height == 1 else t.mr
    rows = [min(REGISTER_ROWS, height - at) for at in range(0, height, REGISTER_ROWS)]
    return AmxTiles(tuple(BF16_TERMS * r for r in rows), SumTiles.of(g.spec).cells)


def _tile_function(
    g: GemmContext, t: Bf16x3Schedule, shape: TileShape, expand: Function
) -> Function:
    """The function of a tile (micro_kernel.py), with three parameters more: the expanded weights,
    their factors, and where sums of groups are stored."""
    f = g.module.function(
        g.module.unique(f"bf16x3_{shape.rows}x{shape.vectors}"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
        + [(I64, "m"), (I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first")]
        + [("ptr noalias", "buffer"), (PTR, "soon"), (I64, "pace")]
        + [(PTR, "weights"), (PTR, "factors"), (PTR, "dots")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    with f.if_(p["first"]), f.range(0, shape.rows * t.width, g.lanes, unroll=4) as at:
        f.store(f.as_value(0, g.vector), f.at(p["buffer"], at, g.acc), g.align)
    if t.few:
        _ExpandingSums(g, t, f, shape, expand).add_all()
    else:
        _GroupSums(g, t, f, shape).add_all()
    return f


class _GroupSums:
    """What a tile does in one group of K."""

    def __init__(
        self, g: GemmContext, schedule: Bf16x3Schedule, f: Function, shape: TileShape
    ) -> None:
        self.g, self.schedule, self.f, self.shape = g, schedule, f, shape
        self.sums = SumTiles.of(g.spec)
        registers = (-(-shape.rows // REGISTER_ROWS), shape.vectors)
        how = (_INSTRUCTION, registers, f.params["dots"], 4 * schedule.nr)
        self.products = GroupProducts(f, _registers(g, shape.rows, schedule), *how)

    def add_all(self) -> None:
        """Add the products of all groups of the block, whose weights are expanded, to the sums."""
        f = self.f
        count = f.ceil_div(f.params["k"], self.sums.depth)
        self.products.multiply_all(count, self.steps, self.scale)

    def weights(self, index: Value) -> Value:
        """The address of the expanded weights of a group."""
        f = self.f
        return f.offset(f.params["weights"], f.mul(index, 2 * self.sums.depth * self.schedule.nr))

    def factors(self, index: Value, column: int) -> list[Value]:
        """The factors of a group and a vector of columns."""
        f, nr, count = self.f, self.schedule.nr, factors_per_sum(self.g.spec)
        row = f.at(f.params["factors"], f.mul(index, count * nr), F32)
        kind = vec(F32, self.g.lanes)
        return [f.load(kind, f.at(row, i * nr + column, F32), self.g.align) for i in range(count)]

    def steps(self, index: Value) -> list[GroupStep]:
        """The factors of a group."""
        f, t = self.f, self.schedule
        row, line = integer(4 * t.term_row), integer(4 * t.nr)
        width, register_rows = 4 * self.sums.cells, 4 * BF16_TERMS * REGISTER_ROWS * t.term_row
        a = f.offset(f.params["a"], f.mul(index, 2 * self.sums.depth))
        b = self.weights(index)

        def left(step: int, down: int) -> TileAddress:
            return f.offset(a, register_rows * down + step * width), row

        def right(step: int, across: int) -> TileAddress:
            return f.offset(b, step * width * t.nr + across * self.g.align), line

        return [(partial(left, n), partial(right, n)) for n in range(self.sums.steps)]

    def scale(self, index: Value) -> None:
        """Add the stored sums of a group to those of the product."""
        g, t = self.g, self.schedule
        columns = range(0, self.shape.vectors * g.lanes, g.lanes)
        loaded = [self.factors(index, c) for c in columns]
        for i in range(self.shape.rows):
            down, within = divmod(i, REGISTER_ROWS)
            for c, values in zip(columns, loaded, strict=True):
                first = (down * AMX_ROWS + within * BF16_TERMS) * t.nr + c
                self._scale_vector(i, c, first, index, values)

    def _scale_vector(
        self, i: int, column: int, first: int, index: Value, factors: Sequence[Value]
    ) -> None:
        g, f, t = self.g, self.f, self.schedule
        kind, dots = vec(F32, g.lanes), f.params["dots"]
        terms = [
            f.load(kind, f.at(dots, first + term * t.nr, F32), g.align)
            for term in range(BF16_TERMS)
        ]
        dot = f.fadd(f.fadd(terms[2], terms[1]), terms[0])
        address = f.at(f.params["buffer"], i * t.width + column, g.acc)
        result = f.fma(factors[0], dot, f.load(g.vector, address, g.align))
        if has_row_sums(g.spec):
            at = f.add(index, t.sums_at + i * (t.kc // self.sums.depth))
            total = f.splat(f.load(F32, f.at(f.params["a"], at, F32)), g.lanes)
            result = f.fma(factors[1], total, result)
        f.store(result, address, g.align)


class _ExpandingSums(_GroupSums):
    """The same of a tile that has all rows, and all of K: it expands a group of weights while it
    multiplies the one before."""

    def __init__(
        self,
        g: GemmContext,
        schedule: Bf16x3Schedule,
        f: Function,
        shape: TileShape,
        expand: Function,
    ) -> None:
        super().__init__(g, schedule, f, shape)
        self._expand, self._expanded = expand, ExpandedWeights(g, f)
        panel = f.udiv(f.params["n"], schedule.nr)
        self._factors = SumFactors(g, f, f.params["frame"], panel)
        self._ahead = _groups_ahead(g.spec)

    def add_all(self) -> None:
        f, k = self.f, self._expanded.e.k
        count, full = dot_groups(self.g.spec), k // self.sums.depth
        for index in range(min(self._ahead, count)):
            self._expand_apart(integer(index))
        self.products.multiply(self.steps(integer(0)))
        body = max(0, full - self._ahead)
        with f.range(0, count, outer=True) as index:
            with f.if_(f.icmp("slt", index, body)) as branch:
                rows = self._expanded_rows(f.add(index, self._ahead))
                self.products.multiply_next(self.steps(f.add(index, 1)), rows)
                branch.else_()
                self._multiply_last(index, count, body)
            self.scale(index)

    def _multiply_last(self, index: Value, count: int, body: int) -> None:
        """What stores the sums of a group when no whole group is left to expand: the last one,
        which is shorter, is expanded apart."""
        f = self.f
        if self._expanded.e.k % self.sums.depth and count > self._ahead:
            with f.if_(f.icmp("eq", index, body)):
                self._expand_apart(integer(count - 1))
        with f.if_(f.icmp("slt", index, count - 1)) as branch:
            self.products.multiply_next(self.steps(f.add(index, 1)))
            branch.else_()
            self.products.store()

    def weights(self, index: Value) -> Value:
        return super().weights(self.f.and_(index, self._ahead - 1))

    def factors(self, index: Value, column: int) -> list[Value]:
        return self._factors.load(index, column)

    def _cells(self, index: Value) -> Value:
        """The address of the cells of a group."""
        e = self._expanded.e
        return self.f.offset(self.f.params["b"], self.f.mul(index, self.sums.depth // e.kr * e.row))

    def _expand_apart(self, index: Value) -> None:
        """Expand a group, which may be the last one."""
        f, depth = self.f, self.sums.depth
        k = f.smin(f.sub(self._expanded.e.k, f.mul(index, depth)), depth)
        f.call_function(self._expand, self._cells(index), k, self.weights(index))

    def _expanded_rows(self, index: Value) -> list[Callable[[], None]]:
        """What expands the rows of cells of a group, one by one."""
        cells, to = self._cells(index), self.weights(index)
        rows = range(self.sums.depth // self._expanded.e.kr)
        return [partial(self._expanded.expand_row, cells, to, integer(row)) for row in rows]
