"""How fast threads on unequal cores are together: `python -m benchmarks.cores.hybrid`.

A busy process runs on one of two cores, which makes that core slow, as the efficiency cores of a
hybrid processor are. One thread on either core and two threads on both take turns in one run;
`share` is the speed of both as a part of the sum of the two speeds. Where other processes keep the
machine busy, `--asleep` measures the sharing alone: parts of a step sleep, in one thread longer.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median

import irc_compiler as irc
import numpy as np
from irc_compiler import ops
from irc_compiler.runtime.driver import abi as words
from irc_compiler.runtime.driver.loader import load_driver
from irc_compiler.runtime.driver.thread_pool import get_thread_pool
from irc_compiler.runtime.execution.session import Session

PARTS = (1, 2, 4, 8, 16)
_KERNEL = ctypes.CFUNCTYPE(
    ctypes.c_int32, *[ctypes.c_void_p] * 2, *[ctypes.c_int32] * 2, ctypes.c_void_p
)
_BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])}); os.nice(int(sys.argv[2]))\n"
_BUSY += "while True: pass"


def products(size: int, layers: int) -> irc.Model:
    """Matrix products, one after the other."""
    rng = np.random.default_rng(0)
    y = ops.parameter("x", (size, size))
    for _ in range(layers):
        weight = rng.standard_normal((size, size)).astype(np.float32) / np.float32(size**0.5)
        y = y @ weight
    return ops.model({"y": y})


@contextmanager
def busy_core(cpu: int, niceness: int) -> Iterator[None]:
    """A process that keeps one CPU busy."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY, str(cpu), str(niceness)])
    try:
        time.sleep(0.3)
        yield
    finally:
        process.kill()
        process.wait()


def time_calls(call: Callable[[], object], cpus: set[int], seconds: float) -> float:
    """Seconds per call on those CPUs."""
    os.sched_setaffinity(0, cpus)
    call()
    count, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        call()
        count += 1
    return passed / count


def measure(size: int, layers: int, niceness: int, rounds: int, seconds: float) -> None:
    """Print the table."""
    fast, slow, *_ = sorted(os.sched_getaffinity(0))
    program = irc.compile_model(products(size, layers)).program
    x = np.random.default_rng(1).standard_normal((size, size)).astype(np.float32)
    single = Session(program, num_threads=1).bind([x])
    double = {n: Session(program, num_threads=2, parts_per_thread=n).bind([x]) for n in PARTS}
    if not all(np.array_equal(single()[0], call()[0]) for call in double.values()):
        raise SystemExit("two threads give another result than one")
    found: list[list[float]] = []
    with busy_core(slow, niceness):
        for _ in range(rounds):
            alone = [time_calls(single, {cpu}, seconds) for cpu in (fast, slow)]
            both = [time_calls(call, {fast, slow}, seconds) for call in double.values()]
            found.append([*alone, *both])
    one, other, *both = (median(times) for times in zip(*found, strict=True))
    print("| parts per thread | fast core, ms | slow core, ms | both, ms | share |")
    print("|---|---|---|---|---|")
    for parts, together in zip(PARTS, both, strict=True):
        share = 1 / together / (1 / one + 1 / other)
        times = " | ".join(f"{t * 1e3:.1f}" for t in (one, other, together))
        print(f"| {parts} | {times} | {share:.2f} |")


def measure_asleep(ratio: float, rounds: int, seconds: float) -> None:
    """Print the table of steps whose parts sleep, on the second thread `ratio` times as long."""
    driver = load_driver()
    pool = get_thread_pool(driver)
    pool.grow(1)
    caller = threading.get_ident()
    print("| parts per thread | seconds of a step | share |")
    print("|---|---|---|")
    for per_thread in PARTS:

        def kernel(buffers: int, dims: int, part: int, parts: int, scratch: int) -> int:
            time.sleep(seconds / parts * (1 if threading.get_ident() == caller else ratio))
            return 0

        function = _KERNEL(kernel)
        step = np.zeros((1, words.STEP_WORDS), np.int64)
        step[0, 0] = ctypes.cast(function, ctypes.c_void_p).value or 0
        step[0, 3] = words.SHARED | words.WAKE | 2 * per_thread << words.PARTS_SHIFT
        call = np.zeros(words.CALL_WORDS, np.int64)
        call[words.CALL_STEPS], call[words.CALL_COUNT] = step.ctypes.data, 1
        call[words.CALL_PARTS], call[words.CALL_POOL], call[words.CALL_WAKE] = 2, pool.address, 1
        times: list[float] = []
        for _ in range(rounds):
            start = time.perf_counter()
            if driver.run(call.ctypes.data):
                raise SystemExit("the step did not run")
            times.append(time.perf_counter() - start)
        share = seconds / median(times) / (1 + 1 / ratio)
        print(f"| {per_thread} | {median(times):.3f} | {share:.2f} |")


def main() -> int:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--asleep", type=float, metavar="RATIO", help="how much longer parts sleep")
    options = parser.parse_args()
    if options.asleep:
        measure_asleep(options.asleep, options.rounds, options.seconds)
        return 0
    if len(os.sched_getaffinity(0)) < 2:
        print("not run: this process may use one CPU only")
        return 0
    measure(options.size, options.layers, options.nice, options.rounds, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
