"""Sets of bytes as strided blocks: what walks write, joined where pieces touch."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
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
        # Blocks are sorted and do not touch one another, so that their ends ascend, too.
        blocks = self._blocks.setdefault(axes, [])
        first = bisect_left(blocks, begin, key=_end_of)
        after = bisect_right(blocks, end, key=_begin_of)
        if first < after:
            begin, end = min(begin, blocks[first][0]), max(end, blocks[after - 1][1])
        blocks[first:after] = [(begin, end)]
        return begin, end - begin

    def holds(self, start: int, terms: Sequence[tuple[int, int]], length: int) -> bool:
        """Whether all these bytes are in the set."""
        start, axes, length = normalize_piece(start, terms, length)
        span = sum((size - 1) * stride for size, stride in axes) + length
        inside = self._covers((), start, start + span)
        return inside or (bool(axes) and self._covers(axes, start, start + length))

    def _covers(self, axes: Terms, begin: int, end: int) -> bool:
        blocks = self._blocks.get(axes, [])
        n = bisect_right(blocks, (begin, float("inf"))) - 1
        return begin >= end or (n >= 0 and blocks[n][0] <= begin and end <= blocks[n][1])

    def common(self, other: WrittenBytes) -> WrittenBytes:
        """Bytes that are known to be in both."""
        made = WrittenBytes()
        for axes in self._blocks.keys() & other._blocks.keys():
            own, theirs = self._blocks[axes], other._blocks[axes]
            n = m = 0
            while n < len(own) and m < len(theirs):
                begin = max(own[n][0], theirs[m][0])
                end = min(own[n][1], theirs[m][1])
                if begin < end:
                    made.add(begin, axes, end - begin)
                if own[n][1] <= theirs[m][1]:
                    n += 1
                else:
                    m += 1
        return made


def _begin_of(block: tuple[int, int]) -> int:
    return block[0]


def _end_of(block: tuple[int, int]) -> int:
    return block[1]


def normalize_piece(start: int, terms: Sequence[tuple[int, int]], length: int) -> Piece:
    """The same bytes with positive, ascending strides, and as few axes as there may be."""
    axes: list[tuple[int, int]] = []
    for size, stride in terms:
        if stride < 0:
            start += (size - 1) * stride
        if size > 1 and stride:
            axes.append((size, abs(stride)))
    axes.sort(key=lambda axis: axis[1])
    merged: list[tuple[int, int]] = []
    for size, stride in axes:
        if not merged and stride <= length:
            length += (size - 1) * stride
        elif merged and stride == merged[-1][0] * merged[-1][1]:
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, stride))
    return start, tuple(merged), length


# Per axis: the first index, the step and how many.
Grid = tuple[tuple[int, int, int], ...]


def fill_shape(pieces: Sequence[Piece], shape: Sequence[int]) -> bool:
    """Whether pieces are shown to be all bytes of an array of `shape`, whose last axis counts
    bytes: each is a grid, no two share an index on every axis, and their sizes add up.

    So the outputs of a transposed convolution are: one piece per phase, of one size more or less.
    """
    grids = [grid_of(piece, shape) for piece in pieces]
    found = [g for g in grids if g is not None]
    if len(found) < len(grids) or len(found) > 64:
        return False
    apart = all(
        any(_are_disjoint(*pair) for pair in zip(a, b, strict=True))
        for n, a in enumerate(found)
        for b in found[:n]
    )
    total = sum(math.prod(count for _, _, count in grid) for grid in found)
    return apart and total == math.prod(shape)


def grid_of(piece: Piece, shape: Sequence[int]) -> Grid | None:
    """A piece as steps along the axes of an array; None where it is no such grid."""
    start, terms, length = piece
    found: dict[int, tuple[int, int, int]] = {}
    rest, sizes = start, [math.prod(shape[n + 1 :]) for n in range(len(shape))]
    first: list[int] = []
    for size in sizes:
        first.append(rest // size if size else 0)
        rest -= first[-1] * size
    for count, stride in (*terms, (length, 1)):
        axis = next((n for n, size in enumerate(sizes) if 0 < size <= stride), len(shape) - 1)
        if stride == 1:  # a block: whole inner axes, and a part of the one around them
            axis = next((n for n, size in enumerate(sizes) if 0 < size < count), len(shape) - 1)
            count, remainder = divmod(count, sizes[axis])
            if remainder or any(first[axis + 1 :]) or not found.keys().isdisjoint(range(axis, 99)):
                return None
            found.update({n: (0, 1, shape[n]) for n in range(axis + 1, len(shape))})
            stride = sizes[axis]
        step, remainder = divmod(stride, sizes[axis])
        # An axis that is walked from end to end, and then the next one around it, is one term.
        while axis > 0 and axis not in found and first[axis] + (count - 1) * step >= shape[axis]:
            inner, uneven = divmod(shape[axis], step)
            if uneven or first[axis] >= step or count % inner:
                return None
            found[axis] = (first[axis], step, inner)
            axis, step, count = axis - 1, 1, count // inner
        if remainder or axis in found or first[axis] + (count - 1) * step >= shape[axis]:
            return None
        found[axis] = (first[axis], step, count)
    return tuple(found.get(n, (first[n], 1, 1)) for n in range(len(shape)))


def _are_disjoint(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    """Whether two progressions have no number in common."""
    (a0, a_step, a_count), (b0, b_step, b_count) = a, b
    disjoint = a0 + (a_count - 1) * a_step < b0 or b0 + (b_count - 1) * b_step < a0
    if disjoint or a_count == b_count == 1:
        return disjoint
    # Numbers that differ by no multiple of what both steps are multiples of.
    return (a0 - b0) % math.gcd(a_step if a_count > 1 else 0, b_step if b_count > 1 else 0) != 0
