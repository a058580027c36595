"""Which of a region's size checks fail for given sizes.

Most precede the region, and nothing of it runs. What a loop's body or a branch takes for
granted matters where it runs: such a check belongs to a CHECK step, which ends the run when it is
reached; the steps behind it, up to its target, are never run with these sizes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial

from ...ir.errors import ShapeError
from ..plan import ControlStep, Region, SizeCheck

# What a CHECK step ends the run with, by its index among the native steps.
FailingAsserts = Mapping[int, partial[ShapeError]]


class SizeChecks:
    """A region's checks, over positions in the list of all its sizes."""

    def __init__(self, region: Region, dims: Sequence[int], kernels: Sequence[int]) -> None:
        self._region, self._kernels = region, kernels
        self._checks = [(dims[c.left], dims[c.right], c) for c in region.checks]

    def failing(self, numbers: Sequence[int]) -> FailingAsserts:
        """ShapeError where a check before the region fails; the others that do."""
        found: dict[int, partial[ShapeError]] = {}
        for left, right, check in self._checks:
            have, want = numbers[left], numbers[right]
            if have == want or (check.or_one and have == 1):
                continue
            error = partial(_size_mismatch_error, self._region, check, have, want)
            if check.step is None:
                raise error()
            found.setdefault(bisect_left(self._kernels, check.step), error)
        return found

    def steps_guarded_by(self, row: int) -> range:
        """The native steps that run behind this CHECK only, by their indices."""
        step = self._region.steps[self._kernels[row]]
        assert isinstance(step, ControlStep)
        return range(row + 1, bisect_left(self._kernels, step.target))


def _size_mismatch_error(region: Region, check: SizeCheck, have: int, want: int) -> ShapeError:
    left, right = region.dims[check.left], region.dims[check.right]
    if isinstance(left, int) and isinstance(right, int):  # a branch that never works
        return ShapeError(check.what, where=check.where)
    return ShapeError(
        check.what,
        where=check.where,
        got=f"{have} and {want}, which are {left} and {right}",
        expected="equal sizes" + (", or 1" if check.or_one else ""),
    )
