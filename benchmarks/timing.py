"""Timing of rivals side by side: machines drift, so only what alternates in one run compares."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Run = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds per call of one rival: the median and the best of all its calls."""

    median: float
    best: float
    calls: int


def alternate(
    rivals: Mapping[str, Run], *, seconds: float = 1.0, rounds: int = 10
) -> dict[str, Times]:
    """Time every rival in `rounds` short turns, one after the other.

    The time is shared evenly. Each turn begins with calls that are not counted: they bring back
    caches and clocks that the rival before has moved.
    """
    found: dict[str, list[float]] = {name: [] for name in rivals}
    for run in rivals.values():
        run()
    slice_ = seconds / rounds / max(1, len(rivals))
    clock = time.perf_counter
    for _ in range(rounds):
        for name, run in rivals.items():
            run()
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
