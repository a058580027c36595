"""The native driver: walks a table of steps, shares large ones with the pool, keeps the caller's
floating-point mode.

It is compiled once per process for the plain instruction set (it only calls). Everything it
reads and writes is in tables that Python fills (abi.py); its text is in codegen_run.py.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ...plan.target import generic_target
from ..jit.builtin_code import CodeCache, kept_code
from ..machine.platforms.host_platform import host_platform
from ..machine.platforms.platform_interface import Platform
from .codegen_polling import PYTHON_API
from .codegen_run import driver_text
from .codegen_system import SYSTEM_CALLS
from .float_mode import default_mode

_P = ParamSpec("_P")
_R = TypeVar("_R")


@dataclass(frozen=True)
class Driver:
    """The loaded driver. Arguments are addresses of Calls or of the pool's block.

    run: a Call's steps, to 0, a kernel's status, BUSY (the Call is running in another thread) or
    NEEDS_WORKERS (start the pool's threads and call again). run_held is the same without giving the
    interpreter lock away, for calls of microseconds; only with `parts` 1. run_polling: the same for
    calls of seconds from the main thread, where handlers of signals run meanwhile: it raises what
    a handler raises.
    work: a worker's life, until POOL_STOP. wake: wakes all sleeping workers. spin: n pauses.
    swap_mode: sets the floating-point control word, gives the old one back.
    """

    run: Any
    run_polling: Any
    run_held: Any
    work: Any
    wake: Any
    spin: Any
    swap_mode: Any
    default_mode: int
    threads: bool  # can there be workers?
    library: Any


_driver: Driver | None = None
_lock = threading.Lock()


def load_driver(cache: CodeCache | None = None) -> Driver:
    """This process's driver, compiled or taken from `cache` at the first call."""
    global _driver
    with _lock:
        if _driver is None:
            _driver = load_driver_for(host_platform(), cache)
        return _driver


def in_default_mode(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function under the default floating-point mode, whatever its caller's is: constants that
    are folded or converted are the same for everybody. The caller's is given back."""
    from ..jit.disk_cache import default_cache

    @wraps(function)
    def run(*args: _P.args, **options: _P.kwargs) -> _R:
        driver = load_driver(default_cache())
        mode = driver.swap_mode(driver.default_mode)
        try:
            return function(*args, **options)
        finally:
            driver.swap_mode(mode)

    return run


def reset_lock() -> None:
    """In a forked child: the lock may be held by a thread that is not there."""
    global _lock
    _lock = threading.Lock()


def load_driver_for(platform: Platform, cache: CodeCache | None = None) -> Driver:
    """A driver that calls a system's functions."""
    from ..jit.host_features import host_arch
    from ..jit.image_loader import load_objects

    target = generic_target("plain" if host_arch() == "x86_64" else "neon")
    calls, found = SYSTEM_CALLS[platform.name], platform.wait_functions()
    # What a system lacks is never called: without all of them there are no workers.
    imports = {n: found.get(n, found[calls.yield_]) for n in calls.functions}
    threads = all(n in found for n in calls.functions)
    image = kept_code(driver_text(target, platform.name), target, cache)
    python = {n: _address(ctypes.pythonapi, n) for n in PYTHON_API}
    names = ("irc_run", "irc_run_polling", "irc_work", "irc_wake", "irc_spin", "irc_swap_mode")
    library = load_objects([image], names, target, {**imports, **python})
    run, polling, work, wake, spin, swap = (library.address(n) for n in names)
    free = ctypes.CFUNCTYPE
    held = ctypes.PYFUNCTYPE
    i32, i64, ptr = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p
    return Driver(
        run=free(i32, ptr)(run),
        run_polling=held(i32, ptr)(polling),
        run_held=held(i32, ptr)(run),
        work=free(i32, ptr)(work),
        wake=free(i32, ptr)(wake),
        spin=free(i32, i64)(spin),
        swap_mode=held(i32, i32)(swap),
        default_mode=default_mode(target.arch),
        threads=threads,
        library=library,
    )


def _address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return found or 0
