"""Waiting and waking of each system: a worker sleeps, is woken and shares a step. macOS and Windows
run with stand-ins for their functions, which count and compare as those do. And the orders of
memory of aarch64, read from its assembly."""

from __future__ import annotations

import ctypes
import re
import threading
import time
from typing import Any, Literal

import pytest
from irc_compiler.plan.processors import processor_target
from irc_compiler.runtime.driver import abi as words
from irc_compiler.runtime.driver.codegen_run import driver_text
from irc_compiler.runtime.driver.codegen_system import SYSTEM_CALLS
from irc_compiler.runtime.driver.loader import load_driver_for
from irc_compiler.runtime.driver.thread_pool import ThreadPool
from irc_compiler.runtime.jit.llvm import emit_assembly

from tests.runtime.driver.test_codegen_run import KERNEL, table

POINTER, I32, I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class SystemStandIn:
    """A system's functions by a condition variable. `waits`, `wakes`: calls so far."""

    def __init__(self, name: Literal["macos", "windows"]) -> None:
        self.name: Any = name
        self.waits = self.wakes = 0
        self._changed = threading.Condition()
        mac = {
            "os_sync_wait_on_address": (self._mac_wait, I32, POINTER, ctypes.c_uint64, I64, I32),
            "os_sync_wake_by_address_all": (self._wake, I32, POINTER, I64, I32),
            "sched_yield": (self._yield, I32),
            "clock_gettime": (self._mac_clock, I32, I32, POINTER),
        }
        windows = {
            "WaitOnAddress": (self._windows_wait, I32, POINTER, POINTER, I64, I32),
            "WakeByAddressAll": (self._wake, None, POINTER),
            "SwitchToThread": (self._yield, I32),
            "QueryUnbiasedInterruptTime": (self._windows_clock, I32, POINTER),
        }
        self._functions = {
            n: ctypes.CFUNCTYPE(*types)(function)
            for n, (function, *types) in (mac if name == "macos" else windows).items()
        }

    def wait_functions(self) -> dict[str, int]:
        return {n: ctypes.cast(f, POINTER).value or 0 for n, f in self._functions.items()}

    def _wait(self, address: int, value: int) -> int:
        with self._changed:
            self.waits += 1
            if ctypes.c_uint32.from_address(address).value == value & 0xFFFFFFFF:
                self._changed.wait(20)
        return 1

    def _mac_wait(self, address: int, value: int, size: int, flags: int) -> int:
        assert (size, flags) == (4, 0)
        return self._wait(address, value)

    def _windows_wait(self, address: int, compared: int, size: int, timeout: int) -> int:
        assert (size, timeout) == (4, -1)
        return self._wait(address, ctypes.c_uint32.from_address(compared).value)

    def _wake(self, *_: int) -> int:
        with self._changed:
            self.wakes += 1
            self._changed.notify_all()
        return 0

    @staticmethod
    def _yield() -> int:
        time.sleep(0)
        return 0

    @staticmethod
    def _mac_clock(clock: int, to: int) -> int:
        assert clock == 6
        seconds, rest = divmod(time.monotonic_ns(), 1_000_000_000)
        (I64 * 2).from_address(to)[:] = [seconds, rest]
        return 0

    @staticmethod
    def _windows_clock(to: int) -> int:
        I64.from_address(to).value = time.monotonic_ns() // 100
        return 1


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("name", ["macos", "windows"])
def test_a_worker_sleeps_and_is_woken_by_the_systems_functions(
    name: Literal["macos", "windows"],
) -> None:
    system: Any = SystemStandIn(name)
    driver = load_driver_for(system)
    assert driver.threads
    pool = ThreadPool(driver)
    pool.grow(1)
    try:
        until(lambda: pool.block[words.POOL_SLEEPERS] == 1 and system.waits)
        barrier = threading.Barrier(2)

        def kernel(buffers: int, dims: int, worker: int, workers: int, scratch: int) -> int:
            barrier.wait(20)  # both parts run at the same time
            return 0

        function = KERNEL(kernel)
        call, steps = table([ctypes.cast(function, POINTER).value or 0])
        steps[:, 3] = words.SHARED | words.WAKE | 2 << words.PARTS_SHIFT
        call[words.CALL_PARTS], call[words.CALL_POOL], call[words.CALL_WAKE] = 2, pool.address, 1
        assert driver.run(call.ctypes.data) == 0 and system.wakes == 1
    finally:
        pool.stop()
    assert pool.size == 0 and system.wakes >= 1


@pytest.mark.parametrize("name", ["macos", "windows"])
def test_without_a_function_there_are_no_workers(name: Literal["macos", "windows"]) -> None:
    system: Any = SystemStandIn(name)
    del system._functions[SYSTEM_CALLS[name].functions[0]]
    driver = load_driver_for(system)
    pool = ThreadPool(driver)
    pool.grow(3)
    assert not driver.threads and pool.size == 0 and pool.block[words.POOL_THREADS] == -1


def functions_of(processor: str) -> dict[str, str]:
    """The assembly of each function of the driver."""
    text = emit_assembly(driver_text(processor_target(processor)), processor_target(processor))
    parts = re.split(r"^(irc_\w+):", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(
    "processor, load, add",
    [
        ("cortex-a72", "ldar", r"ldaxr(.|\n)*?stlxr"),
        ("neoverse-n1", "ldapr|ldar", "ldaddal"),
    ],
)
def test_aarch64_orders_of_a_worker(processor: str, load: str, add: str) -> None:
    """Tickets are read with acquire, claimed and counted with acquire and release, in one
    instruction or a pair; a spin yields; the sleepers' fence is a full one."""
    functions = functions_of(processor)
    work, run = functions["irc_work"], "".join(functions.values())
    for pattern in (
        rf"\b({load})\s",
        rf"\b({add})\s",
        r"\byield\b|\bhint\s+#(0x)?1\b",
        r"\bdmb\s+ish\b",
    ):
        assert re.search(pattern, work), pattern
    assert re.search(r"\bstlr\s", run)
    # No plain add or store stands for a shared one.
    assert not re.search(r"\b(ldadd|swp|cas)\s", work)
