"""Matrix products against peers: `python -m benchmarks.gemm`.

Every row is checked against the exact or the f64 answer before it is timed. All engines of a row
alternate in one run, together with loops that measure the peak of a core's multiply-adds and,
where a product streams its weights, the bandwidth at which that many bytes can be read. Ratios are
medians over medians. What each group of rows has to reach is in workloads/products.py; the
column `holds` says what a row reaches: its ratio, 90 % of the peak, or 90 % of the bandwidth. The
peak is the best of the whole run, so tables come at its end, and each measurement is printed on
stderr as it comes. Without a peer of its bar a row holds nothing.

The bare command is the whole table: all groups with one and two threads, and OpenVINO's default
settings in addition to those that are compared. `--results` adds the rows to a result file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from .measurement.result_files import Bar, add_option, add_rows, engine_rows
from .measurement.result_files import Row as Result
from .measurement.timing import alternate
from .peers import PEERS, Peer, numpy_layer
from .workloads.products import DATA, GROUPS, Data, Group, Work

ENOUGH = 0.9


@dataclass(frozen=True)
class Row:
    """One line of the table. Times in seconds; `ratio` is the fastest peer's time over irc's;
    `peak` and `bandwidth` are irc's shares of them; `holds` is empty if no bar is reached.

    `void` says which peers of the bar are missing. `peak` and `holds` are not known before all rows
    are measured (`Meter.checked`)."""

    group: str
    size: str
    threads: int
    seconds: dict[str, float]
    gflops: float
    peak: float
    bandwidth: float | None
    ratio: float
    holds: str
    void: str = ""
    minima: dict[str, float] = field(default_factory=dict[str, float])
    error: float = 0.0


def irc_engine(data: Data, threads: int, precision: str) -> Peer:
    """irc as a user calls it: compile_model and a bound call."""
    import irc_compiler as irc

    how = "bf16" if precision == "bf16" else "f32"
    net = irc.compile_model(data.model, precision=how, num_threads=threads)
    call = net.bind(**data.inputs)
    return Peer("irc", call, lambda: [np.array(call()[0])])


def engines_of(data: Data, group: Group, threads: int, peers: Sequence[str]) -> dict[str, Peer]:
    found = {"irc": irc_engine(data, threads, group.precision)}
    for name in peers:
        # OpenVINO reads the same model whatever its settings are.
        model = data.forms.get(name.removesuffix(" defaults"), data.model)
        if name == "numpy":
            found[name] = numpy_layer(data.inputs, data.weights, threads)
        elif name == "onnxruntime":
            found[name] = PEERS[name](model, data.inputs, threads)
        else:
            hint = "bf16" if group.precision == "bf16" else "f32"
            found[name] = PEERS[name](model, data.inputs, threads, hint)
    return found


def check(engine: Peer, work: Work, data: Data) -> float:
    """The largest error relative to the largest value of the answer. Raises SystemExit if it is
    above the tolerance: a wrong answer is not timed."""
    engine.run()
    found = engine.outputs()[0].astype(np.float64)
    error = np.abs(found - data.answer).max() / np.abs(data.answer).max()
    if not error <= data.tolerance:
        raise SystemExit(f"{engine.name} is wrong at {work.name}: relative error {error:.1e}")
    return float(error)


class Meter:
    """Measures rows; keeps the best peak of a core that any row of a unit has seen."""

    def __init__(self) -> None:
        self._peaks: dict[str, Any] = {}
        self._best: dict[str, float] = {}

    def measure(
        self, name: str, group: Group, work: Work, threads: int, peers: Sequence[str], time: float
    ) -> Row:
        data = DATA[group.kind](work, group.precision)
        engines = engines_of(data, group, threads, peers)
        errors = {
            engine.name: check(engine, work, data)
            for engine in engines.values()
            if engine.name != "openvino defaults"
        }
        runs = {n: r.run for n, r in engines.items()}
        from irc_compiler.runtime.machine.roofline import Bandwidth, Peak

        peak = self._peaks.setdefault(group.peak, Peak(group.peak))
        runs["peak"] = peak.run
        reading = Bandwidth(data.bytes, threads) if group.streams else None
        if reading is not None:
            runs["bandwidth"] = reading.run
        times = alternate(runs, seconds=time)
        median = {n: times[n].median for n in engines}
        best = max(self._best.get(group.peak, 0.0), peak.flops / times["peak"].best / 1e9)
        self._best[group.peak] = best
        gflops = work.flops / median["irc"] / 1e9
        share = None
        if reading is not None:
            share = data.bytes / reading.rate(times["bandwidth"].best) / median["irc"]
        counted = [median[p] for p in peers if p != "openvino defaults"]
        ratio = min(counted, default=math.nan) / median["irc"]
        void = ", ".join(missing(group, peers))
        minima = {n: times[n].best for n in engines}
        error = errors.get("irc", math.nan)
        return Row(
            name, work.name, threads, median, gflops, math.nan, share, ratio, "", void, minima,
            error,
        )  # fmt: skip

    def checked(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of a run, against the best peak that any of them has seen."""
        return [self._checked(row, GROUPS[row.group]) for row in rows]

    def _checked(self, row: Row, group: Group) -> Row:
        peak = row.gflops / self._best[group.peak] / row.threads
        holds = "" if row.void else verdict(group, row.ratio, peak, row.bandwidth)
        return replace(row, peak=peak, holds=holds)


def missing(group: Group, peers: Sequence[str]) -> list[str]:
    """The peers of a bar that do not run."""
    return [p for p in group.peers if p not in peers]


def verdict(group: Group, ratio: float, peak: float, bandwidth: float | None) -> str:
    """What of its bar a row reaches; at the limit of the machine it may be below the floor."""
    reached = {
        "ratio": ratio >= group.ratio,
        "peak": peak >= ENOUGH,
        "bandwidth": bandwidth is not None and bandwidth >= ENOUGH,
    }
    by = next((name for name, yes in reached.items() if yes), "")
    return f"{by} (below the floor)" if by and ratio < group.floor else by


def conclusion(group: Group, rows: Sequence[Row]) -> str:
    """One line for a group: the bar is met if its mean or each of its rows reaches it."""
    name, void = rows[0].group, rows[0].void
    mean = math.exp(sum(math.log(r.ratio) for r in rows) / len(rows))
    least = min(r.ratio for r in rows)
    met = least >= group.floor and (mean >= group.ratio or all(r.holds for r in rows))
    bar = f"bar {group.ratio:.2f}, floor {group.floor:.2f}: {'met' if met else 'NOT met'}"
    if void:
        bar = f"no verdict without {void}"
    return f"{name}: geometric mean of the ratios {mean:.3f}, least {least:.3f} ({bar})"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.gemm", description=__doc__)
    parser.add_argument("--against", help="peers, comma separated (default: those of the bar)")
    parser.add_argument(
        "--defaults",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="OpenVINO's own settings as well",
    )
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    parser.add_argument(
        "--work", default="all", help=f"of {', '.join(GROUPS)}, all, or GROUP:MxKxN"
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="per row")
    parser.add_argument("--json", action="store_true", help="one JSON object per row")
    add_option(parser)
    options = parser.parse_args(arguments)
    asked = None if options.against is None else [p for p in options.against.split(",") if p]
    if unknown := sorted(set(asked or []) - {*PEERS, "numpy"}):
        parser.error(f"no such peer: {', '.join(unknown)}; there are numpy, {', '.join(PEERS)}")
    groups = [
        (name, group, [p for p in group.peers if asked is None or p in asked])
        for name, group in chosen(options.work, parser)
    ]
    threads = [int(t) for t in options.threads.split(",")]
    rows = measured(groups, threads, options.seconds, options.defaults)
    for part in [list(p) for _, p in itertools.groupby(rows, lambda r: (r.group, r.threads))]:
        print("\n".join(as_json(part) if options.json else as_table(part)), flush=True)
    if options.results:
        names = dict.fromkeys(name for name, _, _ in groups)
        bars = [
            Bar(f"gemm {n}", GROUPS[n].precision, GROUPS[n].ratio, GROUPS[n].floor) for n in names
        ]
        add_rows(options.results, (r for row in rows for r in results(row)), bars)
    return 0


def results(row: Row) -> list[Result]:
    """The row as rows of a result file."""
    measures = {"peak_share": row.peak}
    if row.bandwidth is not None:
        measures["bandwidth_share"] = row.bandwidth
    return engine_rows(
        f"gemm {row.group}", row.size, row.threads, GROUPS[row.group].precision,
        medians=row.seconds, minima=row.minima, error=row.error, measures=measures,
    )  # fmt: skip


def measured(
    groups: Sequence[tuple[str, Group, list[str]]],
    threads: Sequence[int],
    seconds: float,
    defaults: bool,
) -> list[Row]:
    """The rows of a run; each is printed on stderr when it is measured."""
    meter, rows = Meter(), list[Row]()
    for name, group, peers in groups:
        own = ["openvino defaults"] if defaults and "openvino" in peers else []
        for count, work in itertools.product(threads, group.works):
            rows.append(meter.measure(name, group, work, count, [*peers, *own], seconds))
            line = f"{name} {work.name}, {count} threads: ratio {rows[-1].ratio:.2f}"
            print(line, file=sys.stderr, flush=True)
    return meter.checked(rows)


def as_json(rows: Sequence[Row]) -> list[str]:
    return [json.dumps(asdict(row)) for row in rows]


def as_table(rows: Sequence[Row]) -> list[str]:
    """The rows of a group, and what they come to."""
    peers = [name for name in rows[0].seconds if name != "irc"]
    end = [conclusion(GROUPS[rows[0].group], rows)] if peers else []
    return [heading(peers), *map(line, rows), *end]


def chosen(text: str, parser: argparse.ArgumentParser) -> list[tuple[str, Group]]:
    """Groups by name; GROUP:MxKxN is a group with one work of that size."""
    found: list[tuple[str, Group]] = []
    for word in text.split(","):
        name, _, size = word.partition(":")
        sizes = size.split("x")
        if name == "all":
            found += GROUPS.items()
        elif name in GROUPS and not size:
            found.append((name, GROUPS[name]))
        elif name in GROUPS and len(sizes) == 3 and all(s.isdigit() for s in sizes):
            first = GROUPS[name].works[0]
            work = replace(first, **dict(zip("mkn", map(int, sizes), strict=True)))
            found.append((name, replace(GROUPS[name], works=(work,))))
        else:
            parser.error(f"no such work: {word}; there are {', '.join(GROUPS)}, all, GROUP:MxKxN")
    return found


def heading(peers: Sequence[str]) -> str:
    names = "".join(f"{p + ' us':>{max(16, len(p) + 5)}}" for p in peers)
    return (
        f"{'M x K x N':24}{'threads':>8}{'irc us':>11}{names}{'GFLOP/s':>10}{'peak':>7}"
        f"{'read':>7}{'ratio':>7}  holds by"
    )


def line(row: Row) -> str:
    times = "".join(
        f"{t * 1e6:{max(16, len(p) + 5)}.1f}" for p, t in row.seconds.items() if p != "irc"
    )
    read = f"{row.bandwidth:7.0%}" if row.bandwidth is not None else f"{'':7}"
    return (
        f"{row.size:24}{row.threads:8}{row.seconds['irc'] * 1e6:11.1f}{times}"
        f"{row.gflops:10.1f}{row.peak:7.0%}{read}{row.ratio:7.2f}  {row.holds or '-'}"
    )


if __name__ == "__main__":
    sys.exit(main())
