"""Models stored in f16 against the same models in f32: `python -m benchmarks.f16_models`.

onnxruntime's converter makes the f16 model: weights, activations, inputs and outputs. Both run in
alternation, and their least times are compared. Before they are timed, each output of the f16 model
is compared with that of the f32 model: the error, relative to the largest value, is at most 0.02.
The bar: the f16 model takes no more than 1.05 times the f32 model's time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.compiler.options import PRECISIONS

from .measurement.timing import alternate
from .workloads.zoo import ZOO, Entry, model_path

TOLERANCE = 0.02
MAX_RATIO = 1.05
MODELS = ("resnet-18", "resnet-50", "mobilenet-v2", "vit-tiny", "minilm", "gpt2", "lstm")


def f16_model_path(entry: Entry) -> Path:
    """The model converted to f16, next to the f32 model."""
    source = model_path(entry)
    path = source.with_name(f"{source.stem}-f16.onnx")
    if not path.exists():
        import onnx
        from onnxruntime.transformers.float16 import convert_float_to_float16

        onnx.save(convert_float_to_float16(onnx.load(source)), path)
    return path


def bound_call(
    path: Path, inputs: list[np.ndarray], threads: int, precision: str
) -> Callable[[], Any]:
    """A bound call of the model; floating-point inputs are converted to the types of its inputs."""
    net = irc.compile_model(path, num_threads=threads, precision=precision)
    types = {"f16": np.float16, "f32": np.float32}
    given = [
        x.astype(types.get(port.dtype, x.dtype)) for x, port in zip(inputs, net.inputs, strict=True)
    ]
    return net.bind(given)


def largest_error(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """The largest difference of an output, relative to that output's largest value."""
    errors: list[float] = []
    for x, y in zip(found, wanted, strict=True):
        scale = max(float(np.abs(y).max(initial=0)), 1e-30)
        errors.append(float(np.abs(x.astype(np.float64) - y).max(initial=0)) / scale)
    return max(errors)


def measure(
    entry: Entry, threads: int, precision: str, seconds: float
) -> tuple[float, float, float]:
    """(error of the f16 model, seconds of the f16 model, seconds of the f32 model)."""
    inputs = list(entry.inputs(np.random.default_rng(0)).values())
    half = bound_call(f16_model_path(entry), inputs, threads, precision)
    single = bound_call(model_path(entry), inputs, threads, "f32")
    found, wanted = ([np.array(x) for x in call()] for call in (half, single))
    error = largest_error(found, wanted)
    if not error <= TOLERANCE:
        raise SystemExit(f"{entry.name}: the f16 model's error is {error:.2g}")
    times = alternate({"f16": half, "f32": single}, seconds=seconds, rounds=60)
    return error, times["f16"].best, times["f32"].best


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(MODELS), help="models, comma separated")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=PRECISIONS, default="f32", help="of the f16 model")
    parser.add_argument("--seconds", type=float, default=6.0, help="per model")
    args = parser.parse_args(arguments)
    print(f"{'model':16} {'f16 ms':>9} {'f32 ms':>9} {'ratio':>6} {'error':>8}")
    missed = 0
    for name in args.only.split(","):
        error, half, single = measure(ZOO[name], args.threads, args.precision, args.seconds)
        ratio = half / single
        missed += ratio > MAX_RATIO
        print(f"{name:16} {half * 1e3:9.3f} {single * 1e3:9.3f} {ratio:6.2f} {error:8.1e}")
    verdict = "NOT met" if missed else "met"
    print(
        f"f16 models that take more than {MAX_RATIO} times f32's time: {missed} (bar 0): {verdict}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
