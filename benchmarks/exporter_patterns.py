"""Rules that match one exporter's pattern: models with and without each of them, alternating.

    python -m benchmarks.exporter_patterns

Each model is written as the exporter named in the docstring of the pass writes it. Both variants
are compared with each other before they are timed. Times are the best ones; the last two columns
are the best and the median time without the pass over that with it.
The record is docs/dev/tuning/exporter-patterns.md.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
from irc_compiler.compiler import pipeline

from .measurement.timing import alternate


@dataclass
class Model:
    """An ONNX model in onnx.parser's syntax, weights apart; inputs by name."""

    inputs: dict[str, np.ndarray]
    ports: str
    outputs: str
    lines: list[str] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)

    def op(self, text: str, *weights: np.ndarray) -> str:
        """Add `name = text`; each W in the text is a weight. Returns the name."""
        name = f"v{len(self.lines)}"
        for weight in weights:
            self.weights[f"w{len(self.weights)}"] = weight
            text = text.replace("W", f"w{len(self.weights) - 1}", 1)
        self.lines.append(f"{name} = {text}")
        return name

    def to_bytes(self) -> bytes:
        """The model, serialised."""
        body = "\n".join(self.lines)
        text = f'<ir_version: 9, opset_import: ["" : 18]> g ({self.ports}) => ({self.outputs}) {{\n'
        made = onnx.parser.parse_model(f"{text}{body}\n}}")
        made.graph.initializer.extend(
            onnx.numpy_helper.from_array(array, name) for name, array in self.weights.items()
        )
        return made.SerializeToString()


RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    """Weights with the variance that keeps activations near 1."""
    scale = np.sqrt(1 / max(1, np.prod(shape[1:])))
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def convolve(m: Model, x: str, cin: int, cout: int, size: Sequence[int], **attributes: Any) -> str:
    """A convolution without bias."""
    listed = ", ".join(f"{name} = {value}" for name, value in attributes.items())
    return m.op(f"Conv <{listed}> ({x}, W)", normal(cout, cin, *size))


def embedding_bag() -> Model:
    """DLRM's tables: 128 bags of 4 rows each, summed by a loop over bags."""
    x = RNG.integers(0, 10000, (128, 4))
    m = Model({"x": x}, "int64[128, 4] x", "float[128, 16] y")
    m.weights["table"] = normal(10000, 16)
    m.lines.append(
        """
      minus = Constant <value_ints = [-1]> ()
      flat = Reshape (x, minus)
      shape = Shape (x)
      zero = Constant <value_int = 0> ()
      one = Constant <value_int = 1> ()
      total = ReduceProd <keepdims = 0> (shape)
      size = Gather (shape, one)
      begins = Range (zero, total, size)
      axes = Constant <value_ints = [0]> ()
      last = Unsqueeze (total, axes)
      offsets = Concat <axis = 0> (begins, last)
      ones = Constant <value_ints = [1]> ()
      far = Constant <value_ints = [9223372036854775807]> ()
      ends = Slice (offsets, ones, far, axes, ones)
      sizes = Shape (ends)
      count = Gather (sizes, zero)
      yes = Constant <value = bool {1}> ()
      y = Loop (count, yes) <body = each (int64 i, bool go) => (bool on, float[16] row) {
        s = Gather (offsets, i)
        e = Gather (ends, i)
        inside = Constant <value_ints = [0]> ()
        start = Unsqueeze (s, inside)
        end = Unsqueeze (e, inside)
        picked = Slice (flat, start, end, inside)
        rows = Gather (table, picked)
        row = ReduceSum <keepdims = 0> (rows, inside)
        on = Identity (go)
      }>
    """
    )
    return m


def listed_loop() -> Model:
    """A scripted recurrent network: 64 steps, each inserts its output into a sequence."""
    x = normal(64, 2, 64)
    m = Model({"x": x}, "float[64, 2, 64] x", "float[64, 2, 64] y")
    m.weights["w"], m.weights["h0"] = normal(64, 64), np.zeros((2, 64), np.float32)
    m.lines.append(
        """
      zero = Constant <value_int = 0> ()
      shape = Shape (x)
      trips = Gather (shape, zero)
      yes = Constant <value = bool {1}> ()
      nothing = SequenceEmpty ()
      last, all = Loop (trips, yes, h0, nothing) <body = each
          (int64 t, bool go, float[2, 64] h, seq(float) had)
          => (bool on, float[2, 64] next, seq(float) has) {
        part = Gather (x, t)
        product = MatMul (h, w)
        added = Add (part, product)
        next = Tanh (added)
        has = SequenceInsert (had, next)
        on = Identity (go)
      }>
      y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    """
    )
    return m


def while_loop() -> Model:
    """A recurrent layer of Keras: 64 steps, counted by an iteration and by a counter of its own."""
    m = Model({"x": normal(64, 2, 64)}, "float[64, n, 64] x", "float[steps, n, 64] y")
    m.weights["w"], m.weights["h0"] = normal(64, 64), np.zeros((2, 64), np.float32)
    m.lines.append(
        """
      most = Constant <value_int = 9223372036854775807> ()
      yes = Constant <value = bool {1}> ()
      zero = Constant <value = int32 {0}> ()
      time, last, y = Loop (most, yes, zero, h0) <body = each
          (int64 t, bool go, int32 i, float[n, 64] h)
          => (bool on, int32 next, float[n, 64] state, float[n, 64] row) {
        one = Constant <value = int32 {1}> ()
        bound = Constant <value = float {64.0}> ()
        next = Add (i, one)
        t_number = Cast <to = 1> (t)
        next_number = Cast <to = 1> (next)
        t_less = Less (t_number, bound)
        next_less = Less (next_number, bound)
        on = And (t_less, next_less)
        part = Gather (x, i)
        product = MatMul (h, w)
        added = Add (part, product)
        state = Tanh (added)
        row = Identity (state)
      }>
    """
    )
    return m


def gmlp() -> Model:
    """Four blocks that mix 128 positions by a Conv1d of size 1 over [1, positions, channels]."""
    m = Model({"x": normal(1, 128, 256)}, "float[1, 128, 256] x", "float[1, 128, 256] y")
    x, ones = "x", np.ones(256, np.float32)
    for _ in range(4):
        y = m.op(f"LayerNormalization ({x}, W, W)", ones, 0 * ones)
        y = m.op(f"MatMul ({y}, W)", normal(256, 1024))
        y = m.op(f"Tanh ({y})")
        u = m.op(f"Slice ({y}, W, W, W)", *(np.array([n]) for n in (0, 512, 2)))
        v = m.op(f"Slice ({y}, W, W, W)", *(np.array([n]) for n in (512, 1024, 2)))
        wide = np.ones(512, np.float32)
        v = m.op(f"LayerNormalization ({v}, W, W)", wide, 0 * wide)
        v = convolve(m, v, 128, 128, (1,), kernel_shape=[1])
        y = m.op(f"Mul ({u}, {v})")
        y = m.op(f"MatMul ({y}, W)", normal(512, 256))
        x = m.op(f"Add ({x}, {y})")
    m.lines.append(f"y = Identity ({x})")
    return m


def segnet() -> Model:
    """Three max pools with indices, and the unpoolings that read them."""
    m = Model({"x": normal(1, 3, 128, 128)}, "float[1, 3, 128, 128] x", "float[1, 12, 128, 128] y")
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x, indices = "x", []
    for cin, cout in ((3, 32), (32, 64), (64, 128)):
        y = m.op(f"Relu ({convolve(m, x, cin, cout, (3, 3), **same)})")
        x, at = f"p{cin}", f"i{cin}"
        m.lines.append(f"{x}, {at} = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> ({y})")
        indices.append(at)
    for (cin, cout), at in zip(((128, 64), (64, 32), (32, 12)), reversed(indices), strict=True):
        y = m.op(f"MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> ({x}, {at})")
        x = m.op(f"Relu ({convolve(m, y, cin, cout, (3, 3), **same)})")
    m.lines.append(f"y = Identity ({x})")
    return m


def wav2vec() -> Model:
    """Convolutions of samples; the first is normalised per channel over all positions."""
    m = Model({"x": normal(1, 1, 16000)}, "float[1, 1, 16000] x", "float[1, 256, N] y")
    x = convolve(m, "x", 1, 256, (10,), kernel_shape=[10], strides=[5])
    one = np.ones(256, np.float32)
    x = m.op(f"Reshape ({x}, W)", np.array([0, 256, -1]))
    x = m.op(f"InstanceNormalization ({x}, W, W)", one, 0 * one)
    x = m.op(f"Mul ({x}, W)", np.ones((256, 1), np.float32) * 1.5)
    x = m.op(f"Tanh ({x})")
    for _ in range(4):
        x = convolve(m, x, 256, 256, (3,), kernel_shape=[3], strides=[2])
        x = m.op(f"Tanh ({x})")
    m.lines.append(f"y = Identity ({x})")
    return m


MODELS: dict[str, Callable[[], Model]] = {
    "raise_embedding_bag": embedding_bag,
    "raise_sequence_to_scan_output": listed_loop,
    "raise_while_loops": while_loop,
    "convert_conv1x1_to_matmul": gmlp,
    "decompose_maxpool_indices": segnet,
    "fuse_group_norm": wav2vec,
}


def compile_without(model: bytes, name: str | None, threads: int) -> irc.CompiledModel:
    """The compiled model, without the pass of that name."""
    passes = pipeline.PASSES
    try:
        pipeline.PASSES = tuple(p for p in passes if p.name != name)
        return irc.compile_model(model, num_threads=threads)
    finally:
        pipeline.PASSES = passes


def main() -> None:
    """Print one row per rule."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model")
    args = parser.parse_args()
    # A cached model would have been compiled with all passes.
    os.environ["IRC_MODEL_CACHE"] = "0"
    columns = (f"{name:>{width}}" for name, width in (("with", 12), ("without", 12), ("best", 10)))
    print(f"{'pass':31}{''.join(columns)}{'median':>10}")
    for name, make in MODELS.items():
        model = make()
        data, inputs = model.to_bytes(), list(model.inputs.values())
        nets = [compile_without(data, n, args.threads) for n in (None, name)]
        found = [net(inputs)[0] for net in nets]
        np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)
        runs = {
            k: lambda n=n, a=inputs: n(a) for k, n in zip(("with", "without"), nets, strict=True)
        }
        times = alternate(runs, seconds=args.seconds)
        best = times["with"].best, times["without"].best
        median = times["with"].median, times["without"].median
        shown = "".join(f"{1e6 * t:9.0f} us" for t in best)
        print(f"{name:31}{shown}{best[1] / best[0]:10.2f}{median[1] / median[0]:10.2f}")


if __name__ == "__main__":
    main()
