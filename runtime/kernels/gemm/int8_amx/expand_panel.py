"""One panel of compressed weights as right factors of tiles: bytes, and factors of groups in f32.

Weights are in memory in the order in which tiles read them: rows of cells of four values of K.
4-bit ones are cut out, the lower halves of a row first, which is the order of the codes of A.
"""

from __future__ import annotations

from typing import Final

from .....plan.specs.base import Operand
from .....plan.specs.gemm import GemmSpec
from ....llvmir.builder import Function
from ....llvmir.values import F32, I32, I64, integer, vec
from ..context import GemmContext
from ..packing.dequant import Dequantizer
from ..packing.quantize_rows import dot_groups
from .tiling import GroupTiles

_LOWER_HALVES: Final = 0x0F0F0F0F
_SIGNS: Final = 0x88888888


def code_shift(spec: GemmSpec) -> int:
    """What expansion adds to weights: i4 become 0 to 15."""
    return 8 if spec.b.dtype.bits == 4 and spec.b.dtype.is_signed else 0


def factors_per_group(spec: GemmSpec) -> int:
    """Vectors of factors per group and vector of columns: the scale, then the zero point, negated,
    where columns have their own, then the offset."""
    c = spec.compressed
    assert c is not None
    return 1 + isinstance(c.zero_point, Operand) + (c.offset is not None)


def panel_bytes(spec: GemmSpec, nr: int) -> int:
    """Bytes of the expanded weights of one panel."""
    return dot_groups(spec) * GroupTiles.of(spec).depth * nr


def expand_panel_function(g: GemmContext) -> Function:
    """expand(frame, cells, panel, to, factors): panel number `panel`, whose weights begin at
    `cells`, as bytes at `to`; scales, zero points and offsets at `factors`, group by group."""
    spec, lanes = g.spec, g.lanes
    assert spec.compressed is not None
    e = Dequantizer(spec, lanes, fused=True)
    f = g.module.function(
        g.module.unique("expand_panel"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "cells"), (I64, "panel")]
        + [("ptr noalias", "to"), ("ptr noalias", "factors")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    small = e.dtype.bits == 4
    with f.range(0, -(-e.k // e.kr), unroll=2) as cell:
        source = f.offset(p["cells"], f.mul(cell, e.row))
        to = f.offset(p["to"], f.mul(cell, e.row * (2 if small else 1)))
        for at in range(0, e.row, g.align):
            f.prefetch(f.offset(source, at + g.schedule.fetch_distance))
            x = f.load(vec(I32, lanes), f.offset(source, at))
            if not small:
                f.store(x, f.offset(to, at), g.align)
                continue
            x = f.xor(x, _SIGNS) if code_shift(spec) else x
            f.store(f.and_(x, _LOWER_HALVES), f.offset(to, at), g.align)
            f.store(f.and_(f.lshr(x, 4), _LOWER_HALVES), f.offset(to, at + e.row), g.align)
    pointers = g.scaling_pointers(f, p["frame"])
    count = factors_per_group(spec)
    with f.range(0, dot_groups(spec), unroll=1) as index:
        group = f.udiv(f.mul(index, spec.compressed.dot_group), e.group)
        to = f.at(p["factors"], f.mul(index, count * e.nr), F32)
        for column in range(0, e.nr, lanes):
            found = e.load_factors(
                f, pointers, p["panel"], group, integer(column), code_shift(spec)
            )
            values = [found.scale]
            if isinstance(spec.compressed.zero_point, Operand):
                assert found.zero is not None
                values.append(f.fneg(found.zero))
            values += [found.offset] if found.offset is not None else []
            for i, value in enumerate(values):
                f.store(value, f.at(to, i * e.nr + column, F32), g.align)
    return f
