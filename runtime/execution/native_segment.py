"""Runs of kernel steps between steps in Python: one call into the driver each."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ...ir.errors import Error, ExecutionError
from ...ir.lazy_dataclass import dataclass
from ...plan.specs.base import STATUS_TEXT
from ...plan.verify.size_table import Ints
from ..driver import abi as words
from ..driver.float_mode import has_denormal_flags
from ..driver.thread_pool import get_thread_pool
from ..machine.memory_planner import address_of
from .region_program import CompiledRegion, ShapeInstance

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Workspace:
    """A context's memory: the arena, SMALL bytes per input and output of any region, the workers'
    scratch areas (`stride` bytes each); and the pool's address, 0 for none."""

    arena: Array
    small: Array
    scratch: Array
    stride: int
    pool: int


class SegmentTables(Protocol):
    """What a segment needs of the region that it is a part of, at addresses (RegionInstance)."""

    code: CompiledRegion
    layout: ShapeInstance
    space: Workspace
    table: Ints
    native: Callable[[ctypes.c_void_p], int]

    def reset(self) -> None:
        """Put addresses back that a loop had moved when a kernel in it failed."""


class NativeSegment:
    """A run of kernel steps: one call into the driver."""

    def __init__(self, instance: SegmentTables, kernels: range, team: int) -> None:
        self._instance, self.kernels = instance, kernels
        limits = instance.code.limits
        self.call = np.zeros(words.CALL_WORDS, np.int64)
        self.call[words.CALL_STEPS] = address_of(instance.table) + 8 * words.STEP_WORDS * kernels[0]
        self.call[words.CALL_COUNT] = len(kernels)
        self.call[words.CALL_SCRATCH] = address_of(instance.space.scratch)
        self.call[words.CALL_STRIDE] = instance.space.stride
        self.call[words.CALL_PARTS] = limits.threads if team else 1
        self.call[words.CALL_POOL] = team
        self.call[words.CALL_WAKE] = int(instance.layout.wake)
        self.native = self._run_polling if instance.layout.polls else instance.native
        self.argument = ctypes.c_void_p(address_of(self.call))

    def _run_polling(self, argument: ctypes.c_void_p) -> int:
        """`native` of a call that runs long: in the main thread, which alone runs handlers of
        signals, it raises what they raise."""
        driver = self._instance.code.program.driver
        if threading.current_thread() is not threading.main_thread():
            return driver.run(argument)
        try:
            return driver.run_polling(argument)
        except BaseException:
            self._instance.reset()
            raise

    def run(self) -> None:
        """ExecutionError, naming the step, where a kernel gives a status."""
        status = self.native(self.argument)
        if status:
            self.resume(status)

    def met_denormals(self) -> bool:
        """Did the caller's part of the last run read a denormal or round to one? x86-64 only."""
        return has_denormal_flags(
            int(self.call[words.CALL_MODE]), self._instance.code.program.target
        )

    def resume(self, status: int) -> None:
        """What to do about a result other than 0: start the pool and run, or raise."""
        while status == words.NEEDS_WORKERS:
            program = self._instance.code.program
            get_thread_pool(program.driver).grow(int(self.call[words.CALL_PARTS]) - 1)
            status = self.native(self.argument)
        if status == words.BUSY:
            raise ExecutionError(
                "a bound call is running in another thread",
                fix="bind once per thread, or call the model itself: that may run in any thread",
            )
        if status:
            self._instance.reset()
            raise self._failure(status)

    def _failure(self, status: int) -> Error:
        instance, row = self._instance, self.kernels[int(self.call[words.CALL_STEP])]
        if status == words.ASSERT_FAILED:
            return instance.layout.sizes.failing_asserts[row]()
        number = instance.code.tables.kernels[row]
        step = instance.code.region.steps[number]
        part = int(self.call[words.CALL_PART])
        element = int(instance.space.scratch[part * instance.space.stride :][:8].view(np.int64)[0])
        sources = f" (from {', '.join(step.sources)})" if step.sources else ""
        return ExecutionError(
            STATUS_TEXT.get(status, f"a kernel gave status {status}"),
            where=f"step {number}, {step.name or 'unnamed'}{sources}",
            got=f"element {element}",
        )

    def part(self, first: int, last: int) -> NativeSegment:
        """The steps from the first-th up to the last-th."""
        return NativeSegment(
            self._instance, self.kernels[first:last], int(self.call[words.CALL_POOL])
        )
