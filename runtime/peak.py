"""What this machine can do at most: multiply-adds of a core, and bytes read, as measured.

Small loops that do nothing else, in the same generated code as the kernels. Profiles and benchmarks
set their figures against them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np

from .codegen.emit import Function, Module, Variable
from .codegen.llvm import emit_object
from .codegen.loader import load_objects
from .codegen.values import I64, Value, bits_of, number, vec
from .machine import host_target


@dataclass(frozen=True)
class Unit:
    """What a peak is measured with: type of the accumulators, type of the factors, multiply-adds
    per accumulator and step, and the instruction, which needs a feature of the processor."""

    sum: str
    factor: str
    each: int = 1
    instruction: str | None = None
    feature: str | None = None


UNITS: Final[dict[str, Unit]] = {
    "f32": Unit("float", "float"),
    "f64": Unit("double", "double"),
    "bf16": Unit("float", "bfloat", 2, "llvm.x86.avx512bf16.dpbf16ps.512", "avx512bf16"),
    "int8": Unit("i32", "i32", 4, "llvm.x86.avx512.vpdpbusd.512", "avx512vnni"),
}


def measured_peak(unit: str) -> float:
    """Operations per second of one core's unit: the best of some 20 ms."""
    peak = Peak(unit)
    return peak.flops / _best(peak.run)


def measured_bandwidth(size: int, threads: int) -> float:
    """Bytes per second that `threads` cores read of a working set of `size` bytes."""
    reading = Bandwidth(size, threads)
    return reading.rate(_best(reading.run, 3))


def _best(run: Callable[[], object], times: int = 200) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


class Peak:
    """The multiply-add rate of one core: a loop of independent chains, nothing else.

    `run` performs `flops` operations. A machine without a unit is measured by f32's instruction.
    """

    _CHAINS, _TURNS = 20, 2000

    def __init__(self, unit: str = "f32") -> None:
        target, of = host_target(), UNITS[unit]
        if of.feature is not None and not target.has(of.feature):
            of = UNITS["f32"]
        lanes = target.lanes(bits_of(of.sum))
        kind = vec(of.sum, lanes)
        factors = vec(of.factor, lanes * bits_of(of.sum) // bits_of(of.factor))
        whole = of.sum == "i32"
        module, f = _function(("ptr", "to"), ("i64", "turns"))
        x = f.load(factors, f.params["to"])
        sums = [f.var(kind, number(0, kind)) for _ in range(self._CHAINS)]
        with f.range(0, f.params["turns"], unroll=1):
            for s in sums:
                if of.instruction:
                    s.set(f.call(of.instruction, kind, s.get(), x, x))
                else:
                    s.set(f.fma(x, x, s.get()))
        _store_total(f, sums, whole, f.params["to"])
        function = _loaded(module, ctypes.c_void_p, ctypes.c_int64)
        memory = (ctypes.c_double * 16)()
        self.flops = 2 * self._CHAINS * self._TURNS * lanes * of.each
        self.run: Callable[[], object] = lambda: function(memory, self._TURNS)


class Bandwidth:
    """How fast `threads` cores together read `size` bytes again and again: loads and additions.

    Each core reads its own part, as the parts of a matrix product do, so what fits its caches comes
    from there. `run` reads the bytes so often that starting the threads does not count.
    """

    _CHAINS, _LEAST = 16, 64 << 20

    def __init__(self, size: int, threads: int) -> None:
        lanes = host_target().lanes(64)
        line = lanes * 8 * self._CHAINS
        kind, step = vec(I64, lanes), lanes * self._CHAINS
        module, f = _function(("ptr", "to"), ("ptr", "data"), ("i64", "count"), ("i64", "turns"))
        sums = [f.var(kind, number(0, kind)) for _ in range(self._CHAINS)]
        with f.range(0, f.params["turns"], unroll=1):
            with f.range(0, f.params["count"], step, unroll=1) as i:
                for j, s in enumerate(sums):
                    s.set(
                        f.add(
                            s.get(), f.load(kind, f.at(f.params["data"], f.add(i, j * lanes), I64))
                        )
                    )
        _store_total(f, sums, True, f.params["to"])
        function = _loaded(module, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        part = -(-size // threads // line) * line
        self._turns = max(1, self._LEAST // (part * threads))
        self._bytes = part * threads * self._turns
        parts = [np.ones(part // 8, np.int64) for _ in range(threads)]
        outs = [np.zeros(lanes, np.int64) for _ in range(threads)]
        pool = ThreadPoolExecutor(max(1, threads - 1))

        def read(i: int) -> None:
            function(outs[i].ctypes.data, parts[i].ctypes.data, part // 8, self._turns)

        def run() -> None:
            others = [pool.submit(read, i) for i in range(1, threads)]
            read(0)
            for other in others:
                other.result()

        self.run: Callable[[], object] = run

    def rate(self, seconds: float) -> float:
        """Bytes per second, if a `run` took that long."""
        return self._bytes / seconds


def _function(*params: tuple[str, str]) -> tuple[Module, Function]:

    module = Module(host_target())
    return module, module.function("measured", list(params))


def _store_total(f: Function, sums: list[Variable], whole: bool, to: Value) -> None:
    """Use what was summed, so that nothing of it is optimised away."""
    total = sums[0].get()
    for s in sums[1:]:
        total = f.add(total, s.get()) if whole else f.fadd(total, s.get())
    f.store(total, to)


def _loaded(module: Module, *types: type) -> Callable[..., object]:

    target = host_target()
    library = load_objects([emit_object(module.text(), target)], ["measured"], target)
    return library.function("measured", *types, returns=None)
