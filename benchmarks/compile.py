"""Compile times of whole models against peers: `python -m benchmarks.compile`.

Timed: from the path of an ONNX file to a model that is ready, and its first call, by irc with an
empty code cache (cold) and with the cache that this compile filled (warm), by onnxruntime and by
OpenVINO, which computes in f32 by INFERENCE_PRECISION_HINT and keeps no cache. Each compile has a
process of its own, which has imported its package and compiled a model of one product before the
clock starts: plugins, LLVM and code that all models share are loaded. `start` is the time of that.
Python's bytecode is cached, as that of an installed package is, and all files are in the system's
page cache. The engines alternate; the least time of all rounds counts.

Answers are checked first: the largest error against onnxruntime, relative to the largest value of
the output, is at most 1e-4. Of a quantised model every quantised tensor is checked (models.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from .measurement.result_files import Bar, add_option, add_rows
from .measurement.result_files import Row as Result
from .models import TOLERANCE, largest_error, mean_of
from .peers import onnxruntime_peer, openvino_peer
from .workloads.neighbours import NEIGHBOURS
from .workloads.quantized import SHARE, byte_error
from .workloads.zoo import ZOO, Entry, Inputs, model_path

# OpenVINO's time over irc's with a cold and with a warm cache: geometric mean and least.
BARS = {"cold": (1.0, 0.5), "warm": (1.0, 1.0)}
MAX_COLD_SECONDS = 1.2
# Kinds of compile in the order of a round, and the engine that does each.
KINDS = {"cold": "irc", "warm": "irc", "onnxruntime": "onnxruntime", "openvino": "openvino"}


@dataclass(frozen=True)
class Taken:
    """Seconds of one compile: to import the package and compile one product, from the path to the
    first result, of the clock and of all CPUs, and of the first call alone (irc)."""

    start: float
    seconds: float
    cpu_seconds: float
    first_call: float | None


def run_irc(path: str, inputs: Inputs, threads: int) -> tuple[list[np.ndarray], float | None]:
    """The outputs of a first call, and its seconds."""
    import irc_compiler as irc

    net = irc.compile_model(path, num_threads=threads)
    start = time.perf_counter()
    outputs = [np.array(a) for a in net(list(inputs.values()))]
    return outputs, time.perf_counter() - start


def run_onnxruntime(path: str, inputs: Inputs, threads: int) -> tuple[list[np.ndarray], None]:
    return onnxruntime_peer(path, inputs, threads).outputs(), None


def run_openvino(path: str, inputs: Inputs, threads: int) -> tuple[list[np.ndarray], None]:
    return openvino_peer(path, inputs, threads).outputs(), None


RUNS: dict[str, Callable[[str, Inputs, int], tuple[list[np.ndarray], float | None]]] = {
    "irc": run_irc,
    "onnxruntime": run_onnxruntime,
    "openvino": run_openvino,
}


def write_product(path: str) -> None:
    """A model of one product, which needs packed weights as most models do."""
    from onnx import TensorProto, helper, numpy_helper, save

    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 16]) for n in "xy")
    w = numpy_helper.from_array(np.ones((16, 16), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "mm", [x], [y], [w])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def take(engine: str, path: str, threads: int, folder: Path) -> Taken:
    """Compile in this process, which must be new. The folder holds the inputs and the model of one
    product, and receives the outputs."""
    with np.load(folder / "inputs.npz") as file:
        inputs = dict(file)
    start = time.perf_counter()
    run = RUNS[engine]
    run(str(folder / "product.onnx"), {"x": np.ones((4, 16), np.float32)}, threads)
    ready, cpu = time.perf_counter(), time.process_time()
    outputs, first_call = run(path, inputs, threads)
    end, cpu_end = time.perf_counter(), time.process_time()
    np.savez(folder / "outputs.npz", *outputs)
    return Taken(ready - start, end - ready, cpu_end - cpu, first_call)


def take_in_process(kind: str, path: str, threads: int, folder: Path) -> Taken:
    """`take` in a process of its own. A warm compile finds the cache of the last cold one."""
    cache = folder / "cache"
    if kind == "cold":
        shutil.rmtree(cache, ignore_errors=True)
    words = [sys.executable, "-m", "benchmarks.compile", "--child", KINDS[kind], "--only", path]
    words += ["--threads", str(threads), "--folder", str(folder)]
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ
        | {"IRC_CACHE_DIR": str(cache), "IRC_MODEL_CACHE": "0", "PYTHONDONTWRITEBYTECODE": ""},
    )
    return Taken(**json.loads(done.stdout.splitlines()[-1]))


def outputs_of(folder: Path) -> list[np.ndarray]:
    with np.load(folder / "outputs.npz") as file:
        return [file[f"arr_{i}"] for i in range(len(file.files))]


def check(entry: Entry, path: str, inputs: Inputs, threads: int, folder: Path) -> float:
    """The error of irc's answer. SystemExit if it is too large."""
    if entry.quantized:
        error, steps = byte_error(path, inputs, threads)
        allowed, error = 1 - SHARE, error if steps <= 1 else float("inf")
    else:
        take_in_process("onnxruntime", path, threads, folder)
        wanted = outputs_of(folder)
        take_in_process("cold", path, threads, folder)
        error, allowed = largest_error(outputs_of(folder), wanted), TOLERANCE
    if error > allowed:
        raise SystemExit(f"{entry.name} is wrong: error {error:.1e}, not {allowed:.1e}")
    return error


def measure(entry: Entry, threads: int, rounds: int) -> tuple[dict[str, Taken], float]:
    """The fastest compile of each kind, and the error of irc's answer."""
    path, inputs = str(model_path(entry)), entry.inputs(np.random.default_rng(1))
    best: dict[str, Taken] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "inputs.npz", **inputs)  # type: ignore[arg-type]
        write_product(str(folder / "product.onnx"))
        error = check(entry, path, inputs, threads, folder)
        for _ in range(rounds):
            for kind in KINDS:
                found = take_in_process(kind, path, threads, folder)
                if kind not in best or found.seconds < best[kind].seconds:
                    best[kind] = found
    return best, error


def results(entry: Entry, threads: int, best: dict[str, Taken], error: float) -> list[Result]:
    """Rows of two suites: irc with a cold and with a warm cache, each against the peers."""
    precision = "int8" if entry.quantized else "f32"
    rows: list[Result] = []
    for kind in ("cold", "warm"):
        mine = best[kind]
        measures = {"cpu_seconds": mine.cpu_seconds, "start_seconds": mine.start}
        if mine.first_call is not None:
            measures["first_call_seconds"] = mine.first_call
        suite = f"compile {kind}"
        rows.append(
            Result(
                suite, entry.name, "irc", threads, precision, None, mine.seconds,
                None, error, measures,
            )
        )  # fmt: skip
        for peer in ("onnxruntime", "openvino"):
            theirs = best[peer]
            measures = {"cpu_seconds": theirs.cpu_seconds, "start_seconds": theirs.start}
            rows.append(
                Result(
                    suite, entry.name, peer, threads, precision, None, theirs.seconds,
                    theirs.seconds / mine.seconds, None, measures,
                )
            )  # fmt: skip
    return rows


def line(name: str, best: dict[str, Taken]) -> str:
    """A row for people."""
    ratios = [best["openvino"].seconds / best[kind].seconds for kind in BARS]
    return (
        f"{name:16}"
        + "".join(f"{best[kind].seconds:9.3f} s" for kind in KINDS)
        + "".join(f"{ratio:8.2f}" for ratio in ratios)
        + f"{best['cold'].cpu_seconds:9.2f} s{best['openvino'].cpu_seconds:9.2f} s"
    )


def conclusions(found: dict[str, dict[str, Taken]]) -> list[str]:
    """A sentence for every bar."""
    said: list[str] = []
    for kind, (mean_bar, least_bar) in BARS.items():
        ratios = {n: b["openvino"].seconds / b[kind].seconds for n, b in found.items()}
        mean, worst = mean_of(ratios.values()), min(ratios, key=lambda n: ratios[n])
        met = mean >= mean_bar and ratios[worst] >= least_bar
        said.append(
            f"{kind}: openvino's time over irc's {mean:.2f} in the mean (bar {mean_bar}), least "
            f"{ratios[worst]:.2f} (bar {least_bar}; {worst}): {'met' if met else 'NOT met'}"
        )
    longest = max(found, key=lambda n: found[n]["cold"].seconds)
    seconds = found[longest]["cold"].seconds
    met = seconds <= MAX_COLD_SECONDS
    said.append(
        f"longest cold compile {seconds:.2f} s (bar {MAX_COLD_SECONDS}; {longest}): "
        f"{'met' if met else 'NOT met'}"
    )
    return said


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.compile", description=__doc__)
    parser.add_argument("--zoo", choices=("zoo", "neighbours"), default="zoo")
    parser.add_argument("--only", default="", help="models or families, comma separated")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="compiles of each kind")
    add_option(parser)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        found = take(options.child, options.only, options.threads, options.folder)
        print(json.dumps(asdict(found)))
        return 0
    wanted = [n for n in options.only.split(",") if n]
    zoo = NEIGHBOURS if options.zoo == "neighbours" else ZOO
    chosen = [e for e in zoo.values() if not wanted or e.name in wanted or e.family in wanted]
    if not chosen:
        parser.error(f"no such model: {options.only}; there are {', '.join(zoo)}")
    if options.results and zoo is NEIGHBOURS:
        parser.error("--results takes the times of --zoo zoo")
    print(f"{'model':16}{'cold':>11}{'warm':>11}{'onnxruntime':>13}{'openvino':>9}", end="")
    print(f"{'ov/cold':>8}{'ov/warm':>8}{'cold cpu':>11}{'ov cpu':>11}")
    rows: list[Result] = []
    table: dict[str, dict[str, Taken]] = {}
    for entry in chosen:
        try:
            best, error = measure(entry, options.threads, options.rounds)
        except subprocess.CalledProcessError as failed:
            engine = failed.cmd[failed.cmd.index("--child") + 1]
            print(f"{entry.name:16} not timed: {engine} does not compile it", flush=True)
            continue
        table[entry.name] = best
        rows += results(entry, options.threads, best, error)
        print(line(entry.name, best), flush=True)
    if not table:
        return 1
    print("\n".join(conclusions(table)))
    if options.results:
        bars = [Bar(f"compile {kind}", "f32", *bar) for kind, bar in BARS.items()]
        add_rows(options.results, rows, bars)
    return 0


if __name__ == "__main__":
    sys.exit(main())
