"""Cells of packed operands: elements as they are in memory become what tiles load.

A cell is one element and its neighbours along K: a factor of the accumulator's type, an f16 (the
left operand's twice, in 32 bits), two bf16 in 32 bits, four bytes in 32 bits, or two bytes (as such
in 16 bits, or widened to 16 each).
Indices beyond the end of K are zero: a product with them adds nothing, and neither does a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....ir.dtype import DType
from .....ir.lazy_dataclass import dataclass
from .....plan.packing.panel_params import BYTES
from ....llvmir.builder import Function
from ....llvmir.values import ELEMENT, F16, I16, I32, Value, bits_of, integer, vec
from ...emit.dot_units import left_shift, right_shift, xor_0x80
from ...emit.gather_lanes import gather
from ...emit.strided_loops import masked_load
from ...emit.tail_mask import TailMask, tail_mask
from .. import bf16_rounding as rounding
from ..context import GemmContext


@dataclass(frozen=True)
class Side:
    """One operand on its way into cells. `cell`: the type of a packed cell; `shift`: what bytes
    are moved by (runtime/kernels/emit/dot_units.py); `to`: the type that elements are converted to
    first."""

    dtype: DType
    cell: str
    shift: int
    to: DType | None = None

    @property
    def bytes(self) -> bool:
        """Whether bytes are multiplied as such."""
        return self.dtype in BYTES and self.to is None

    @property
    def element(self) -> str:
        return ELEMENT[self.dtype.value]

    @property
    def align(self) -> int:
        return bits_of(self.cell) // 8


def left_side(g: GemmContext) -> Side:
    dtype = g.spec.a.dtype
    return Side(dtype, ELEMENT[g.cell.value], left_shift(g.unit, dtype), g.spec.a_cast)


def right_side(g: GemmContext) -> Side:
    dtype = g.spec.b.dtype
    return Side(dtype, ELEMENT[g.b_cell.value], right_shift(g.unit, dtype), g.spec.b_cast)


def fetch(
    f: Function, side: Side, lanes: int, pointer: Value, step: Value, tail: TailMask | None
) -> Value:
    """Elements at `pointer`, `step` apart, shifted; lanes outside `tail` are zero."""
    if step.known == 1:
        x = masked_load(f, vec(side.element, lanes), pointer, tail)
    else:
        x = gather(f, side.element, lanes, pointer, step, tail)
    if side.shift:
        x = xor_0x80(f, x, side.shift)
        x = x if tail is None else f.select(tail.mask, x, 0)
    return x


def fetch_along(
    g: GemmContext, f: Function, side: Side, pointer: Value, step: Value, left: Value | None
) -> Value:
    """A whole vector of cells along K, of which `left` values exist (None: all)."""
    lanes = g.schedule.lanes
    width = lanes * g.schedule.kr
    # One load of bytes is as wide as a vector; wider types come in several.
    wide = width if side.bytes and step.known == 1 else lanes
    vectors: list[Value] = []
    for u in range(0, width, wide):
        tail = None if left is None else tail_mask(f, wide, f.sub(left, u))
        at = f.at(pointer, f.mul(step, u), side.element)
        vectors.append(fetch(f, side, wide, at, step, tail))
    return cells_along(g, f, side, vectors)


def cells_along(g: GemmContext, f: Function, side: Side, vectors: Sequence[Value]) -> Value:
    """The cells of elements that follow one another along K, a whole vector of cells."""
    if not g.unit:
        return _factor(g, f, side, vectors[0])
    if side.bytes:
        return _of_bytes(g, f, side, _concat_lanes(f, vectors))
    low, high = (g.cast_operand(f, x, side.dtype, side.to) for x in vectors)
    return rounding.neighbours(f, low, high)


def _factor(g: GemmContext, f: Function, side: Side, x: Value) -> Value:
    """An element as it is stored: a factor, or an f16, of which cells of the left operand hold two
    copies."""
    if not g.adds_in_f16:
        return g.factor(f, x, side.dtype, side.to)
    half = f.cast(g.cast_operand(f, x, side.dtype, side.to), F16)
    if side.cell == F16:
        return half
    word = f.cast(f.bitcast(half, vec(I16, half.lanes)), I32, signed_=False)
    return f.or_(word, f.shl(word, 16))


@dataclass(frozen=True)
class KIndices:
    """A cell's indices along K. One that does not `exist` (None: all do) is the last one that does,
    and its value is zero."""

    at: Sequence[Value]
    exist: Sequence[Value] | None = None


def each_cell(
    g: GemmContext, f: Function, depth: Value, write: Callable[[Value, KIndices], None], unroll: int
) -> None:
    """write(cell, indices) for every cell of `depth` values."""
    kr = g.schedule.kr
    full = f.udiv(depth, kr)
    with f.range(0, full, unroll=unroll) as cell:
        first = f.mul(cell, kr)
        write(cell, KIndices([f.add(first, i) for i in range(kr)]))
    if kr == 1:
        return
    first = f.mul(full, kr)
    with f.if_(f.icmp("slt", first, depth)):
        ks, last = [f.add(first, i) for i in range(kr)], f.sub(depth, 1)
        exist = [f.icmp("slt", k, depth) for k in ks]
        write(full, KIndices([f.smin(k, last) for k in ks], exist))


def fetch_cells(
    g: GemmContext,
    f: Function,
    side: Side,
    indices: KIndices,
    address: Callable[[Value], Value],
    step: Value,
    tail: TailMask | None,
) -> Value:
    """A vector of cells whose lanes lie `step` apart, from the address of each index along K."""
    xs = [fetch(f, side, g.schedule.lanes, address(k), step, tail) for k in indices.at]
    if indices.exist:
        xs = [f.select(e, x, f.as_value(0, x.type)) for e, x in zip(indices.exist, xs, strict=True)]
    return cells_of_rows(g, f, side, xs)


def cells_of_rows(g: GemmContext, f: Function, side: Side, rows: Sequence[Value]) -> Value:
    """The cells that up to `kr` vectors make, each lane with those behind it."""
    if not g.unit:
        return _factor(g, f, side, rows[0])
    rows = [*rows, *[f.as_value(0, rows[0].type)] * g.schedule.kr][: g.schedule.kr]
    if side.bytes:
        lanes, kr = g.schedule.lanes, g.schedule.kr
        order = [i % kr * lanes + i // kr for i in range(lanes * kr)]
        return _of_bytes(g, f, side, f.shuffle(_concat_lanes(f, rows), None, order))
    even, odd = (g.cast_operand(f, x, side.dtype, side.to) for x in rows)
    return rounding.interleave_k(f, even, odd)


def cell_at(g: GemmContext, f: Function, side: Side, pointer: Value, left: Value) -> Value:
    """The right operand's cell of the next values along K, of which `left` > 0 exist."""
    first = f.load(side.element, pointer)
    if not g.unit:
        return _factor(g, f, side, first)
    if side.bytes:
        return _cell_of_bytes(g, f, side, pointer, left)
    second = f.var(g.acc, 0)
    with f.if_(f.icmp("sgt", left, 1)):
        after = f.load(side.element, f.at(pointer, 1, side.element))
        second.set(g.cast_operand(f, after, side.dtype, side.to))
    first = g.cast_operand(f, first, side.dtype, side.to)
    return rounding.single_cell(f, first, second.get())


def _cell_of_bytes(g: GemmContext, f: Function, side: Side, pointer: Value, left: Value) -> Value:
    cell = f.var(side.cell, 0)
    for i in range(g.schedule.kr):
        with f.if_(f.icmp("sgt", left, i)):
            one = xor_0x80(f, f.load(side.element, f.offset(pointer, i)), side.shift)
            one = f.shl(f.cast(one, side.cell, signed_=False), integer(8 * i, side.cell))
            cell.set(f.or_(cell.get(), one))
    return cell.get()


def _concat_lanes(f: Function, vectors: Sequence[Value]) -> Value:
    """All lanes in one vector: a power of two of equal parts."""
    vectors = list(vectors)
    while len(vectors) > 1:
        vectors = [f.concat(a, b) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def _of_bytes(g: GemmContext, f: Function, side: Side, x: Value) -> Value:
    """Bytes in the order of their cells as a vector of cells, widened if a cell has room for it."""
    kr, cells = g.schedule.kr, x.lanes // g.schedule.kr
    if bits_of(side.cell) // kr == 16:
        x = f.cast(x, I16, signed_=side.dtype.is_signed)
    return f.bitcast(x, vec(side.cell, cells))
