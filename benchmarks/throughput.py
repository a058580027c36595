"""Items a second of calls with one thread each: `python -m benchmarks.throughput`.

As many calls run at a time as there are CPUs (`--requests`): irc's of performance="throughput",
onnxruntime with a session of one thread per call, OpenVINO with its THROUGHPUT hint. The engines
take turns in one run (`irc bench --hint throughput`); answers are compared first. `ratio` is
the mean time of the fastest peer's calls over that of irc's.
"""

from __future__ import annotations

import argparse
import sys
from statistics import geometric_mean

import irc_compiler as irc
import numpy as np
from irc_compiler.cli.commands.bench import TOLERANCE, take_turns, worst_difference
from irc_compiler.cli.reference_engines import ENGINES, Task, make_engine
from irc_compiler.runtime.machine.cpus import usable_cores

from .measurement.result_files import Bar, add_option, add_rows, engine_rows
from .measurement.result_files import Row as Result
from .workloads.zoo import ZOO, Entry, model_path

MODELS = "resnet-50,bert-base,mobilenet-v2"
BAR = Bar("throughput", "f32", 1.2, 1.2)


def measure(entry: Entry, requests: int, seconds: float) -> list[Result]:
    """The rows of one model. SystemExit where an answer of irc is wrong."""
    path, inputs = model_path(entry), entry.inputs(np.random.default_rng(0))
    net = irc.compile_model(path, performance="throughput", num_threads=requests)
    call = net.bind(inputs)
    task = Task(path, inputs, 1, "f32", requests, throughput=True)
    engines = [make_engine(name, task) for name in ENGINES]
    errors = [worst_difference(list(call()), e.outputs()) for e in engines]
    if max(errors) > TOLERANCE:
        raise SystemExit(f"{entry.name}: irc's answer differs by {max(errors):.1e}")
    calls = [[call, *(net.bind(inputs) for _ in range(requests - 1))]]
    calls += [[e.run, *(e.another() for _ in range(requests - 1))] for e in engines]
    taken = dict(zip(["irc", *ENGINES], take_turns(calls, seconds), strict=True))
    measures = {"requests": float(requests)}
    for name, times in taken.items():
        measures[f"{name}_calls_per_second"] = requests / float(np.mean(times))
        measures[f"{name}_p99_seconds"] = float(np.percentile(times, 99))
    return engine_rows(
        "throughput", entry.name, requests, "f32",
        medians={name: float(np.mean(times)) for name, times in taken.items()},
        minima={name: min(times) for name, times in taken.items()},
        error=max(errors), measures=measures,
    )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.throughput", description=__doc__)
    parser.add_argument("--only", default=MODELS, help="models of the zoo, comma separated")
    parser.add_argument("--requests", type=int, default=usable_cores(), help="calls at a time")
    parser.add_argument("--seconds", type=float, default=10.0, help="per engine and model")
    add_option(parser)
    options = parser.parse_args(arguments)
    names = options.only.split(",")
    if unknown := sorted(set(names) - set(ZOO)):
        parser.error(f"no such model: {', '.join(unknown)}; there are {', '.join(ZOO)}")
    ratios: list[float] = []
    found: list[Result] = []
    print(f"{'model':14}{'engine':>14}{'calls/s':>10}{'p99 ms':>10}{'ratio':>8}")
    for name in names:
        rows = measure(ZOO[name], options.requests, options.seconds)
        found += rows
        figures = rows[0].measures
        for row in rows:
            ratio = "" if row.ratio is None else f"{row.ratio:8.2f}"
            speed = figures[f"{row.engine}_calls_per_second"]
            p99 = figures[f"{row.engine}_p99_seconds"] * 1e3
            print(f"{name:14}{row.engine:>14}{speed:10.1f}{p99:10.2f}{ratio}", flush=True)
        ratios.append(min(r.ratio for r in rows if r.ratio is not None))
    met = "met" if min(ratios) >= BAR.least else "not met"
    mean = geometric_mean(ratios)
    print(f"geometric mean {mean:.2f}, least {min(ratios):.2f} (bar {BAR.least}): {met}")
    if options.results:
        add_rows(options.results, found, [BAR])
    return 0


if __name__ == "__main__":
    sys.exit(main())
