"""Compile one spec and run it by ctypes over memory fenced by protected pages."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from irc_compiler.plan.processors import PROCESSORS, processor_target
from irc_compiler.plan.specs.base import RuntimeDim, Size, Spec
from irc_compiler.plan.target import Target, generic_target
from irc_compiler.runtime.jit.host_features import available_isas, host_features, isa_features
from irc_compiler.runtime.jit.image_loader import Library, load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.jit.shared_functions import shared_functions
from irc_compiler.runtime.kernels.kernel_table import generate

from support.kernels import amx_emulation, amx_trap

PAGE = mmap.PAGESIZE
ISAS = list(available_isas())
AMX = " + amx"
HAS_AMX = "amx-tile" in host_features()
# Tiles of AMX, emulated where the machine has what their kernels need besides.
_PACKS = "avx512" in ISAS and {"avx512bf16", "avx512vnni"} <= host_features()
TILED = ["avx512" + AMX] if _PACKS else []
_NOT_PACKED = pytest.mark.skip(
    reason="not run: packing for tiles needs AVX512-BF16 and VNNI, not on this machine"
)
each_tiled_isa = pytest.mark.parametrize("isa", TILED or [pytest.param("none", marks=_NOT_PACKED)])
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


@cache
def target_of(isa: str) -> Target:
    """A Target of this machine forced to one instruction set (small, fixed caches); after " - "
    may stand a feature that it shall not have, after all " + amx" (emulated where it is not). The
    name of a processor gives the Target of that processor. An instruction set that this machine
    lacks gives the generic Target: its kernels are generated, not run."""
    if isa in PROCESSORS:
        return processor_target(isa)
    name, _, lacking = isa.removesuffix(AMX).partition(" - ")
    if name not in available_isas():
        return generic_target(name)  # type: ignore[arg-type]
    features = tuple(f for f in isa_features(name) if f != lacking)  # type: ignore[arg-type]
    if isa.endswith(AMX):
        features = tuple(sorted({*features, *amx_emulation.FEATURES}))
    return dataclasses.replace(generic_target(name), cpu_features=features)  # type: ignore[arg-type]


def guarded(nbytes: int, at: str = "end") -> np.ndarray:
    """Bytes between two protected pages: at "end" the last byte touches the fence, at "start" the
    first does. Touching beyond is a signal, so that a test run dies loudly."""
    pages = max(1, -(-nbytes // PAGE))
    area = mmap.mmap(-1, (pages + 2) * PAGE)
    whole = np.frombuffer(area, np.uint8)
    base = whole.ctypes.data
    for fence in (base, base + (pages + 1) * PAGE):
        if _libc.mprotect(fence, PAGE, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = PAGE if at == "start" else (pages + 1) * PAGE - nbytes
    return whole[start : start + nbytes]


def guard_copy(array: np.ndarray, at: str = "end") -> np.ndarray:
    """A contiguous copy of `array` in guarded memory."""
    memory = guarded(array.nbytes, at)
    copy = memory.view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def unwritten(shape: Sequence[int], dtype: Any, at: str = "end") -> np.ndarray:
    """Guarded memory filled with NaN (floats) or 0xA5 (other types)."""
    dtype = np.dtype(dtype)
    memory = guarded(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, at)
    memory[...] = 0xA5
    out = memory.view(dtype).reshape(tuple(shape))
    if dtype.kind == "f" or dtype.name == "bfloat16":
        out[...] = np.nan
    return out


class Sizes:
    """Sizes of a spec: run-time arguments, whose values are `dims`, where `dynamic`."""

    def __init__(self, dynamic: bool) -> None:
        self.dynamic = dynamic
        self.dims: list[int] = []

    def __call__(self, value: int) -> Size:
        if not self.dynamic:
            return value
        self.dims.append(value)
        return RuntimeDim(len(self.dims) - 1)


@dataclass(frozen=True)
class Result:
    """Output buffers, the first status other than 0, and its element."""

    outs: list[np.ndarray]
    status: int
    element: int


class Compiled:
    """One spec's machine code for one Target. Tile instructions are run by the machine, or caught
    where it has none; or they are calls of their emulation (`emulates`)."""

    def __init__(self, spec: Spec, target: Target, *, emulates: bool = False) -> None:
        self.spec = spec
        kernel = generate(spec, target, "k0")
        self.text, self.scratch = kernel.text, kernel.scratch
        text, imports = kernel.text, {}
        if target.has("amx-tile") and emulates:
            text, imports = amx_emulation.emulated(text)
        elif target.has("amx-tile") and not HAS_AMX:
            amx_trap.catch()
        image = emit_object(text, target)
        imports = {**shared_functions([image]), **imports}
        self.library: Library = load_objects([image], [kernel.symbol], target, imports)
        pointer = ctypes.c_void_p
        self.entry = self.library.function(
            kernel.symbol, pointer, pointer, ctypes.c_int32, ctypes.c_int32, pointer
        )

    def __call__(
        self,
        buffers: Sequence[np.ndarray],
        dims: Sequence[int] = (),
        workers: int = 1,
        phases: int = 0,
    ) -> tuple[int, int]:
        """Run all workers one after the other, the last first, and so phase by phase where there
        are phases. Returns (status, element)."""
        table = (ctypes.c_void_p * max(1, len(buffers)))(*(b.ctypes.data for b in buffers))
        sizes = (ctypes.c_int64 * max(1, len(dims)))(*dims)
        calls = [
            (phase + 1) * workers * (phases > 0) + worker
            for phase in range(max(1, phases))
            for worker in reversed(range(workers))
        ]
        for worker in calls:
            memory = guarded((self.scratch + 63) // 64 * 64)
            memory[...] = 0xFF  # NaN in every float
            status = self.entry(table, sizes, worker, workers, memory.ctypes.data)
            amx_emulation.check()
            if status:
                return status, int(memory[:8].view(np.int64)[0])
        return 0, 0


def functions_of(text: str, stem: str) -> list[str]:
    """The internal functions of an LLVM module whose names begin with `stem`."""
    return re.findall(rf"\ndefine internal [^\n]*@{stem}[\w.]*\(.*?\n\}}\n", text, re.DOTALL)


@cache
def compile_spec(spec: Spec, isa: str) -> Compiled:
    return Compiled(spec, target_of(isa))


def run(
    spec: Spec,
    inputs: Sequence[np.ndarray],
    out_shapes: Sequence[Sequence[int]],
    *,
    isa: str,
    dims: Sequence[int] = (),
    workers: int = 1,
    phases: int = 0,
    at: str = "end",
) -> Result:
    """Run over guarded copies of the inputs; `out_shapes` are the shapes of the output buffers.

    Inputs are handed over as contiguous buffers (the spec's strides and offsets walk them), and
    are checked to be untouched.
    """
    operands = spec.operands()
    copies = [guard_copy(np.ascontiguousarray(a).reshape(a.shape), at) for a in inputs]
    types = [o.dtype.numpy for o in operands[len(operands) - spec.output_count() :]]
    outs = [unwritten(s, t, at) for s, t in zip(out_shapes, types, strict=True)]
    status, element = compile_spec(spec, isa)([*copies, *outs], dims, workers, phases)
    for given, copy in zip(inputs, copies, strict=True):
        assert given.tobytes() == copy.tobytes(), "a kernel wrote to its input"
    return Result([o.copy() for o in outs], status, element)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    out: list[int] = []
    step = 1
    for size in reversed(shape):
        out.append(step)
        step *= size
    return tuple(reversed(out))


def memory_strides(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
    """Strides (batch, channel, spatial...) of channels-last or channels-first memory."""
    if not last:
        return strides_of(shape)
    order = (0, *range(2, len(shape)), 1)
    steps = strides_of([shape[i] for i in order])
    return tuple(steps[order.index(i)] for i in range(len(shape)))
