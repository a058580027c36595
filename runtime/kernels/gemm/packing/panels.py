"""Copies of operands in the order in which register tiles read them.

B: panels of nr columns, each K x nr row after row, the last one padded with zeros. Those of
constants are weight_packing.py's; other right operands are packed by generated code, a block at a
time. A: strips of one tile's rows, either rows one after the other (or two by two, two cells of
each in turn) or columns one after the other.
Where a unit multiplies cells, an element is a cell: `kr` neighbours along K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import I1, I64, Value, bits_of, integer, vec
from ...emit.gather_lanes import gathers
from ...emit.tail_mask import TailMask, tail_mask
from ...emit.transpose_registers import transpose_registers
from ..context import GemmContext
from ..schedule import AmxSchedule
from .pack_cells import (
    KIndices,
    cell_at,
    each_cell,
    fetch,
    fetch_along,
    fetch_cells,
    left_side,
    right_side,
)
from .strided_axes import Axis, matrix_axes


def pack_a_function(g: GemmContext) -> Function:
    """pack(frame, source, to, rows, k): one strip of A, as cells. Where A is walked in blocks, two
    more parameters, m and k0, say where the strip begins, and `source` is all of A.

    Rows beyond `rows` (only guarded tiles have them) are zero.
    """
    t, side = g.schedule, left_side(g)
    f = g.module.function(
        g.module.unique("pack_a"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "source"), ("ptr noalias", "to")]
        + [(I64, "rows"), (I64, "k")]
        + ([(I64, "m"), (I64, "k0")] if in_blocks(g.spec) else []),
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, element, spec = f.params, side.element, g.spec
    splits = (spec.a_m_split, spec.a_k_split)
    across, along = matrix_axes(g, f, p["frame"], spec.a.strides, splits)
    m, k0 = (p["m"], p["k0"]) if in_blocks(spec) else (integer(0), integer(0))
    if t.pack_a == "columns":
        _pack_columns(g, f, along.step)
        return f
    width = t.lanes * t.kr
    fetched = t.a_fetch_rows if isinstance(t, AmxSchedule) else 0
    if in_blocks(spec) or along.step.known != 1:
        fetched = 0
    with f.range(0, p["rows"], outer=True) as i:
        source = f.at(p["source"], across.at(f, f.add(m, i)), element)
        to = packed_row(g, f, p["to"], i, side.cell)

        def copy(k: Value, left: Value | None) -> None:
            cells = _cells_of_row(g, f, source, along, f.add(k0, k), left)
            _store_cells(g, f, to, f.udiv(k, t.kr), cells)
            if fetched:
                ahead = f.add(f.mul(f.add(i, fetched), across.step), k)
                pointer = f.at(p["source"], ahead, element)
                for line in range(0, width * bits_of(element) // 8, 64):
                    f.prefetch(f.offset(pointer, line))

        if along.block is not None and along.keeps_whole(width) and not t.blocked:
            # One run after the other: no index is divided.
            with f.range(0, p["k"], along.size, unroll=1) as start:
                run = f.at(source, along.at(f, start), element)
                with f.range(0, along.size, width, unroll=4) as k:
                    pointer = f.at(run, f.mul(k, along.step), element)
                    cells = fetch_along(g, f, side, pointer, along.step, None)
                    _store_cells(g, f, to, f.udiv(f.add(start, k), t.kr), cells)
        else:
            # Lanes that are gathered one by one need no second form.
            single = along.step.known != 1 and not gathers(f, element)
            full = integer(0) if single else f.mul(f.udiv(p["k"], width), width)
            with f.range(0, full, width, unroll=4) as k:
                copy(k, None)
            with f.range(full, p["k"], width, outer=True) as k:
                copy(k, f.smin(f.sub(p["k"], k), width))
    if t.guarded:
        with f.range(p["rows"], t.mr, outer=True) as i:
            to = packed_row(g, f, p["to"], i, side.cell)
            with f.range(0, f.ceil_div(p["k"], t.kr), t.lanes, unroll=1) as k:
                _store_cells(g, f, to, k, f.as_value(0, g.vector))
    return f


def packed_row(g: GemmContext, f: Function, strip: Value, row: Value, cell: str) -> Value:
    """Where a row of a strip of rows begins; of rows two by two, each has two cells in turn."""
    t = g.schedule
    if not t.pairs_rows:
        return f.at(strip, f.mul(row, t.a_row), cell)
    second = f.and_(row, 1)
    return f.at(strip, f.add(f.mul(f.sub(row, second), t.a_row), f.mul(second, 2)), cell)


def _store_cells(g: GemmContext, f: Function, row: Value, k: Value, cells: Value) -> None:
    """Store a vector of cells of a packed row, from cell k on."""
    cell = cells.element
    if not g.schedule.pairs_rows:
        f.store(cells, f.at(row, k, cell), g.align)
        return
    for first in range(0, cells.lanes, 2):
        at = f.at(row, f.mul(f.add(k, first), 2), cell)
        f.store(f.shuffle(cells, None, (first, first + 1)), at, 2 * g.bytes)


def _pack_columns(g: GemmContext, f: Function, step: Value) -> None:
    """A strip of A, column after column, whose rows are neighbours in memory."""
    t, side, p = g.schedule, left_side(g), f.params
    starts = range(0, t.a_row, t.lanes)

    def copy(tails: Sequence[TailMask | None]) -> None:
        def place_rows(cell: Value, indices: KIndices) -> None:
            for s, tail in zip(starts, tails, strict=True):

                def address(k: Value, s: int = s) -> Value:
                    return f.at(p["source"], f.add(f.mul(k, step), s), side.element)

                cells = fetch_cells(g, f, side, indices, address, integer(1), tail)
                f.store(cells, f.at(p["to"], f.add(f.mul(cell, t.a_row), s), side.cell), g.align)

        each_cell(g, f, p["k"], place_rows, unroll=4)

    # Only AVX-512 loads narrow elements by a mask without a test of each.
    narrow = bits_of(side.element) < 32 and f.target.isa != "avx512"
    full = f.icmp("sge", p["rows"], t.a_row) if narrow else integer(0, I1)
    with f.if_(full) as branch:
        copy([None] * len(starts))
        branch.else_()
        copy([tail_mask(f, t.lanes, f.sub(p["rows"], s)) for s in starts])


def in_blocks(spec: GemmSpec) -> bool:
    """Whether A is walked in blocks of rows or of K."""
    return spec.a_m_split is not None or spec.a_k_split is not None


def _cells_of_row(
    g: GemmContext, f: Function, row: Value, along: Axis, k: Value, left: Value | None
) -> Value:
    """A vector of cells of a row of A, from index k on (a multiple of the vector's width), of which
    `left` values exist (None: all)."""
    side, width = left_side(g), g.schedule.lanes * g.schedule.kr
    pointer = f.at(row, along.at(f, k), side.element)
    if along.keeps_whole(width):
        return fetch_along(g, f, side, pointer, along.step, left)
    count = integer(width) if left is None else left
    size = bits_of(side.element) // 8
    buffer, cells = f.stack(2 * width * size), f.var(vec(side.cell, g.schedule.lanes))
    with f.if_(along.fits(f, k, count)) as branch:
        cells.set(fetch_along(g, f, side, pointer, along.step, left))
        branch.else_()
        # Each piece ends in zeros, which the next one overwrites.
        with along.pieces(f, k, count) as (first, some, at):
            x = fetch(f, replace(side, shift=0), width, f.at(row, at, side.element), along.step,
                      tail_mask(f, width, some))  # fmt: skip
            f.store(x, f.at(buffer, first, side.element), size)
        cells.set(fetch_along(g, f, side, buffer, integer(1), left))
    return cells.get()


def pack_b_function(g: GemmContext) -> Function:
    """pack(frame, source, to, cols, k): one panel of B, as cells.

    Columns beyond `cols` are zero, of bytes any number.
    """
    t, side = g.schedule, right_side(g)
    f = g.module.function(
        "pack_b",
        [("ptr noalias", "frame"), ("ptr noalias readonly", "source"), ("ptr noalias", "to")]
        + [(I64, "cols"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, element = f.params, side.element
    row, column = (g.size(f, p["frame"], s) for s in g.spec.b.strides[-2:])
    if row.known == 1 and column.known != 1:
        _pack_transposed(g, f, column)
        return f

    def copy(cell: Value, indices: KIndices, c: Value, tail: TailMask | None) -> None:
        def address(k: Value) -> Value:
            return f.at(p["source"], f.add(f.mul(k, row), f.mul(column, c)), element)

        cells = fetch_cells(g, f, side, indices, address, column, tail)
        to = f.at(p["to"], f.add(f.mul(cell, t.nr), c), side.cell)
        f.store(cells, to, t.lanes * side.align)

    def copy_row(cell: Value, indices: KIndices) -> None:
        for c in range(0, t.nr, t.lanes):
            copy(cell, indices, integer(c), None)

    # Lanes that are gathered one by one need no second form.
    full = f.icmp("sge", p["cols"], t.nr) if column.known == 1 else integer(0, I1)
    with f.if_(full) as branch:
        each_cell(g, f, p["k"], copy_row, unroll=4)
        branch.else_()
        # One vector of columns after the other: masks take code, which is emitted once.
        with f.range(0, t.nr, t.lanes, outer=True) as c:
            tail = tail_mask(f, t.lanes, f.sub(p["cols"], c))
            each_cell(g, f, p["k"], lambda cell, at: copy(cell, at, c, tail), unroll=1)
    return f


def _pack_transposed(g: GemmContext, f: Function, column: Value) -> None:
    """A panel whose columns are contiguous in memory: squares of lanes x lanes cells are turned
    around in registers, the rest of them at the edges cell by cell."""
    t, side, p = g.schedule, right_side(g), f.params
    element, lanes = side.element, t.lanes
    width = lanes * t.kr
    full = f.mul(f.udiv(p["k"], width), width)
    with f.range(0, t.nr, lanes, outer=True) as c:
        source = f.at(p["source"], f.mul(column, c), element)
        left = f.sub(p["cols"], c)

        square = f.icmp("sge", left, lanes)
        with f.if_(square):
            with f.range(0, full, width, outer=True) as k:
                cell = f.udiv(k, t.kr)
                rows: list[Value] = []
                for i in range(lanes):
                    pointer = f.at(source, f.add(f.mul(column, i), k), element)
                    rows.append(fetch_along(g, f, side, pointer, integer(1), None))
                for i, x in enumerate(transpose_registers(f, rows)):
                    to = f.at(p["to"], f.add(f.mul(f.add(cell, i), t.nr), c), side.cell)
                    f.store(x, to, lanes * side.align)
        turned = f.select(square, full, 0)
        with f.range(0, lanes, unroll=1) as i, f.range(turned, p["k"], t.kr, unroll=1) as k:
            to = f.at(p["to"], f.add(f.add(f.mul(f.udiv(k, t.kr), t.nr), c), i), side.cell)
            with f.if_(f.icmp("slt", i, left)) as inside:
                pointer = f.at(source, f.add(f.mul(column, i), k), element)
                f.store(cell_at(g, f, side, pointer, f.sub(p["k"], k)), to)
                inside.else_()
                f.store(f.as_value(0, side.cell), to)
