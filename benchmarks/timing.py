"""Timing of rivals side by side: machines drift, so only what alternates in one run compares."""

from __future__ import annotations

import ctypes
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


class Peak:
    """The multiply-add rate of one core: a loop of independent chains, nothing else.

    `run` is a rival for `alternate`; it performs `flops` operations per call.
    """

    _CHAINS, _TURNS = 20, 2000

    def __init__(self, bits: int = 32) -> None:
        from irc.runtime.codegen.emit import Module
        from irc.runtime.codegen.llvm import emit_object, load_objects
        from irc.runtime.codegen.values import F32, F64, I64, number, vec
        from irc.runtime.machine import host_target

        target = host_target()
        lanes = target.lanes(bits)
        kind = vec(F64 if bits == 64 else F32, lanes)
        module = Module(target)
        f = module.function("peak", [("ptr", "to"), (I64, "n")])
        x = f.load(kind, f.params["to"])
        sums = [f.var(kind, number(0, kind)) for _ in range(self._CHAINS)]
        with f.range(0, f.params["n"], unroll=1):
            for s in sums:
                s.set(f.fma(x, x, s.get()))
        total = sums[0].get()
        for s in sums[1:]:
            total = f.fadd(total, s.get())
        f.store(total, f.params["to"])
        library = load_objects([emit_object(module.text(), target)], ["peak"], target)
        function = library.function("peak", ctypes.c_void_p, ctypes.c_int64, returns=None)
        memory = (ctypes.c_double * 16)()
        self.flops = 2 * self._CHAINS * self._TURNS * lanes
        self.run: Run = lambda: function(memory, self._TURNS)
