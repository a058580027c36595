"""A list of integers to whose ranges numbers are added, with its maximum at hand: a segment tree.

An addition takes time in proportion to the logarithm of the length. Integers have any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


class RangeMaximum:
    """Values, additions to ranges of them, and their maximum."""

    def __init__(self, values: Sequence[int]) -> None:
        # Node i has the children 2i and 2i + 1; leaves begin at `_leaves`. `_most` is the maximum
        # of a subtree, with what was added to the subtree as a whole, but not to one around it.
        self._leaves = 1 << max(0, len(values) - 1).bit_length()
        padding = [-math.inf] * (self._leaves - len(values))
        self._most: list[float] = [*[0] * self._leaves, *values, *padding]
        self._added = [0] * (2 * self._leaves)
        for node in reversed(range(1, self._leaves)):
            self._most[node] = max(self._most[2 * node], self._most[2 * node + 1])

    def maximum(self) -> float:
        """The largest value, an integer; -inf of no values."""
        return self._most[1]

    def add(self, first: int, after: int, amount: int) -> None:
        """Add to the values from `first` to before `after`; nothing if there are none."""
        if first >= after:
            return
        low, high = first + self._leaves, after + self._leaves
        ends = low, high - 1
        while low < high:
            if low & 1:
                self._add_to_node(low, amount)
                low += 1
            if high & 1:
                high -= 1
                self._add_to_node(high, amount)
            low, high = low >> 1, high >> 1
        for end in ends:
            node = end >> 1
            while node:
                below = max(self._most[2 * node], self._most[2 * node + 1])
                self._most[node] = below + self._added[node]
                node >>= 1

    def _add_to_node(self, node: int, amount: int) -> None:
        self._most[node] += amount
        self._added[node] += amount
