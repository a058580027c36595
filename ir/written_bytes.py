"""Sets of bytes as strided blocks: what walks write, joined where pieces touch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

# (size, stride) per axis, strides ascending; a block repeats at every combination.
Terms = tuple[tuple[int, int], ...]
Piece = tuple[int, Terms, int]


class WrittenBytes:
    """Blocks [begin, end), by the axes along which they repeat; those of equal axes are joined, and
    an axis whose blocks touch becomes one block."""

    def __init__(self) -> None:
        self._blocks: dict[Terms, list[tuple[int, int]]] = {}

    def copy(self) -> WrittenBytes:
        made = WrittenBytes()
        made._blocks = {terms: list(blocks) for terms, blocks in self._blocks.items()}
        return made

    def pieces(self) -> Iterator[Piece]:
        """(begin, axes, length) of every block."""
        for terms, blocks in self._blocks.items():
            for begin, end in blocks:
                yield begin, terms, end - begin

    def add(self, start: int, terms: Sequence[tuple[int, int]], length: int) -> None:
        """`length` bytes from `start` on, and at every multiple of the strides."""
        start, axes, length = normalize_piece(start, terms, length)
        while True:
            start, length = self._join(axes, start, start + length)
            if not axes or axes[0][1] > length:
                return
            del self._blocks[axes]
            start, axes, length = normalize_piece(start, axes, length)

    def _join(self, axes: Terms, begin: int, end: int) -> tuple[int, int]:
        """The block, joined with those of equal axes that it touches."""
        apart: list[tuple[int, int]] = []
        for other in self._blocks.get(axes, ()):
            if other[0] <= end and begin <= other[1]:
                begin, end = min(begin, other[0]), max(end, other[1])
            else:
                apart.append(other)
        self._blocks[axes] = sorted([*apart, (begin, end)])
        return begin, end - begin

    def holds(self, start: int, terms: Sequence[tuple[int, int]], length: int) -> bool:
        """Whether all these bytes are in the set."""
        start, axes, length = normalize_piece(start, terms, length)
        span = sum((size - 1) * stride for size, stride in axes) + length
        inside = self._inside((), start, start + span)
        return inside or (bool(axes) and self._inside(axes, start, start + length))

    def _inside(self, axes: Terms, begin: int, end: int) -> bool:
        blocks = self._blocks.get(axes, [])
        n = bisect_right(blocks, (begin, float("inf"))) - 1
        return begin >= end or (n >= 0 and blocks[n][0] <= begin and end <= blocks[n][1])

    def common(self, other: WrittenBytes) -> WrittenBytes:
        """Bytes that are known to be in both."""
        made = WrittenBytes()
        for axes in self._blocks.keys() & other._blocks.keys():
            for a, b in self._blocks[axes]:
                for c, d in other._blocks[axes]:
                    if max(a, c) < min(b, d):
                        made.add(max(a, c), axes, min(b, d) - max(a, c))
        return made


def normalize_piece(start: int, terms: Sequence[tuple[int, int]], length: int) -> Piece:
    """The same bytes with positive, ascending strides, and as few axes as there may be."""
    axes: list[tuple[int, int]] = []
    for size, stride in terms:
        if stride < 0:
            start += (size - 1) * stride
        if size > 1 and stride:
            axes.append((size, abs(stride)))
    axes.sort(key=lambda axis: axis[1])
    kept: list[tuple[int, int]] = []
    for size, stride in axes:
        if not kept and stride <= length:
            length += (size - 1) * stride
        elif kept and stride == kept[-1][0] * kept[-1][1]:
            kept[-1] = (kept[-1][0] * size, kept[-1][1])
        else:
            kept.append((size, stride))
    return start, tuple(kept), length
