"""Bounds of a slice of one axis: the one module that normalizes start and stop.

The rule is ONNX's Slice-13 (OpenVINO's Slice-8 and StridedSlice-1 give the same elements): negative
bounds count from the end; then a forward slice clamps both to [0, size], a backward one the start
to [0, size - 1] and the stop to [-1, size - 1]. NumPy differs for a backward slice whose start
is before the axis: it takes nothing, the rule takes element 0.
"""

from __future__ import annotations

from .dims import Dim, bounds, ceil_div, maximum, minimum
from .errors import ShapeError

# A bound from here on is "to the end" however long a symbolic axis is.
OPEN_END_BOUND = 1 << 31
# The end of any axis, also where FAR is an element of it.
AXIS_END = (1 << 63) - 1


def normalize_slice(start: Dim, stop: Dim, step: int, size: Dim) -> tuple[Dim, Dim] | None:
    """The first element of start:stop:step and how many elements it takes; None where the sign of
    a bound is not known. The first element lies outside the axis only where none is taken."""
    check_step(step)
    first, last = normalize_start(start, size, step), _normalize_stop(stop, size, step)
    if first is None or last is None:
        return None
    span = last - first if step > 0 else first - last
    return first, maximum(ceil_div(span, abs(step)), 0)


def check_step(step: int) -> None:
    """ShapeError for a step of 0."""
    if step == 0:
        raise ShapeError("a slice has step 0", expected="a step other than 0")


def index_slice(start: int, stop: int, step: int, size: int) -> slice:
    """start:stop:step as NumPy indexes it."""
    found = normalize_slice(start, stop, step, size)
    assert found is not None and isinstance(found[0], int) and isinstance(found[1], int)
    first, count = found
    end = first + count * step
    return slice(first, end if end >= 0 else None, step) if count else slice(0, 0)


def normalize_start(value: Dim, size: Dim, step: int) -> Dim | None:
    """A start counted from 0 and clamped to the axis; None where its sign is not known."""
    at = _count_from_zero(value, size, forward=step > 0)
    if at is None:
        return None
    if step > 0:
        return maximum(minimum(at, size), 0)
    # Of an axis without elements -1 remains, so that none is counted.
    return at if at == size - 1 else minimum(maximum(at, 0), size - 1)


def _normalize_stop(value: Dim, size: Dim, step: int) -> Dim | None:
    at = _count_from_zero(value, size, forward=step > 0)
    if at is None:
        return None
    low, high = (0, size) if step > 0 else (-1, size - 1)
    return maximum(minimum(at, high), low)


def _count_from_zero(value: Dim, size: Dim, *, forward: bool) -> Dim | None:
    """A bound counted from the beginning of the axis; None where its sign is not known."""
    low, high = bounds(value)
    if isinstance(value, int) and not isinstance(size, int):
        if value >= OPEN_END_BOUND - 1:
            return size if forward else size - 1
        if value <= 1 - OPEN_END_BOUND:
            return 0 if forward else -1
    if high is not None and high < 0:
        return value + size
    return None if low is None or low < 0 else value
