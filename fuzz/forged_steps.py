"""Forged steps: specs of real plans with extreme integers, run between protected pages.

A case changes one to three integers of a spec, or the sizes its step is given, to numbers that wrap
in 64 bits or nearly do. What verification lets pass is compiled and run: every buffer touches a
protected page, behind it in one run and before it in the other. A signal or a hang is the end of
the process; `run_forged` starts another one behind that case, and counts it.
"""

from __future__ import annotations

import collections
import ctypes
import dataclasses
import json
import mmap
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from irc_compiler.ir.errors import Error, VerificationError
from irc_compiler.plan.plan import CONSTANT, INPUT, OUTPUT, Buffer, KernelStep, PlanConstant, Region
from irc_compiler.plan.specs.base import RuntimeDim, Spec
from irc_compiler.plan.target import Target
from irc_compiler.plan.verify.order import verify_region
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.plan.verify.values import RegionLayoutTables, RegionSizes
from irc_compiler.plan.verify.written_coverage import Coverage
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.jit.shared_functions import shared_functions
from irc_compiler.runtime.kernels.kernel_table import generate

from .step_models import native_steps

# A case without an end: what passes verification may count 2^34 elements, this many are run.
MOST_WORK = 1 << 27
MOST_SCRATCH = 1 << 30
HANGS_AFTER = 120.0
PAGE = mmap.PAGESIZE
EXTREMES = [
    *(0, 1, 2, 3, 7, 1 << 20, 1 << 30, 1 << 31, (1 << 31) - 1, 1 << 32, (1 << 32) + 1),
    *(1 << 46, 1 << 47, (1 << 47) - 1, 1 << 48, (1 << 48) - 1, (1 << 48) + 1),
    *(1 << 61, 1 << 62, (1 << 62) - 1, (1 << 63) - 1, (1 << 63) - 2, -(1 << 63)),
]
Make = Callable[[Any], Any]


@dataclass(frozen=True)
class Seed:
    """A step of a plan, alone: its buffers have the shapes that some sizes give."""

    name: str
    step: KernelStep
    buffers: tuple[Buffer, ...]
    dims: tuple[int, ...]
    constants: tuple[PlanConstant, ...]
    target: Target


@cache
def seeds() -> list[Seed]:
    """One per kernel step of the models."""
    found: list[Seed] = []
    for name, net, region, step, env in native_steps():
        tables = RegionLayoutTables(region, net.plan.constants)
        sizes = tables.sizes(env)
        count = len(step.buffers) - step.spec.output_count()
        buffers: list[Buffer] = []
        for n, b in enumerate(step.buffers):
            old = region.buffers[b]
            kind, index = (INPUT, n) if n < count else (OUTPUT, n - count)
            if old.kind == CONSTANT:
                kind, index = CONSTANT, old.index
            buffers.append(Buffer(kind, old.dtype, tables.shape(sizes, b), index))
        values = tables.step_sizes(sizes, region.steps.index(step))
        alone = dataclasses.replace(
            step, buffers=tuple(range(len(buffers))), dims=tuple(range(len(values))), work=1
        )
        entry = Seed(
            name, alone, tuple(buffers), tuple(values), net.plan.constants, net.program.target
        )
        found.append(entry)
    return found


def integers(value: Any, put: Make = lambda v: v) -> Iterator[tuple[Any, Make]]:
    """Every integer and run-time size inside a spec, and what makes the spec with another one."""
    if isinstance(value, bool | float | str) or value is None:
        return
    if isinstance(value, int | RuntimeDim):
        yield value, put
    elif isinstance(value, tuple):
        for n, item in enumerate(value):
            yield from integers(item, lambda v, n=n: put((*value[:n], v, *value[n + 1 :])))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for f in dataclasses.fields(value):
            yield from integers(
                getattr(value, f.name),
                lambda v, f=f: put(dataclasses.replace(value, **{f.name: v})),
            )


def extreme(old: int, others: Sequence[int], rng: random.Random) -> int:
    """A number at which sums and products of 64 bits wrap, or nearly; or a neighbour of an old."""
    how = rng.randrange(6)
    if how == 0:
        return old + rng.choice([-2, -1, 1, 2])
    if how == 1:
        return rng.choice(others) * rng.choice([-1, 1, 1, 2])
    number = rng.choice(EXTREMES)
    if how == 2:  # a product with another number wraps to about nothing
        number = (1 << rng.choice([62, 63, 64])) // max(1, abs(rng.choice(others)))
    number += rng.choice([0, 0, 0, -1, 1, old])
    number *= rng.choice([1, 1, -1])
    return max(-(1 << 63), min((1 << 63) - 1, number))


def forge(seed: Seed, rng: random.Random) -> Seed:
    """The step with some of its integers changed."""
    step, dims = seed.step, list(seed.dims)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        listed = list(integers(step.spec))
        plain = [v for v, _ in listed if isinstance(v, int)] + dims or [1]
        if dims and rng.random() < 0.3:
            n = rng.randrange(len(dims))
            dims[n] = extreme(dims[n], plain, rng)
            continue
        old, put = rng.choice(listed)
        if isinstance(old, RuntimeDim):
            made: Any = rng.choice(
                [RuntimeDim(rng.randrange(-1, len(dims) + 1)), rng.choice(plain)]
            )
        else:
            made = extreme(old, plain, rng)
        step = dataclasses.replace(step, spec=put(made))
    return dataclasses.replace(seed, step=step, dims=tuple(dims))


def accept(case: Seed) -> tuple[RegionLayoutTables, RegionSizes]:
    """What `artifact` and `session` ask of a stored plan. irc's errors."""
    reads = sum(b.kind != OUTPUT for b in case.buffers)
    outputs = len(case.buffers) - reads
    region = Region(
        tuple(range(reads)), tuple(range(outputs)), (), case.dims, case.buffers, (case.step,)
    )
    verify_specs([case.step.spec], case.target)
    verify_region(region, case.constants)
    tables = RegionLayoutTables(region, case.constants)
    return tables, tables.sizes({})


def guarded(nbytes: int, at: str) -> np.ndarray:
    """Bytes whose end, or start, touches a protected page."""
    pages = max(1, -(-nbytes // PAGE))
    area = mmap.mmap(-1, (pages + 2) * PAGE)
    whole = np.frombuffer(area, np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    for fence in (0, pages + 1):
        at_ = ctypes.c_void_p(whole.ctypes.data + fence * PAGE)
        if libc.mprotect(at_, ctypes.c_size_t(PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = PAGE if at == "start" else (pages + 1) * PAGE - nbytes
    return whole[start : start + nbytes]


def work_of(tables: RegionLayoutTables, sizes: RegionSizes, spec: Spec) -> float:
    """About how many elements a step counts."""
    axes, start = tables.list_axes(np.arange(len(tables.operand_buffer)))
    size = sizes.values[axes]
    places = np.multiply.reduceat(size.astype(np.float64), start)
    window = getattr(spec, "window", None)
    taps = float(np.prod([float(k) for k in window.kernel])) if window is not None else 1.0
    channels = float(getattr(spec, "channels", 1) or 1) if hasattr(spec, "packed") else 1.0
    rest = sorted(places)[-2:] if spec.family in ("gemm", "attention") else [places.max()]
    samples = float(getattr(spec, "sampling_ratio", 1) or 1) ** 2
    return float(np.prod(rest)) * taps * samples * channels


def run_case(case: Seed, rng: random.Random) -> str:
    """What became of a forged step: refused, too long, or ran. AssertionError for a finding."""
    try:
        tables, sizes = accept(case)
    except Error:
        return "refused"
    spec = case.step.spec
    if not work_of(tables, sizes, spec) <= MOST_WORK:
        return "long"
    try:
        kernel = generate(spec, case.target, "forged")
    except VerificationError:
        return "refused"
    if kernel.scratch > MOST_SCRATCH:
        return "large"
    image = emit_object(kernel.text, case.target)
    library = load_objects([image], ["forged"], case.target, shared_functions([image]))
    pointer, short = ctypes.c_void_p, ctypes.c_int32
    entry = library.function("forged", pointer, pointer, short, short, pointer)
    unwritten = Coverage(tables).unwritten(sizes)
    for at in ("end", "start"):
        found = [_run(case, kernel.scratch, entry, sizes, at, fill, rng) for fill in (0xA5, 0x5A)]
        first, second = found
        if first is None or second is None:
            continue
        for b, buffer in enumerate(case.buffers):
            if buffer.kind == OUTPUT and b not in unwritten:
                assert first[b] == second[b], f"buffer {b} is not written whole"
    return "ran"


def _run(
    case: Seed,
    scratch: int,
    entry: Any,
    sizes: RegionSizes,
    at: str,
    fill: int,
    rng: random.Random,
) -> list[bytes] | None:
    """Run on fresh memory; the outputs' bytes, None where the kernel ends with a status."""
    draw = np.random.default_rng(case.dims[0] % 1000 if case.dims else 1)
    memory: list[np.ndarray] = []
    for buffer, nbytes in zip(case.buffers, sizes.nbytes.tolist(), strict=True):
        made = guarded(int(nbytes), at)
        if buffer.kind == OUTPUT:
            made[...] = fill
        elif buffer.dtype.is_float:
            values = draw.integers(-3, 4, int(nbytes) // buffer.dtype.numpy.itemsize)
            made[...] = values.astype(buffer.dtype.numpy).view(np.uint8)
        elif buffer.dtype.numpy.itemsize > 1:
            values = draw.integers(0, 4, int(nbytes) // buffer.dtype.numpy.itemsize)
            made[...] = values.astype(buffer.dtype.numpy).view(np.uint8)
        else:
            made[...] = draw.integers(0, 2, int(nbytes))
        memory.append(made)
    before = [m.tobytes() for m in memory]
    own = guarded(-(-scratch // 64) * 64, "end")
    own[...] = 0xFF
    table = (ctypes.c_void_p * len(memory))(*(m.ctypes.data for m in memory))
    dims = (ctypes.c_int64 * max(1, len(case.dims)))(*case.dims)
    workers = 3 if fill == 0xA5 else 1
    for worker in range(workers):
        if entry(table, dims, worker, workers, own.ctypes.data):
            return None
    for buffer, made, old in zip(case.buffers, memory, before, strict=True):
        assert buffer.kind == OUTPUT or made.tobytes() == old, "an input is overwritten"
    return [m.tobytes() for m in memory]


def case_of(number: int) -> tuple[Seed, random.Random]:
    """The case of this number."""
    rng = random.Random(number)
    listed = seeds()
    families = sorted({s.step.spec.family for s in listed})
    family = families[number % len(families)]
    return forge(rng.choice([s for s in listed if s.step.spec.family == family]), rng), rng


def run_cases(first: int, count: int) -> None:
    """Cases one after the other: a line before each, and one of what became of it."""
    for number in range(first, first + count):
        case, rng = case_of(number)
        print(f"case {number} {case.step.spec.family}", flush=True)
        try:
            found = run_case(case, rng)
        except Exception as e:
            found = f"finding {type(e).__name__}: {e}".replace("\n", " ")[:300]
        print(f"done {found}", flush=True)


def run_forged(first: int, count: int, minutes: float = 1e9) -> tuple[dict[str, int], list[str]]:
    """(counts by what became of cases, findings) of so many cases, from number `first` on."""
    return run_children("fuzz.forged_steps", first, count, minutes)


def run_children(
    module: str, first: int, count: int, minutes: float = 1e9
) -> tuple[dict[str, int], list[str]]:
    """`run_forged` for a module whose run_cases(first, count) prints a line "case NUMBER KIND"
    before each case and a line "done OUTCOME" after it. A process that ends is a finding."""
    counts: collections.Counter[str] = collections.Counter()
    findings: list[str] = []
    until, end = time.monotonic() + minutes * 60, first + count
    while first < end and time.monotonic() < until:
        code = f"import {module} as f; f.run_cases({first}, {end - first})"
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[1],
        )
        assert child.stdout is not None
        now = family = ""
        alarm = _alarm(child)
        for line in child.stdout:
            alarm.cancel()
            word, _, rest = line.strip().partition(" ")
            if word == "case":
                now, family = rest, rest.split()[1]
                first = int(rest.split()[0]) + 1
            elif word == "done":
                counts[rest.split()[0]] += 1
                counts[f"{family} {rest.split()[0]}"] += 1
                if rest.startswith("finding"):
                    findings.append(f"{now}: {rest}")
                now = ""
                if time.monotonic() > until:
                    break
            alarm = _alarm(child)
        alarm.cancel()
        if now == "" and time.monotonic() > until:
            child.kill()
        status = child.wait()
        if now:
            counts["crash"] += 1
            findings.append(f"{now}: the process ended with {status}")
        elif status and time.monotonic() < until:
            findings.append(f"the process ended with {status}")
            break
    return dict(counts), findings


def _alarm(child: subprocess.Popen[str]) -> threading.Timer:
    alarm = threading.Timer(HANGS_AFTER, child.kill)
    alarm.daemon = True
    alarm.start()
    return alarm


if __name__ == "__main__":
    made, said = run_forged(int(sys.argv[1]), 10**9, float(sys.argv[2]))
    print(json.dumps(made, indent=1), *said, sep="\n")
    sys.exit(bool(said))
