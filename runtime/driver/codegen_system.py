"""What the native driver calls of the operating system: waiting, waking, yielding, the clock.

The driver's text calls four functions of its own, which `write_system_calls` writes for one
system. Linux: futexes. macOS: os_sync_wait_on_address, since 14.4. Windows: WaitOnAddress. Proven
on Linux; the others are prepared, and run there with stand-ins for the system's functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...ir.lazy_dataclass import dataclass
from ..llvmir.builder import Function, Module
from ..llvmir.values import I32, I64, PTR, Value
from ..machine.platforms.platform_interface import SystemName

# Numbers of Linux's system calls.
FUTEX: Final = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE, _FUTEX_WAKE_PRIVATE = 128, 129
_ALL: Final = 0x7FFFFFFF
# Bytes of a word that is waited for: the lower half of one of the pool's.
_WORD_BYTES: Final = 4
_CLOCK_MONOTONIC: Final[dict[SystemName, int]] = {"linux": 1, "macos": 6}
_NO_TIMEOUT: Final = -1
_WINDOWS_TICK_NS: Final = 100


def system_call(f: Function, number: Value | int, *args: Value | int) -> None:
    """libc's syscall with six arguments, as words: one declaration serves all."""
    words = [f.as_value(a, I64) for a in (number, *args, *[0] * (6 - len(args)))]
    f.call("syscall", I64, *words)


def address_of(f: Function, pointer: Value) -> Value:
    return f.op(I64, f"ptrtoint {pointer} to i64")


def _wait_linux(f: Function, address: Value, value: Value) -> None:
    word = f.cast(value, I64, signed_=False)
    number = FUTEX[f.target.arch]
    system_call(f, number, address_of(f, address), _FUTEX_WAIT_PRIVATE, word)


def _wake_linux(f: Function, address: Value) -> None:
    system_call(f, FUTEX[f.target.arch], address_of(f, address), _FUTEX_WAKE_PRIVATE, _ALL)


def _wait_macos(f: Function, address: Value, value: Value) -> None:
    size, flags = f.as_value(_WORD_BYTES, I64), f.as_value(0, I32)
    f.call("os_sync_wait_on_address", I32, address, f.cast(value, I64, signed_=False), size, flags)


def _wake_macos(f: Function, address: Value) -> None:
    size, flags = f.as_value(_WORD_BYTES, I64), f.as_value(0, I32)
    f.call("os_sync_wake_by_address_all", I32, address, size, flags)


def _wait_windows(f: Function, address: Value, value: Value) -> None:
    compared = f.stack(8, 8)
    f.store(value, compared)
    size, timeout = f.as_value(_WORD_BYTES, I64), f.as_value(_NO_TIMEOUT, I32)
    f.call("WaitOnAddress", I32, address, compared, size, timeout)


def _wake_windows(f: Function, address: Value) -> None:
    f.call("WakeByAddressAll", "void", address)


def _read_posix_clock(f: Function, clock: int) -> Value:
    time = f.stack(16, 8)
    f.call("clock_gettime", I32, f.as_value(clock, I32), time)
    return f.add(f.mul(f.load(I64, time), 1_000_000_000), f.load(I64, f.at(time, 1, I64)))


def _read_windows_clock(f: Function) -> Value:
    time = f.stack(8, 8)
    f.call("QueryUnbiasedInterruptTime", I32, time)
    return f.mul(f.load(I64, time), _WINDOWS_TICK_NS)


@dataclass(frozen=True)
class SystemCalls:
    """How one system waits, wakes, yields and reads a clock. functions: what that calls."""

    functions: tuple[str, ...]
    wait: Callable[[Function, Value, Value], None]
    wake: Callable[[Function, Value], None]
    yield_: str
    clock: Callable[[Function], Value]


SYSTEM_CALLS: Final[dict[SystemName, SystemCalls]] = {
    "linux": SystemCalls(
        ("syscall", "sched_yield", "sched_getcpu", "clock_gettime"),
        _wait_linux,
        _wake_linux,
        "sched_yield",
        lambda f: _read_posix_clock(f, _CLOCK_MONOTONIC["linux"]),
    ),
    "macos": SystemCalls(
        (
            "os_sync_wait_on_address",
            "os_sync_wake_by_address_all",
            "sched_yield",
            "clock_gettime",
        ),
        _wait_macos,
        _wake_macos,
        "sched_yield",
        lambda f: _read_posix_clock(f, _CLOCK_MONOTONIC["macos"]),
    ),
    "windows": SystemCalls(
        ("WaitOnAddress", "WakeByAddressAll", "SwitchToThread", "QueryUnbiasedInterruptTime"),
        _wait_windows,
        _wake_windows,
        "SwitchToThread",
        _read_windows_clock,
    ),
}


def write_system_calls(module: Module, system: SystemName) -> None:
    """Write the functions that the ones below call, before those that call them."""
    calls = SYSTEM_CALLS[system]
    f = module.function("irc_system_wait", [(PTR, "word"), (I32, "value")], linkage="internal")
    calls.wait(f, f.params["word"], f.params["value"])
    f.ret()
    f = module.function("irc_system_wake", [(PTR, "word")], linkage="internal")
    calls.wake(f, f.params["word"])
    f.ret()
    f = module.function("irc_system_yield", [], linkage="internal")
    f.call(calls.yield_, I32)
    f.ret()
    f = module.function("irc_system_clock", [], I64, linkage="internal")
    f.ret(calls.clock(f))


def wait_while_equal(f: Function, word: Value, value: Value) -> None:
    """Sleep until the word's lower half is woken, if it is `value`; it may return at any time."""
    f.call("irc_system_wait", "void", word, value)


def wake_all(f: Function, word: Value) -> None:
    """Wake all threads that wait for the word."""
    f.call("irc_system_wake", "void", word)


def yield_core(f: Function) -> None:
    """Let another thread have this one's core."""
    f.call("irc_system_yield", "void")


def read_clock(f: Function) -> Value:
    """Nanoseconds of a clock that is never set."""
    return f.call("irc_system_clock", I64)
