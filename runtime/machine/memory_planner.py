"""Where buffers lie: one arena per context, placed from lifetimes, reused by every call.

Placement is offline dynamic storage allocation: each buffer is alive for an interval of steps,
two that are alive together must not overlap. Greedy by size with best fit (Pisarchyk and Lee,
"Efficient Memory Management for Deep Neural Net Inference", 2020) comes within a few percent of
the largest live set on most networks; where it does not, other orders are tried, and then whatever
ended on top of the rest is moved to the front of the order, a few times.

Each buffer is compared with all that are alive with it, which is quadratic. So more than
MAX_GREEDY_BUFFERS are allocated and freed in the order of the steps instead, with best fit.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import re
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...ir.errors import MemoryLimitError
from ...ir.lazy_dataclass import dataclass
from ...ir.limits.format_bytes import format_size
from ...ir.limits.memory_budget import RAISE_LIMIT

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

# A cache line, and the widest vector: no two buffers share a line.
ALIGN_BYTES: Final = 64
# A placement this close to the lower bound is good enough to stop looking.
_MAX_ACCEPTED_RATIO: Final = 1.02
# How often to try a better order, and for how many buffers in all
# (docs/dev/tuning/memory-planner.md).
_MAX_TRIES: Final = 32
_MAX_TRIED_BUFFERS: Final = 4000
# More buffers are placed in the order of the steps (docs/dev/tuning/memory-planner.md).
MAX_GREEDY_BUFFERS: Final = 4096

# From this size on an array has pages of its own, which go back to the system with it.
_OWN_PAGES: Final = 1 << 20
# Memory that no other process shares: only such memory gets large pages. (Windows has no flags.)
_PRIVATE: Final[dict[str, int]] = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
)


def aligned_bytes(size: int) -> npt.NDArray[np.uint8]:
    """`size` zeros that start on a multiple of ALIGN: what the heap held before reaches no result,
    whatever a stored plan leaves unwritten."""
    raw = np.zeros(size + ALIGN_BYTES, np.uint8)
    skip = -address_of(raw) % ALIGN_BYTES
    return raw[skip : skip + size]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array on a multiple of ALIGN: vectors of it never lie across two cache lines."""
    size = math.prod(shape) * dtype.itemsize
    return aligned_bytes(size).view(dtype).reshape(shape)


def page_memory(size: int) -> Array:
    """Bytes of our own, aligned. Large ones are pages that go back when they are dropped (the C
    library would keep them for later)."""
    if size < _OWN_PAGES:
        return aligned_bytes(size)
    try:
        pages = mmap.mmap(-1, size, **_PRIVATE)
    except (OSError, MemoryError) as error:
        raise MemoryLimitError("no memory for a model's weights", got=format_size(size)) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def _read_address() -> Callable[[Array], int]:
    """The quickest way to an array's address that is right here.

    A NumPy array's first field after the object's header is its data pointer (PyArrayObject.data,
    fixed by NumPy's C interface); reading it takes a tenth of the time of `ctypes.data`. It is
    tried on arrays of several kinds first, so another layout only costs time.
    """
    header, field = object.__basicsize__, ctypes.c_ssize_t.from_address

    def read(array: Array) -> int:
        return field(id(array) + header).value

    def read_interface(array: Array) -> int:
        return array.__array_interface__["data"][0]

    base = np.zeros((5, 6), np.float32)
    samples = (base, base[2:, 1:], base[::-1], np.array(1), np.zeros(3, "S7"), base[2:].copy())
    return read if all(read(a) == read_interface(a) for a in samples) else read_interface


# The address of an array's first element.
address_of: Final = _read_address()


def trim_heap() -> None:
    """Hand what the C library keeps of freed memory for later back to the system, where it can
    (glibc's malloc_trim)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def drop_file_pages(name: str) -> int:
    """Give back the pages of mapped files with `name` in their paths; returns how many mappings.

    They are read again where they are used. A mapping that was written to, or has pages of its own
    (Linux's smaps), keeps them.
    """
    try:
        text = Path("/proc/self/smaps").read_text("utf-8", "replace")
    except OSError:  # no Linux
        return 0
    advise: Any = getattr(ctypes.CDLL(None), "madvise", None)
    dropped = 0
    for first, last, access, path, fields in _MAPPING.findall(text) if advise else ():
        own = re.search(r"\nAnonymous: +0 kB", fields) is None
        if "w" in access or name not in path or own:
            continue
        start, end = int(first, 16), int(last, 16)
        done = advise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)
        dropped += done == 0
    return dropped


# A mapping in smaps: where it begins and ends, what is allowed, the file's path, and more lines.
_MAPPING: Final = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+ +(/[^\n]*)((?:\n[A-Z][^\n]*)*)", re.MULTILINE
)


def round_up(sizes: Any) -> Any:
    """To the next multiple of ALIGN."""
    return (sizes + (ALIGN_BYTES - 1)) & -ALIGN_BYTES


@dataclass(frozen=True, eq=False)
class Placement:
    """Byte offsets for buffers of `sizes` bytes; `peak` bytes hold them all.

    It also fits any sizes that are nowhere larger, with the same lifetimes.
    """

    sizes: Ints
    offsets: Ints
    peak: int

    def fits(self, sizes: Ints) -> bool:
        """Are these sizes nowhere larger than those it was made for?"""
        return bool((sizes <= self.sizes).all())


def live_peak(sizes: Ints, first: Ints, last: Ints) -> int:
    """Bytes of the largest set of buffers alive at one step: no placement can be smaller."""
    if len(sizes) == 0:
        return 0
    steps = np.zeros(int(last.max()) + 2, np.int64)
    rounded = round_up(sizes)
    np.add.at(steps, first, rounded)
    np.subtract.at(steps, last + 1, rounded)
    return int(np.cumsum(steps).max())


def place_buffers(sizes: Ints, first: Ints, last: Ints) -> Placement:
    """Offsets, multiples of ALIGN, so that buffers alive at a common step do not overlap.

    sizes: bytes >= 0; first, last: steps >= 0, inclusive, first <= last. Deterministic.
    """
    if len(sizes) == 0:
        return Placement(sizes, np.zeros(0, np.int64), 0)
    rounded = round_up(sizes)
    if len(sizes) > MAX_GREEDY_BUFFERS:
        peak, offsets = _place_by_steps(rounded, first, last)
        return Placement(rounded, offsets, peak)
    good = live_peak(sizes, first, last) * _MAX_ACCEPTED_RATIO
    index = np.arange(len(sizes))
    span = last - first + 1
    best: tuple[int, Ints] | None = None
    order = best_order = index
    # The last key of lexsort leads.
    for keys in (
        (index, first, -rounded),
        (index, first, -rounded * span),
        (index, -rounded, -span),
        (index, -rounded, first),
    ):
        order = np.lexsort(keys)
        found = _place_in_order(rounded, first, last, order)
        if best is None or found[0] < best[0]:
            best, best_order = found, order
        if best[0] <= good:
            break
    assert best is not None
    found, order = best, best_order
    for _ in range(min(_MAX_TRIES, _MAX_TRIED_BUFFERS // len(sizes))):
        if best[0] <= good:
            break
        # What ended on top came too late: let it choose its offset first.
        top = np.flatnonzero(found[1] + rounded == found[0])
        order = np.concatenate([top, order[~np.isin(order, top)]])
        found = _place_in_order(rounded, first, last, order)
        best = min(best, found, key=lambda f: f[0])
    return Placement(rounded, best[1], best[0])


def _place_in_order(sizes: Ints, first: Ints, last: Ints, order: Ints) -> tuple[int, Ints]:
    """Each buffer in turn into the tightest gap among those alive with it, else on top."""
    offsets = np.zeros(len(sizes), np.int64)
    # Columns of those placed so far, in the order of placement.
    n = len(sizes)
    begin, end = np.empty(n, np.int64), np.empty(n, np.int64)
    born, dead = np.empty(n, np.int64), np.empty(n, np.int64)
    peak = 0
    for k, b in enumerate(order):
        size, f, t = int(sizes[b]), first[b], last[b]
        together = np.flatnonzero((born[:k] <= t) & (dead[:k] >= f))
        at = 0
        if size and len(together):
            low, high = begin[together], end[together]
            by_offset = np.argsort(low, kind="stable")
            low = low[by_offset]
            tops = np.empty(len(low) + 1, np.int64)
            tops[0] = 0
            np.maximum.accumulate(high[by_offset], out=tops[1:])
            gaps = low - tops[:-1]
            fitting = np.flatnonzero(gaps >= size)
            at = int(tops[fitting[np.argmin(gaps[fitting])]]) if len(fitting) else int(tops[-1])
        offsets[b] = at
        begin[k], end[k], born[k], dead[k] = at, at + size, f, t
        if not size:
            # An empty buffer must not split a gap.
            born[k], dead[k] = 1, 0
        peak = max(peak, at + size)
    return peak, offsets


def _place_by_steps(sizes: Ints, first: Ints, last: Ints) -> tuple[int, Ints]:
    """Each buffer in the order of the steps into the tightest free range, else on top; its range is
    free behind its last step. Forwards or backwards in time, whichever takes less."""
    end = int(last.max())
    forwards = _allocate(sizes.tolist(), first.tolist(), last.tolist())
    backwards = _allocate(sizes.tolist(), (end - last).tolist(), (end - first).tolist())
    peak, offsets = min(forwards, backwards, key=lambda found: found[0])
    return peak, np.array(offsets, np.int64)


def _allocate(
    sizes: Sequence[int], first: Sequence[int], last: Sequence[int]
) -> tuple[int, list[int]]:
    """(peak, offsets) of buffers that are allocated at their first step, the largest of a step
    first, and freed behind their last."""
    free, offsets = FreeRanges(), [0] * len(sizes)
    dying = sorted(range(len(sizes)), key=last.__getitem__)
    dead = 0
    for b in sorted(range(len(sizes)), key=lambda b: (first[b], -sizes[b])):
        while last[dying[dead]] < first[b]:
            free.give(offsets[dying[dead]], sizes[dying[dead]])
            dead += 1
        offsets[b] = free.take(sizes[b])
    return free.peak, offsets


class FreeRanges:
    """Free ranges below `peak`, joined where they touch."""

    def __init__(self) -> None:
        self.peak = 0
        self._by_size: list[tuple[int, int]] = []  # (size, offset), ascending
        self._end_of: dict[int, int] = {}
        self._start_of: dict[int, int] = {}

    def take(self, size: int) -> int:
        """The offset of a range of this size: in the smallest free one that is large enough, else
        at the end."""
        if not size:
            return 0
        n = bisect_left(self._by_size, (size, 0))
        if n < len(self._by_size):
            _, offset = self._by_size[n]
            end = self._remove(offset)
            if offset + size < end:
                self._insert(offset + size, end)
            return offset
        offset = self._start_of.get(self.peak, self.peak)
        if offset < self.peak:
            self._remove(offset)
        self.peak = offset + size
        return offset

    def give(self, offset: int, size: int) -> None:
        """Free a range that was taken."""
        if not size:
            return
        end = offset + size
        if end in self._end_of:
            end = self._remove(end)
        if offset in self._start_of:
            start = self._start_of[offset]
            self._remove(start)
            offset = start
        self._insert(offset, end)

    def _insert(self, start: int, end: int) -> None:
        insort(self._by_size, (end - start, start))
        self._end_of[start], self._start_of[end] = end, start

    def _remove(self, start: int) -> int:
        end = self._end_of.pop(start)
        del self._start_of[end]
        del self._by_size[bisect_left(self._by_size, (end - start, start))]
        return end


def check_limit(
    need: int, limit: int, largest: Sequence[tuple[str, int]], where: str | None = None
) -> None:
    """MemoryLimitError, naming the largest buffers, if `need` bytes exceed `limit`."""
    if need <= limit:
        return
    named = ", ".join(f"{name} ({format_size(size)})" for name, size in largest[:5])
    raise MemoryLimitError(
        "the model's buffers do not fit into the memory allowed",
        where=where,
        got=f"{format_size(need)}; largest: {named or 'none'}",
        expected=f"at most {format_size(limit)} (max_memory)",
        fix=RAISE_LIMIT,
    )
