"""Runs of a plan's regions in order: values between them, terminals, and their memory budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.dtype import DType
from ...ir.errors import ExecutionError
from ...ir.limits.memory_budget import Budget, value_bytes
from ...ir.types import TensorType, coerce_to_dtype, native_order
from ...plan.plan import Region
from .appending_run import AppendingRun, can_append_again
from .execution_context import ExecutionContext
from .host_steps import evaluate_op
from .input_check import same_dtype
from .profile import StepTime, timed_terminal, timed_walk
from .region_instance import RegionInstance
from .variables import VariableStore, deep_copy

Array = npt.NDArray[Any]


class RegionWalk:
    """Runs the regions of a context's plan in order. `times` takes the seconds of each step.

    Values that the run makes are charged to `budget` from when they are made to their last use.
    """

    def __init__(
        self,
        context: ExecutionContext,
        budget: Budget,
        state: VariableStore,
        times: list[StepTime] | None,
    ) -> None:
        self._regions, self._context, self._budget = context.regions, context, budget
        self._state, self._times = state, times
        self._plan = context.regions.plan
        self._slots: list[Any] = [None] * len(self._plan.slots)
        self._sizes: dict[int, int] = {}  # bytes charged, by slot
        self._ours: set[int] = set()  # slots whose arrays were made by our own kernels

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, fresh, for inputs that were checked."""
        plan, slots, regions = self._plan, self._slots, self._regions
        for port, value in zip(plan.inputs, inputs, strict=True):
            # Kernels take any byte order, operations in Python their own.
            slots[port.slot] = native_order(value)
        for slot, constant in regions.constants:
            slots[slot] = constant
        self._state.load(slots)
        self._state.initialise(regions.initialised[-1], slots, self._ours)
        driver = regions.program.driver
        mode = driver.swap_mode(driver.default_mode) if regions.hosted else 0
        try:
            for number, region in enumerate(plan.regions):
                if region.initialises and not self._state.has_missing(region.initialises, slots):
                    continue
                self._run_region(number, region)
        finally:
            if regions.hosted:
                driver.swap_mode(mode)
        results = [self._result(port.slot, port.name) for port in plan.outputs]
        self._state.keep(slots, self._ours)
        return results

    def _run_region(self, number: int, region: Region) -> None:
        slots, budget, initialised = self._slots, self._budget, self._context.regions.initialised
        arrays = [slots[s] for s in region.inputs]
        if not self._append_again(number, region, arrays):
            # Also of a region that has nothing but its terminal: the sizes are checked.
            instance = self._context.instance(number, tuple([a.shape for a in arrays]))
            if region.steps or region.outputs:
                self._run_steps(number, region, instance, arrays)
        if region.terminal is not None:
            if self._times is None:
                self._run_terminal(number)
            else:
                with timed_terminal(self._plan, number, self._times):
                    self._run_terminal(number)
        if initialised[number]:
            self._state.initialise(initialised[number], slots, self._ours)
        for slot in self._regions.last_use[number]:
            slots[slot] = None
            budget.used -= self._sizes.pop(slot, 0)

    def _append_again(self, number: int, region: Region, arrays: list[Any]) -> bool:
        """Run a region that appends to variables as a continuation of its last run, where that may
        be; returns whether it was."""
        context, budget = self._context, self._budget
        run = None if self._times is not None else context.continue_appending(number, arrays)
        if run is None:
            return False
        before, where = budget.used, f"region {number}"
        try:
            budget.charge(run.instance.layout.need, "a region's buffers", where)
            results = run.run()
        finally:
            budget.used = before
        self._hold_arrays(region.outputs, results, where)
        self._ours.update(region.outputs)
        context.keep_appending(number, run)
        return True

    def _run_steps(
        self, number: int, region: Region, instance: RegionInstance, arrays: list[Any]
    ) -> None:
        budget = self._budget
        before = budget.used
        try:
            budget.charge(instance.layout.need, "a region's buffers", f"region {number}")
            appended = instance.code.prefix_copies.appended
            rooms = self._state.find_memory(self._slots, region, appended, instance.result_type)
            walk = None if self._times is None else timed_walk(self._times)
            results = instance.run(arrays, rooms, walk)
        finally:
            budget.used = before
        if rooms:
            memory = self._state.list_growing_memory(region)
            again = can_append_again(instance, rooms, memory)
            run = AppendingRun(instance, memory, results) if again else None
            self._context.keep_appending(number, run)
        where = f"region {number}"
        for slot, made in zip(region.outputs, results, strict=True):
            self._hold(slot, made, where)
        self._ours.update(region.outputs)

    def _hold(self, slot: int, value: Any, where: str) -> None:
        """The value of a slot, charged to the budget."""
        self._slots[slot] = value
        self._budget.used -= self._sizes.pop(slot, 0)
        size = value_bytes(value)
        # Only the step that made a string knows how long it is.
        text = isinstance(value, np.ndarray) and value.dtype == object
        self._budget.charge(size, "strings" if text else "", where)
        self._sizes[slot] = size

    def _hold_arrays(self, slots: Sequence[int], arrays: Sequence[Array], where: str) -> None:
        """The values of slots, arrays of numbers, charged to the budget at once."""
        sizes = [array.nbytes for array in arrays]
        self._budget.used -= sum([self._sizes.pop(slot, 0) for slot in slots])
        self._budget.charge(sum(sizes), "", where)
        for slot, array, size in zip(slots, arrays, sizes, strict=True):
            self._slots[slot], self._sizes[slot] = array, size

    def _run_terminal(self, number: int) -> None:
        regions, slots = self._regions, self._slots
        terminal = self._plan.regions[number].terminal
        assert terminal is not None
        values = [None if s is None else slots[s] for s in terminal.inputs]
        count, where = len(terminal.outputs), f"{terminal.op.kind} {terminal.name}"
        bodies, evaluate = regions.bodies[number], regions.compiled[number].evaluate
        results = evaluate_op(terminal.op, values, terminal.name, count, evaluate, bodies)
        for slot, result in zip(terminal.outputs, results, strict=True):
            wanted = self._plan.slots[slot]
            if isinstance(wanted, TensorType):
                result = np.asarray(
                    coerce_to_dtype(result, wanted.dtype, saturates=terminal.op.saturates)
                )
                open_ = wanted.dtype is DType.dynamic
                if not open_ and not same_dtype(result.dtype, wanted.dtype):
                    raise ExecutionError(
                        "an operation gave another element type than the plan says",
                        where=where,
                        got=result.dtype,
                        expected=wanted,
                    )
            self._hold(slot, result, where)
            if terminal.op.fresh:
                self._ours.add(slot)

    def _result(self, slot: int, name: str) -> Any:
        """An output of the plan: a copy where a caller or another output has the array."""
        value = self._slots[slot]
        if slot in self._ours:
            self._ours.discard(slot)
            return value
        self._budget.charge(value_bytes(value), f"a copy for output {name!r}")
        return deep_copy(value)
