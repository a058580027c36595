"""A region's sizes for one set of input shapes, and the checks that need them.

`RegionLayoutTables` turns a region into index arrays once; `sizes(env)` then evaluates every size
expression and checks, without a Python loop over steps, that sizes are not negative, that buffers
stay inside those they alias and operands inside their buffers (bounds.py), that a step overwrites
what it reads only where its kernel may (aliasing.py), and that its work is bounded
(step_bounds.py). What was verified for the sizes before is not checked again (step_checks.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ..plan import (
    ARENA,
    LOOP,
    ControlStep,
    HostStep,
    KernelStep,
    Plan,
    PlanConstant,
    Region,
)
from .appended_outputs import AppendedOutput, find_appended_outputs
from .bounds import MAX_BYTES, BufferBounds
from .buffers import buffer_roots
from .runtime_checks import FailingAsserts, SizeChecks
from .size_table import Ints, SizeTable, to_ints, to_starts
from .step_checks import (
    ChangedSteps,
    StepChecks,
    find_equal_steps,
    list_reached_rows,
    native_steps,
)
from .strided_access import StridedAccess

# Sets of sizes that changed together whose checks a region keeps.
_MAX_CHANGES: Final = 16
# Where a change reaches a larger share of the operands, all are checked.
_MAX_REACHED_SHARE: Final = 0.5


@dataclass(frozen=True, eq=False)
class RegionSizes:
    """Sizes of a region for one set of shapes, verified.

    values: of the distinct size expressions (RegionLayoutTables has their order); elements and
    nbytes: per buffer; root_offsets: bytes from the start of the buffer's root to its own start;
    work: per kernel step; failing_asserts: CHECK steps that fail; distinct: per operand, whether it
    is shown to walk no element twice; numbers: `values` as Python's integers. Buffers' shapes:
    RegionLayoutTables.shape(sizes, b).
    """

    values: Ints
    elements: Ints
    nbytes: Ints
    root_offsets: Ints
    work: Ints
    failing_asserts: FailingAsserts
    distinct: Any
    numbers: Sequence[int]


class RegionLayoutTables:
    """Index arrays of one region whose plan passed verify_plan.

    operand_buffer, operand_start: buffer numbers of all native steps' operands, one after the
    other, and where each native step begins; step_dims, step_dims_start: the same for run-time
    sizes, as positions in RegionSizes.values. `kernels` are the native steps' numbers. root: per
    buffer. moves: per buffer that moves, its number, its loop's step and the operands that move.
    """

    def __init__(self, region: Region, constants: Sequence[PlanConstant]) -> None:
        self.region, self.constants = region, constants
        table = self._table = SizeTable()
        self.kernels = [n for n, s in enumerate(region.steps) if not isinstance(s, HostStep)]
        steps = native_steps(region)
        self.root = to_ints(buffer_roots(region))
        dims = self._dims = [table.position(d) for d in region.dims]
        self.step_dims = to_ints([dims[d] for s in steps for d in s.dims])
        self.step_dims_start = to_starts([len(s.dims) for s in steps])
        works = [s.work if isinstance(s, KernelStep) else 0 for s in steps]
        self._work = to_ints([table.position(w) for w in works])
        # The loops a native step is in, as positions of their trips.
        self._times = self._collect_trip_counts(region, dims)
        self._checks = SizeChecks(region, dims, self.kernels)
        self._buffers = BufferBounds(region, constants, table, dims)
        self.itemsize = self._buffers.itemsize
        rows = range(len(steps))
        self._steps = StepChecks(region, self.kernels, rows, self.root, dims, table)
        self._operands, self.operand_start = self._steps.operands, self._steps.starts
        self.operand_buffer = self._operands.buffer
        self.moves = self._find_moves(region)
        self._evaluate = table.compile()
        # What was verified last, the changes of sizes that were seen since, and the checks of the
        # steps that they reach; None where these are most. Not of regions with control flow.
        self._repeats = not any(isinstance(s, ControlStep) for s in steps)
        self._verified: RegionSizes | None = None
        self._seen: set[bytes] = set()
        self._changes: dict[bytes, ChangedSteps | None] = {}
        self._shape_getters: dict[int, Callable[[Sequence[int]], tuple[int, ...]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        forgotten: dict[str, Any] = {
            "_verified": None,
            "_seen": set(),
            "_changes": {},
            "_shape_getters": {},
        }
        return self.__dict__ | forgotten

    @cached_property
    def appended_outputs(self) -> list[AppendedOutput]:
        """Outputs that begin with a copy of an input."""
        return find_appended_outputs(self.region, self.root.tolist())

    def _find_moves(self, region: Region) -> list[tuple[int, int, list[int]]]:
        """(buffer, its loop's step, operands that move with it) per buffer that moves."""
        found = {
            b: (b, buffer.loop, list[int]())
            for b, buffer in enumerate(region.buffers)
            if buffer.loop is not None
        }
        for operand, buffer in enumerate(self.operand_buffer.tolist() if found else ()):
            at: int | None = buffer
            while at is not None:
                if at in found:
                    found[at][2].append(operand)
                at = region.buffers[at].alias_of
        return list(found.values())

    def _collect_trip_counts(self, region: Region, dims: list[int]) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for n, step in enumerate(region.steps):
            if isinstance(step, ControlStep) and step.kind == LOOP and step.trips is not None:
                first, end = bisect_right(self.kernels, n), bisect_left(self.kernels, step.target)
                for row in range(first, end):
                    found.setdefault(row, []).append(dims[step.trips])
        return found

    def trips(self, sizes: RegionSizes, loop: int) -> int:
        """The most iterations that the loop which begins at this step has."""
        step = self.region.steps[loop]
        assert isinstance(step, ControlStep) and step.trips is not None
        return int(sizes.values[self._table.position(self.region.dims[step.trips])])

    def step_sizes(self, sizes: RegionSizes, n: int) -> list[int]:
        """The run-time sizes of step n."""
        return [int(sizes.values[p]) for p in self.step_size_positions(n)]

    def step_size_positions(self, n: int) -> list[int]:
        """Where the run-time sizes of step n are in RegionSizes.values."""
        step = self.region.steps[n]
        assert not isinstance(step, HostStep)
        return [self._table.position(self.region.dims[d]) for d in step.dims]

    def list_axes(self, operands: Ints) -> tuple[Ints, Ints]:
        """Where the sizes of these operands' axes are in RegionSizes.values, and where each
        operand's begin in that list."""
        return self._operands.list_axes(operands)

    def stride_bytes(self, sizes: RegionSizes, b: int) -> int:
        """How far a moving buffer moves with an iteration."""
        return int(sizes.values[self._buffers.strides[b][0]]) * int(self.itemsize[b])

    def total_work(self, sizes: RegionSizes) -> Ints:
        """Work per native step in all iterations of the loops around it, as far as int64 goes."""
        work = sizes.work.astype(np.float64)
        for row, trips in self._times.items():
            for position in trips:
                work[row] *= max(0, int(sizes.values[position]))
        return np.minimum(work, float(MAX_BYTES)).astype(np.int64)

    def shape(self, sizes: RegionSizes, b: int) -> tuple[int, ...]:
        """Buffer b's shape."""
        positions = self._buffers.shapes[b]
        if len(positions) < 2:
            return tuple([sizes.numbers[p] for p in positions])
        if b not in self._shape_getters:
            self._shape_getters[b] = itemgetter(*positions)
        return self._shape_getters[b](sizes.numbers)

    def shape_positions(self, b: int) -> list[int]:
        """Where buffer b's sizes are in RegionSizes.values."""
        return self._buffers.shapes[b]

    def operand_positions(self, n: int) -> list[int]:
        """Where the sizes, strides and offset of operand n are in RegionSizes.values."""
        return self._operands.positions(n)

    def dims(self, sizes: RegionSizes) -> Ints:
        """The run-time sizes of all kernel steps, one after the other."""
        return sizes.values[self.step_dims]

    def walk(self, sizes: RegionSizes, n: int) -> StridedAccess:
        """The elements of operand n."""
        return self._operands.walk(sizes.values, n)

    def sizes(self, env: Mapping[str, int]) -> RegionSizes:
        """Evaluate and verify. VerificationError, ShapeError (a symbol's bounds, a division by
        zero) or MemoryLimitError (more bytes than any machine has)."""
        numbers = self._evaluate(env)
        self._table.require_addable(numbers, f"region with {len(self.region.steps)} steps")
        failing = self._checks.failing(numbers)
        values, names = np.array(numbers, np.int64), self._steps.names
        elements = self._buffers.elements(values, names)
        nbytes = elements * self.itemsize
        offsets = self._buffers.root_offsets(values, nbytes, names)
        known = None if failing else self._verified
        changed = None if known is None else self._find_changed_steps(known, values)
        checks = self._steps if changed is None else changed.checks
        distinct = found = checks.operands.find_distinct(values)
        if known is not None and changed is not None:
            distinct = changed.merge_distinct(found, known.distinct)
        if known is not None and np.array_equal(offsets, known.root_offsets):
            offsets = known.root_offsets  # many sizes are kept: most have the same offsets
        sizes = RegionSizes(
            values, elements, nbytes, offsets, values[self._work], failing, distinct, numbers
        )
        idle_rows = self.rows_not_run(sizes)
        checks.verify(values, elements, found, (offsets, self.itemsize), idle_rows)
        if self._repeats and not failing:
            self._verified = sizes
        return sizes

    def _find_changed_steps(self, known: RegionSizes, values: Ints) -> ChangedSteps | None:
        """The steps that other values than those that are known reach; None where all are to be
        checked: for most steps, and for a change that was not seen before, since to list its steps
        takes longer than to check all once."""
        changed = np.flatnonzero(values != known.values)
        key = changed.tobytes()
        if key not in self._seen:
            if len(self._seen) >= _MAX_CHANGES:
                self._seen, self._changes = set(), {}
            self._seen.add(key)
            return None
        changes = self._changes  # another thread may begin new ones
        if key not in changes:
            changes[key] = self._list_changed_steps(set(changed.tolist()))
        return changes[key]

    def _list_changed_steps(self, changed: set[int]) -> ChangedSteps | None:
        """The checks of the steps that these sizes reach; None where they are most."""
        rows = list_reached_rows(changed, self.region, self._dims, self._buffers)
        starts = self.operand_start.tolist()
        operands = [n for row in rows for n in range(starts[row], starts[row + 1])]
        if len(operands) > _MAX_REACHED_SHARE * len(self.operand_buffer):
            return None
        region, root = self.region, self.root
        kept, equals = find_equal_steps(rows, region, root, self._dims, self._buffers)
        checks = StepChecks(region, self.kernels, kept, root, self._dims, self._table)
        begins = checks.starts.tolist()
        checked = [n for at in equals for n in range(begins[at], begins[at + 1])]
        return ChangedSteps(checks, to_ints(operands), to_ints(checked))

    def rows_not_run(self, sizes: RegionSizes) -> set[int]:
        """Native steps in loops without iterations, and behind checks that fail."""
        found = {r for check in sizes.failing_asserts for r in self._checks.steps_guarded_by(check)}
        trips = self._times.items()
        return found | {row for row, at in trips if min(int(sizes.values[p]) for p in at) <= 0}

    def arena_roots(self) -> list[int]:
        """The ARENA buffers that alias no other: what memory is placed for."""
        buffers = self.region.buffers
        return [i for i, b in enumerate(buffers) if b.kind == ARENA and b.alias_of is None]


@dataclass(frozen=True, eq=False)
class PlanLayoutTables:
    """Tables of the regions of a plan that passed verify_plan. bodies: per region, those of the
    plans inside its terminal."""

    regions: Sequence[RegionLayoutTables]
    bodies: Sequence[Sequence[PlanLayoutTables]]

    @staticmethod
    def of(plan: Plan, constants: Sequence[PlanConstant]) -> PlanLayoutTables:
        """constants: of the outermost plan."""
        inside = [() if r.terminal is None else r.terminal.bodies for r in plan.regions]
        return PlanLayoutTables(
            [RegionLayoutTables(r, constants) for r in plan.regions],
            [[PlanLayoutTables.of(body, constants) for body in bodies] for bodies in inside],
        )
