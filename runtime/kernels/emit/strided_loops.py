"""Walking operands: coalesced axes, addresses of rows, vectors along the innermost axis.

An iteration space is a list of axes; an operand gives every axis a stride. Axes are joined where
the strides prove that they are one run for every operand, and the last axis left is the one that
kernels walk in vectors ("inner"); the others are rows, numbered in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.specs.base import Operand, RuntimeDim, Size
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import (
    I64,
    PTR,
    Value,
    bits_of,
    bytes_of,
    element_of,
    integer,
    lanes_of,
    vec,
)
from .casts import from_memory, memory_type, to_memory
from .gather_lanes import gather, scatter
from .shared_sizes import SharedSize, SharedSizes
from .tail_mask import TailMask, tail_mask

# Types (bits) whose masked loads and stores are instructions.
_MASKED = {"avx512": (8, 16, 32, 64), "avx2": (32, 64), "neon": (), "plain": ()}


@dataclass(frozen=True)
class Space:
    """Axes after coalescing, and every operand's strides along them."""

    axes: tuple[Size, ...]
    strides: tuple[tuple[Size, ...], ...]

    @property
    def is_empty(self) -> bool:
        return any(a == 0 for a in self.axes)


def coalesce(axes: Sequence[Size], strides: Sequence[Sequence[Size]]) -> Space:
    """Drop axes of size 1 and join neighbours that are one run for every operand."""
    kept: list[Size] = []
    columns: list[tuple[Size, ...]] = []
    for i in reversed(range(len(axes))):
        size, column = axes[i], tuple(s[i] for s in strides)
        if size == 1:
            continue
        if kept and all(
            _is_run(outer, kept[0], inner) for outer, inner in zip(column, columns[0], strict=True)
        ):
            joined = _multiply_sizes(size, kept[0])
            if joined is not None:
                kept[0] = joined
                continue
        kept.insert(0, size)
        columns.insert(0, column)
    per_operand = tuple(tuple(c[k] for c in columns) for k in range(len(strides)))
    return Space(tuple(kept), per_operand)


def share_axes(shared: SharedSizes, space: Space, own: int) -> Space:
    """The space with its sizes as parameters of the kernel's body, but for its last `own` axes."""
    end = max(0, len(space.axes) - own)
    return Space(
        (*shared.share_all(space.axes[:end]), *space.axes[end:]),
        tuple((*shared.share_all(s[:end]), *s[end:]) for s in space.strides),
    )


def _is_run(outer: Size, size: Size, inner: Size) -> bool:
    """Does a step along the outer axis equal `size` steps along the inner one?"""
    if outer == 0 and inner == 0:
        return True
    return outer == _multiply_sizes(size, inner) and inner != 0


def _multiply_sizes(a: Size, b: Size) -> Size | None:
    """The product where it is a Size."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if b == 1:
        return a
    return b if a == 1 else None


@dataclass(frozen=True)
class RuntimeSizes:
    """The run-time values of a kernel's sizes."""

    f: Function
    dims: tuple[Value, ...]

    def value(self, size: Size) -> Value:
        if isinstance(size, int):
            return integer(size)
        found = self.dims[size.index]
        divisor = size.divisor if isinstance(size, SharedSize) else 1
        return Value(found.type, found.text, found.known, divisor=divisor)

    def product(self, sizes: Sequence[Size]) -> Value:
        total: Value = integer(math.prod(s for s in sizes if isinstance(s, int)))
        for size in sizes:
            if isinstance(size, RuntimeDim):
                total = self.f.mul(total, self.value(size))
        return total


def base_pointer(f: Function, sizes: RuntimeSizes, pointer: Value, operand: Operand) -> Value:
    """The address of the operand's element (0, 0, ...)."""
    return f.at(pointer, sizes.value(operand.offset), memory_type(operand.dtype))


def address_of(
    sizes: RuntimeSizes, pointer: Value, strides: Sequence[Size], *positions: Value, element: str
) -> Value:
    """The address of an element, by its leading indices."""
    f = sizes.f
    offset = f.as_value(0, I64)
    for position, stride in zip(positions, strides, strict=False):
        offset = f.add(offset, f.mul(position, sizes.value(stride)))
    return f.at(pointer, offset, element)


class RowCursor:
    """Addresses of row after row of several operands: an odometer over the outer axes.

    `outer` are the axes; operand k steps by strides[k][axis] elements of its type. seek() sets
    the row, next() goes to the row after; `pointers()` are the operands' addresses there.
    """

    def __init__(
        self,
        f: Function,
        sizes: RuntimeSizes,
        outer: Sequence[Size],
        pointers: Sequence[Value],
        dtypes: Sequence[DType],
        strides: Sequence[Sequence[Size]],
    ) -> None:
        self.f, self.sizes = f, sizes
        self.axes = [sizes.value(a) for a in outer]
        self.bases = list(pointers)
        # Bytes per step, per operand and axis.
        self.steps = [
            [f.mul(sizes.value(s), bytes_of(memory_type(t))) for s in row]
            for row, t in zip(strides, dtypes, strict=True)
        ]
        self.index = [f.var(I64) for _ in self.axes[1:]]
        self.at = [f.var(PTR) for _ in pointers]

    def seek(self, row: Value) -> None:
        f = self.f
        offsets: list[Value] = [integer(0) for _ in self.bases]
        left = row
        for axis in reversed(range(len(self.axes))):
            if axis == 0:
                here = left
            else:
                here = f.urem(left, self.axes[axis])
                left = f.udiv(left, self.axes[axis])
                self.index[axis - 1].set(here)
            for k, steps in enumerate(self.steps):
                offsets[k] = f.add(offsets[k], f.mul(here, steps[axis]))
        for variable, base, offset in zip(self.at, self.bases, offsets, strict=True):
            variable.set(f.offset(base, offset))

    def pointers(self) -> list[Value]:
        return [v.get() for v in self.at]

    def advance(self) -> None:
        if self.axes:
            self._advance(len(self.axes) - 1)

    def _advance(self, axis: int) -> None:
        f = self.f
        for variable, steps in zip(self.at, self.steps, strict=True):
            variable.set(f.offset(variable.get(), steps[axis]))
        if axis == 0:
            return
        index = self.index[axis - 1]
        after = f.add(index.get(), 1)
        index.set(after)
        with f.if_(f.icmp("sge", after, self.axes[axis])):
            index.set(0)
            for variable, steps in zip(self.at, self.steps, strict=True):
                back = f.mul(f.sub(0, self.axes[axis]), steps[axis])
                variable.set(f.offset(variable.get(), back))
            self._advance(axis - 1)


@contextmanager
def each_pair(f: Function, lo: Value, hi: Value, count: Value) -> Iterator[tuple[Value, Value]]:
    """Write a loop over numbers lo..hi, which are not none, each as its quotient by `count` and its
    remainder, which are counted, not divided."""
    first = f.udiv(lo, count)
    outer = f.var(I64, first)
    position = f.var(I64, f.sub(lo, f.mul(first, count)))
    with f.range(lo, hi, unroll=1):
        yield outer.get(), position.get()
        after = f.add(position.get(), 1)
        wraps = f.icmp("sge", after, count)
        position.set(f.select(wraps, integer(0), after))
        outer.set(f.add(outer.get(), f.cast(wraps, I64, signed_=False)))


@contextmanager
def each_piece(
    f: Function, rows: RowCursor, lo: Value, hi: Value, pieces: Value
) -> Iterator[Value]:
    """Tasks lo..hi, which are not empty, of rows in `pieces` each: yields the piece's number, while
    the cursor is at its row."""
    rows.seek(f.udiv(lo, pieces))
    number = f.var(I64, f.urem(lo, pieces))
    with f.range(lo, hi, unroll=1):
        yield number.get()
        after = f.add(number.get(), 1)
        number.set(after)
        with f.if_(f.icmp("sge", after, pieces)):
            number.set(0)
            rows.advance()


class Lane:
    """One operand along the inner axis: loads and stores of `lanes` elements at position i.

    stride 1: vectors; 0: one element, loaded by hoist() and splat; else lanes are gathered and
    scattered one by one.
    """

    def __init__(
        self, f: Function, sizes: RuntimeSizes, dtype: DType, stride: Size, lanes: int
    ) -> None:
        self.f, self.dtype, self.stride, self.lanes = f, dtype, stride, lanes
        self.element = memory_type(dtype)
        self.step = sizes.value(stride)
        self.pointer = Value(PTR, "null")
        self.hoisted: Value | None = None

    @property
    def kind(self) -> str:
        return (
            {1: "vector", 0: "splat"}.get(self.stride, "strided")
            if isinstance(self.stride, int)
            else "strided"
        )

    def begin(self, pointer: Value, *, reads: bool = True) -> None:
        """The row begins at `pointer`; a broadcast element is loaded now (the row is not empty)."""
        self.pointer = pointer
        if reads and self.kind == "splat":
            one = from_memory(self.f, self.f.load(self.element, pointer), self.dtype)
            self.hoisted = self.f.splat(one, self.lanes)

    def load(self, i: Value | int, tail: TailMask | None = None) -> Value:
        """Elements i .. i + lanes as the program sees them; lanes outside `tail` are 0."""
        f = self.f
        if self.hoisted is not None:
            return self.hoisted
        if self.kind == "vector":
            at = f.at(self.pointer, i, self.element)
            value = masked_load(f, vec(self.element, self.lanes), at, tail)
        else:
            value = gather(f, self.element, self.lanes, self._at(i), self.step, tail)
        return from_memory(f, value, self.dtype)

    def store(self, value: Value, i: Value | int, tail: TailMask | None = None) -> None:
        f = self.f
        value = to_memory(f, value, self.dtype)
        if self.kind == "vector":
            masked_store(f, value, f.at(self.pointer, i, self.element), tail)
        else:
            scatter(f, value, self._at(i), self.step, tail)

    def _at(self, i: Value | int) -> Value:
        return self.f.at(self.pointer, self.f.mul(i, self.step), self.element)


def vector_and_tail(f: Function, count: int, lanes: int) -> Iterator[tuple[Value, TailMask | None]]:
    """Write the loop's body for whole vectors of `count` values, and again for the rest."""
    vector_end = count // lanes * lanes
    with f.range(0, vector_end, lanes, unroll=1) as first:
        yield first, None
    if vector_end < count:
        yield integer(vector_end), tail_mask(f, lanes, integer(count - vector_end))


def emit_vectors(
    f: Function, count: Value, lanes: int, vectors: int
) -> Iterator[tuple[Value, list[TailMask | None]]]:
    """Write the loops' bodies for `vectors` vectors of a run-time count at a time, for one vector,
    and for the rest: the first element, and the tail mask of each vector."""
    end: Value | int = 0
    if vectors > 1:
        block = lanes * vectors
        end = f.round_down(count, block)
        with f.range(0, end, block, unroll=1) as first:
            yield first, [None] * vectors
    with f.range(end, count, lanes, unroll=1) as first:
        left = f.sub(count, first)
        with f.if_(f.icmp("sge", left, lanes)) as branch:
            yield first, [None]
            branch.else_()
            yield first, [tail_mask(f, lanes, left)]


def masked_load(f: Function, type_: str, pointer: Value, tail: TailMask | None) -> Value:
    """A vector of which only `tail` is read; other lanes are 0."""
    if tail is None:
        return f.load(type_, pointer)
    if has_masks(f.target, type_):
        return f.load_masked(type_, pointer, tail.mask)
    buffer = f.stack(bytes_of(type_))
    f.store(Value(type_, "zeroinitializer"), buffer)
    copy_elements(f, type_, pointer, buffer, tail.count)
    return f.load(type_, buffer)


def masked_store(f: Function, value: Value, pointer: Value, tail: TailMask | None) -> None:
    if tail is None:
        f.store(value, pointer)
    elif has_masks(f.target, value.type):
        f.store_masked(value, pointer, tail.mask)
    else:
        buffer = f.stack(bytes_of(value.type))
        f.store(value, buffer)
        copy_elements(f, value.type, buffer, pointer, tail.count)


def has_masks(target: Target, type_: str) -> bool:
    """Are masked loads and stores of this type instructions?"""
    return lanes_of(type_) > 1 and max(8, bits_of(type_)) in _MASKED[target.isa]


def copy_elements(f: Function, type_: str, source: Value, to: Value, count: Value) -> None:
    """`count` elements one by one."""
    element = element_of(type_)
    with f.range(0, count, unroll=1) as i:
        f.store(f.load(element, f.at(source, i, element)), f.at(to, i, element))
