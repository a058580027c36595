"""irc bench: latency and throughput of a model, alone or against its rivals."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..api import compile_model
from .arguments import (
    Array,
    add_compilation,
    add_inputs,
    add_model,
    amount_of,
    count_of,
    load_inputs,
    parse_shapes,
    require_file,
)
from .filling import fill_inputs
from .rivals import RIVALS, parse_rivals
from .speech import waiting

SCHEMA = 1
# Rivals take turns in blocks of this many seconds, so that all see the same state of the machine.
BLOCK = 0.05
TOLERANCE = 1e-3


@dataclass(frozen=True)
class Row:
    """Figures of one engine at one number of threads. Latencies in microseconds; items_per_second
    counts the first axis of the first input as items. ratio: this engine's median over irc's.
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
        "--threads", type=_counts_of, default="1", help="numbers of threads, such as 1,2"
    )
    parser.add_argument(
        "--requests", type=count_of, default=1, help="calls running at the same time"
    )
    parser.add_argument(
        "--seconds", type=amount_of, default=1.0, help="time for each engine and row"
    )
    parser.add_argument("--against", default="", help="onnxruntime,openvino: turn by turn")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _counts_of(text: str) -> list[int]:
    return [count_of(part) for part in text.split(",")]


def run(args: argparse.Namespace) -> int:
    """Measure; exit code 1 if a rival's answers differ from irc's."""
    rivals = parse_rivals(args.against)
    shapes = parse_shapes(args.shape) or None
    path = Path(require_file(args.model))
    rows: list[Row] = []
    made_up: list[str] = []
    for count in args.threads:
        with waiting(f"compiling {path}"):
            net = compile_model(path, precision=args.precision, num_threads=count, shapes=shapes)
        inputs, made_up = fill_inputs(net.inputs, load_inputs(args.input))
        calls: dict[str, Callable[[], object]] = {"irc": net.bind(inputs)}
        answers: dict[str, list[Array]] = {"irc": list(net(inputs))}
        for name in rivals:
            rival = RIVALS[name](path, inputs, count, net.options.precision)
            rival.run()
            calls[name], answers[name] = rival.run, rival.outputs()
        items = next((a.shape[0] for a in inputs.values() if a.ndim), 1)
        times = take_turns(calls, args.seconds)
        if args.requests > 1:
            times["irc"] = in_parallel(lambda n=net, x=inputs: n(x), args.requests, args.seconds)
        rows += [
            row(name, count, args.requests if name == "irc" else 1, times, answers, items)
            for name in calls
        ]
    report = json.dumps(as_json(path, rows, made_up)) if args.json else as_text(rows, made_up)
    print(report)
    return 1 if any(r.error > TOLERANCE for r in rows) else 0


def take_turns(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, list[float]]:
    """Seconds of every call of each engine, in alternating blocks after a warm-up."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        for _ in range(3):
            call()
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or not all(times.values()):
        for name, call in calls.items():
            stop = time.perf_counter() + BLOCK
            while True:
                started = time.perf_counter()
                call()
                now = time.perf_counter()
                times[name].append(now - started)
                if now > stop:
                    break
    return times


def in_parallel(call: Callable[[], object], requests: int, seconds: float) -> list[float]:
    """Seconds per call of several threads calling at once."""
    found: list[list[float]] = [[] for _ in range(requests)]
    end = time.perf_counter() + seconds

    def work(mine: list[float]) -> None:
        while time.perf_counter() < end:
            started = time.perf_counter()
            call()
            mine.append(time.perf_counter() - started)

    workers = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [t for mine in found for t in mine]


def row(
    name: str,
    threads: int,
    requests: int,
    times: Mapping[str, Sequence[float]],
    answers: Mapping[str, Sequence[Array]],
    items: int,
) -> Row:
    """The figures of one engine."""
    taken = np.array(times[name]) * 1e6
    low, median, p90, p99 = (float(np.percentile(taken, p)) for p in (0, 50, 90, 99))
    return Row(
        engine=name,
        threads=threads,
        requests=requests,
        calls=len(taken),
        min_us=low,
        median_us=median,
        p90_us=p90,
        p99_us=p99,
        items_per_second=items * requests * 1e6 / median,
        ratio=median / (float(np.median(times["irc"])) * 1e6),
        error=difference(answers[name], answers["irc"]),
    )


def difference(got: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The largest difference relative to the largest value of each output."""
    worst = 0.0 if len(got) == len(wanted) else float("inf")
    for g, w in zip(got, wanted, strict=False):
        if g.shape != w.shape:
            return float("inf")
        if w.size:
            wide = w.astype(np.float64)
            scale = max(float(np.abs(wide).max()), 1e-30)
            worst = max(worst, float(np.abs(g.astype(np.float64) - wide).max()) / scale)
    return worst


def as_json(path: Path, rows: Sequence[Row], made_up: Sequence[str]) -> dict[str, object]:
    """The report as data."""
    return {
        "schema": SCHEMA,
        "model": str(path),
        "sizes_made_up": list(made_up),
        "rows": [asdict(r) for r in rows],
    }


def as_text(rows: Sequence[Row], made_up: Sequence[str]) -> str:
    """The report for a person."""
    head = (
        f"{'engine':<12}{'threads':>8}{'min us':>11}{'median us':>11}{'p90 us':>11}{'p99 us':>11}"
    )
    lines = [f"{head}{'items/s':>11}{'ratio':>7}{'error':>9}"]
    for r in rows:
        figures = "".join(f"{v:>11.1f}" for v in (r.min_us, r.median_us, r.p90_us, r.p99_us))
        tail = f"{r.items_per_second:>11.0f}{r.ratio:>7.2f}{r.error:>9.0e}"
        lines.append(f"{r.engine:<12}{r.threads:>8}{figures}{tail}")
    if made_up:
        lines.append(f"sizes made up: {', '.join(made_up)}; fix them with --shape or --input")
    return "\n".join(lines)
