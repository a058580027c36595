"""Ctrl-C ends a command, wherever it falls.

Python raises KeyboardInterrupt between any two instructions. In the middle of making a class, or
of a library's import, it arrives as some other error; in a finaliser or a callback it is printed
and forgotten. So the handler remembers that it came, and an interrupt that was lost comes again.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

# Seconds from when a lost interrupt was told to when it comes again: by then the callback that
# swallowed it is over.
AGAIN = 0.01


class Interrupt:
    """Whether the user's Ctrl-C came."""

    came = False


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Inside the block an interrupt is remembered, and not lost. Nothing changes where SIGINT is
    ignored (a shell starts jobs in the background so), handled by others, or not this thread's."""
    state = Interrupt()
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield state
        return
    told, over, telling = sys.unraisablehook, threading.Event(), threading.Lock()

    def handle(number: int, frame: object) -> None:
        state.came = True
        raise KeyboardInterrupt

    def lost(what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            if not state.came:  # or it is about what the interrupt left half made
                told(what)
            return
        with telling:
            threading.Thread(target=again, daemon=True).start()

    def again() -> None:
        with telling:  # in the hook itself it would be lost for good
            pass
        if not over.wait(AGAIN):
            _thread.interrupt_main()

    signal.signal(signal.SIGINT, handle)
    sys.unraisablehook = lost
    try:
        yield state
    finally:
        over.set()
        sys.unraisablehook = told
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Stack(ctypes.Structure):
    """Linux's stack_t."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


_DISABLE = 2  # SS_DISABLE


def keep_own_stack() -> None:
    """Let this thread handle signals on its own stack again. OpenVINO moves them to a stack that
    it frees with the model: the next Ctrl-C would end the process by a segmentation fault."""
    if sys.platform == "linux":
        ctypes.CDLL(None).sigaltstack(ctypes.byref(_Stack(None, _DISABLE, 0)), None)
