"""Walks: the elements offset + sum(i * stride), 0 <= i < size, that an operand has in a buffer."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ...ir.lazy_dataclass import dataclass

Ints: TypeAlias = npt.NDArray[np.int64]


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


class DistinctWalks:
    """Which walks are shown to visit no element twice: each stride, in ascending order, is longer
    than all shorter ones span together.

    start: where each walk's axes begin in the list of all walks' axes, which has `length` entries.
    """

    def __init__(self, start: Ints, length: int) -> None:
        counts = np.diff(np.append(start, length))
        self._start = start
        self._owner = np.repeat(np.arange(len(start)), counts)
        self._is_first = np.zeros(length, np.bool_)
        self._is_first[start] = True
        axis = np.arange(length) - np.repeat(start, counts)
        # The entries of all second axes, then of all third ones, and so on.
        self._later = [np.flatnonzero(axis == n) for n in range(1, int(counts.max(initial=1)))]
        # Strides of the last call, and their order: most sets of sizes have the same strides.
        self._last: tuple[Ints, Ints, Ints] | None = None

    def find(self, size: Ints, stride: Ints) -> npt.NDArray[np.bool_]:
        """Per walk, for sizes and strides of all walks' axes."""
        last = self._last
        if last is None or not np.array_equal(last[0], stride):
            length = np.abs(stride)
            order = None if last is None else last[1]
            if order is None or not self._ascend(length[order]):
                order = np.lexsort((length, self._owner))
            self._last = last = stride.copy(), order, length[order]
        _, order, length = last
        sizes = size[order]
        span = np.maximum(sizes - 1, 0) * length
        # Sums from a walk's first axis on: of other walks nothing is added, so nothing is rounded.
        before = np.zeros(len(size), np.float64)
        for at in self._later:
            before[at] = before[at - 1] + span[at - 1]
        apart = (length > before) | (sizes <= 1)
        return np.logical_and.reduceat(apart, self._start)

    def _ascend(self, length: Ints) -> bool:
        """Whether each walk's strides, in this order, ascend."""
        return bool(((length[1:] >= length[:-1]) | self._is_first[1:]).all())
