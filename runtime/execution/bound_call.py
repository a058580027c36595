"""Bound calls: fixed input and output arrays, nothing allocated or checked per call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ...ir.errors import memory_errors
from ..driver.thread_pool import watch_forks
from .execution_context import ExecutionContext
from .region_instance import NativeSegment

if TYPE_CHECKING:
    from .session import Session

Array = npt.NDArray[Any]
R = TypeVar("R")


class BoundCall(Generic[R]):
    """A call with fixed buffers: `call()` runs on what the bound arrays hold then, overwrites its
    outputs and returns them as `result`. Nothing is allocated. One thread at a time.

    show: makes `result` of the list of outputs (default: the list itself).
    """

    def __init__(
        self, session: Session, inputs: list[Any], show: Callable[[list[Any]], R] | None = None
    ) -> None:
        self._show = show
        self._session, self._inputs = session, inputs
        self._context = ExecutionContext(session)
        self._copies: list[tuple[Array, Array]] = []
        self._slow = True
        if session.order is not None:
            session.admit(inputs)
            pick, order = session.order
            arrays = [inputs[n] for n in pick]
            frame = self._context.frame(0, tuple([a.shape for a in arrays]))
            session.compare(0, frame, arrays)
            self._copies, outputs = frame.fix(arrays)
            self.outputs = [outputs[n] for n in order]
            self._frame = frame
            stretch = frame.stretches[0]
            assert isinstance(stretch, NativeSegment)
            self._stretch = stretch
            self._native, self._argument = stretch.native, stretch.argument
            self._slow = bool(self._copies)
        else:
            self.outputs = session.run_regions(self._context, inputs)
        self.result = cast("R", self.outputs) if show is None else show(self.outputs)
        watch_forks(self)

    def __call__(self) -> R:
        try:
            if self._slow:
                return self._call_slowly()
            status = self._native(self._argument)
            if status:
                self._stretch.resume(status)
        except BaseException as error:
            self._reset_after(error)
            with memory_errors():
                raise
        return self.result

    def _call_slowly(self) -> R:
        if self._copies:
            for mine, array in self._copies:
                mine[...] = array
            self._stretch.run()
            return self.result
        fresh = self._session.run_regions(self._context, self._inputs)
        for n, value in enumerate(fresh):
            old = self.outputs[n]
            if isinstance(old, np.ndarray) and old.shape == value.shape:
                old[...] = value
            else:
                self.outputs[n] = value
        if self._show is not None:
            self.result = self._show(self.outputs)
        return self.result

    def _reset_after(self, error: BaseException) -> None:
        """`Context.reset_after`; the tables of the bound arrays are kept."""
        if isinstance(error, Exception):
            return
        if self._session.order is None:
            self._context.reset_after(error)
        else:
            self._frame.reset()

    def after_fork(self) -> None:
        """In a child no other thread is running this call."""
        for frame in self._context.frames.values():
            frame.after_fork()
