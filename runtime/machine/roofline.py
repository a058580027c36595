"""What this machine can do at most: multiply-adds of a core, and bytes read, as measured.

Small loops that do nothing else, in the same generated code as the kernels. Profiles and benchmarks
set their figures against them.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...plan.packing.panel_params import BF16_PRODUCTS, adds_in_f16
from ...plan.target import Target
from ..jit.image_loader import load_objects
from ..jit.llvm import emit_object
from ..kernels.emit.amx_registers import AMX_ROWS, AmxTiles, on_tile, release
from ..kernels.emit.dot_units import tile_instruction
from ..llvmir.builder import Function, Module, StackVariable
from ..llvmir.values import I8, I64, LLVM_F16, Value, bits_of, integer, number, vec
from .detect import host_target


@dataclass(frozen=True)
class Unit:
    """What a peak is measured with: type of the accumulators, type of the factors, multiply-adds
    per accumulator and step, and the instruction, which needs a feature of the processor.

    `cells`: the type of the factors of tiles of AMX, which multiply where the machine has them."""

    sum: str
    factor: str
    each: int = 1
    instruction: str | None = None
    feature: str | None = None
    cells: DType | None = None


_DOT_BF16: Final = "llvm.x86.avx512bf16.dpbf16ps.512"
_DOT_BYTES: Final = "llvm.x86.avx512.vpdpbusd.512"
UNITS: Final[dict[str, Unit]] = {
    "f32": Unit("float", "float"),
    "f64": Unit("double", "double"),
    "bf16": Unit("float", "bfloat", 2, _DOT_BF16, "avx512bf16", DType.bf16),
    "f16": Unit(LLVM_F16, LLVM_F16),
    "int8": Unit("i32", "i32", 4, _DOT_BYTES, "avx512vnni", DType.i8),
}


def measured_peak(unit: str) -> float:
    """Operations per second of one core's unit: the best of some 20 ms. unit: of UNITS, or of
    BF16_PRODUCTS, which takes so many of bf16 for one."""
    each = BF16_PRODUCTS.get(unit, 1)
    peak = Peak("bf16" if unit in BF16_PRODUCTS else unit)
    return peak.flops / each / _best_seconds(peak.run)


def measured_bandwidth(size: int, threads: int) -> float:
    """Bytes per second that `threads` cores read of a working set of `size` bytes."""
    reading = Bandwidth(size, threads)
    return reading.rate(_best_seconds(reading.run, 3))


def _best_seconds(run: Callable[[], object], times: int = 200) -> float:
    best = float("inf")
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


class Peak:
    """The multiply-add rate of one core: a loop of independent chains, nothing else.

    `run` performs `flops` operations. A machine without a unit is measured by f32's instruction,
    one with tiles of AMX by products of tiles that stay in their registers: a kernel has to load
    its factors, too.

    threads: cores that do so at once. turns: of the loop; threads take long to start next to few.
    """

    def __init__(self, unit: str = "f32", threads: int = 1, turns: int = 2000) -> None:
        module, operations = peak_loop(unit, host_target())
        function = _load_function(module, ctypes.c_void_p, ctypes.c_int64)
        memories = [(ctypes.c_double * 16)() for _ in range(threads)]
        pool = ThreadPoolExecutor(max(1, threads - 1))

        def run() -> None:
            others = [pool.submit(function, memory, turns) for memory in memories[1:]]
            function(memories[0], turns)
            for other in others:
                other.result()

        self.flops = operations * turns * threads
        self.run: Callable[[], object] = run


def peak_loop(unit: str, target: Target) -> tuple[Module, int]:
    """measured(to, turns), and the operations of a turn."""
    of = UNITS[unit]
    lacks = of.feature is not None and not target.has(of.feature)
    if lacks or (unit == "f16" and not adds_in_f16(target, DType.f16)):
        of = UNITS["f32"]
    tile = tile_instruction(target, of.cells, of.each)
    return _tile_loop(target, tile, of.each) if tile else _vector_loop(target, of)


def _vector_loop(target: Target, of: Unit) -> tuple[Module, int]:
    chains, lanes = 20, target.lanes(bits_of(of.sum))
    kind = vec(of.sum, lanes)
    factors = vec(of.factor, lanes * bits_of(of.sum) // bits_of(of.factor))
    module, f = _function(target, ("ptr", "to"), ("i64", "turns"))
    x = f.load(factors, f.params["to"])
    # Of equal sums LLVM would keep one.
    sums = [f.var(kind, number(i, kind)) for i in range(chains)]
    with f.range(0, f.params["turns"], unroll=1):
        for s in sums:
            if of.instruction:
                s.set(f.call(of.instruction, kind, s.get(), x, x))
            else:
                s.set(f.fma(x, x, s.get()))
    _store_total(f, sums, of.sum == "i32", f.params["to"])
    return module, 2 * chains * lanes * of.each


def _tile_loop(target: Target, instruction: str, each: int) -> tuple[Module, int]:
    """Four sums, as kernels have them: their chains are longer than an instruction takes."""
    module, f = _function(target, ("ptr", "to"), ("i64", "turns"))
    tiles = AmxTiles((AMX_ROWS, AMX_ROWS))
    tiles.configure(f)
    buffer = f.stack(AMX_ROWS * 64)
    with f.range(0, AMX_ROWS * 8) as i:
        f.store(integer(0), f.at(buffer, i, I64))
    for register in (4, 5, 6, 7):
        on_tile(f, "tileloadd64", register, buffer, integer(64))
    with f.range(0, f.params["turns"], unroll=1):
        for down in range(2):
            for across in range(2):
                registers = (tiles.total(down, across), 4 + down, 6 + across)
                f.call(instruction, "void", *(integer(r, I8) for r in registers))
    release(f)
    return module, 2 * 4 * AMX_ROWS * AMX_ROWS * AMX_ROWS * each


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
        params = (("ptr", "to"), ("ptr", "data"), ("i64", "count"), ("i64", "turns"))
        module, f = _function(host_target(), *params)
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
        function = _load_function(
            module, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
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


def _function(target: Target, *params: tuple[str, str]) -> tuple[Module, Function]:
    module = Module(target)
    return module, module.function("measured", list(params))


def _store_total(f: Function, sums: list[StackVariable], is_integer: bool, to: Value) -> None:
    """Use what was summed, so that nothing of it is optimised away."""
    total = sums[0].get()
    for s in sums[1:]:
        total = f.add(total, s.get()) if is_integer else f.fadd(total, s.get())
    f.store(total, to)


def _load_function(module: Module, *types: type) -> Callable[..., object]:
    target = host_target()
    library = load_objects([emit_object(module.text(), target)], ["measured"], target)
    return library.function("measured", *types, returns=None)
