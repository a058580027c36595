"""Whole models against peers: `python -m benchmarks.models --against onnxruntime,openvino`.

Every row is checked against onnxruntime before it is timed: the largest error of each output,
relative to that output's largest value, is at most 1e-4. Of a quantised model every quantised
tensor is checked against `evaluate` from the same quantised tensors: at least 99.9 % of all
elements are equal, none is off by more than a step; `error` is the share that is not equal. With
--precision bf16 the engines are those that can compute in it (openvino), and the error is at most
1.5 times the least of theirs. The engines of a row alternate in one run; ratios are medians over
medians. `host` counts the steps that do not run in native code; compile times are from the ONNX
file: `cold` with an empty code cache, once; `warm` with a full one, and the peers, medians of three
turns. `peak` and `memory` are what bounds irc: the shares of its time that the model's operations
take at the peak of the units that multiply and add, and its weights at the bandwidth of memory.
--steps prints each step's share of the peak, of models whose ratio is below 1.15.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from .measurement.machine_limits import (
    ENOUGH_RATIO,
    ENOUGH_SHARE,
    LIMIT_COLUMNS,
    MachineLimits,
)
from .measurement.result_files import Bar, add_option, add_rows, engine_rows, held_isa
from .measurement.result_files import Row as Result
from .measurement.timing import alternate
from .peers import PEERS, Peer
from .workloads.neighbours import NEIGHBOURS
from .workloads.quantized import SHARE, byte_error
from .workloads.zoo import ZOO, Entry, Inputs, model_path

TOLERANCE = 1e-4
# How much larger than a peer's own error that of reduced precision may be.
MARGIN = 1.5
# Bars by what a model computes in: the geometric mean of the ratios, and the least of them.
BARS = {"f32": (1.2, 1.0), "bf16": (1.25, 1.0), "int8": (1.2, 1.0)}
# The same where IRC_ISA holds irc to an instruction set.
HELD_BAR = (1.15, 1.0)
# Runs of a profile.
PROFILED_RUNS = 20
# Of compile times over openvino's: every model's with a warm code cache, the mean with a cold one;
# and the longest, in seconds.
COMPILE_BARS = (1.0, 3.0, 4.0)
# Turns of compilation with a warm cache and of the peers'.
COMPILATIONS = 3
ABLE: dict[str, tuple[str, ...]] = {"f32": ("onnxruntime", "openvino"), "bf16": ("openvino",)}


@dataclass(frozen=True)
class Row:
    """One line of the table. `kind`: what it computes in, a key of BARS. `medians` and
    `compile_seconds` are seconds by engine, `minima` those of the fastest calls; `ratio` is the
    fastest peer's time over irc's; `limits`: see MachineLimits."""

    model: str
    family: str
    kind: str
    threads: int
    medians: dict[str, float]
    ratio: float
    error: float
    host: int
    steps: int
    kernels: int
    compile_seconds: dict[str, float]
    minima: dict[str, float] = field(default_factory=dict[str, float])
    limits: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def nearest_limit(self) -> float:
        """The larger of its shares of the machine's limits."""
        return max(self.limits.values(), default=0.0)


def irc_engine(path: str, inputs: Inputs, threads: int, precision: str) -> tuple[Peer, Any]:
    """irc as a user calls it: compile_model and a bound call; and the compiled model."""
    import irc_compiler as irc

    net = irc.compile_model(path, num_threads=threads, precision=precision)
    call = net.bind(list(inputs.values()))
    return Peer("irc", call, lambda: [np.array(a) for a in call()]), net


def clocked(make: Callable[[], Any]) -> tuple[Any, float]:
    """What `make` gives, and the seconds it took."""
    start = time.perf_counter()
    found = make()
    return found, time.perf_counter() - start


def compiled_in_turns(
    makers: dict[str, Callable[[], Any]],
) -> tuple[dict[str, Any], dict[str, float]]:
    """What each made last, and the medians of the seconds they took, one after the other."""
    made, times = dict[str, Any](), {name: list[float]() for name in makers}
    for _ in range(COMPILATIONS):
        for name, make in makers.items():
            made[name], seconds = clocked(make)
            times[name].append(seconds)
    return made, {name: median(each) for name, each in times.items()}


def cold_compile(path: str, threads: int, precision: str) -> float:
    """Seconds to compile with an empty code cache."""
    import irc_compiler as irc

    gc.collect()  # kernels of models that are still alive would be shared
    before = os.environ.get("IRC_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IRC_CACHE_DIR"] = folder
        try:
            return clocked(
                lambda: irc.compile_model(path, num_threads=threads, precision=precision)
            )[1]
        finally:
            if before is None:
                del os.environ["IRC_CACHE_DIR"]
            else:
                os.environ["IRC_CACHE_DIR"] = before


def largest_error(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest error of any output relative to that output's largest value."""
    worst = 0.0
    for a, b in zip(found, wanted, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return float("inf")
        if b.size:
            wide = b.astype(np.float64)
            scale = max(float(np.abs(wide).max()), 1e-30)
            error = float(np.abs(a.astype(np.float64) - wide).max()) / scale
            worst = max(worst, error if error == error else float("inf"))
    return worst


def measure(
    entry: Entry,
    threads: int,
    peers: list[str],
    seconds: float,
    precision: str,
    *,
    shows_steps: bool = False,
) -> Row:
    path = str(model_path(entry))
    inputs = entry.inputs(np.random.default_rng(1))
    cold = cold_compile(path, threads, precision)
    irc_engine(path, inputs, threads, precision)
    how = {"precision": precision} if precision != "f32" else {}
    makers: dict[str, Callable[[], Any]] = {
        "warm": lambda: irc_engine(path, inputs, threads, precision)
    }
    for name in peers:
        makers[name] = lambda name=name: PEERS[name](path, inputs, threads, **how)
    made, compiling = compiled_in_turns(makers)
    (mine, net), engines = made["warm"], {n: made[n] for n in peers}
    reference = engines.get("onnxruntime") or PEERS["onnxruntime"](path, inputs, 1)
    for engine in (reference, *engines.values()):
        engine.run()
    allowed = TOLERANCE
    if entry.quantized:
        (error, steps), allowed = byte_error(path, inputs, threads), 1 - SHARE
        error = error if steps <= 1 else float("inf")
    else:
        error = largest_error(mine.outputs(), reference.outputs())
    if precision != "f32" and engines:
        theirs = [largest_error(r.outputs(), reference.outputs()) for r in engines.values()]
        allowed = max(TOLERANCE, MARGIN * min(theirs))
    if error > allowed:
        raise SystemExit(f"{entry.name} is wrong: error {error:.1e}, not {allowed:.1e}")
    limit = MachineLimits(net, list(inputs.values()), threads)
    runs = {"irc": mine.run} | {n: r.run for n, r in engines.items()}
    loops = {f"peak {unit}": peak.run for unit, peak in limit.peaks.items()}
    times = alternate(runs | loops, seconds=seconds)
    peaks = {unit: times.pop(f"peak {unit}").median for unit in limit.peaks}
    medians = {n: t.median for n, t in times.items()}
    best = min((medians[n] for n in peers), default=float("nan"))
    limits = limit.find_shares(medians["irc"], peaks)
    if shows_steps and best / medians["irc"] < ENOUGH_RATIO:
        print_steps(net, inputs)
    return Row(
        entry.name,
        entry.family,
        "int8" if entry.quantized else precision,
        threads,
        medians,
        best / medians["irc"],
        error,
        len(net.plan.host_steps()),
        len(net.plan.kernel_steps()),
        len(net.plan.specs()),
        {"cold": cold} | compiling,
        {n: t.best for n, t in times.items()},
        limits,
    )


def print_steps(net: Any, inputs: Inputs) -> None:
    """Each step's time and its share of the peak, as `irc profile` shows them."""
    from irc_compiler.cli.commands import profile

    named = {p.name: a for p, a in zip(net.inputs, inputs.values(), strict=True)}
    print("\n".join(profile.as_text(profile.measure(net, named, PROFILED_RUNS), [])))


def heading(peers: list[str]) -> str:
    names = "".join(f"{p + ' ms':>16}" for p in peers)
    return (
        f"{'model':18}{'thr.':>6}{'irc ms':>10}{names}{'ratio':>7}"
        f"{''.join(f'{n:>8}' for n in LIMIT_COLUMNS)}{'error':>9}{'host':>6}"
        f"{'steps':>7}{'kernels':>9}{'cold s':>8}{'warm s':>8}"
        f"{'openvino s' if 'openvino' in peers else '':>12}"
    )


def line(row: Row, peers: list[str]) -> str:
    times = "".join(f"{row.medians.get(p, float('nan')) * 1e3:16.3f}" for p in peers)
    took = row.compile_seconds
    shares = "".join(f"{row.limits.get(n, float('nan')):8.2f}" for n in LIMIT_COLUMNS.values())
    return (
        f"{row.model:18}{row.threads:6}{row.medians['irc'] * 1e3:10.3f}{times}{row.ratio:7.2f}"
        f"{shares}{row.error:9.1e}{row.host:6}{row.steps:7}{row.kernels:9}"
        f"{took['cold']:8.2f}{took['warm']:8.2f}"
        f"{format(took['openvino'], '12.2f') if 'openvino' in took else ''}"
    )


def mean_of(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


def conclusions(rows: list[Row]) -> list[str]:
    """A sentence for every bar that these rows can be held against."""
    said: list[str] = []
    for kind, (mean_bar, least_bar) in BARS.items():
        ratios = {f"{r.model}, {r.threads} thr.": r.ratio for r in rows if r.kind == kind}
        if not ratios:
            continue
        mean, worst = mean_of(ratios.values()), min(ratios, key=lambda n: ratios[n])
        met = mean >= mean_bar and ratios[worst] >= least_bar
        said.append(
            f"{kind}: geometric mean of the ratios {mean:.2f} (bar {mean_bar:.2f}), least "
            f"{ratios[worst]:.2f} (bar {least_bar:.2f}; {worst}): {'met' if met else 'NOT met'}"
        )
        mine = [r for r in rows if r.kind == kind]
        far = [r for r in mine if r.ratio < ENOUGH_RATIO and r.nearest_limit < ENOUGH_SHARE]
        names = "".join(f"; {r.model}, {r.threads} thr." for r in far)
        said.append(
            f"{kind}: {len(mine) - len(far)} of {len(mine)} rows have a ratio of {ENOUGH_RATIO} or "
            f"take {ENOUGH_SHARE:.0%} of their time at a limit of the machine (bar all{names}): "
            f"{'NOT met' if far else 'met'}"
        )
    outside = {r.model: r.host for r in rows if r.host}
    said.append(
        f"steps outside native code: {sum(outside.values())} (bar 0"
        f"{'; ' + ', '.join(outside) if outside else ''}): {'NOT met' if outside else 'met'}"
    )
    times = {
        f"{r.model}, {r.threads} thr.": r.compile_seconds
        for r in rows
        if "openvino" in r.compile_seconds
    }
    if times:
        warm = {n: t["warm"] / t["openvino"] for n, t in times.items()}
        cold = mean_of(t["cold"] / t["openvino"] for t in times.values())
        slowest, longest = max(warm, key=lambda n: warm[n]), max(t["cold"] for t in times.values())
        bars = COMPILE_BARS
        met = warm[slowest] <= bars[0] and cold <= bars[1] and longest <= bars[2]
        said.append(
            f"compile time over openvino's: warm at most {warm[slowest]:.2f} (bar {bars[0]:.1f}; "
            f"{slowest}), cold {cold:.2f} in the mean (bar {bars[1]:.1f}), {longest:.2f} s the "
            f"longest (bar {bars[2]:.1f}): {'met' if met else 'NOT met'}"
        )
    return said


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.models", description=__doc__)
    parser.add_argument("--against", help="peers, comma separated (default: all that can)")
    parser.add_argument("--precision", choices=sorted(ABLE), default="f32")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    parser.add_argument("--zoo", choices=("zoo", "neighbours"), default="zoo")
    parser.add_argument("--only", default="", help="models or families, comma separated")
    parser.add_argument("--legacy", action="store_true", help="by PyTorch's older exporter")
    parser.add_argument("--seconds", type=float, default=3.0, help="per row")
    parser.add_argument("--steps", action="store_true", help="of models below 1.15")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    add_option(parser)
    options = parser.parse_args(arguments)
    able = ABLE[options.precision]
    peers = list(able) if options.against is None else [p for p in options.against.split(",") if p]
    if unable := sorted(set(peers) & set(PEERS) - set(able)):
        parser.error(f"no {options.precision} in {', '.join(unable)}")
    if unknown := sorted(set(peers) - set(PEERS)):
        parser.error(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    wanted = [n for n in options.only.split(",") if n]
    zoo = NEIGHBOURS if options.zoo == "neighbours" else ZOO
    chosen = [e for e in zoo.values() if not wanted or e.name in wanted or e.family in wanted]
    if not chosen:
        parser.error(f"no such model: {options.only}; there are {', '.join(zoo)}")
    if options.legacy:
        chosen = [replace(e, legacy=True) for e in chosen]
    if not options.json:
        print(heading(peers))
    rows: list[Row] = []
    for threads in map(int, options.threads.split(",")):
        for entry in chosen:
            readers = [p for p in peers if entry.quantized != "operators" or p == "onnxruntime"]
            row = measure(
                entry, threads, readers, options.seconds, options.precision,
                shows_steps=options.steps,
            )  # fmt: skip
            rows.append(row)
            print(json.dumps(vars(row)) if options.json else line(row, peers), flush=True)
    if peers and not options.json:
        print("\n".join(conclusions(rows)))
    if options.results:
        suite = "models" if options.zoo == "zoo" else options.zoo
        bars = [Bar(suite, k, *(HELD_BAR if held_isa() else bar)) for k, bar in BARS.items()]
        add_rows(options.results, (r for row in rows for r in results(suite, row)), bars)
    return 0


def results(suite: str, row: Row) -> list[Result]:
    """The row as rows of a result file."""
    measures: dict[str, float] = {"host_steps": row.host, "kernels": row.kernels}
    measures |= row.limits
    measures |= {f"{how}_compile_seconds": s for how, s in row.compile_seconds.items()}
    return engine_rows(
        suite, row.model, row.threads, row.kind,
        medians=row.medians, minima=row.minima, error=row.error, measures=measures,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
