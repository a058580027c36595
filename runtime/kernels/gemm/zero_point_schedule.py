"""Zero points of bytes: what they, and a unit's shifts, take off the sums of a tile.

    sum (a - za)(b - zb) = sum ab - za * sum b - zb * (sum a - K * za)

`sum b` of a column is behind its panel, or is summed after a panel is packed; `sum a` of a row
is summed from its cells. Both are products with ones. What is the same in a whole panel or row is
multiplied once: a tile begins with the terms of its columns and rows, not with zeros, or, where its
sums go through a buffer, they are taken off there. All of it modulo 2^32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...llvmir.builder import Function, StackVariable
from ...llvmir.values import ELEMENT, I1, I32, I64, Value, integer, vec
from ..emit.dot_units import ones
from ..emit.gather_lanes import gather
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import tail_mask
from .context import Access, GemmContext

# More parameters of a function that takes terms off sums.
TERMS: Final = [
    ("ptr noalias readonly", "row_terms"),
    ("ptr noalias readonly", "column_terms"),
]


def terms_of(f: Function) -> list[Value]:
    """What a function got for TERMS."""
    return [f.params[name] for _, name in TERMS]


class ZeroPointCompensation:
    """Takes their terms off sums, row by row, a vector of columns at a time. `terms`: those of rows
    and of columns."""

    def __init__(self, g: GemmContext, f: Function, frame: Value, terms: Sequence[Value]) -> None:
        self.g, self.f, self.c = g, f, g.corrections
        self.row_terms, self.column_terms = terms
        self.one = right_zero(g, f, frame) if self.c.right == "one" else None

    def column(self, at: Value | int) -> tuple[Value | None, Value | None]:
        """What the columns from `at` on have: sum b (times za), and zb."""
        g, f, nr = self.g, self.f, self.g.schedule.nr
        at = f.add(f.as_value(at, I64), f.mul(f.udiv(at, nr), nr))
        addresses = [f.at(self.column_terms, f.add(at, x), I32) for x in (0, nr)]
        wanted = (self.c.left != "none", self.c.right == "columns")
        first, second = (
            f.load(g.vector, address, g.align) if want else None
            for address, want in zip(addresses, wanted, strict=True)
        )
        return first, second

    def row(self, i: Value | int) -> tuple[Value | None, Value | None]:
        """What row i has: za, and sum a - K za (times zb)."""
        f, t, terms = self.f, self.g.schedule, self.row_terms
        zero = term = None
        if self.c.left == "rows":
            zero = f.splat(f.load(I32, f.at(terms, f.add(i, t.mr), I32)), t.lanes)
        if self.c.right != "none":
            term = f.load(I32, f.at(terms, i, I32))
            term = f.splat(term if self.one is None else f.mul(term, self.one), t.lanes)
        return zero, term

    def take(
        self,
        value: Value,
        column: tuple[Value | None, Value | None],
        row: tuple[Value | None, Value | None],
    ) -> Value:
        """The sums in `value` without the terms of their columns and their row."""
        f, (first, second), (zero, term) = self.f, column, row
        if first is not None:
            value = f.sub(value, first if zero is None else f.mul(first, zero))
        if term is not None:
            value = f.sub(value, term if second is None else f.mul(term, second))
        return value


def correct(
    g: GemmContext, f: Function, columns: Sequence[int], sums: Sequence[Sequence[StackVariable]]
) -> None:
    """Take their terms off a tile's sums."""
    correcting = ZeroPointCompensation(g, f, f.params["frame"], terms_of(f))
    terms = [correcting.column(c) for c in columns]
    for i, row in enumerate(sums):
        of_row = correcting.row(i)
        for s, of_column in zip(row, terms, strict=True):
            s.set(correcting.take(s.get(), of_column, of_row))


def left_zero(g: GemmContext, f: Function, frame: Value, m: Value) -> Value:
    """A row's zero point with the shift, i32."""
    zero = zero_point(g, f, frame, True, m)
    return f.add(integer(0, I32) if zero is None else zero, g.corrections.left_shift)


def right_zero(g: GemmContext, f: Function, frame: Value) -> Value:
    """The zero point of all columns with the shift, i32."""
    zero = zero_point(g, f, frame, False, integer(0))
    return f.add(integer(0, I32) if zero is None else zero, g.corrections.right_shift)


def zero_point(g: GemmContext, f: Function, frame: Value, left: bool, at: Value) -> Value | None:
    """The zero point of row (left operand) or column `at`, i32; None if there is none."""
    operand = g.spec.a_zero_point if left else g.spec.b_zero_point
    if operand is None:
        return None
    element, at = ELEMENT[operand.dtype.value], f.mul(at, g.size(f, frame, operand.strides[-1]))
    zero = f.load(element, f.at(g.zero_base(f, frame, left), at, element))
    return f.cast(zero, I32, signed_=operand.dtype.is_signed)


# -- functions ----------------------------------------------------------------------------------


def row_terms_function(g: GemmContext, *, in_place: bool) -> Function:
    """terms(frame, a, to, m, rows, steps, values, first): of one strip of A, for a block of K of
    `values` values, to[i] = sum a - values * za (added to what is there, unless `first`), and
    to[mr + i] = za where rows have their own."""
    t, c = g.schedule, g.corrections
    f = g.module.function(
        g.module.unique("row_terms"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "a"), ("ptr noalias", "to")]
        + [(I64, n) for n in ("m", "rows", "steps", "values")]
        + [(I1, "first")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, access = f.params, g.a_access(in_place=in_place)
    across = g.size(f, p["frame"], access.across)
    # Where rows lie side by side in vectors, all are summed at once.
    found = f.stack(4 * t.a_row) if t.pack_a == "columns" and not in_place else None
    if c.right != "none" and found is not None:
        for s in range(0, t.a_row, t.lanes):
            total = f.var(g.vector, 0)
            with f.range(0, p["steps"], unroll=1) as k:
                at = f.at(p["a"], f.add(f.mul(k, t.a_row), s), I32)
                _add(g, f, total, left=f.load(g.vector, at, g.align))
            f.store(total.get(), f.at(found, s, I32))
    with f.range(0, p["rows"], outer=True) as i:
        zero = left_zero(g, f, p["frame"], f.add(p["m"], i))
        if c.left == "rows":
            f.store(zero, f.at(p["to"], f.add(i, t.mr), I32))
        if c.right != "none":
            if found is not None:
                total_ = f.load(I32, f.at(found, i, I32))
            elif t.pairs_rows and not in_place:
                total_ = _sum_of_paired_row(g, f, i)
            else:
                row = f.at(p["a"], f.mul(i, across), ELEMENT[access.dtype.value])
                total_ = _sum_of_row(g, f, row, access)
            if c.left != "none":
                total_ = f.sub(total_, f.mul(f.cast(p["values"], I32), zero))
            address = f.at(p["to"], i, I32)
            old = f.var(I32, 0)
            with f.if_(f.xor(p["first"], 1)):
                old.set(f.load(I32, address))
            f.store(f.add(total_, old.get()), address)
    return f


def _sum_of_paired_row(g: GemmContext, f: Function, i: Value) -> Value:
    """The sum of the cells of row i, which has two cells of every vector."""
    second = f.and_(i, 1)
    pair = f.at(f.params["a"], f.mul(f.sub(i, second), g.schedule.a_row), I32)
    total = f.var(g.vector, 0)
    with f.range(0, f.ceil_div(f.params["steps"], 2), unroll=1) as k:
        _add(g, f, total, left=f.load(g.vector, f.at(pair, f.mul(k, g.lanes), I32), g.align))
    sums = [f.reduce("add", f.shuffle(total.get(), None, (n, n + 1))) for n in (0, 2)]
    return f.select(f.icmp("ne", second, 0), sums[1], sums[0])


def _sum_of_row(g: GemmContext, f: Function, row: Value, access: Access) -> Value:
    """The sum of a row's cells, which follow one another; a packed row ends in whole vectors of
    them, one that is read in place must not be left."""
    t, steps = g.schedule, f.params["steps"]
    total = f.var(g.vector, 0)
    full = f.mul(f.udiv(steps, t.lanes), t.lanes)
    with f.range(0, full, t.lanes, unroll=1) as k:
        _add(g, f, total, left=f.load(g.vector, f.at(row, k, I32), 1))
    with f.if_(f.icmp("slt", full, steps)):
        tail = None if access.cell is None else tail_mask(f, t.lanes, f.sub(steps, full))
        _add(g, f, total, left=masked_load(f, g.vector, f.at(row, full, I32), tail))
    return f.reduce("add", total.get())


def column_sums_function(g: GemmContext) -> Function:
    """sums(frame, panel, to, steps, first): the sums of a packed panel's columns, added to what is
    there unless `first`."""
    t = g.schedule
    f = g.module.function(
        g.module.unique("column_sums"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "panel"), ("ptr noalias", "to")]
        + [(I64, "steps"), (I1, "first")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, element = f.params, ELEMENT[g.b_cell.value]
    for s in range(0, t.nr, t.lanes):
        address, total = f.at(p["to"], s, I32), f.var(g.vector, 0)
        with f.if_(f.xor(p["first"], 1)):
            total.set(f.load(g.vector, address, g.align))
        with f.range(0, p["steps"], unroll=1) as k:
            at = f.at(p["panel"], f.add(f.mul(k, t.nr), s), element)
            _add(g, f, total, right=f.load(vec(element, t.lanes), at))
        f.store(total.get(), address, g.align)
    return f


def _add(
    g: GemmContext,
    f: Function,
    total: StackVariable,
    left: Value | None = None,
    right: Value | None = None,
) -> None:
    """Add the values of cells to their lanes."""
    one = integer(ones(g.unit), g.vector)
    a = one if left is None else g.widen(f, left, g.spec.a.dtype)
    b = one if right is None else g.widen(f, right, g.spec.b.dtype)
    total.set(g.multiply_add(f, a, b, total.get()))


def column_terms_function(g: GemmContext) -> Function:
    """terms(frame, sums, to, n, cols): of one panel, to[j] = sum b (times za where rows share it),
    and to[nr + j] = zb where columns have their own."""
    t, c, operand = g.schedule, g.corrections, g.spec.b_zero_point
    f = g.module.function(
        g.module.unique("column_terms"),
        [("ptr noalias", "frame"), ("ptr noalias readonly", "sums"), ("ptr noalias", "to")]
        + [(I64, "n"), (I64, "cols")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p = f.params
    za = left_zero(g, f, p["frame"], integer(0)) if c.left == "one" else None
    for s in range(0, t.nr, t.lanes):
        if c.left != "none":
            x = f.load(g.vector, f.at(p["sums"], s, I32), 1)
            x = x if za is None else f.mul(x, f.splat(za, t.lanes))
            f.store(x, f.at(p["to"], s, I32), g.align)
        if c.right == "columns" and operand is not None:
            element, left = ELEMENT[operand.dtype.value], f.sub(p["cols"], s)
            step = g.size(f, p["frame"], operand.strides[-1])
            with f.if_(f.icmp("sgt", left, 0)):
                at = f.mul(f.add(p["n"], s), step)
                address = f.at(g.zero_base(f, p["frame"], False), at, element)
                x = _load_strided(g, f, element, address, step, left)
                x = f.add(f.cast(x, I32, signed_=operand.dtype.is_signed), c.right_shift)
                f.store(x, f.at(p["to"], t.nr + s, I32), g.align)
    return f


def _load_strided(
    g: GemmContext, f: Function, element: str, address: Value, step: Value, left: Value
) -> Value:
    lanes = g.schedule.lanes
    tail = tail_mask(f, lanes, left)
    if step.known == 1:
        return masked_load(f, vec(element, lanes), address, tail)
    return gather(f, element, lanes, address, step, tail)
