"""The native driver: walks a table of steps, shares large ones with the pool, keeps the caller's
floating-point mode.

It is compiled once per process for the plain instruction set (it only calls). Everything it
reads and writes is in tables that Python fills (abi.py); its text is in codegen_run.py. A thread
loads it while the caller reads a model: LLVM compiles it without the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ...ir.errors import Error
from ...ir.lazy_dataclass import dataclass
from ...plan.target import Target, generic_target
from ..jit.builtin_code import CodeCache, kept_code
from ..machine.platforms.host_platform import host_platform
from ..machine.platforms.platform_interface import Platform
from .codegen_polling import PYTHON_API
from .codegen_run import driver_text
from .codegen_system import SYSTEM_CALLS
from .float_mode import default_mode, swap_mode_text

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
_swap_mode: Any = None
_lock = threading.Lock()
_mode_lock = threading.Lock()


def load_driver(cache: CodeCache | None = None) -> Driver:
    """This process's driver, compiled or taken from `cache` at the first call."""
    global _driver
    with _lock:
        if _driver is None:
            _driver = load_driver_for(host_platform(), cache)
        return _driver


def load_swap_mode(cache: CodeCache | None = None) -> Any:
    """swap(mode): sets this thread's floating-point control word and gives the old one back."""
    global _swap_mode
    from ..jit.image_loader import load_objects

    with _mode_lock:
        if _swap_mode is None:
            target = _host_target()
            image = kept_code(swap_mode_text(target), target, cache)
            library = load_objects([image], ["irc_swap_mode"], target, {})
            swap = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
            _swap_mode = swap(library.address("irc_swap_mode"))
            _swap_mode.library = library  # its code stays loaded
        return _swap_mode


def in_default_mode(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function under the default floating-point mode, whatever its caller's is: constants that
    are folded or converted are the same for everybody. The caller's is given back. Functions that
    need the driver at their end are of this kind, so it is loaded meanwhile."""
    from ..jit.disk_cache import default_cache

    @wraps(function)
    def run(*args: _P.args, **options: _P.kwargs) -> _R:
        cache = default_cache()
        swap = load_swap_mode(cache)
        mode = swap(default_mode(_host_target().arch))
        try:
            if _driver is None:
                loading = threading.Thread(
                    target=_try_to_load_driver, args=(cache,), name="irc-load"
                )
                with suppress(RuntimeError):  # the system gives no more threads
                    loading.start()
            return function(*args, **options)
        finally:
            swap(mode)

    return run


def _try_to_load_driver(cache: CodeCache | None) -> None:
    """An error is raised again where the driver is needed."""
    with suppress(Error, OSError):
        load_driver(cache)


def reset_locks() -> None:
    """In a forked child: they may be held by a thread that is not there."""
    global _lock, _mode_lock
    _lock, _mode_lock = threading.Lock(), threading.Lock()


def _host_target() -> Target:
    """The plain instruction set of this machine's architecture."""
    from ..jit.host_features import host_arch

    return generic_target("plain" if host_arch() == "x86_64" else "neon")


def load_driver_for(platform: Platform, cache: CodeCache | None = None) -> Driver:
    """A driver that calls a system's functions."""
    from ..jit.image_loader import load_objects

    target = _host_target()
    calls, found = SYSTEM_CALLS[platform.name], platform.wait_functions()
    # What a system lacks is never called: without all of them there are no workers.
    imports = {n: found.get(n, found[calls.yield_]) for n in calls.functions}
    threads = all(n in found for n in calls.functions)
    image = kept_code(driver_text(target, platform.name), target, cache)
    python = {n: _address(ctypes.pythonapi, n) for n in PYTHON_API}
    names = ("irc_run", "irc_run_polling", "irc_work", "irc_wake", "irc_spin")
    library = load_objects([image], names, target, {**imports, **python})
    run, polling, work, wake, spin = (library.address(n) for n in names)
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
        swap_mode=load_swap_mode(cache),
        default_mode=default_mode(target.arch),
        threads=threads,
        library=library,
    )


def _address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return found or 0
