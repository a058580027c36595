"""Long NumPy calls that Ctrl-C ends: they run in a thread of their own while the main thread waits.

Python runs signal handlers in the main thread, between bytecodes: a NumPy call that takes a minute
would delay KeyboardInterrupt by a minute. A thread that waits for a lock sees it at once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

from .memory_budget import active_budget, use_budget

_R = TypeVar("_R")
# NumPy needs a few milliseconds for so many bytes; a thread costs less than a tenth of that.
MIN_INTERRUPTIBLE_BYTES = 1 << 20
# A signal that another thread receives does not wake the main thread.
_WAIT_SECONDS = 0.2


def call_interruptibly(function: Callable[[], _R], work_bytes: int) -> _R:
    """What `function` returns or raises; where it may take long (`work_bytes` read and written) in
    the main thread, an exception of a signal handler ends the call at once.

    The function's thread then ends at its next bytecode. Until then what the function refers to
    stays in memory: it must not write to what others read.
    """
    main = threading.current_thread() is threading.main_thread()
    if work_bytes < MIN_INTERRUPTIBLE_BYTES or not main:
        return function()
    call = InterruptibleCall(function)
    call.start()
    try:
        while not call.ended.wait(_WAIT_SECONDS):
            pass
    except BaseException:
        call.abandon()
        raise
    return call.result()


class InterruptibleCall(threading.Thread, Generic[_R]):
    """One call of a function in the caller's context, with the caller's memory budget."""

    def __init__(self, function: Callable[[], _R]) -> None:
        super().__init__(name="irc evaluation", daemon=True)
        self._function: Callable[[], _R] | None = function
        # Thread has a `_context` of its own from Python 3.14 on.
        self._callers_context, self._budget = copy_context(), active_budget()
        self._results: list[_R] = []
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            assert self._function is not None
            with use_budget(self._budget):
                self._results.append(self._callers_context.run(self._function))
        except BaseException as error:  # raised again in the thread that waits
            self._error = error
        finally:
            self._function = None
            with self._lock:
                self.ended.set()

    def abandon(self) -> None:
        """End the thread at its next bytecode."""
        with self._lock:
            if not self.ended.is_set() and self.ident is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self.ident), ctypes.py_object(SystemExit)
                )

    def result(self) -> _R:
        """What the function returned; raises what it raised."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._results.pop()
