"""Walks: the elements offset + sum(i * stride), 0 <= i < size, that an operand has in a buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class StridedAccess:
    """buffer: its number; offset: of the element where all counters are 0; terms: (size > 0,
    stride) per axis."""

    buffer: int
    offset: int
    terms: tuple[tuple[int, int], ...]

    def range_in_period(self, period: int) -> tuple[int, int] | None:
        """The first and the last offset, counted from a multiple of `period`, on which all elements
        fall; None where they fall beyond the next multiple."""
        inner = [(size - 1) * stride for size, stride in self.terms if stride % period]
        first = (self.offset + sum(min(0, span) for span in inner)) % period
        last = first + sum(abs(span) for span in inner)
        return (first, last) if last < period else None


def are_disjoint(a: StridedAccess, b: StridedAccess) -> bool:
    """Whether two walks are known to have no element of one buffer in common: both repeat with some
    period, and are next to each other in it, as the parts of a concatenation do."""
    if a.buffer != b.buffer:  # which may be in the same memory
        return False
    periods = {abs(stride) for walk in (a, b) for size, stride in walk.terms if size > 1}
    for period in periods - {0, 1}:
        one, other = a.range_in_period(period), b.range_in_period(period)
        if one and other and (one[1] < other[0] or other[1] < one[0]):
            return True
    return False


def are_distinct(size: npt.NDArray[np.int64], stride: npt.NDArray[np.int64], start: Any) -> Any:
    """Per walk, whether it is shown to visit no element twice: each stride, in ascending order, is
    longer than all shorter ones span together.

    size, stride: of all walks' axes, one walk after the other; start: where each begins.
    """
    counts = np.diff(np.append(start, len(size)))
    owner = np.repeat(np.arange(len(start)), counts)
    length = np.abs(stride)
    order = np.lexsort((length, owner))
    span = np.maximum(size - 1, 0) * length
    # Sums from a walk's first axis on: of other walks nothing is added, so nothing is rounded.
    sorted_span, sorted_length, sorted_size = span[order], length[order], size[order]
    before = np.zeros(len(size), np.float64)
    axis_index = np.arange(len(size)) - np.repeat(start, counts)
    for axis in range(1, int(counts.max(initial=1))):
        at = np.flatnonzero(axis_index == axis)
        before[at] = before[at - 1] + sorted_span[at - 1]
    apart = (sorted_length > before) | (sorted_size <= 1)
    return np.logical_and.reduceat(apart, start)
