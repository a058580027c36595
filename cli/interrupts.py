"""Ctrl-C ends a command, wherever it falls.

Python raises KeyboardInterrupt between any two instructions. In the middle of making a class, or
of a library's import, it arrives as some other error; in a finaliser or a callback it is printed
and forgotten. So the handler remembers that it came, and an interrupt that was lost comes again.
While machine code runs there are no instructions of Python: what has not ended some seconds after
the interrupt, such as a loop of the model's that never does, is ended with the process.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from . import INTERRUPTED

# Seconds from the report of a lost interrupt to its repetition: by then the callback that
# swallowed it is over.
REPEAT_SECONDS = 0.01
# Seconds that a command has to end by itself. Longer than a kernel of a model of any sense takes;
# what it was writing is as after a kill: whole or not there.
GRACE_SECONDS = 2.0


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
    original_hook, over, lock = sys.unraisablehook, threading.Event(), threading.Lock()

    def handle(number: int, frame: object) -> None:
        state.came = True
        raise KeyboardInterrupt

    def report_lost(what: Any) -> None:
        if not issubclass(what.exc_type, KeyboardInterrupt):
            if not state.came:  # or it is about what the interrupt left half made
                original_hook(what)
            return
        with lock:
            threading.Thread(target=interrupt_again, daemon=True).start()

    def interrupt_again() -> None:
        with lock:  # in the hook itself it would be lost for good
            pass
        if not over.wait(REPEAT_SECONDS):
            _thread.interrupt_main()

    signal.signal(signal.SIGINT, handle)
    sys.unraisablehook = report_lost
    try:
        with _watch_interrupts(over):
            yield state
    finally:
        over.set()
        sys.unraisablehook = original_hook
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _watch_interrupts(over: threading.Event) -> Iterator[None]:
    """Inside the block a SIGINT ends the process, unless `over` is set in time. Python's handler in
    C writes a byte at once, wherever this thread is; another thread reads it."""
    if sys.platform == "win32":  # where pipes always block
        yield
        return
    heard, wakeup = os.pipe()
    os.set_blocking(wakeup, False)

    def watch() -> None:
        while number := os.read(heard, 1):
            if number[0] == signal.SIGINT and not over.wait(GRACE_SECONDS):
                with contextlib.suppress(OSError):
                    os.write(2, b"irc: interrupted\n")
                os._exit(INTERRUPTED)
        os.close(heard)

    threading.Thread(target=watch, daemon=True, name="irc-interrupts").start()
    before = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.close(wakeup)


@contextlib.contextmanager
def catch_interrupts() -> Iterator[None]:
    """Inside the block an interrupt is the block's own: it raises KeyboardInterrupt, and neither
    ends the command nor is remembered. For the main thread."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    wakeup = signal.set_wakeup_fd(-1) if sys.platform != "win32" else -1
    try:
        yield
    finally:
        if wakeup != -1:
            signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, before)


class _Stack(ctypes.Structure):
    """Linux's stack_t."""

    _fields_ = (("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


_DISABLE = 2  # SS_DISABLE


def keep_own_stack() -> None:
    """Let this thread handle signals on its own stack again. OpenVINO moves them to a stack that
    it frees with the model: the next Ctrl-C would end the process by a segmentation fault."""
    if sys.platform == "linux":
        ctypes.CDLL(None).sigaltstack(ctypes.byref(_Stack(None, _DISABLE, 0)), None)
