"""The epilogue of a register tile: program, extras, and the stores of what it gives.

A short program is applied to the accumulators in their registers. A long one (erf, tanh) would be
repeated for every register: the tile then goes through a buffer on the stack, and a loop applies
the program to one vector at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ....ir.specs import Operand, Program
from ...codegen.emit import Function
from ...codegen.values import ELEMENT, I64, Value, bits_of, integer, suffix, vec
from ..scalar import emit_program

if TYPE_CHECKING:
    from .micro import Context

# Instructions that take a polynomial or a loop of their own.
_LONG = frozenset(
    "exp expm1 log log1p tanh erf sigmoid sin cos tan asin acos atan sinh cosh asinh acosh atanh "
    "softplus pow mod floormod atan2 rsqrt recip".split()
)
_SHORT = 10


def is_short(program: Program) -> bool:
    """Whether a program is worth repeating for every register of a tile."""
    real = [i for i in program.instrs if i.op not in ("input", "const")]
    return len(real) <= _SHORT and not any(i.op in _LONG for i in real)


def apply_epilogue(
    g: Context,
    f: Function,
    frame: Value,
    origin: tuple[Value, Value],
    rows: Value,
    cols: Value | None,
    columns: Sequence[int],
    sums: Sequence[Sequence[Value]],
) -> None:
    """Store the tile at `origin` (row, column): `columns` are the first columns of its vectors.

    Only `rows` rows are stored (a known number unless tiles are guarded) and, where `cols` is
    given, only that many columns.
    """
    if is_short(g.spec.epilogue):
        _in_registers(g, f, frame, origin, rows, cols, columns, sums)
    else:
        _through_stack(g, f, frame, origin, rows, cols, columns, sums)


class _Walk:
    """Loads of extras and the store of out, for a vector of columns at (m, n)."""

    def __init__(self, g: Context, f: Function, frame: Value, lanes: int) -> None:
        self.g, self.f, self.lanes = g, f, lanes
        self.bases = [g.base(f, frame, i) for i in range(len(g.walked))]
        self.strides = [[g.size(f, frame, s) for s in o.strides[-2:]] for o in g.walked]

    def place(self, index: int, m: Value, n: Value) -> Value:
        f, (row, column) = self.f, self.strides[index]
        at = f.add(f.mul(m, row), f.mul(n, column))
        return f.at(self.bases[index], at, self.element(index))

    def element(self, index: int) -> str:
        return ELEMENT[self.operand(index).dtype.value]

    def operand(self, index: int) -> Operand:
        return self.g.walked[index]

    def load(self, index: int, m: Value, n: Value, mask: Value | None) -> Value:
        f, column = self.f, self.strides[index][1]
        place, element = self.place(index, m, n), self.element(index)
        if column.known == 0:
            # Every lane is the same element, and lane 0 of a vector is never masked.
            return f.splat(f.load(element, place), self.lanes)
        kind = vec(element, self.lanes)
        if column.known == 1 or self.lanes == 1:
            return f.load(kind, place) if mask is None else f.load_masked(kind, place, mask)
        return gather(f, element, self.lanes, place, column, mask)

    def store(self, value: Value, m: Value, n: Value, mask: Value | None) -> None:
        f, index = self.f, len(self.bases) - 1
        column, place = self.strides[index][1], self.place(index, m, n)
        if column.known != 1 and self.lanes > 1:
            scatter(f, value, place, column, mask)
        elif mask is None:
            f.store(value, place)
        else:
            f.store_masked(value, place, mask)


def _in_registers(
    g: Context,
    f: Function,
    frame: Value,
    origin: tuple[Value, Value],
    rows: Value,
    cols: Value | None,
    columns: Sequence[int],
    sums: Sequence[Sequence[Value]],
) -> None:
    lanes = sums[0][0].lanes
    walk = _Walk(g, f, frame, lanes)
    m0, n0 = origin
    ns = [f.add(n0, c) for c in columns]
    masks = [None if cols is None else f.mask(lanes, f.sub(cols, c)) for c in columns]
    # A vector whose first column lies beyond the edge must not be touched, not even its lane 0.
    alike = [  # extras that every row shares are loaded once
        [walk.load(i, m0, n, k) if walk.strides[i][0].known == 0 else None for i in range(len(g.spec.extras))]
        for n, k in zip(ns, masks, strict=True)
    ]
    for i, row in enumerate(sums):
        with f.if_(f.icmp("slt", integer(i), rows)):
            m = f.add(m0, i)
            for q, value in enumerate(row):
                extras = [
                    x if x is not None else walk.load(e, m, ns[q], masks[q])
                    for e, x in enumerate(alike[q])
                ]
                walk.store(_run(g, f, value, extras), m, ns[q], masks[q])


def _through_stack(
    g: Context,
    f: Function,
    frame: Value,
    origin: tuple[Value, Value],
    rows: Value,
    cols: Value | None,
    columns: Sequence[int],
    sums: Sequence[Sequence[Value]],
) -> None:
    lanes, kind = sums[0][0].lanes, sums[0][0].type
    size = lanes * g.bytes
    buffer = f.stack(len(sums) * len(columns) * size)
    for i, row in enumerate(sums):
        for q, value in enumerate(row):
            f.store(value, f.offset(buffer, (i * len(columns) + q) * size), size)
    walk = _Walk(g, f, frame, lanes)
    m0, n0 = origin
    first = f.stack(8 * len(columns), 8)
    for q, c in enumerate(columns):
        f.store(integer(c), f.offset(first, 8 * q))
    with f.range(0, rows, unroll=1) as i, f.range(0, len(columns), unroll=1) as q:
        c = f.load(I64, f.at(first, q, I64))
        at = f.add(f.mul(i, len(columns)), q)
        value = f.load(kind, f.offset(buffer, f.mul(at, size)), size)
        m, n = f.add(m0, i), f.add(n0, c)
        mask = None if cols is None else f.mask(lanes, f.sub(cols, c))
        extras = [walk.load(e, m, n, mask) for e in range(len(g.spec.extras))]
        walk.store(_run(g, f, value, extras), m, n, mask)


def _run(g: Context, f: Function, value: Value, extras: Sequence[Value]) -> Value:
    (result,) = emit_program(f, g.spec.epilogue, [value, *extras])
    return result


def gather(
    f: Function, element: str, lanes: int, place: Value, stride: Value, mask: Value | None
) -> Value:
    """Lanes at place + lane * stride elements; lanes that are off are not read and are zero."""
    kind = vec(element, lanes)
    pointers = _addresses(f, element, lanes, place, stride)
    on = mask if mask is not None else f.mask(lanes, lanes)
    name = f"llvm.masked.gather.{suffix(kind)}.v{lanes}p0"
    align = integer(max(1, bits_of(element) // 8), "i32")
    return f.call(name, kind, pointers, align, on, f.as_value(0, kind))


def scatter(f: Function, value: Value, place: Value, stride: Value, mask: Value | None) -> None:
    """Store lanes at place + lane * stride elements; lanes that are off write nothing."""
    pointers = _addresses(f, value.element, value.lanes, place, stride)
    on = mask if mask is not None else f.mask(value.lanes, value.lanes)
    name = f"llvm.masked.scatter.{suffix(value.type)}.v{value.lanes}p0"
    align = integer(max(1, bits_of(value.type) // 8), "i32")
    f.call(name, "void", value, pointers, align, on)


def _addresses(f: Function, element: str, lanes: int, place: Value, stride: Value) -> Value:
    index = f.mul(f.iota(lanes, I64), f.splat(stride, lanes))
    return f.op(vec("ptr", lanes), f"getelementptr {element}, {place}, {index}")
