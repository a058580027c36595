"""The epilogue of a register tile: program, extras, and the stores of what it gives.

A short program is applied to the accumulators in their registers. A long one (erf, tanh) would be
repeated for every register: the tile then goes through a buffer on the stack, and a loop applies
the program to one vector at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....ir.specs import Program
from ...codegen.emit import Function
from ...codegen.values import (
    BF16,
    ELEMENT,
    F16,
    I16,
    I32,
    I64,
    PTR,
    Value,
    bits_of,
    integer,
    suffix,
    vec,
)
from ..scalar import emit_program, from_memory, to_memory
from ..walk import Part, load_part, part_of, store_part

if TYPE_CHECKING:
    from .micro import Context

# Instructions that take a polynomial or a loop of their own.
_LONG = frozenset(
    "exp expm1 log log1p tanh erf sigmoid sin cos tan asin acos atan sinh cosh asinh acosh atanh "
    "softplus pow mod floormod atan2 div sqrt rsqrt recip".split()
)
_SHORT = 8


def is_short(program: Program) -> bool:
    """Whether a program is worth repeating for every register of a tile."""
    real = [i for i in program.instrs if i.op not in ("input", "const")]
    return len(real) <= _SHORT and not any(i.op in _LONG for i in real)


@dataclass(frozen=True)
class Place:
    """Where a tile's values belong: `m`, `n` of its first element, how many rows and columns are
    stored (cols None: all), and the first column of every vector."""

    frame: Value
    m: Value
    n: Value
    rows: Value
    cols: Value | None
    columns: tuple[int, ...]


def apply_epilogue(g: Context, f: Function, place: Place, sums: Sequence[Sequence[Value]]) -> None:
    """Apply the spec's epilogue to a tile of accumulators, row after row, and store it."""
    walk = Walk(g, f, place.frame, sums[0][0].lanes)
    if is_short(g.spec.epilogue):
        _in_registers(f, walk, place, sums)
    else:
        _through_stack(f, walk, place, sums)


class Walk:
    """Extras and out at `lanes` neighbouring columns of one row."""

    def __init__(self, g: Context, f: Function, frame: Value, lanes: int) -> None:
        self.f, self.lanes, self.program = f, lanes, g.spec.epilogue
        self.operands = g.walked
        self.bases = [g.base(f, frame, i) for i in range(len(g.walked))]
        self.strides = [[g.size(f, frame, s) for s in o.strides[-2:]] for o in g.walked]
        self.extras = range(len(g.spec.extras))

    def load(self, index: int, m: Value, n: Value, part: Part | None) -> Value:
        f, column, dtype = self.f, self.strides[index][1], self.operands[index].dtype
        element, place = ELEMENT[dtype.value], self._place(index, m, n)
        if column.known == 0:
            bits = f"i{bits_of(element)}"
            value = f.bitcast(f.splat(f.load(bits, place), self.lanes), vec(element, self.lanes))
        elif column.known == 1 or self.lanes == 1:
            value = load_part(f, vec(element, self.lanes), place, part)
        else:
            value = gather(f, element, self.lanes, place, column, part)
        return from_memory(f, value, dtype)

    def finish(
        self, value: Value, extras: Sequence[Value], m: Value, n: Value, part: Part | None
    ) -> None:
        """Store what the program makes of an accumulator and its extras."""
        f, index = self.f, len(self.operands) - 1
        column = self.strides[index][1]
        (result,) = emit_program(f, self.program, [value, *extras], lanes=self.lanes)
        result = to_memory(f, result, self.operands[index].dtype)
        place = self._place(index, m, n)
        if column.known == 1 or self.lanes == 1:
            store_part(f, result, place, part)
        else:
            scatter(f, result, place, column, part)

    def _place(self, index: int, m: Value, n: Value) -> Value:
        f, (row, column) = self.f, self.strides[index]
        at = f.add(f.mul(m, row), f.mul(n, column))
        return f.at(self.bases[index], at, ELEMENT[self.operands[index].dtype.value])


def _in_registers(f: Function, walk: Walk, place: Place, sums: Sequence[Sequence[Value]]) -> None:
    ns = [f.add(place.n, c) for c in place.columns]
    parts = [_part(f, walk.lanes, place.cols, integer(c)) for c in place.columns]
    # Extras that all rows share are loaded once.
    shared = [
        [
            walk.load(e, place.m, n, k) if walk.strides[e][0].known == 0 else None
            for e in walk.extras
        ]
        for n, k in zip(ns, parts, strict=True)
    ]
    for i, row in enumerate(sums):
        with f.if_(f.icmp("slt", integer(i), place.rows)):
            m = f.add(place.m, i)
            for q, value in enumerate(row):
                extras = [
                    walk.load(e, m, ns[q], parts[q]) if x is None else x
                    for e, x in enumerate(shared[q])
                ]
                walk.finish(value, extras, m, ns[q], parts[q])


def _through_stack(f: Function, walk: Walk, place: Place, sums: Sequence[Sequence[Value]]) -> None:
    kind, width = sums[0][0].type, len(place.columns)
    size = walk.lanes * bits_of(kind) // 8
    buffer = f.stack(len(sums) * width * size)
    for i, row in enumerate(sums):
        for q, value in enumerate(row):
            f.store(value, f.offset(buffer, (i * width + q) * size), size)
    first = f.stack(8 * width, 8)
    for q, c in enumerate(place.columns):
        f.store(integer(c), f.at(first, q, I64))
    with f.range(0, place.rows, unroll=1) as i, f.range(0, width, unroll=1) as q:
        c = f.load(I64, f.at(first, q, I64))
        at = f.mul(f.add(f.mul(i, width), q), size)
        value = f.load(kind, f.offset(buffer, at), size)
        m, n = f.add(place.m, i), f.add(place.n, c)
        part = _part(f, walk.lanes, place.cols, c)
        walk.finish(value, [walk.load(e, m, n, part) for e in walk.extras], m, n, part)


def _part(f: Function, lanes: int, cols: Value | None, column: Value) -> Part | None:
    return None if cols is None else part_of(f, lanes, f.sub(cols, column))


def gather(
    f: Function, element: str, lanes: int, place: Value, stride: Value, part: Part | None
) -> Value:
    """Lanes at place + lane * stride elements; lanes outside `part` are not read and are zero."""
    if element in (F16, BF16):  # moved as integers: not every instruction set has such scalars
        return f.bitcast(gather(f, I16, lanes, place, stride, part), vec(element, lanes))
    kind = vec(element, lanes)
    name = f"llvm.masked.gather.{suffix(kind)}.v{lanes}p0"
    pointers = _addresses(f, element, lanes, place, stride)
    on = part.mask if part else f.mask(lanes, lanes)
    align = integer(max(1, bits_of(element) // 8), I32)
    return f.call(name, kind, pointers, align, on, f.as_value(0, kind))


def scatter(f: Function, value: Value, place: Value, stride: Value, part: Part | None) -> None:
    """Store lanes at place + lane * stride elements; lanes outside `part` write nothing."""
    if value.element in (F16, BF16):
        value = f.bitcast(value, vec(I16, value.lanes))
    name = f"llvm.masked.scatter.{suffix(value.type)}.v{value.lanes}p0"
    pointers = _addresses(f, value.element, value.lanes, place, stride)
    on = part.mask if part else f.mask(value.lanes, value.lanes)
    align = integer(max(1, bits_of(value.type) // 8), I32)
    f.call(name, "void", value, pointers, align, on)


def _addresses(f: Function, element: str, lanes: int, place: Value, stride: Value) -> Value:
    index = f.mul(f.iota(lanes, I64), f.splat(stride, lanes))
    return f.op(vec(PTR, lanes), f"getelementptr {element}, {place}, {index}")
