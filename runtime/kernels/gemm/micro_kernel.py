"""Micro-kernels: the register tile, rows x columns of one product, summed along K.

The loops (loops/) know the protocol `MicroKernel` only; amx.py has the one on tiles of AMX, here
are those of vector registers.

One generator serves every element type and instruction set: a tile is `rows * vectors` variables
that LLVM keeps in registers, and per step of K one load per vector of B, one broadcast per row of
A, and one multiply-add for each pair. What differs between machines is data (schedule, Target, the
units of runtime/kernels/emit/register_tile.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ....ir.dtype import DType
from ...llvmir.builder import AssemblyFunction, Function, StackVariable
from ...llvmir.values import ELEMENT, F32, I1, I64, PTR, Value, bits_of, integer, vec
from ..emit.register_tile import unrolled_loop
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import tail_mask
from ..emit.x86_multiply_add_loop import (
    HALF_LOADS,
    MultiplyAddLoop,
    cell_instruction,
    multiply_add_loop,
    widening_load,
)
from . import bf16_rounding as rounding
from .assembly.tile import write_tile
from .block_micro_kernel import accumulate_blocks
from .context import GemmContext, TileShape
from .epilogue import finish_registers
from .loops.loop_state import LoopState
from .loops.work_partition import Bounds
from .zero_point_schedule import TERMS, correct

# Adds the products of a block of K to a tile's sums: (context, function, tile, columns, sums).
Accumulate = Callable[
    [GemmContext, Function, TileShape, Sequence[int], list[list[StackVariable]]], None
]
# Where a tile's sums are: address, row and column in the product, columns.
TileOrigin = tuple[Value, Value, Value, Value]
# A block of K: its first step, and how many steps it has.
KBlock = tuple[Value, Value]


class MicroKernel(Protocol):
    """How schedules of one class compute register tiles, and finish them."""

    @property
    def selects_in_place(self) -> bool:
        """Whether a tile's address of A, in place or of a copy, is selected at run time."""
        ...

    def configure(self, loops: LoopState) -> None:
        """Prepare the worker, before its first tile."""
        ...

    def release(self, loops: LoopState) -> None:
        """Undo `configure`, after its last one."""
        ...

    def tiles_in_place(self, loops: LoopState, a: Value, tiles: Value) -> Value:
        """How many of the first `tiles` tiles may read the matrix A at `a` in place."""
        ...

    def begin_block(self, loops: LoopState, tiles: Bounds, panels: Bounds) -> None:
        """Before the tiles of a block: those of rows `tiles` times `panels`."""
        ...

    def end_block(self, loops: LoopState) -> None:
        """After the tiles of a block: finish those that are not."""
        ...

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        """Before the tiles of panels, from panel `first` on, that begin, for a block of K, at
        b()."""
        ...

    def expanded_panel(self, b: Value) -> Value:
        """Where tiles read the panel that begins at `b`."""
        ...

    def tile(self, shape: TileShape) -> Function | AssemblyFunction:
        """The function of a tile. Arguments:

        frame, a, b (the tile's first elements), m, n (its row and column in the product), cols
        (columns left, for an edge), k (steps in this block), first (the sums start here), buffer
        (where they go, unless registers are finished), soon, pace (what to fetch: address at the
        first step, bytes per step), and `more_arguments`.
        """
        ...

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        """row: bytes between rows of A; rows: how many the tile has; terms: of zero points
        (zero_point_schedule.py)."""
        ...

    def finish(
        self, loops: LoopState, last: Value, rows: Value, origin: TileOrigin, terms: Sequence[Value]
    ) -> None:
        """Apply the epilogue to a tile whose sums are in the buffer, if this block of K is the
        last one."""
        ...


class WithoutBlockState:
    """The part of MicroKernel of one that keeps nothing for a block and takes A as it is packed."""

    selects_in_place = False

    def tiles_in_place(self, loops: LoopState, a: Value, tiles: Value) -> Value:
        return tiles

    def begin_block(self, loops: LoopState, tiles: Bounds, panels: Bounds) -> None:
        pass

    def end_block(self, loops: LoopState) -> None:
        pass

    def expanded_panel(self, b: Value) -> Value:
        return b


class VectorMicroKernel(WithoutBlockState):
    """Tiles of vector registers. finish: the epilogue of sums in a buffer; None: tiles finish their
    registers. accumulate: what adds products to a tile's sums (None: `accumulate_panels`)."""

    def __init__(
        self,
        g: GemmContext,
        finish: Function | None = None,
        accumulate: Accumulate | None = None,
    ) -> None:
        self.g, self._finish = g, finish
        self._accumulate = accumulate or accumulate_panels
        self._made: dict[TileShape, Function | AssemblyFunction] = {}

    def configure(self, loops: LoopState) -> None:
        pass

    def release(self, loops: LoopState) -> None:
        pass

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        pass

    def tile(self, shape: TileShape) -> Function | AssemblyFunction:
        if shape not in self._made:
            self._made[shape] = self._assembly_function(shape) or self._tile_function(shape)
        return self._made[shape]

    def _assembly_function(self, shape: TileShape) -> AssemblyFunction | None:
        """A tile's function in assembly, if it can be written so."""
        columns = self._columns(shape)
        if self._accumulate is not accumulate_panels:
            return None
        loop = _assembly_loop(self.g, shape, columns)
        if loop is None:
            return None
        return write_tile(self.g, self._stem(shape), self._params(), shape, columns, loop)

    def _columns(self, shape: TileShape) -> list[int]:
        """Where the registers of a row begin."""
        t = self.g.schedule
        return [p * t.nr + v * t.lanes for p in range(shape.panels) for v in range(shape.vectors)]

    def _stem(self, shape: TileShape) -> str:
        edge = "edge_" if shape.edge else ""
        return f"tile_{edge}{shape.rows}x{shape.panels}x{shape.vectors}"

    def _params(self) -> list[tuple[str, str]]:
        """Types and names of a tile's parameters (`MicroKernel.tile`)."""
        g = self.g
        return (
            [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias readonly", "b")]
            + [(I64, "m"), (I64, "n"), (I64, "cols"), (I64, "k"), (I1, "first")]
            + [("ptr noalias", "buffer"), (PTR, "soon"), (I64, "pace")]
            + (TERMS if g.corrections and not g.schedule.buffered else [])
        )

    def more_arguments(self, row: Value, rows: Value, terms: Sequence[Value]) -> Sequence[Value]:
        return () if self._finish else terms

    def finish(
        self, loops: LoopState, last: Value, rows: Value, origin: TileOrigin, terms: Sequence[Value]
    ) -> None:
        if self._finish:
            buffer, m, n, cols = origin
            with loops.f.if_(last):
                what = (buffer, m, n, rows, cols, *terms)
                loops.f.call_function(self._finish, loops.frame, *what)

    def _open_tile(self, shape: TileShape) -> Function:
        """A tile's function without its body."""
        g = self.g
        return g.module.function(
            g.module.unique(self._stem(shape)),
            self._params(),
            attributes="nounwind noinline",
            linkage="internal",
        )

    def _tile_function(self, shape: TileShape) -> Function:
        g = self.g
        t = g.schedule
        f = self._open_tile(shape)
        columns = self._columns(shape)
        sums = [[f.var(g.vector, 0) for _ in columns] for _ in range(shape.rows)]
        addresses = [
            [f.at(f.params["buffer"], i * t.width + c, g.acc) for c in columns]
            for i in range(shape.rows)
        ]
        slots = [
            (s, address)
            for row, row_places in zip(sums, addresses, strict=True)
            for s, address in zip(row, row_places, strict=True)
        ]
        if t.blocked:
            with f.if_(f.xor(f.params["first"], 1)):
                for s, address in slots:
                    s.set(f.load(g.vector, address, g.align))
        stores = t.stores_sums(in_place=shape.in_place)
        if g.corrections and not stores:
            correct(g, f, columns, sums)
        with rounding.flush_to_zero(f, g.spec.compute_dtype is DType.bf16 and not g.unit):
            self._accumulate(g, f, shape, columns, sums)
            for s, address in slots if stores else ():
                f.store(s.get(), address, g.align)
        if not stores:
            values = [[s.get() for s in row] for row in sums]
            finish_registers(g, f, columns, values, edge=shape.edge)
        return f


class WideningMicroKernel(VectorMicroKernel):
    """Tiles of vector registers by panels of f16 or bf16, each of which is widened to f32 in
    scratch before its tiles."""

    def __init__(self, loops: LoopState, finish: Function | None = None) -> None:
        super().__init__(loops.g, finish)
        t = loops.g.schedule
        self._panel, self._widen = loops.reserve(t.kc * t.nr), _widen_function(loops.g)

    def begin_panels(
        self, loops: LoopState, b: Callable[[], Value], first: Value, block: KBlock, panels: int
    ) -> None:
        loops.f.call_function(self._widen, b(), self._panel, block[1])

    def expanded_panel(self, b: Value) -> Value:
        return self._panel


def _widen_function(g: GemmContext) -> Function:
    """widen(source, to, k): k rows of a panel of f16 or bf16 as f32."""
    t, element = g.schedule, ELEMENT[g.spec.b.dtype.value]
    f = g.module.function(
        g.module.unique("widen"),
        [("ptr noalias readonly", "source"), ("ptr noalias", "to"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    with f.range(0, f.mul(f.params["k"], t.nr), t.lanes, unroll=2) as at:
        half = f.load(vec(element, t.lanes), f.at(f.params["source"], at, element))
        f.store(g.widen(f, half, g.spec.b.dtype), f.at(f.params["to"], at, g.acc), g.align)
    return f


def accumulate_panels(
    g: GemmContext,
    f: Function,
    shape: TileShape,
    columns: Sequence[int],
    sums: list[list[StackVariable]],
) -> None:
    """Add the products of all steps of a block of K to the sums of a tile."""
    t, p = g.schedule, f.params
    known = isinstance(g.spec.k, int) and not t.blocked
    depth = integer(t.kc if g.spec.k else 0) if known else p["k"]
    a, b = g.a_access(in_place=shape.in_place), g.tile_b_access()
    a_type, b_type = ELEMENT[a.dtype.value], ELEMENT[b.dtype.value]
    a_cell = F32 if g.cell_in_vector_register else ELEMENT[(a.cell or a.dtype).value]
    across, panel = (g.size(f, p["frame"], x.across) for x in (a, b))
    a_step, b_step = (g.size(f, p["frame"], x.step) for x in (a, b))
    if g.block_unit is not None:
        panel_bytes = f.mul(panel, bits_of(b_type) // 8)
        ahead = partial(prefetch_b, g, f, shape, panel_bytes=panel_bytes)
        accumulate_blocks(g, f, shape, columns, sums, depth, ahead)
        return
    tails = None
    if shape.edge and not (g.spec.packed or t.pack_b):
        tails = [tail_mask(f, t.lanes, f.sub(p["cols"], c)) for c in columns]
    if tails is None and (loop := _assembly_loop(g, shape, columns)):
        zeroed = not t.blocked and not (g.corrections and not t.buffered)
        addresses, ahead = (p["a"], p["b"]), (p["soon"], p["pace"])
        multiply_add_loop(f, loop, sums, addresses, depth, ahead, zeroed=zeroed)
        return
    b_vector = vec(b_type, t.lanes)

    def step(k: Value) -> None:
        prefetch_b(g, f, shape, k, f.mul(panel, bits_of(b_type) // 8))
        row = f.at(p["b"], f.mul(k, b_step), b_type)
        right: list[Value] = []
        for q, c in enumerate(columns):
            which, within = divmod(c, t.nr)
            address = f.at(row, f.add(f.mul(panel, which), within), b_type)
            x = masked_load(f, b_vector, address, tails[q] if tails else None)
            right.append(g.widen(f, x, b.dtype if g.widens_panels else g.spec.b.dtype))
        column = f.at(p["a"], f.mul(k, a_step), a_type)

        def load_a(i: int) -> Value:
            address = f.at(column, f.mul(across, i), a_type)
            x = f.load(a_cell, address, bits_of(a_type) // 8)
            return g.widen(f, x, g.spec.a.dtype)

        g.add_products(f, sums, load_a, right)

    unrolled_loop(f, depth, t.unroll, step)


def _assembly_loop(
    g: GemmContext, shape: TileShape, columns: Sequence[int]
) -> MultiplyAddLoop | None:
    """The steps of K as a loop in assembly: None for operands that are converted, dynamic strides
    and targets without it."""
    t, spec = g.schedule, g.spec
    a, b = g.a_access(in_place=shape.in_place), g.tile_b_access()
    strides = (a.across, a.step, b.across, b.step)
    a_type, b_type = ELEMENT[a.dtype.value], ELEMENT[b.dtype.value]
    cell = ELEMENT[(a.cell or a.dtype).value]
    cells = cell_instruction(g.unit, g.target) if bits_of(cell) == g.bytes * 8 else ""
    floats = not g.unit and not spec.compute_dtype and a.dtype is spec.acc
    half = HALF_LOADS.get(b.dtype, "") if spec.packed and spec.acc is DType.f32 else ""
    floats = floats and (b.dtype is spec.acc or half != "")
    if spec.k == 0 or not (cells or floats):
        return None
    if not all(isinstance(s, int) for s in strides):
        return None
    across, a_step, panel, b_step = (int(s) for s in strides if isinstance(s, int))
    value, weight = (bits_of(kind) // 8 for kind in (a_type, b_type))
    loop = MultiplyAddLoop(
        element=g.acc,
        lanes=t.lanes,
        rows=tuple(i * across * value for i in range(shape.rows)),
        columns=tuple((c // t.nr * panel + c % t.nr) * weight for c in columns),
        a_step=a_step * value,
        b_step=b_step * weight,
        unroll=t.unroll,
        ahead=tuple(
            which * panel * weight + line * 64
            for which in range(shape.panels if t.fetch else 0)
            for line in range(t.fetch)
        ),
        locality=t.fetch_level,
        cells=cells,
        widening=widening_load(b_type, spec.b.dtype) if cells else half,
    )
    return loop if loop.fits(g.target) else None


def prefetch_b(g: GemmContext, f: Function, shape: TileShape, k: Value, panel_bytes: Value) -> None:
    """Prefetch lines of B that will be needed later: into L1 if soon by this tile itself, into
    L2 if by the tiles of the next panel."""
    t, p = g.schedule, f.params
    for which in range(shape.panels if t.fetch else 0):
        at = f.offset(p["soon"], f.add(f.mul(k, p["pace"]), f.mul(panel_bytes, which)))
        for line in range(t.fetch):
            f.prefetch(f.offset(at, 64 * line), locality=t.fetch_level)
