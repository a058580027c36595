"""Bound calls: fixed input and output arrays, nothing allocated or checked per call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ...ir.errors import memory_errors
from ..driver.thread_pool import watch_forks
from .execution_context import ExecutionContext
from .region_instance import BoundRegion

Array = npt.NDArray[Any]
R = TypeVar("R")


class BoundCall(Generic[R]):
    """A call with fixed buffers: `call()` runs on what the bound arrays hold then, overwrites its
    outputs and returns them as `result`. Nothing is allocated. One thread at a time.

    outputs: the arrays that hold the results. work: a region of kernels that is bound to them and
    to the inputs, or what gives the results of a call otherwise. show: makes `result` of the list
    of outputs (default: the list itself).
    """

    def __init__(
        self,
        context: ExecutionContext,
        outputs: list[Any],
        work: BoundRegion | Callable[[], list[Any]],
        show: Callable[[list[Any]], R] | None = None,
    ) -> None:
        self._context, self._work, self.outputs, self._show = context, work, outputs, show
        self._copies: list[tuple[Array, Array]] = []
        self._slow = True
        if isinstance(work, BoundRegion):
            segment = work.instance.only
            assert segment is not None
            self._segment = segment
            self._native, self._argument = segment.native, segment.argument
            self._copies = work.list_copies()
            self._slow = bool(self._copies)
        self.result = cast("R", outputs) if show is None else show(outputs)
        watch_forks(self)

    def __call__(self) -> R:
        try:
            if self._slow:
                return self._run_slowly()
            status = self._native(self._argument)
            if status:
                self._segment.resume(status)
        except BaseException as error:
            self._context.reset_after(error)
            with memory_errors():
                raise
        return self.result

    def _run_slowly(self) -> R:
        """With inputs that kernels cannot read in place, or with more than kernels: then results
        are copied into the outputs that have their shapes, and replace the others."""
        if isinstance(self._work, BoundRegion):
            for copy, array in self._copies:
                copy[...] = array
            self._segment.run()
            return self.result
        for n, value in enumerate(self._work()):
            old = self.outputs[n]
            if isinstance(old, np.ndarray) and old.shape == value.shape:
                old[...] = value
            else:
                self.outputs[n] = value
        if self._show is not None:
            self.result = self._show(self.outputs)
        return self.result

    def after_fork(self) -> None:
        """In a child no other thread is running this call."""
        for instance in self._context.instances.values():
            instance.after_fork()
