"""The parts of a weights file that a model refers to: nothing else of the file is read.

A file may be sparse or shared by many models, and larger than memory. Ranges are announced before
they are read; those that overlap or almost touch become one extent, which is read once, by several
threads where it is large. Parts are views of their extent. Files are read, not mapped: a mapped
file that becomes shorter ends the process by SIGBUS, a read of one is an error.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from ....ir.errors import MemoryLimitError
from ....ir.op import Array
from .source import OpenFile

# Ranges that are nearer than this are read together. Extents begin at a multiple of ALIGNMENT, so
# that arrays are aligned in memory as in the file.
MAX_GAP_BYTES = 64 << 10
ALIGNMENT = 64
# What ranges that overlap others, announced later, may take in all besides the file's size.
MAX_OVERLAP_BYTES = 64 << 20


@dataclass
class _Extent:
    first: int
    last: int
    data: Array | None = None


class FileParts:
    """A file of which parts are read when they are needed. MemoryLimitError where they exceed
    `max_memory`, or are read again and again."""

    def __init__(self, file: OpenFile, max_memory: int | None = None) -> None:
        self._file, self._max_memory = file, max_memory
        self.size = file.size
        # Bytes of all extents: what the model refers to.
        self.referred = 0
        self._starts: list[int] = []
        self._extents: list[_Extent] = []

    def expect(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Announce ranges (first, last) that will be read. Those outside the file are left out:
        reading them is the error."""
        inside = sorted(r for r in ranges if 0 <= r[0] < r[1] <= self.size)
        merged: list[_Extent] = []
        for first, last in inside:
            first -= first % ALIGNMENT
            if merged and first <= merged[-1].last + MAX_GAP_BYTES:
                merged[-1].last = max(merged[-1].last, last)
            elif self._find(first, last) is None:
                merged.append(_Extent(first, last))
        for extent in merged:
            self._add(extent)

    def part(self, first: int, last: int) -> Array:
        """Bytes `first` to `last`, read-only, of a range within the file."""
        if first == last:
            return self._file.part(first, last)
        extent = self._find(first, last)
        if extent is None:
            self.expect([(first, last)])
            extent = self._find(first, last)
            assert extent is not None  # expect adds what is inside the file
        if extent.data is None:
            extent.data = self._file.part(extent.first, extent.last)
        return extent.data[first - extent.first : last - extent.first]

    def close(self) -> None:
        """Close the file; what was read stays."""
        self._file.close()

    def _find(self, first: int, last: int) -> _Extent | None:
        at = bisect_right(self._starts, first) - 1
        found = self._extents[at] if at >= 0 else None
        return found if found is not None and last <= found.last else None

    def _add(self, extent: _Extent) -> None:
        self.referred += extent.last - extent.first
        limit = 2 * self.size + MAX_OVERLAP_BYTES
        if self._max_memory is not None:
            limit = min(limit, self._max_memory)
        if self.referred > limit:
            raise MemoryLimitError(
                f"{self._file.what} is larger than max_memory allows"
                if limit == self._max_memory
                else f"the same bytes of {self._file.what} are needed again and again",
                where=repr(self._file.shown),
                got=f"{self.referred} bytes",
                expected=f"at most {limit} bytes",
                fix="raise max_memory" if limit == self._max_memory else None,
            )
        at = bisect_right(self._starts, extent.first)
        self._starts.insert(at, extent.first)
        self._extents.insert(at, extent)
