"""Generating text with a growing cache against peers: `python -m benchmarks.tokens`.

GPT-2 with its keys and values as inputs and outputs: one call per token, the outputs of one are
the next one's inputs, so that every length from 1 to --tokens is seen once. The engines take turns,
each generating the whole text; answers are compared at every length. Also shown: kernels that LLVM
compiled after the third token, and by how much the process grew from the middle of the last text
to its end.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from .measurement.result_files import Row, add_option, add_rows, engine_rows
from .measurement.timing import wait_until_idle
from .memory import MIB, resident
from .workloads.zoo import ZOO, model_path

Arrays = list[NDArray[np.generic]]
Step = Callable[[Arrays], Arrays]
TOLERANCE = 1e-4
LAYERS, HEADS, SIZE = 12, 12, 64


def irc_step(path: str, threads: int) -> Step:
    import irc_compiler as irc

    net = irc.compile_model(path, num_threads=threads)
    return lambda inputs: list(net(inputs))


def onnxruntime_step(path: str, threads: int) -> Step:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return lambda inputs: session.run(None, dict(zip(names, inputs, strict=True)))


def openvino_step(path: str, threads: int) -> Step:
    import openvino as ov

    config = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
    }
    compiled = ov.Core().compile_model(path, "CPU", config)
    request = compiled.create_infer_request()

    def step(inputs: Arrays) -> Arrays:
        found = request.infer(inputs, share_inputs=True)
        return [np.array(found[port]) for port in compiled.outputs]

    return step


STEPS: dict[str, Callable[[str, int], Step]] = {
    "irc": irc_step,
    "onnxruntime": onnxruntime_step,
    "openvino": openvino_step,
}


def text(step: Step, tokens: int) -> tuple[list[float], Arrays, int]:
    """Generate; seconds per token, the logits at every length, and bytes that the process grew
    by in the second half."""
    given = np.random.default_rng(5).integers(0, 50257, tokens)
    # The exported sizes begin with a past of one token.
    past: Arrays = [np.zeros((1, HEADS, 1, SIZE), np.float32) for _ in range(2 * LAYERS)]
    seconds: list[float] = []
    logits: Arrays = []
    middle = 0
    for n in range(tokens):
        if n == tokens // 2:
            middle = resident()
        inputs = [np.array([[given[n]]], np.int64), *past]
        start = time.perf_counter()
        found, *past = step(inputs)
        seconds.append(time.perf_counter() - start)
        logits.append(found)
    return seconds, [x[0, -1, :64].copy() for x in logits], resident() - middle


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.tokens", description=__doc__)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--texts", type=int, default=2, help="texts per engine, in turn")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    add_option(parser)
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    from irc_compiler.runtime.jit.program import compilations

    path = str(model_path(ZOO["gpt2-cache"]))
    print(f"{'engine':14}{'threads':>8}{'ms a token':>12}{'ratio':>7}{'LLVM':>6}{'grown MiB':>11}")
    for threads in map(int, options.threads.split(",")):
        steps = {name: make(path, threads) for name, make in STEPS.items()}
        text(steps["irc"], 3)
        before = compilations()
        times: dict[str, list[float]] = {name: [] for name in steps}
        grown: dict[str, int] = {}
        answers: dict[str, Arrays] = {}
        for _ in range(options.texts):
            for name, step in steps.items():
                wait_until_idle()
                seconds, answers[name], grown[name] = text(step, options.tokens)
                times[name].append(float(np.mean(seconds)))
        worst = 0.0
        for mine, theirs in zip(answers["irc"], answers["onnxruntime"], strict=True):
            error = np.abs(mine.astype(float) - theirs).max() / np.abs(theirs).max()
            if not error < TOLERANCE:
                raise SystemExit(f"irc is wrong: relative error {error:.1e}")
            worst = max(worst, float(error))
        compiled = compilations() - before
        rows += engine_rows(
            "tokens", f"gpt2-cache, lengths 1 to {options.tokens}", threads, "f32",
            medians={n: float(np.median(t)) for n, t in times.items()},
            minima={n: min(t) for n, t in times.items()}, error=worst,
            measures={"late_compilations": compiled},
        )  # fmt: skip
        for name in steps:
            mean = min(times[name])
            ratio = mean / min(times["irc"])
            llvm = str(compiled) if name == "irc" else ""
            shown = f"{grown[name] / MIB:11.1f}"
            print(f"{name:14}{threads:8}{mean * 1e3:12.2f}{ratio:7.2f}{llvm:>6}{shown}", flush=True)
    if options.results:
        add_rows(options.results, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
