"""How the time of a model falls with the number of cores, past this machine's:
`python -m benchmarks.cores.scaling --model resnet-50,bert-base`.

A step's time with one thread is measured, and so are the bandwidth of this machine's memory and
what sharing a step costs. `predict_seconds` computes the time on more cores from them, and the
table says what two threads really take here. docs/dev/scaling.md has the formula and its limits.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler import ops
from irc_compiler.plan.plan import KernelStep
from irc_compiler.runtime.driver.codegen_sharing import add_word
from irc_compiler.runtime.execution.profile import StepTime
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.machine.cpus import usable_cores
from irc_compiler.runtime.machine.detect import host_target
from irc_compiler.runtime.machine.roofline import measured_bandwidth

from ..measurement.timing import wait_until_idle
from ..workloads.zoo import ZOO, model_path

CORES = (1, 2, 4, 8, 16, 32, 64, 128)
# Steps that take less alone stay with their caller (docs/dev/tuning/thread-sharing.md).
MIN_SHARED_SECONDS = 0.9e-6
# Output elements of the smallest part of a product: a register tile. Of others: some cache lines.
TILE_ELEMENTS, ROW_ELEMENTS = 96, 1024
# A claim of a counter whose cache line is on the other socket, as a multiple of one on the same
# (literature on two-socket machines gives two to four; not measured here).
FAR_CLAIM_FACTOR = 3.0
DRAM_BYTES = 256 << 20


@dataclass(frozen=True)
class Machine:
    """core_bandwidth, socket_bandwidth: bytes per second that one core and a whole socket read
    from memory. cache_bytes: of a socket's last level. share_seconds: what publishing a step costs
    its caller. claim_seconds: one claim of a part, which claims of other threads wait for."""

    cores_per_socket: int
    core_bandwidth: float
    socket_bandwidth: float
    cache_bytes: int
    share_seconds: float
    claim_seconds: float


@dataclass(frozen=True)
class Step:
    """seconds: with one thread. units: parts that it can be cut into at most. constant_bytes: of
    weights, which each call reads again."""

    seconds: float
    units: int
    constant_bytes: int
    native: bool = True


def predict_step(step: Step, cores: int, machine: Machine, from_memory: bool) -> float:
    """Seconds of a step on that many cores."""
    if cores == 1 or not step.native or step.seconds < MIN_SHARED_SECONDS:
        return step.seconds
    computing = step.seconds * math.ceil(step.units / cores) / step.units
    sockets = math.ceil(cores / machine.cores_per_socket)
    rate = min(cores * machine.core_bandwidth, sockets * machine.socket_bandwidth)
    reading = step.constant_bytes / rate if from_memory else 0.0
    claim = machine.claim_seconds * (FAR_CLAIM_FACTOR if sockets > 1 else 1.0)
    return max(computing, reading) + machine.share_seconds + cores * claim


def predict_seconds(steps: Sequence[Step], cores: int, machine: Machine) -> float:
    """Seconds of a call that all those cores compute. Weights come from memory where they exceed
    the last-level caches of the sockets."""
    sockets = math.ceil(cores / machine.cores_per_socket)
    total = sum(step.constant_bytes for step in steps)
    from_memory = total > sockets * machine.cache_bytes
    return sum(predict_step(step, cores, machine, from_memory) for step in steps)


def predict_rate(steps: Sequence[Step], cores: int, machine: Machine) -> float:
    """Calls a second where each core makes calls of its own: no step is shared, weights are read by
    each core, and each socket has a copy in its memory."""
    seconds = sum(step.seconds for step in steps)
    weights = sum(step.constant_bytes for step in steps)
    sockets = math.ceil(cores / machine.cores_per_socket)
    rate = cores / seconds
    if weights > machine.cache_bytes:
        rate = min(rate, sockets * machine.socket_bandwidth / weights)
    return rate


def best_cores(steps: Sequence[Step], machine: Machine) -> int:
    """The number of cores, up to 128, beyond which a call takes no less time."""
    return min(range(1, CORES[-1] + 1), key=lambda n: predict_seconds(steps, n, machine))


# Measurements


def measure_steps(net: irc.CompiledModel, inputs: Any, rounds: int = 9) -> list[Step]:
    """The steps of a model compiled for one thread: medians of several profiles."""
    profiles = [net.profile(inputs) for _ in range(rounds)]
    medians = [statistics.median(t.seconds for t in times) for times in zip(*profiles, strict=True)]
    return [
        _describe_step(net, time, seconds)
        for time, seconds in zip(profiles[-1], medians, strict=True)
    ]


def _describe_step(net: irc.CompiledModel, time: StepTime, seconds: float) -> Step:
    region = net.plan.regions[time.region]
    step = region.steps[time.step] if time.step >= 0 else None
    if not isinstance(step, KernelStep):
        return Step(seconds, 1, 0, native=False)
    constants = [region.buffers[b] for b in step.buffers if region.buffers[b].kind == "constant"]
    weights = sum(net.program.constants[b.index].nbytes for b in constants)
    outputs = time.nbytes - weights
    per_unit = TILE_ELEMENTS if step.spec.product_name else ROW_ELEMENTS
    return Step(seconds, max(1, outputs // 2 // 4 // per_unit), weights)


def measure_machine(cores_per_socket: int, cache_bytes: int, socket_bandwidth: float) -> Machine:
    """This machine's core, as one of a larger machine's. socket_bandwidth: 0 for this machine's."""
    wait_until_idle()
    core = measured_bandwidth(DRAM_BYTES, 1)
    socket = socket_bandwidth or measured_bandwidth(DRAM_BYTES, usable_cores())
    claim = measure_claim()
    # Two threads' claims are in it already.
    share = max(0.0, measure_sharing() - 2 * claim)
    return Machine(cores_per_socket, core, socket, cache_bytes, share, claim)


def measure_claim(turns: int = 1_000_000) -> float:
    """Seconds of one atomic addition to a word that two threads add to at the same time."""
    module = Module(host_target())
    f = module.function("add", [("ptr", "to"), ("i64", "turns")])
    with f.range(0, f.params["turns"], unroll=1):
        add_word(f, f.params["to"], 0, 1)
    library = load_objects([emit_object(module.text(), host_target())], ["add"], host_target())
    add = library.function("add", ctypes.c_void_p, ctypes.c_int64, returns=None)
    counter, ready = np.zeros(16, np.int64), threading.Barrier(2)

    def run() -> None:
        ready.wait()
        add(counter.ctypes.data, turns)

    best = math.inf
    for _ in range(5):
        other = threading.Thread(target=run)
        other.start()
        ready.wait()
        start = time.perf_counter()
        add(counter.ctypes.data, turns)
        other.join()
        best = min(best, (time.perf_counter() - start) / (2 * turns))
    if counter[0] != 10 * turns:
        raise SystemExit("additions were lost")
    return best


def measure_sharing(layers: int = 64, size: int = 64) -> float:
    """Seconds that sharing costs a step of a chain of small products: what two threads take beyond
    half of what one takes."""
    rng, y = np.random.default_rng(0), ops.parameter("x", (size, size))
    for _ in range(layers):
        y = y @ (rng.standard_normal((size, size)) / size**0.5).astype(np.float32)
    model, x = ops.model({"y": y}), np.ones((size, size), np.float32)
    calls = [irc.compile_model(model, num_threads=n).bind([x]) for n in (1, 2)]
    alone, shared = (best_seconds(call) for call in calls)
    return (shared - alone / 2) / layers


def best_seconds(call: Callable[[], object], seconds: float = 1.0) -> float:
    """The least time of a call among those of that many seconds."""
    best, end = math.inf, time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        call()
        best = min(best, time.perf_counter() - start)
    return best


def print_model(name: str, machine: Machine) -> None:
    """A row of each table for one model."""
    if name not in ZOO:
        raise SystemExit(f"unknown model {name}; known: {', '.join(ZOO)}")
    entry = ZOO[name]
    path, inputs = model_path(entry), entry.inputs(np.random.default_rng(0))
    wait_until_idle()
    alone = irc.compile_model(path, num_threads=1)
    steps, one = measure_steps(alone, inputs), best_seconds(alone.bind(inputs))
    # Steps that are timed one by one take longer than the call that holds them.
    factor = one / sum(step.seconds for step in steps)
    steps = [replace(step, seconds=step.seconds * factor) for step in steps]
    two = best_seconds(irc.compile_model(path, num_threads=2).bind(inputs))
    here = replace(machine, cores_per_socket=max(2, machine.cores_per_socket))
    error = predict_seconds(steps, 2, here) / two - 1
    times = " | ".join(f"{predict_seconds(steps, n, machine) * 1e3:.2f}" for n in CORES)
    print(f"| {name} | {times} | {best_cores(steps, machine)} | {two * 1e3:.2f} | {error:+.0%} |")
    rates = " | ".join(f"{predict_rate(steps, n, machine):.0f}" for n in CORES)
    print(f"| {name}, calls a second | {rates} | | | |", flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--model", default="mobilenet-v2,resnet-50,minilm,bert-base")
    parser.add_argument("--cores-per-socket", type=int, default=64)
    parser.add_argument("--socket-gb-per-second", type=float, default=0.0, help="0: this machine's")
    parser.add_argument("--cache-mib", type=float, default=32.0, help="last level, of a socket")
    args = parser.parse_args(words)
    cache, socket = int(args.cache_mib * 2**20), args.socket_gb_per_second * 1e9
    machine = measure_machine(args.cores_per_socket, cache, socket)
    print(
        f"core {machine.core_bandwidth / 1e9:.1f} GB/s, socket"
        f" {machine.socket_bandwidth / 1e9:.1f} GB/s, sharing a step"
        f" {machine.share_seconds * 1e6:.2f} us, a claim {machine.claim_seconds * 1e9:.0f} ns\n"
    )
    print("| ms on cores | " + " | ".join(map(str, CORES)) + " | fastest | 2 measured | error |")
    print("|---" * (len(CORES) + 4) + "|")
    for name in args.model.split(","):
        print_model(name, machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
