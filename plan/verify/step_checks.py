"""The checks of native steps that need sizes, for all steps of a region or some of them.

A check of a step depends on the step's run-time sizes and on the sizes and offsets of its buffers
alone. So where a region's sizes were verified and some of them change, as with each token that a
language model reads, only the steps that these reach are checked again.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ..plan import HostStep, KernelStep, NativeStep, Region
from .aliasing import AliasChecks
from .bounds import BufferBounds, OperandBounds
from .size_table import Ints, RegionNames, SizeTable, to_ints, to_starts
from .step_bounds import StepBounds


def native_steps(region: Region) -> list[NativeStep]:
    """The steps that are not Python's."""
    return [s for s in region.steps if not isinstance(s, HostStep)]


class StepChecks:
    """Checks of some native steps. rows: their numbers among all native steps; kernels: these
    steps' numbers in the region; root: per buffer; dims: positions of the region's sizes.

    starts: where each step's operands begin in the list of these steps' operands.
    """

    def __init__(
        self,
        region: Region,
        kernels: Sequence[int],
        rows: Sequence[int],
        root: Ints,
        dims: list[int],
        table: SizeTable,
    ) -> None:
        listed = native_steps(region)
        steps = [listed[row] for row in rows]
        self.starts = to_starts([len(s.buffers) for s in steps])
        self.operands = OperandBounds(steps, table, dims, self.starts)
        self._aliases = AliasChecks(steps, root, self.starts)
        self._bounds = StepBounds(steps, self.starts, dims, table.size)
        outputs = [s.spec.output_count() if isinstance(s, KernelStep) else 0 for s in steps]
        self._written_start = self.starts[1:] - to_ints(outputs)
        self.names = RegionNames(region, [kernels[row] for row in rows], self.starts)

    def verify(
        self,
        values: Ints,
        elements: Ints,
        distinct: Any,
        memory: tuple[Ints, Ints],
        rows_not_run: set[int],
    ) -> None:
        """VerificationError or MemoryLimitError where a step is beyond its bounds.

        elements: per buffer; distinct: of `operands.find_distinct`; memory: per buffer, bytes from
        its root's start, and bytes per element; rows_not_run: which of these steps never run.
        """
        extents = self.operands.check(values, elements, distinct, rows_not_run, self.names)
        if extents is None:
            return
        full = np.append(0, np.cumsum(~extents.empty))
        # Per step, whether all that it writes is empty.
        idle = full[self.starts[1:]] == full[self._written_start]
        self._bounds.check(values, idle, extents.distinct, elements[self.operands.buffer])
        self._aliases.check(values, extents, self.operands, memory, self.names)


@dataclass(frozen=True, eq=False)
class ChangedSteps:
    """The checks of the native steps that a change of some sizes reaches, of equal ones the first.
    operands: the numbers of these steps' operands among all; checked: for each of them, the operand
    of `checks` that is equal."""

    checks: StepChecks
    operands: Ints
    checked: Ints

    def merge_distinct(self, found: Any, known: Any) -> Any:
        """Per operand of all steps, whether it is shown to walk no element twice. found: per
        operand of `checks`; known: what it was for the sizes before, which is returned where
        nothing changed."""
        new = found[self.checked]
        if np.array_equal(new, known[self.operands]):
            return known
        merged = known.copy()
        merged[self.operands] = new
        return merged


def list_reached_rows(
    changed: Set[int], region: Region, dims: Sequence[int], buffers: BufferBounds
) -> list[int]:
    """The native steps, by their numbers among these, whose checks depend on a size that changes.
    changed: positions of the sizes; dims: of the region's run-time sizes."""
    reached = buffers.list_reached(changed)
    return [
        row
        for row, step in enumerate(native_steps(region))
        if any(b in reached for b in step.buffers) or any(dims[d] in changed for d in step.dims)
    ]


def find_equal_steps(
    rows: Sequence[int], region: Region, root: Ints, dims: Sequence[int], buffers: BufferBounds
) -> tuple[list[int], list[int]]:
    """Of some native steps, as the layers of a model have, the first of each kind that is checked
    alike for any sizes, and per step which of these it is. Equal steps have one spec, the same
    run-time sizes, and buffers of the same shapes, none in the memory of another one."""
    steps, kept = native_steps(region), list[int]()
    found: dict[object, int] = {}
    equals: list[int] = []
    for row in rows:
        step = steps[row]
        key: object = row
        if isinstance(step, KernelStep) and len({int(root[b]) for b in step.buffers}) == len(
            step.buffers
        ):
            shapes = [(int(buffers.itemsize[b]), *buffers.shapes[b]) for b in step.buffers]
            padded = [buffers.packed.get(b) for b in step.buffers]
            # Equal specs are mostly one object; a hash takes longer than a check.
            key = id(step.spec), *(dims[d] for d in step.dims), *shapes, *padded
        if key not in found:
            found[key] = len(kept)
            kept.append(row)
        equals.append(found[key])
    return kept, equals
