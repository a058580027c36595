"""The epilogue of register tiles: program, extras, and the stores of what it gives.

A short program is applied to the accumulators in their registers. Elsewhere (a long program,
dynamic sizes, sums that wait between blocks of K) sums go through a buffer, and one function that
all tiles share applies the program to it row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Program
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, I64, Value, bits_of, integer, vec
from ..emit.casts import from_memory, to_memory
from ..emit.gather_lanes import gather, scatter
from ..emit.register_tile import unrolled_loop
from ..emit.scalar_program import emit_program
from ..emit.strided_loops import masked_load, masked_store
from ..emit.tail_mask import TailMask, tail_mask
from ..emit.x86_epilogue import TileOperand, plan_epilogue
from .context import GemmContext
from .packing.strided_axes import Axis, matrix_axes
from .schedule import AmxSchedule
from .zero_point_schedule import TERMS, ZeroPointCompensation, terms_of

# Instructions that take a polynomial, a loop, or many cycles.
_EXPENSIVE_OPS = frozenset(
    "exp expm1 log log1p tanh erf sigmoid sin cos tan asin acos atan sinh cosh asinh acosh atanh "
    "softplus gelu pow mod floormod atan2 div sqrt rsqrt recip".split()
)


def is_short(program: Program, target: Target) -> bool:
    """Whether a program is worth repeating for every register of a tile."""
    real = [i for i in program.instrs if i.op not in ("input", "const", "flush")]
    most = target.heuristics.gemm_epilogue_max_instructions
    return len(real) <= most and not any(i.op in _EXPENSIVE_OPS for i in real)


@dataclass(frozen=True)
class EpilogueColumn:
    """Row and column of lane 0 of a vector, which of its lanes exist (None: all), and where in a
    row of the output the column lies."""

    m: Value
    n: Value
    tail: TailMask | None
    to: Value


class GemmEpilogue:
    """The program on vectors of `lanes` neighbouring columns of one row."""

    def __init__(
        self, g: GemmContext, f: Function, frame: Value, lanes: int, *, shares: bool = False
    ) -> None:
        """shares: whether strides along rows are read from the frame, so that kernels which differ
        in them share the function."""
        self.f, self.lanes, self.program = f, lanes, g.spec.epilogue
        self.operands = g.walked_operands
        self.bases = [g.base(f, frame, i) for i in range(len(g.walked_operands))]
        extras = g.spec.epilogue_operands
        self.strides = [[g.size(f, frame, s) for s in o.strides[-2:]] for o in extras]
        splits = (g.spec.out_m_split, g.spec.out_n_split)
        self.rows, self.columns = matrix_axes(g, f, frame, g.spec.out.strides, splits)
        if shares:
            for i, strides in enumerate(self.strides):
                strides[0] = g.load_row_stride(f, frame, i)
            if splits == (None, None):
                self.rows = Axis(g.load_row_stride(f, frame, len(extras)))

    def column(self, m: Value, n: Value, tail: TailMask | None) -> EpilogueColumn:
        """The vector of a row that begins at column n, a multiple of `lanes`."""
        return EpilogueColumn(m, n, tail, self.columns.at(self.f, n))

    def row(self, m: Value) -> Value:
        """Where a row of the output begins."""
        return self.f.at(self.bases[-1], self.rows.at(self.f, m), self._element(-1))

    def extras(self, position: EpilogueColumn, *, shared: bool) -> list[Value | None]:
        """The extras there, as bits: those that all rows share, or (None among them) the others."""
        found: list[Value | None] = []
        for i, (row, _) in enumerate(self.strides):
            found.append(self._load(i, position) if shared == (row.known == 0) else None)
        return found

    def finish(
        self, value: Value, shared: Sequence[Value | None], position: EpilogueColumn, row: Value
    ) -> None:
        """Store in the row that begins at `row` what the program makes of an accumulator and its
        extras."""
        f = self.f
        own = self.extras(position, shared=False)
        inputs = [value]
        for i, (a, b) in enumerate(zip(shared, own, strict=True)):
            inputs.append(self._as_read(i, a if a is not None else b))
        (result,) = emit_program(f, self.program, inputs, lanes=self.lanes)
        result = to_memory(f, result, self.operands[-1].dtype)
        if self.columns.keeps_whole(self.lanes):
            self._store(result, row, position.to, position.tail)
            return
        count = position.tail.count if position.tail else integer(self.lanes)
        with f.if_(self.columns.fits(f, position.n, count)) as branch:
            self._store(result, row, position.to, position.tail)
            branch.else_()
            self._store_pieces(result, row, position.n, count)

    def _store_pieces(self, result: Value, row: Value, n: Value, count: Value) -> None:
        """Store `count` lanes that are in several blocks of columns."""
        f, size = self.f, bits_of(result.type) // 8
        buffer = f.stack(2 * self.lanes * size)
        f.store(result, buffer)
        with self.columns.pieces(f, n, count) as (first, some, at):
            piece = f.load(result.type, f.at(buffer, first, result.element), size)
            self._store(piece, row, at, tail_mask(f, self.lanes, some))

    def _store(self, value: Value, row: Value, at: Value, tail: TailMask | None) -> None:
        f, step = self.f, self.columns.step
        address = f.at(row, at, self._element(-1))
        if step.known == 1 or self.lanes == 1:
            masked_store(f, value, address, tail)
        else:
            scatter(f, value, address, step, tail)

    def _load(self, index: int, position: EpilogueColumn) -> Value:
        """As integers: f16 values that are live across blocks would pass through library calls on
        instruction sets that have none."""
        f, column, element = self.f, self.strides[index][1], self._element(index)
        address, bits = self._address(index, position), f"i{bits_of(element)}"
        kind = vec(bits, self.lanes)
        if column.known == 0:
            return f.splat(f.load(bits, address), self.lanes)
        if column.known == 1 or self.lanes == 1:
            return masked_load(f, kind, address, position.tail)
        return gather(f, bits, self.lanes, address, column, position.tail)

    def _as_read(self, index: int, bits: Value | None) -> Value:
        """The bits of an extra as the program reads them."""
        assert bits is not None
        value = self.f.bitcast(bits, vec(self._element(index), self.lanes))
        return from_memory(self.f, value, self.operands[index].dtype)

    def _element(self, index: int) -> str:
        return ELEMENT[self.operands[index].dtype.value]

    def _address(self, index: int, position: EpilogueColumn) -> Value:
        f, (row, column) = self.f, self.strides[index]
        at = f.add(f.mul(position.m, row), f.mul(position.n, column))
        return f.at(self.bases[index], at, self._element(index))


def finish_registers(
    g: GemmContext,
    f: Function,
    columns: Sequence[int],
    sums: Sequence[Sequence[Value]],
    *,
    edge: bool,
) -> None:
    """Apply the epilogue to a tile's accumulators: rows of vectors that begin at `columns`.

    The tile is at parameters m and n of `f`; at an edge it has `cols` columns.
    """
    p, lanes = f.params, g.schedule.lanes
    epilogue = GemmEpilogue(g, f, p["frame"], lanes)
    if not edge and _finish_in_assembly(g, f, epilogue, columns, sums):
        return
    ns = [f.add(p["n"], c) for c in columns]
    tails = [tail_mask(f, lanes, f.sub(p["cols"], c)) if edge else None for c in columns]
    positions = [epilogue.column(p["m"], n, tail) for n, tail in zip(ns, tails, strict=True)]
    shared = [epilogue.extras(position, shared=True) for position in positions]
    for i, row in enumerate(sums):
        m = f.add(p["m"], i)
        to = epilogue.row(m)
        for value, alike, position in zip(row, shared, positions, strict=True):
            epilogue.finish(value, alike, replace(position, m=m), to)


def _finish_in_assembly(
    g: GemmContext,
    f: Function,
    epilogue: GemmEpilogue,
    columns: Sequence[int],
    sums: Sequence[Sequence[Value]],
) -> bool:
    """Apply the epilogue by instructions in assembly, if the program and the strides allow it."""
    m, n = f.params["m"], f.params["n"]
    rows, across = epilogue.rows, epilogue.columns
    strides = [tuple(s.known for s in pair) for pair in epilogue.strides]
    if {o.dtype for o in g.walked_operands} != {g.spec.acc} or rows.block is not None:
        return False
    if across.step.known != 1 or not across.keeps_whole(g.lanes):
        return False
    planned = plan_epilogue(g.spec.epilogue, [right == 0 for _, right in strides], g.acc)
    if planned is None or any(right not in (0, 1) for _, right in strides):
        return False

    def offsets(down: int, starts: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """Of each sum: the number of the address, and bytes from there."""
        return tuple(
            (which, (i * down + c) * g.bytes) for i in range(len(sums)) for which, c in starts
        )

    operands: list[TileOperand] = []
    for base, (down, right) in zip(epilogue.bases, strides, strict=False):
        if down is None or right is None:
            return False
        at = f.at(base, f.add(f.mul(m, down), f.mul(n, right)), g.acc)
        starts = [(0, c * right) for c in columns]
        operands.append(TileOperand((at,), offsets(down, starts), broadcast=right == 0))
    if rows.step.known is None:
        return False
    # Columns in blocks (the heads of attention) have an address for each register.
    one = across.block is None
    firsts = [n] if one else [f.add(n, c) for c in columns]
    pointers = tuple(f.at(epilogue.row(m), across.at(f, first), g.acc) for first in firsts)
    starts = [(0, c) if one else (i, 0) for i, c in enumerate(columns)]
    operands.append(TileOperand(pointers, offsets(rows.step.known, starts)))
    return planned.finish(f, [value for row in sums for value in row], operands)


class FullRows:
    """Rows of sums in a buffer that have all their columns: a row's lines at once, with what rows
    share held in registers. `terms` of rows and columns are taken off first, if there are any."""

    def __init__(
        self,
        g: GemmContext,
        f: Function,
        frame: Value,
        origin: tuple[Value, Value, Value],
        terms: Sequence[Value],
    ) -> None:
        """origin: the buffer, and the product's row and column that its first sum belongs to."""
        self.g, self.f, (self.buffer, self.m, n) = g, f, origin
        self.width = g.schedule.width
        self.epilogue = GemmEpilogue(g, f, frame, g.schedule.lanes)
        self.correcting = ZeroPointCompensation(g, f, frame, terms) if terms else None
        starts = [integer(c) for c in range(0, self.width, g.schedule.lanes)]
        self.lines = [
            (
                c,
                position := self.epilogue.column(self.m, f.add(n, c), None),
                self.epilogue.extras(position, shared=True),
                self.correcting.column(c) if self.correcting else (None, None),
            )
            for c in starts
        ]

    def finish(self, i: Value) -> None:
        """The buffer's row i."""
        g, f = self.g, self.f
        m = f.add(self.m, i)
        to = self.epilogue.row(m)
        for c, position, shared, of_column in self.lines:
            at = f.at(self.buffer, f.add(f.mul(i, self.width), c), g.acc)
            value = f.load(vec(g.acc, g.schedule.lanes), at, g.align)
            if self.correcting:
                value = self.correcting.take(value, of_column, self.correcting.row(i))
            self.epilogue.finish(value, shared, replace(position, m=m), to)


def finish_function(
    g: GemmContext, lanes: int, row: int, *, corrects: bool = False, shares: bool = False
) -> Function:
    """finish(frame, buffer, m, n, rows, cols): the epilogue of sums in a buffer whose rows are
    `row` elements apart, `lanes` columns at a time. corrects: with two parameters more, the terms
    of rows and columns (zero_point_schedule.py), which are taken off the sums first. shares:
    whether it reads strides from the frame (`GemmContext.set_row_strides`)."""
    f = g.module.function(
        g.module.unique("finish"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "buffer")]
        + [(I64, n) for n in ("m", "n", "rows", "cols")]
        + (TERMS if corrects else []),
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, kind = f.params, vec(g.acc, lanes)
    epilogue = GemmEpilogue(g, f, p["frame"], lanes, shares=shares)
    terms = terms_of(f) if corrects else []
    correcting = ZeroPointCompensation(g, f, p["frame"], terms) if corrects else None
    full_columns = f.mul(f.udiv(p["cols"], lanes), lanes)

    def column(c: Value, tail: TailMask | None) -> None:
        n = f.add(p["n"], c)
        position = epilogue.column(p["m"], n, tail)
        shared = epilogue.extras(position, shared=True)
        terms = correcting.column(c) if correcting else (None, None)
        with f.range(0, p["rows"], unroll=1) as i:
            at = f.at(p["buffer"], f.add(f.mul(i, row), c), g.acc)
            value = f.load(kind, at, lanes * g.bytes)
            if correcting:
                value = correcting.take(value, terms, correcting.row(i))
            m = f.add(p["m"], i)
            epilogue.finish(value, shared, replace(position, m=m), epilogue.row(m))

    # Of N = 1, one lane is a row.
    t = g.schedule
    if isinstance(t, AmxSchedule) and lanes == t.lanes and t.inline_epilogue:
        with f.if_(f.icmp("eq", p["cols"], row)):
            full = FullRows(g, f, p["frame"], (p["buffer"], p["m"], p["n"]), terms)
            unrolled_loop(f, p["rows"], 2, full.finish)
            f.ret()
    with f.range(0, full_columns, lanes, unroll=1) as c:
        column(c, None)
    if lanes > 1:
        with f.if_(f.icmp("slt", full_columns, p["cols"])):
            column(full_columns, tail_mask(f, lanes, f.sub(p["cols"], full_columns)))
    return f
