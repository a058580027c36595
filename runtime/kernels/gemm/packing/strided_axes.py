"""How an operand walks an axis of a product: by one stride, or as blocks with a stride of their
own.

A product's result goes to the heads of attention, or its left operand comes from them, by two
strides: one from head to head, one inside a head. Where a vector's lanes are in one block they are
read and written as ever; lanes on both sides of a block's end go through memory, piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .....ir.lazy_dataclass import dataclass
from .....plan.specs.base import Size, Split
from ....llvmir.builder import Function
from ....llvmir.values import Value, integer
from ..context import GemmContext


@dataclass(frozen=True)
class Axis:
    """Element i lies i * `step` on; of an axis in blocks of `size`, i // size * `block` and
    i % size * `step`. All in elements."""

    step: Value
    block: Value | None = None
    size: Value = integer(1)

    def at(self, f: Function, i: Value) -> Value:
        """The offset of element i."""
        if self.block is None:
            return f.mul(i, self.step)
        block = f.udiv(i, self.size)
        return self._offset_within(f, block, i)

    def keeps_whole(self, lanes: int) -> bool:
        """Whether no vector of `lanes`, from a multiple of lanes on, is in two blocks."""
        return self.block is None or lanes == 1 or (self.size.known or 1) % lanes == 0

    def fits(self, f: Function, i: Value, count: Value) -> Value:
        """Whether `count` elements from i on are in one block."""
        return f.icmp("sle", f.add(f.urem(i, self.size), count), self.size)

    @contextmanager
    def pieces(self, f: Function, i: Value, count: Value) -> Iterator[tuple[Value, Value, Value]]:
        """Writes a loop over the blocks that `count` > 0 elements from i on touch: which of the
        elements is the first one there, how many there are, and where they lie."""
        last = f.udiv(f.sub(f.add(i, count), 1), self.size)
        with f.range(f.udiv(i, self.size), f.add(last, 1), unroll=1) as block:
            start = f.sub(f.mul(block, self.size), i)
            low = f.smax(start, 0)
            high = f.smin(f.add(start, self.size), count)
            yield low, f.sub(high, low), self._offset_within(f, block, f.add(i, low))

    def _offset_within(self, f: Function, block: Value, i: Value) -> Value:
        assert self.block is not None
        within = f.sub(i, f.mul(block, self.size))
        return f.add(f.mul(block, self.block), f.mul(within, self.step))


def matrix_axes(
    g: GemmContext,
    f: Function,
    frame: Value,
    strides: Sequence[Size],
    splits: tuple[Split | None, Split | None] = (None, None),
) -> tuple[Axis, Axis]:
    """The last two axes of an operand, each of which may be split."""
    at, found = len(strides), list[Axis]()
    for split in reversed(splits):
        at -= 1 if split is None else 2
        block, step = (None, strides[at]) if split is None else strides[at : at + 2]
        # An axis without elements may have blocks without elements.
        size = f.smax(g.size(f, frame, split[1]), 1) if split else integer(1)
        found.append(
            Axis(
                g.size(f, frame, step),
                None if block is None else g.size(f, frame, block),
                size,
            )
        )
    return found[1], found[0]
