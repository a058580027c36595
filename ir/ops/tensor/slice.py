"""Slice and StridedSlice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from ...dims import Dim, bounds, le
from ...dims.constraints import require_at_least
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...slice_bounds import AXIS_END, check_step, index_slice, normalize_slice
from ...types import TensorType, Type
from ..shape_inference import (
    Shape,
    axes_in,
    count_of,
    fresh_symbol,
    ints_of,
    known_dims,
    known_ints,
    one_dtype,
    unique_axes,
    unknown_shape,
)

T = TypeVar("T")


def slice_length(op: Op, size: Dim, start: Dim | None, stop: Dim | None, step: int | None) -> Dim:
    """How many elements a slice start:stop:step of an axis has; unknown parts are None."""
    if step is not None:
        check_step(step)
    top = bounds(size)[1]
    if step is None or start is None or stop is None:
        return fresh_symbol(op, 0, top)
    found = normalize_slice(start, stop, step, size)
    return fresh_symbol(op, 0, top) if found is None else found[1]


class Slice(Op):
    """data[start:stop:step] on the listed axes (all leading ones where no list is given)."""

    kind: ClassVar[str] = "Slice"
    version: ClassVar[int] = 8
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("start"),
        Port("stop"),
        Port("step"),
        Port("axes", optional=True),
    )
    evaluates_shapes: ClassVar[bool] = True

    def infer(
        self, data: Fact, start: Fact, stop: Fact, step: Fact, axes: Fact | None = None
    ) -> tuple[Type, ...]:
        one_dtype(start, stop, step)
        shape, dtype = data.tensor.shape, data.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        count = next((c for c in map(count_of, (start, stop, step)) if c is not None), None)
        if count is not None and count > len(shape):
            raise ShapeError("a slice lists more axes than there are", got=count)
        listed = None if count is None else list(range(count))
        if axes is not None:
            listed = axes_in(axes, len(shape))
        if listed is None:
            return (TensorType(dtype, unknown_shape(self, len(shape))),)
        given = [known_dims(f) for f in (start, stop)]
        steps = known_ints(step)
        for values in (*given, steps):
            if values is not None and len(values) != len(listed):
                raise ShapeError(
                    "start, stop, step and axes must have one length",
                    got=f"{len(values)} values for {len(listed)} axes",
                )
        unique_axes(listed, len(shape))
        out = list(shape)
        for i, axis in enumerate(listed):
            first, last = (None if v is None else v[i] for v in given)
            out[axis] = slice_length(
                self, shape[axis], first, last, None if steps is None else steps[i]
            )
        return (TensorType(dtype, tuple(out)),)

    def evaluate(
        self, data: Array, start: Array, stop: Array, step: Array, axes: Array | None = None
    ) -> tuple[Array, ...]:
        listed = list(range(start.size)) if axes is None else ints_of(axes)
        index = [slice(None)] * data.ndim
        for axis, first, last, by in zip(
            unique_axes(listed, data.ndim),
            ints_of(start),
            ints_of(stop),
            ints_of(step),
            strict=True,
        ):
            index[axis] = index_slice(first, last, by, data.shape[axis])
        return (np.asarray(data[tuple(index)], order="C"),)


@dataclass(frozen=True)
class SliceEntry:
    """One entry of a StridedSlice: what it does to which axis."""

    position: int
    axis: int
    new: bool = False
    shrink: bool = False
    full: bool = False


def _one_length(counts: Sequence[int | None]) -> int | None:
    """The length of a strided slice's lists, of which some may not be known."""
    known = {c for c in counts if c is not None}
    if len(known) > 1:
        raise ShapeError("a strided slice's lists differ in length", got=list(counts))
    return next(iter(known), None)


def _require_element(at: Dim, size: Dim) -> None:
    """ShapeError where an index is for sure none of an axis' elements; noted where it may be."""
    low, high = bounds(at)
    if low is not None and low >= 0:
        least = at + 1
    elif high is not None and high < 0:
        least = -at
    else:
        return
    what = "an index lies outside the axis it picks from"
    if le(least, size) is False:
        raise ShapeError(what, got=at, expected=f"{-size}..{size - 1}")
    require_at_least(least, size, what)


@dataclass(frozen=True)
class StridedSlice(Op):
    """begin:end:strides per axis; masks hold one number per entry.

    begin_mask and end_mask: 1 ignores the bound. new_axis_mask inserts an axis of size 1,
    shrink_axis_mask takes one element and drops the axis, ellipsis_mask (once) denotes all
    axes that the other entries leave.
    """

    kind: ClassVar[str] = "StridedSlice"
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("begin"),
        Port("end"),
        Port("strides", optional=True),
    )
    evaluates_shapes: ClassVar[bool] = True
    begin_mask: tuple[int, ...] = ()
    end_mask: tuple[int, ...] = ()
    new_axis_mask: tuple[int, ...] = ()
    shrink_axis_mask: tuple[int, ...] = ()
    ellipsis_mask: tuple[int, ...] = ()

    def entries(self, count: int, rank: int) -> list[SliceEntry]:
        """What each of `count` entries, and the rest of `rank` axes, means."""

        def is_set(mask: Sequence[int], i: int) -> bool:
            return i < len(mask) and mask[i] == 1

        dots = sum(is_set(self.ellipsis_mask, i) for i in range(count))
        # An ellipsis is nothing else besides.
        new = [
            is_set(self.new_axis_mask, i) and not is_set(self.ellipsis_mask, i)
            for i in range(count)
        ]
        fresh = sum(new)
        if dots > 1:
            raise ShapeError("a strided slice has one ellipsis at most", got=dots)
        left = rank - (count - fresh - dots)
        if left < 0:
            raise ShapeError("a strided slice lists more axes than there are", got=count)
        out: list[SliceEntry] = []
        axis = 0
        for i in range(count):
            if is_set(self.ellipsis_mask, i):
                out += [SliceEntry(i, axis + j, full=True) for j in range(left)]
                axis += left
            elif new[i]:
                out.append(SliceEntry(i, -1, new=True))
            else:
                out.append(SliceEntry(i, axis, shrink=is_set(self.shrink_axis_mask, i)))
                axis += 1
        return [*out, *(SliceEntry(-1, a, full=True) for a in range(axis, rank))]

    def bounds_of(self, i: int, first: T, last: T, step: int | None) -> tuple[T | int, T | int]:
        """The begin and the end of an entry, or the ends of the axis where masks ignore them."""
        free = [i < len(m) and m[i] == 1 for m in (self.begin_mask, self.end_mask)]
        back = step is not None and step < 0
        ends = (AXIS_END, -AXIS_END) if back else (0, AXIS_END)
        return ends[0] if free[0] else first, ends[1] if free[1] else last

    def infer(
        self, data: Fact, begin: Fact, end: Fact, strides: Fact | None = None
    ) -> tuple[Type, ...]:
        shape, dtype = data.tensor.shape, data.tensor.dtype
        count = _one_length([count_of(f) for f in (begin, end, strides) if f is not None])
        if shape is None or count is None:
            return (TensorType(dtype, None),)
        firsts, lasts = known_dims(begin), known_dims(end)
        steps = [1] * count if strides is None else known_ints(strides)
        out: list[Dim] = []
        for entry in self.entries(count, len(shape)):
            if entry.new:
                out.append(1)
            elif entry.full:
                out.append(shape[entry.axis])
            elif entry.shrink:
                if firsts is not None:
                    _require_element(firsts[entry.position], shape[entry.axis])
            else:
                out.append(self._length(entry, shape, firsts, lasts, steps))
        return (TensorType(dtype, tuple(out)),)

    def _length(
        self,
        entry: SliceEntry,
        shape: Shape,
        firsts: Sequence[Dim] | None,
        lasts: Sequence[Dim] | None,
        steps: Sequence[int] | None,
    ) -> Dim:
        step = None if steps is None else steps[entry.position]
        first = None if firsts is None else firsts[entry.position]
        last = None if lasts is None else lasts[entry.position]
        first, last = self.bounds_of(entry.position, first, last, step)
        return slice_length(self, shape[entry.axis], first, last, step)

    def evaluate(
        self, data: Array, begin: Array, end: Array, strides: Array | None = None
    ) -> tuple[Array, ...]:
        firsts, lasts = ints_of(begin), ints_of(end)
        steps = [1] * len(firsts) if strides is None else ints_of(strides)
        _one_length([len(firsts), len(lasts), len(steps)])
        index: list[slice | int | None] = []
        for entry in self.entries(len(firsts), data.ndim):
            i = entry.position
            if entry.new:
                index.append(None)
            elif entry.full:
                index.append(slice(None))
            elif entry.shrink:
                _require_element(firsts[i], data.shape[entry.axis])
                index.append(firsts[i])
            else:
                size = data.shape[entry.axis]
                first, last = self.bounds_of(i, firsts[i], lasts[i], steps[i])
                index.append(index_slice(first, last, steps[i], size))
        return (np.array(data[tuple(index)]),)
