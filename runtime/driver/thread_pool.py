"""Process-wide thread pool: daemon Python threads parked in one native wait loop.

Threads start at the first call that wants them, spin for a short while after each step they
helped with, then sleep; a call wakes them at most once. A forked child has none of its parent's
threads: the block is wiped there and new ones start when wanted. At exit they are stopped
and joined, since a daemon thread must not be inside native code when the interpreter goes.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from typing import Any, Final, Protocol

import numpy as np

from ..jit.fork_guard import reset_in_child
from ..machine.cpus import usable_cores
from . import abi as words
from .abi import MAX_WORKERS
from .loader import Driver, reset_locks

# A worker spins this long before it sleeps: about as long as waking it takes, which costs at most
# twice what the best decision would (the ski-rental rule), and covers the Python code between two
# calls in a loop (docs/dev/tuning/thread-wake.md).
SPIN_SECONDS: Final = 80e-6

# A step's `work` counts vector operations or vectors moved. Sharing a step costs its caller time to
# publish it, claim parts and wait for the others' last store (docs/dev/tuning/thread-sharing.md).
SHARE_WORK: Final = 6_000
# Every thread's work in each phase of a step, at least: shorter phases take longer than one thread
# alone (docs/dev/tuning/phase-barrier.md).
BARRIER_GRAIN: Final = 1_500
# Waking costs the caller a system call and brings help only later; the caller continues meanwhile.
WAKE_WORK: Final = 200_000
# Parts of a large step for each thread where cores are of several speeds: a slow core delays its
# last part only (docs/dev/tuning/unequal-cores.md).
UNEQUAL_PARTS_PER_THREAD: Final = 8
# Calls of less work keep the interpreter lock: releasing it costs more than it frees.
KEEP_GIL_BELOW: Final = 30_000


class Forkable(Protocol):
    def after_fork(self) -> None: ...


class ThreadPool:
    """The block that the driver and the workers share, and the threads."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        # From ctypes-free memory that lives as long as the process: calls hold its address.
        raw = np.zeros(words.POOL_WORDS + 16, np.int64)
        skip = -(raw.ctypes.data // 8) % 16
        self.block: words.Words = raw[skip : skip + words.POOL_WORDS]
        self.address = int(self.block.ctypes.data)
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = not driver.threads
        self._reset_block()

    def _reset_block(self) -> None:
        self.block[:] = 0
        self.block[words.POOL_CPU] = -1
        self.block[words.POOL_THREADS] = -1 if self._closed else 0

    @property
    def size(self) -> int:
        """Workers there are, the callers not counted."""
        return len(self._threads)

    def grow(self, workers: int) -> None:
        """Have at least that many workers, if threads can be had at all."""
        with self._lock:
            if self._closed:
                return
            if not self.block[words.POOL_SPIN]:
                self.block[words.POOL_SPIN] = self._count_pauses(SPIN_SECONDS)
            while len(self._threads) < min(workers, MAX_WORKERS):
                name = f"irc-worker-{len(self._threads) + 1}"
                t = threading.Thread(
                    target=self._driver.work, args=(self.address,), name=name, daemon=True
                )
                try:
                    t.start()
                except RuntimeError:  # no more threads, or the interpreter is going
                    self.block[words.POOL_THREADS] = -1
                    self._closed = True
                    return
                self.block[words.POOL_IDS + len(self._threads)] = t.native_id or 0
                self._threads.append(t)
            self._allow_cpus()
            self.block[words.POOL_THREADS] = len(self._threads)

    def _allow_cpus(self) -> None:
        """Say which CPUs workers may use; the next call moves them off its own."""
        mask = [0] * words.MASK_WORDS
        for cpu in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ():
            if cpu < 64 * len(mask):
                mask[cpu // 64] |= 1 << cpu % 64
        self.block[words.POOL_MASK : words.POOL_MASK + len(mask)] = np.array(mask, np.uint64).view(
            np.int64
        )
        self.block[words.POOL_CPU] = -1

    def _count_pauses(self, seconds: float) -> int:
        """Pauses that take about that long on this machine (tens of ns to over 100 each)."""
        n = 2000
        best = 1.0
        for _ in range(3):
            start = time.perf_counter()
            self._driver.spin(n)
            best = min(best, time.perf_counter() - start)
        return max(100, int(n * seconds / max(best, 1e-7)))

    def stop(self) -> None:
        """End and join the workers; calls run alone from now on."""
        with self._lock:
            self._closed = True
            self.block[words.POOL_THREADS] = -1
            self.block[words.POOL_STOP] = 1
            if self._threads:
                self._driver.wake(self.address)
            for t in self._threads:
                t.join(timeout=5)
            self._threads.clear()

    def after_fork(self) -> None:
        """In a child: the threads are gone, whatever they were doing."""
        self._threads.clear()
        self._lock = threading.Lock()
        self._reset_block()


_pool: ThreadPool | None = None
_lock = threading.Lock()
_forkable: weakref.WeakSet[Any] = weakref.WeakSet()


def get_thread_pool(driver: Driver) -> ThreadPool:
    """This process's pool; no thread runs before a call wants it."""
    global _pool
    with _lock:
        if _pool is None:
            _pool = ThreadPool(driver)
            atexit.register(_pool.stop)
        return _pool


def default_threads() -> int:
    """Threads that a call uses by default: the number of CPUs that this process may use."""
    return usable_cores()


def watch_forks(thing: Forkable) -> None:
    """Call `thing.after_fork()` in forked children while it lives."""
    _forkable.add(thing)


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    if _pool is not None:
        _pool.after_fork()
    for thing in list(_forkable):
        thing.after_fork()


reset_in_child(reset_locks)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
