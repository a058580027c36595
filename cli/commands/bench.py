"""irc bench: latency and throughput of a model, alone or against reference engines."""

from __future__ import annotations

import argparse
import copy
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...api import CompiledModel, compile_model
from ...ir.errors import UsageError
from ...runtime.machine.cpus import usable_cores
from ..arguments import (
    Array,
    add_compilation,
    add_inputs,
    add_model,
    amount_of,
    count_of,
    given_inputs,
    limits,
    parse_shapes,
    require_file,
)
from ..console import print_result
from ..formatting import format_microseconds, format_table, sizes_note, terminal_columns
from ..logging import print_json
from ..random_inputs import fill_inputs
from ..reference_engines import ReferenceEngine, Task, make_engine, parse_engines
from ..values import arrays_of
from .compare import difference

SCHEMA = 1
# Engines take turns in blocks of this many seconds, so that all see the same state of the machine.
BLOCK_SECONDS = 0.05
TOLERANCE = 1e-3
# What the column `ratio` compares, by hint.
RATIO_MEANINGS = {
    "latency": "median time over irc's",
    "throughput": "items a second of irc over the engine's",
}


@dataclass(frozen=True)
class BenchRow:
    """Figures of one engine at one number of threads and of calls at the same time. Latencies in
    microseconds; items_per_second counts the first axis of the first input as items, and takes
    every call into account, not the median's alone. ratio: this engine's median over irc's, or, of
    throughput, irc's items per second over this engine's.
    error: largest difference from irc's outputs, relative to their largest value."""

    engine: str
    threads: int
    requests: int
    calls: int
    min_us: float
    median_us: float
    p90_us: float
    p99_us: float
    items_per_second: float
    ratio: float
    error: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser, ".onnx, .xml, .irc")
    add_compilation(parser)
    add_inputs(parser)
    parser.add_argument(
        "--hint",
        choices=list(RATIO_MEANINGS),
        default="latency",
        help="latency: time of one call; throughput: calls a second of as many one-thread calls "
        "at a time as there are CPUs, each engine with its own best settings for that",
    )
    parser.add_argument(
        "--threads", type=_counts_of, help="numbers of threads of a call, such as 1,2 (default: 1)"
    )
    parser.add_argument(
        "--requests",
        type=count_of,
        help="calls at the same time (default: 1; of throughput, the number of CPUs)",
    )
    parser.add_argument(
        "--seconds", type=amount_of, default=1.0, help="for each engine and row (default: 1)"
    )
    parser.add_argument(
        "--against",
        default="",
        metavar="ENGINES",
        help="onnxruntime, openvino or both with a comma: turn by turn in this process",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _counts_of(text: str) -> list[int]:
    return [count_of(part) for part in text.split(",")]


def run(args: argparse.Namespace) -> int:
    """Measure; exit code 1 if the answers of a reference engine differ from irc's."""
    against = parse_engines(args.against)
    throughput = args.hint == "throughput"
    requests = args.requests or (usable_cores() if throughput else 1)
    if throughput and args.threads not in (None, [1]):
        raise UsageError(
            "calls of --hint throughput have one thread each",
            got=f"--threads {','.join(map(str, args.threads))}",
            fix="leave --threads out, or choose --hint latency",
        )
    shapes = parse_shapes(args.shape) or None
    path = Path(require_file(args.model))
    rows: list[BenchRow] = []
    made_up: list[str] = []
    for count in args.threads or [1]:
        net = compile_model(
            path,
            precision=args.precision,
            denormals=args.denormals,
            activations=args.activations,
            num_threads=count,
            shapes=shapes,
            **limits(args),
        )
        inputs, made_up = fill_inputs(net.inputs, given_inputs(args, net.inputs))
        engines = [_irc_engine(net, inputs)]
        precision = net.options.precision
        engines[0].run()
        task = Task(path, inputs, count, precision, requests, throughput=throughput)
        engines += [make_engine(n, task) for n in against]
        answers = [engine.outputs() for engine in engines]
        items = next((a.shape[0] for a in inputs.values() if a.ndim), 1)
        calls = [[e.run, *(e.another() for _ in range(requests - 1))] for e in engines]
        taken = take_turns(calls, args.seconds)
        average = np.mean if throughput else np.median
        ours = float(average(taken[0]))
        for engine, times, answer in zip(engines, taken, answers, strict=True):
            wrong = worst_difference(answer, answers[0])
            found = row(engine.name, count, requests, times, items, wrong)
            rows.append(replace(found, ratio=float(average(times)) / ours))
    if args.json:
        print_json({**as_json(path, rows, made_up), "hint": args.hint})
    else:
        print_result(*as_text(rows, made_up, RATIO_MEANINGS[args.hint]))
    return 1 if any(r.error > TOLERANCE for r in rows) else 0


def _irc_engine(net: CompiledModel, inputs: Mapping[str, Array]) -> ReferenceEngine:
    call, held = net.bind(inputs), list[Any]()

    def run() -> None:
        held[:] = call()

    return ReferenceEngine("irc", run, lambda: copy.deepcopy(held), lambda: net.bind(inputs))


def take_turns(
    engines: Sequence[Sequence[Callable[[], object]]], seconds: float
) -> list[list[float]]:
    """Seconds of every call of each engine. Its calls run at the same time, the engines in
    alternating blocks after a warm-up."""
    taken: list[list[float]] = [[] for _ in engines]
    for calls in engines:
        for call in calls:
            for _ in range(3):
                call()
    end = time.perf_counter() + seconds * len(engines)
    while time.perf_counter() < end or not all(taken):
        for calls, times in zip(engines, taken, strict=True):
            times += _block(calls[0]) if len(calls) == 1 else _in_parallel(calls)
    return taken


def _block(call: Callable[[], object], seconds: float = BLOCK_SECONDS) -> list[float]:
    """Seconds of calls in a row, one at least."""
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while True:
        started = time.perf_counter()
        call()
        now = time.perf_counter()
        times.append(now - started)
        if now > stop:
            return times


def _in_parallel(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Seconds of calls of as many threads, which begin together."""
    found: list[float] = []
    begin = threading.Barrier(len(calls))

    def work(call: Callable[[], object]) -> None:
        begin.wait()
        found.extend(_block(call, 4 * BLOCK_SECONDS))

    workers = [threading.Thread(target=work, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found


def row(
    name: str,
    threads: int,
    requests: int,
    taken: Sequence[float],
    items: int,
    wrong: float,
) -> BenchRow:
    """The figures of one engine, but for its ratio. taken: seconds of each call. items: of one
    call."""
    times = np.array(taken) * 1e6
    low, median, p90, p99 = (float(np.percentile(times, p)) for p in (0, 50, 90, 99))
    return BenchRow(
        engine=name,
        threads=threads,
        requests=requests,
        calls=len(times),
        min_us=low,
        median_us=median,
        p90_us=p90,
        p99_us=p99,
        items_per_second=items * requests * 1e6 / float(times.mean()),
        ratio=1.0,
        error=wrong,
    )


def worst_difference(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest difference relative to the largest value of each output, as `compare` sees it;
    infinite where one side has no number, another shape or another number of arrays."""
    ours, theirs = arrays_of("", list(got)), arrays_of("", list(wanted))
    if ours.keys() != theirs.keys():
        return float("inf")
    found = [
        difference(n, ours[n].astype(w.dtype, copy=False), w, TOLERANCE) for n, w in theirs.items()
    ]
    return max((d.relative for d in found), default=0.0)


def as_json(path: Path, rows: Sequence[BenchRow], made_up: Sequence[str]) -> dict[str, object]:
    """The report as data."""
    return {
        "schema": SCHEMA,
        "model": str(path),
        "sizes_made_up": list(made_up),
        "rows": [asdict(r) for r in rows],
    }


def as_text(rows: Sequence[BenchRow], made_up: Sequence[str], meaning: str) -> list[str]:
    """The report for a person."""
    header = ["engine", "threads", "requests", "min", "median", "p90", "p99", "items/s"]
    table = [
        [
            r.engine,
            str(r.threads),
            str(r.requests),
            *map(format_microseconds, (r.min_us, r.median_us, r.p90_us, r.p99_us)),
            f"{r.items_per_second:,.0f}",
            f"{r.ratio:.2f}",
            f"{r.error:.0e}",
        ]
        for r in rows
    ]
    lines = format_table(
        [*header, "ratio", "error"], table, optional=(3, 5, 2, 7), columns=terminal_columns()
    )
    return [
        *sizes_note(made_up),
        *lines,
        f"ratio: {meaning}; above 1, irc is faster",
        "error: largest difference from irc's answer, relative to",
        "       its largest value",
    ]
