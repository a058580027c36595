"""irc profile: where a model's time goes, step by step, and how far from the machine's limits."""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from ..api import CompiledModel
from ..compiler.export.exec_graph import runtime_graph
from ..compiler.export.files import replacing
from ..compiler.report import distinguish_names
from ..runtime.machine.roofline import measured_peak
from .arguments import (
    Array,
    add_compilation,
    add_inputs,
    add_model,
    add_threads,
    add_trust,
    compiled,
    count_of,
    given_inputs,
)
from .arrays import fill_inputs
from .console import print_result, to_json
from .formatting import (
    format_bytes,
    format_microseconds,
    format_table,
    sizes_note,
    terminal_columns,
)
from .logging import print_json

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser, ".onnx, .xml, .irc")
    add_compilation(parser)
    add_threads(parser)
    add_trust(parser)
    add_inputs(parser)
    parser.add_argument(
        "--runs", type=count_of, default=20, help="runs to take the median of (default: 20)"
    )
    parser.add_argument("--trace", metavar="FILE", help="write a Chrome trace of one run")
    parser.add_argument("--xml", metavar="FILE", help="write what runs as a graph, for IR viewers")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Profile; prints a table of steps, the slowest first."""
    net = compiled(args)
    inputs, made_up = fill_inputs(net.inputs, given_inputs(args, net.inputs))
    steps = measure(net, inputs, args.runs)
    if args.trace:
        with replacing(Path(args.trace)) as (stream,):
            stream.write(to_json(chrome_trace(steps)).encode())
    if args.xml:
        times = {(s["region"], s["step"]): s["time_us"] for s in steps}
        with replacing(Path(args.xml)) as (stream,):
            stream.write(runtime_graph(net.plan, times).encode())
    if args.json:
        print_json({"schema": SCHEMA, "sizes_made_up": made_up, "steps": steps})
    else:
        print_result(*as_text(steps, made_up))
    return 0


def measure(net: CompiledModel, inputs: dict[str, Array], runs: int) -> list[dict[str, Any]]:
    """Median microseconds of each step over several runs, in execution order, its operations per
    second and their share of what all threads together could do, as measured now."""
    ordered = [inputs[p.name] for p in net.inputs]
    net.session.profile(ordered)
    units = {s.unit for s in net.session.profile(ordered) if s.operations}
    peaks = {unit: measured_peak(unit) * net.session.num_threads for unit in units}
    taken = [net.session.profile(ordered) for _ in range(runs)]
    total = 0.0
    steps: list[dict[str, Any]] = []
    for column in zip(*taken, strict=True):
        first = column[0]
        microseconds = float(np.median([s.seconds for s in column])) * 1e6
        total += microseconds
        rate = (first.operations or 0) / microseconds / 1e3
        steps.append(
            {
                "region": first.region,
                "step": first.step,
                "name": first.name,
                "kind": first.kind,
                "native": first.native,
                "sources": list(first.sources),
                "time_us": microseconds,
                "bytes": first.nbytes,
                "gflops": rate if first.operations else None,
                "unit": first.unit,
                "denormals": any(s.denormals for s in column),
                "share_of_peak": rate * 1e9 / peaks[first.unit] if first.operations else None,
            }
        )
    for step in steps:
        step["share"] = step["time_us"] / total if total else 0.0
    return steps


def chrome_trace(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """The steps one after another, as chrome://tracing and Perfetto read them."""
    at = 0.0
    events: list[dict[str, Any]] = [
        {"name": name, "ph": "M", "pid": 1, "tid": 1, "args": {"name": text}}
        for name, text in (("process_name", "irc"), ("thread_name", "steps, one after another"))
    ]
    for step in steps:
        events.append(
            {
                "name": step["name"],
                "cat": step["kind"],
                "ph": "X",
                "ts": at,
                "dur": step["time_us"],
                "pid": 1,
                "tid": 1,
                "args": {"sources": step["sources"]},
            }
        )
        at += step["time_us"]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def denormals_note(steps: list[str]) -> list[str]:
    """The lines that name steps which computed with denormals, slowly on many processors."""
    if not steps:
        return []
    return ["on denormals (--denormals flush takes them for zeros): " + ", ".join(steps)]


def as_text(steps: list[dict[str, Any]], made_up: list[str]) -> list[str]:
    """Time by kind, then by step, the slowest first."""
    kinds: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        kinds[step["kind"]].append(step["time_us"])
    total = sum(sum(times) for times in kinds.values())
    wide = terminal_columns()
    by_kind = [
        [kind, str(len(times)), format_microseconds(sum(times)), f"{sum(times) / total:.1%}"]
        for kind, times in sorted(kinds.items(), key=lambda kv: -sum(kv[1]))
    ]
    labels = distinguish_names([" + ".join(s["sources"]) or s["name"] for s in steps])
    pairs = zip(steps, labels, strict=True)
    by_step = [
        [
            format_microseconds(step["time_us"]),
            f"{step['share']:.1%}",
            "" if step["gflops"] is None else f"{step['gflops']:.1f}",
            "" if step["gflops"] is None else f"{step['share_of_peak']:.1%}",
            format_bytes(step["bytes"]),
            step["kind"],
            label,
        ]
        for step, label in sorted(pairs, key=lambda pair: -pair[0]["time_us"])
    ]
    header = ["time", "share", "GFLOP/s", "of peak", "memory", "kind", "computes"]
    slow = [label for step, label in zip(steps, labels, strict=True) if step["denormals"]]
    return [
        *sizes_note(made_up),
        *denormals_note(slow),
        *format_table(["kind", "steps", "time", "share"], by_kind, columns=wide),
        "",
        *format_table(header, by_step, left=(5, 6), optional=(4, 2), shortened=6, columns=wide),
    ]
