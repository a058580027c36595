"""Timing of engines side by side: machines drift, so only what alternates in one run compares."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

Run = Callable[[], object]

# Seconds of calls that are not counted at the beginning of a turn.
_WARM = 0.002


@dataclass(frozen=True)
class Times:
    """Seconds per call of one engine: the median and the best of all its calls."""

    median: float
    best: float
    calls: int


def alternate(
    engines: Mapping[str, Run], *, seconds: float = 1.0, rounds: int = 10
) -> dict[str, Times]:
    """Time every engine in `rounds` short turns, one after the other.

    The time is shared evenly. Each turn begins when the threads of the engine before have gone to
    sleep, with calls that are not counted: they bring back caches and clocks.
    """
    found: dict[str, list[float]] = {name: [] for name in engines}
    for run in engines.values():
        run()
    slice_ = seconds / rounds / max(1, len(engines))
    clock = time.perf_counter
    for _ in range(rounds):
        for name, run in engines.items():
            wait_until_idle()
            start = clock()
            run()
            run()
            while clock() - start < _WARM:
                run()
            times = found[name]
            begin = clock()
            while True:
                start = clock()
                run()
                end = clock()
                times.append(end - start)
                if end - begin > slice_:
                    break
    return {k: Times(statistics.median(v), min(v), len(v)) for k, v in found.items()}


def wait_until_idle(limit: float = 1.0) -> None:
    """Wait until no other thread of this process runs, for `limit` seconds at most.

    Workers of NumPy and of onnxruntime spin for 50 to 100 ms after a call, waiting for the next
    one: the next engine would have to share a core with them.
    """
    tasks = Path("/proc/self/task")
    end = time.perf_counter() + limit
    while tasks.exists() and time.perf_counter() < end:
        if not any(_runs(task) for task in tasks.iterdir() if task.name != str(os.getpid())):
            return
        time.sleep(0.001)


def _runs(task: Path) -> bool:
    try:
        state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:  # it has just ended
        return False
    return state == "R"
