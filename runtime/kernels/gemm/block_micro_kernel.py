"""Accumulation by units that multiply 2 x 2 blocks: `usmmla` and `bfmmla` of Arm.

Such a unit multiplies two rows by two columns, two cells deep, and adds to a register that holds
the 2 x 2 block of sums. Panels are packed for it: a column has two cells side by side, so that two
steps of K are one, and so have packed rows of A; rows that are not packed take an insertion. Sums
enter and leave as rows of vectors, which epilogues and buffers read, so they are rearranged once
per tile and block of K.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...llvmir.builder import Function, StackVariable
from ...llvmir.values import ELEMENT, I32, I64, Value, bits_of, integer, vec
from ..emit.dot_units import BlockUnit
from ..emit.register_tile import unrolled_loop
from .context import GemmContext, TileShape

# Lanes of 32 bits of two vectors. Blocks of rows: columns 0 and 1 of both rows, and 2 and 3. The
# same orders make rows of blocks.
_FIRST, _SECOND = (0, 1, 4, 5), (2, 3, 6, 7)
# Pairs of steps in one turn of the loop: its own instructions take issue slots of the products.
_UNROLLED_PAIRS: Final = 4


def accumulate_blocks(
    g: GemmContext,
    f: Function,
    shape: TileShape,
    columns: Sequence[int],
    sums: list[list[StackVariable]],
    depth: Value,
    prefetch: Callable[[Value], None],
) -> None:
    """Add the products of `depth` steps of K to the sums of a tile. prefetch(k): what step k
    fetches ahead."""
    unit = g.block_unit
    assert unit is not None
    blocks = _open_blocks(g, f, sums)

    def step(k: Value, *, single: bool = False) -> None:
        left = [_load_left(g, f, shape, i, k, single=single) for i in range(0, shape.rows, 2)]
        # Column by column: all columns at once would need more registers than there are.
        for q, c in enumerate(columns):
            for j, y in enumerate(_load_right(g, f, c, k)):
                for x, row in zip(left, blocks, strict=True):
                    s = row[2 * q + j]
                    s.set(_multiply_add(g, f, unit, x, y, s.get()))

    def step_pair(pair: Value) -> None:
        k = f.mul(pair, 2)
        prefetch(k)
        prefetch(f.add(k, 1))
        step(k)

    pairs = f.lshr(depth, 1)
    unrolled_loop(f, pairs, _UNROLLED_PAIRS, step_pair)
    with f.if_(f.icmp("ne", f.and_(depth, 1), 0)):
        step(f.mul(pairs, 2), single=True)
    _close_blocks(f, blocks, sums)


def _open_blocks(
    g: GemmContext, f: Function, sums: list[list[StackVariable]]
) -> list[list[StackVariable]]:
    """Variables of 2 x 2 blocks with the sums of each two rows; a last row alone has zeros next to
    it."""
    blocks: list[list[StackVariable]] = []
    for i in range(0, len(sums), 2):
        pair = sums[i : i + 2]
        row: list[StackVariable] = []
        for q, upper in enumerate(pair[0]):
            lower = pair[1][q].get() if len(pair) == 2 else f.as_value(0, g.vector)
            for order in (_FIRST, _SECOND):
                row.append(f.var(g.vector, f.shuffle(upper.get(), lower, order)))
        blocks.append(row)
    return blocks


def _close_blocks(
    f: Function, blocks: list[list[StackVariable]], sums: list[list[StackVariable]]
) -> None:
    """Store the blocks' sums as rows."""
    for i, row in enumerate(sums):
        for q, s in enumerate(row):
            first, second = (blocks[i // 2][2 * q + j].get() for j in range(2))
            s.set(f.shuffle(first, second, _SECOND if i % 2 else _FIRST))


def _multiply_add(
    g: GemmContext, f: Function, unit: BlockUnit, left: Value, right: Value, total: Value
) -> Value:
    pair = (f.bitcast(x, unit.factors) for x in (left, right))
    return f.call(unit.intrinsic, g.vector, total, *pair)


def _load_right(g: GemmContext, f: Function, column: int, k: Value) -> list[Value]:
    """The columns from `column` on, two in each vector, two cells deep, from the even step k on.
    The second cells behind the end of K are zeros."""
    t, b = g.schedule, g.b_access()
    element = ELEMENT[b.dtype.value]
    panel, b_step = (g.size(f, f.params["frame"], x) for x in (b.across, b.step))
    which, within = divmod(column, t.nr)
    row = f.at(f.params["b"], f.mul(k, b_step), element)
    first = f.at(row, f.add(f.mul(panel, which), 2 * within), element)
    kind = vec(element, t.lanes)
    return [f.load(kind, f.at(first, i * t.lanes, element)) for i in range(2)]


def _load_left(
    g: GemmContext, f: Function, shape: TileShape, i: int, k: Value, *, single: bool
) -> Value:
    """Rows i and i + 1, two cells deep, from step k on. Of a `single` step the second cells are
    zeros. Behind the tile's end row i + 1 is zeros, or, if packed, any numbers: nothing reads what
    it gives."""
    if g.schedule.pairs_rows and not shape.in_place:
        cell = ELEMENT[g.cell.value]
        strip = f.at(f.params["a"], i * g.schedule.a_row, cell)
        return f.load(vec(I64, 2), f.at(strip, f.mul(k, 2), cell), g.align)
    access = g.a_access(in_place=shape.in_place)
    element = ELEMENT[access.dtype.value]
    across, a_step = (g.size(f, f.params["frame"], x) for x in (access.across, access.step))
    align = bits_of(element) // 8
    adjacent = access.cell is not None or access.step == 1  # else rows of a column are
    rows: list[Value] = []
    for row in range(i, min(i + 2, shape.rows)):
        base = f.at(f.params["a"], f.mul(across, row), element)
        here = f.at(base, f.mul(k, a_step), element)
        if adjacent and not single:
            rows.append(f.load(I64, here, align))
            continue
        cell = f.cast(f.load(I32, here, align), I64, signed_=False)
        if not single:
            after = f.load(I32, f.at(base, f.mul(f.add(k, 1), a_step), element), align)
            cell = f.or_(cell, f.shl(f.cast(after, I64, signed_=False), 32))
        rows.append(cell)
    rows += [integer(0, I64)] * (2 - len(rows))
    return _pair_of_words(f, *rows)


def _pair_of_words(f: Function, low: Value, high: Value) -> Value:
    two = vec(I64, 2)
    first = f.op(two, f"insertelement {two} poison, {low}, i32 0")
    return f.op(two, f"insertelement {first}, {high}, i32 1")
