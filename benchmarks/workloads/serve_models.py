"""Models for benchmarks/serve.py as ONNX bytes: sizes of published networks, random weights.

Each takes `x` and gives `y`; the first axis of both is any batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, HEADS, INNER = 6, 384, 12, 1536  # MiniLM-L6's sizes
SENTENCE, QUERY = 32, 8  # tokens
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # ResNet-50's: width, blocks


class _Graph:
    """Nodes and constants of a graph that is being written."""

    def __init__(self) -> None:
        self.rng, self.nodes = np.random.default_rng(0), list[Any]()
        self.stored = dict[str, Any]()

    def add(self, kind: str, *inputs: str, **how: Any) -> str:
        """A node; the name of its output."""
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **how))
        return output

    def constant(self, array: Any) -> str:
        """The name of a constant."""
        name = f"c{len(self.stored)}"
        self.stored[name] = np.asarray(array)
        return name

    def draw(self, *shape: int, deviation: float) -> str:
        """The name of a constant of random numbers."""
        drawn = self.rng.standard_normal(shape, dtype=np.float32)
        return self.constant(drawn * np.float32(deviation))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        """A dense layer."""
        product = self.add("MatMul", x, self.draw(inputs, outputs, deviation=inputs**-0.5))
        return self.add("Add", product, self.draw(outputs, deviation=0.1))

    def save(self, y: str, taken: list[Any], given: list[Any]) -> bytes:
        """The model. taken, given: shapes of x and y."""
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        ports = [
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)]
            for n, s in (("x", taken), ("y", given))
        ]
        constants = [numpy_helper.from_array(a, n) for n, a in self.stored.items()]
        graph = helper.make_graph(self.nodes, "g", *ports, constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        made.ir_version = 9
        return made.SerializeToString()


def encoder(length: int) -> bytes:
    """A transformer encoder of MiniLM's sizes over embeddings of so many tokens."""
    graph = _Graph()
    op, constant = graph.add, graph.constant

    def normalize(x: str) -> str:
        ones = constant(np.ones(WIDTH, np.float32))
        return op("LayerNormalization", x, ones, constant(np.zeros(WIDTH, np.float32)))

    split = constant(np.array([0, 0, HEADS, WIDTH // HEADS]))
    joined, scale = constant(np.array([0, 0, WIDTH])), constant(np.float32((WIDTH / HEADS) ** -0.5))
    x = "x"
    for _ in range(LAYERS):
        q, k, v = (op("Reshape", graph.dense(x, WIDTH, WIDTH), split) for _ in range(3))
        q, v = (op("Transpose", t, perm=[0, 2, 1, 3]) for t in (q, v))
        scores = op("Mul", op("MatMul", q, op("Transpose", k, perm=[0, 2, 3, 1])), scale)
        mixed = op("MatMul", op("Softmax", scores, axis=-1), v)
        mixed = op("Reshape", op("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
        x = normalize(op("Add", x, graph.dense(mixed, WIDTH, WIDTH)))
        inner = graph.dense(x, WIDTH, INNER)
        erf = op("Erf", op("Mul", inner, constant(np.float32(0.5**0.5))))
        gelu = op("Mul", inner, op("Add", erf, constant(np.float32(1))))
        half = op("Mul", gelu, constant(np.float32(0.5)))
        x = normalize(op("Add", x, graph.dense(half, INNER, WIDTH)))
    y = op("ReduceMean", x, constant(np.array([1])), keepdims=0)
    return graph.save(y, ["N", length, WIDTH], ["N", WIDTH])


def resnet50() -> bytes:
    """A convolutional network of ResNet-50's sizes at 224 x 224, batch normalization folded."""
    graph = _Graph()
    op = graph.add

    def convolve(x: str, inputs: int, outputs: int, size: int, stride: int = 1) -> str:
        # Blocks add to what they get: weights below He's deviation keep the sums small.
        deviation = (inputs * size * size) ** -0.5
        weight = graph.draw(outputs, inputs, size, size, deviation=deviation)
        bias, pads = graph.draw(outputs, deviation=0.1), [size // 2] * 4
        return op("Conv", x, weight, bias, strides=[stride] * 2, pads=pads)

    x = op("Relu", convolve("x", 3, 64, 7, 2))
    x = op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for width, blocks in STAGES:
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            y = op("Relu", convolve(x, channels, width, 1))
            y = op("Relu", convolve(y, width, width, 3, stride))
            y = convolve(y, width, 4 * width, 1)
            shortcut = convolve(x, channels, 4 * width, 1, stride) if block == 0 else x
            x, channels = op("Relu", op("Add", y, shortcut)), 4 * width
    y = graph.dense(op("Flatten", op("GlobalAveragePool", x)), channels, 1000)
    return graph.save(y, ["N", 3, 224, 224], ["N", 1000])


def copy64k() -> bytes:
    """One addition over 64 KiB, so that a request costs what the server costs."""
    graph = _Graph()
    y = graph.add("Add", "x", graph.constant(np.float32([1])))
    return graph.save(y, ["N", 16384], ["N", 16384])


MODELS: dict[str, Callable[[], bytes]] = {
    "encoder": partial(encoder, SENTENCE),
    "queries": partial(encoder, QUERY),
    "resnet50": resnet50,
    "copy64k": copy64k,
}
