"""Panels of a compressed right operand expanded into scratch, for all the tiles of rows that read
them there; and tiles that expand what they read themselves, where rows are so few that reading the
weights, once, is what takes the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .....ir.dtype import DType
from ....llvmir.builder import Function, StackVariable
from ....llvmir.values import ELEMENT, I32, I64, Value, integer, vec
from ..context import GemmContext, TileShape
from .dequant import Dequantizer, Scaling
from .pack_cells import Side, cells_of_rows
from .panels import pack_b_function

_LINE_BYTES: Final = 64


def right_function(g: GemmContext) -> Function:
    """What brings panels of B into scratch: a copy or an expansion."""
    return expand_function(g) if g.spec.compressed else pack_b_function(g)


def expand_function(g: GemmContext) -> Function:
    """expand(frame, cells, panel, to, k0, k): rows k0 .. k0 + k of one panel of B, which begins at
    `cells`, as factors of the accumulator's type. k0 is the first row of a cell.
    """
    e, t = Dequantizer(g.spec, g.lanes, fused=g.target.fma), g.schedule
    ahead = g.schedule.fetch_distance
    f = g.module.function(
        g.module.unique("expand"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "cells"), (I64, "panel")]
        + [("ptr noalias", "to"), (I64, "k0"), (I64, "k")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    pointers = g.scaling_pointers(f, p["frame"])
    end = f.add(p["k0"], p["k"])
    with f.range(f.udiv(p["k0"], e.group), f.ceil_div(end, e.group), outer=True) as group:
        lo = f.smax(f.mul(group, e.group), p["k0"])
        hi = f.smin(f.mul(f.add(group, 1), e.group), end)
        with f.range(0, e.nr, g.lanes, unroll=1) as c:
            scaling = e.load_scaling(f, pointers, p["panel"], group, c)

            def write(k: Value, count: int, c: Value = c, s: Scaling = scaling) -> None:
                at = f.offset(p["cells"], f.add(f.mul(f.udiv(k, e.kr), e.row), f.mul(c, 4)))
                halves = e.halves(f, f.load(vec(I32, g.lanes), at))
                f.prefetch(f.offset(at, ahead))
                values = [e.value(f, halves, s, j) for j in range(count)]
                row = f.udiv(f.sub(k, p["k0"]), t.kr)
                _store(g, f, values, f.at(p["to"], f.add(f.mul(row, t.nr), c), g.acc))

            full = f.add(lo, f.mul(f.udiv(f.sub(hi, lo), e.kr), e.kr))
            with f.range(lo, full, e.kr, unroll=1) as k:
                write(k, e.kr)
            if rest := e.k % e.kr:
                with f.if_(f.icmp("slt", full, hi)):
                    write(full, rest)
    return f


def _store(g: GemmContext, f: Function, values: Sequence[Value], to: Value) -> None:
    """One row of factors after the other; cells of `kr` rows where a unit multiplies pairs."""
    kr, side = g.schedule.kr, Side(DType.f32, g.acc, 0)
    for i in range(0, len(values), kr):
        cell = cells_of_rows(g, f, side, values[i : i + kr])
        f.store(cell, f.at(to, i // kr * g.schedule.nr, g.acc), g.align)


def accumulate_cells(
    g: GemmContext,
    f: Function,
    shape: TileShape,
    columns: Sequence[int],
    sums: list[list[StackVariable]],
) -> None:
    """Add the products of all of K to the sums of a tile: rows of vectors at `columns`."""
    e, p = Dequantizer(g.spec, g.lanes, fused=g.target.fma), f.params
    ahead = g.schedule.fetch_distance
    a = g.a_access(in_place=shape.in_place)
    a_type = ELEMENT[a.dtype.value]
    across, step = (g.size(f, p["frame"], x) for x in (a.across, a.step))
    pointers = g.scaling_pointers(f, p["frame"])
    panel_columns = [divmod(c, e.nr) for c in columns]
    panel = f.udiv(p["n"], e.nr)

    # One loop for all groups, the last one shorter: the code of a cell is long, and emitted once.
    with f.range(0, -(-e.k // e.group), outer=True) as index:
        lo = f.mul(index, e.group)
        rows = integer(e.group) if e.k % e.group == 0 else f.smin(f.sub(e.k, lo), e.group)
        scaling = [
            e.load_scaling(f, pointers, f.add(panel, which), index, integer(within))
            for which, within in panel_columns
        ]

        def cell(k: Value, values: int) -> None:
            row = f.offset(p["b"], f.mul(f.udiv(k, e.kr), e.row))
            halves = [
                e.halves(f, f.load(vec(I32, g.lanes), f.offset(row, which * e.panel + within * 4)))
                for which, within in panel_columns
            ]
            for which in range(shape.panels):
                for line in range(0, e.row, _LINE_BYTES):
                    f.prefetch(f.offset(row, which * e.panel + line + ahead))
            for j in range(values):
                right = [e.value(f, h, s, j) for h, s in zip(halves, scaling, strict=True)]
                column = f.at(p["a"], f.mul(f.add(k, j), step), a_type)

                def load_a(i: int, column: Value = column) -> Value:
                    x = f.load(a_type, f.at(column, f.mul(across, i), a_type))
                    return g.widen(f, x, a.dtype)

                g.add_products(f, sums, load_a, right)

        with f.range(0, f.mul(f.udiv(rows, e.kr), e.kr), e.kr, unroll=1) as k:
            cell(f.add(lo, k), e.kr)
        if rest := e.k % e.kr:
            with f.if_(f.icmp("eq", f.add(lo, rows), e.k)):
                cell(integer(e.k - rest), rest)
