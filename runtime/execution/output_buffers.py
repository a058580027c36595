"""Outputs that a caller provides: whether they fit, are apart from each other, and from inputs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.errors import InputError
from ..machine.memory_planner import address_of

Array = npt.NDArray[Any]


class MemoryExtents:
    """The bytes from first to last of some arrays, in the order of their addresses: another array
    is compared with them in logarithmic time, where many outputs meet many inputs (a language
    model's caches)."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        extents = sorted((*_extent(a), n) for n, a in enumerate(arrays))
        self._numbers = [number for _, _, number in extents]
        self._starts = [start for start, _, _ in extents]
        # The largest end up to each of them.
        self._ends = list(accumulate((end for _, end, _ in extents), max))

    def is_apart(self, array: Array, source: int | None = None) -> bool:
        """Whether an array shares no byte with these, but with the one of number `source`, if both
        begin at one address."""
        if array.nbytes == 0:
            return True
        start, end = _extent(array)
        last = bisect_left(self._starts, end) - 1  # the last that begins before its end
        if last < 0 or self._ends[last] <= start:
            return True
        is_source = self._numbers[last] == source and self._starts[last] == start
        return is_source and (last == 0 or self._ends[last - 1] <= start)


def _extent(array: Array) -> tuple[int, int]:
    """The address of the first byte of an array that is not empty, and that behind the last one."""
    start = address_of(array)
    if array.flags.c_contiguous or array.size == 0:
        return start, start + array.nbytes
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    last = start + sum(r for r in reach if r > 0) + array.itemsize
    return start + sum(r for r in reach if r < 0), last


def check_output(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], mine: Any) -> None:
    """Can `mine` (None: no array) take a result of this type and shape? InputError."""
    if mine is None:
        return
    if not isinstance(mine, np.ndarray):
        raise InputError(
            f"output {name!r} can't be put there",
            got=type(mine).__name__,
            expected=f"numpy.empty({list(shape)}, {dtype.name!r})",
        )
    if mine.dtype != dtype or mine.shape != shape or not mine.flags.writeable:
        raise InputError(
            f"the array given for output {name!r} does not fit",
            got=f"{mine.dtype}{list(mine.shape)}{' (read-only)' * (not mine.flags.writeable)}",
            expected=f"{dtype}{list(shape)}",
        )


def check_apart(names: Sequence[str], out: Sequence[Any]) -> None:
    """InputError where two outputs, or two elements of one, would be written to the same memory."""
    arrays = [(n, a) for n, a in zip(names, out, strict=True) if isinstance(a, np.ndarray)]
    for at, (name, mine) in enumerate(arrays):
        if _overlaps_itself(mine):
            raise InputError(
                f"elements of the array given for output {name!r} share memory",
                got=f"strides {list(mine.strides)} for shape {list(mine.shape)}",
                expected="an array in which each element has its own memory",
                fix="pass a.copy()",
            )
        for other, theirs in arrays[:at]:
            if _overlap(mine, theirs):
                raise InputError(
                    f"outputs {other!r} and {name!r} would be written to the same memory",
                    got="the same array" if mine is theirs else "arrays that overlap",
                    expected="an array for each output",
                    fix="pass one array per output, or None for a fresh one",
                )


def _overlap(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=1 << 16))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:  # strides for which an exact answer takes too long
        return True


def _overlaps_itself(a: Array) -> bool:
    """Whether a step along an axis may stay inside what the axes of smaller steps cover."""
    axes = [(abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1]
    covered = a.itemsize
    for stride, size in sorted(axes) if a.size else ():
        if stride < covered:
            return True
        covered = stride * (size - 1) + covered
    return False
