"""Bounds of a step's derived quantities for one set of sizes: dynamic numbers in their ranges,
windows that no 64-bit sum wraps around, and work that follows from the memory it touches.

A kernel runs for as long as its loops count. An axis of stride 0 counts without memory behind it,
so a stored plan could request 2^60 iterations. Every element is written once, and what is reduced
is read from memory or, where all operands broadcast, as short as `MAX_BROADCAST_REDUCTION`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ...ir.errors import MemoryLimitError, VerificationError
from ...ir.limits.memory_budget import RAISE_LIMIT
from ..plan import KernelStep, NativeStep
from ..specs.base import RuntimeDim, Size, Spec
from .size_table import Ints
from .spec_ranges import ranges_of

# Reduced elements per result that need not be in memory: 64 GiB of f32 that were fused away.
MAX_BROADCAST_REDUCTION: Final = 1 << 34


class StepBounds:
    """The bounds of a region's native steps. `position`: a size's index in the list of values;
    `starts`: where each step's operands begin in the list of all."""

    def __init__(
        self,
        steps: Sequence[NativeStep],
        starts: Ints,
        dims: Sequence[int],
        position: Callable[[Size, list[int]], int],
    ) -> None:
        ranges: list[tuple[int, int, int, int]] = []  # row, position, least, largest
        self._names: list[str] = []
        written: list[tuple[int, int]] = []  # row, operand
        self._reduced: list[tuple[int, list[int], range]] = []  # row, positions, read operands
        self._sized: list[tuple[int, Spec, list[int]]] = []
        for row, step in enumerate(steps):
            if not isinstance(step, KernelStep):
                continue
            spec, table = step.spec, [dims[d] for d in step.dims]
            for name, size, (low, high) in ranges_of(spec) if spec.runtime_dims else ():
                if isinstance(size, RuntimeDim):
                    ranges.append((row, table[size.index], low, high))
                    self._names.append(name)
            first, end = int(starts[row]), int(starts[row]) + len(step.buffers)
            outs = end - spec.output_count()
            # A scatter may write an element again, by its indices.
            if not spec.scatters():
                written += [(row, n) for n in range(outs, end)]
            reduced = spec.reduced_axes()
            if reduced:
                self._reduced.append(
                    (row, [position(s, table) for s in reduced], range(first, outs))
                )
            if spec.overrides("verify_sizes"):
                self._sized.append((row, spec, table))
        self._ranges = np.array(ranges, np.int64).reshape(-1, 4)
        self._written = np.array(written, np.int64).reshape(-1, 2)

    def check(self, values: Ints, idle: Any, distinct: Any, available: Ints) -> None:
        """VerificationError where a step is beyond its bounds.

        idle: per step, whether it never runs or writes nothing; distinct: per operand, whether it
        walks no element twice; available: per operand, the elements of its buffer.
        """
        row, position, low, high = self._ranges.T
        found = values[position]
        wrong = ((found < low) | (found > high)) & ~idle[row]
        if wrong.any():
            n = int(wrong.argmax())
            raise VerificationError(
                "a number of a kernel is out of range",
                where=f"native step {int(row[n])}, {self._names[n]}",
                got=int(found[n]),
                expected=f"{int(low[n])}..{int(high[n])}",
            )
        row, operand = self._written.T
        wrong = ~distinct[operand] & ~idle[row]
        if wrong.any():
            raise VerificationError(
                "a step writes elements of its output more than once",
                where=f"native step {int(row[int(wrong.argmax())])}",
                expected="one write of each element",
            )
        for number, reduced, reads in self._reduced:
            count = 1
            for p in reduced:
                count *= int(values[p])
            if count <= MAX_BROADCAST_REDUCTION or idle[number]:
                continue
            limit = max(MAX_BROADCAST_REDUCTION, sum(int(available[r]) for r in reads))
            if count > limit:
                raise MemoryLimitError(
                    "a step reduces more elements than its buffers hold",
                    where=f"native step {number}",
                    got=f"about 2^{count.bit_length() - 1}",
                    expected=f"at most {limit} elements",
                    fix=RAISE_LIMIT,
                )
        for number, spec, table in self._sized:
            if not idle[number]:
                spec.verify_sizes(
                    lambda s, t=table: _resolve(s, values, t), f"native step {number}"
                )


def _resolve(size: Size, values: Ints, table: Sequence[int]) -> int:
    return int(values[table[size.index]]) if isinstance(size, RuntimeDim) else size
