"""Small models of the families that convert to IR: a decoder with a cache, a transformer of image
patches, recurrent layers, a detector. Weights are random, batches are symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from support.models.convnets import ConvNet
from support.models.onnx_graph import OnnxGraph

LOWEST = float(np.finfo(np.float32).min)


class Decoder(OnnxGraph):
    """The words of transformers: weights by their shape, heads of one width."""

    def __init__(self, width: int, heads: int, opset: int = 20) -> None:
        super().__init__(opset)
        self.rng = np.random.default_rng(0)
        self.width, self.heads = width, heads

    def random(self, *shape: int) -> str:
        values = self.rng.standard_normal(shape) / math.sqrt(shape[0])
        return self.weight(f"w{len(self.initializers)}", values.astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def norm(self, x: str) -> str:
        scale, bias = self.random(self.width), self.random(self.width)
        return self.op("LayerNormalization", x, scale, bias, axis=-1)

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        return self.op(
            "Add", self.op("MatMul", x, self.random(inputs, outputs)), self.random(outputs)
        )

    def by_head(self, x: str, perm: Sequence[int]) -> str:
        apart = self.op("Reshape", x, self.ints(0, 0, self.heads, self.width // self.heads))
        return self.op("Transpose", apart, perm=list(perm))

    def feed_forward(self, x: str, approximate: str) -> str:
        wide = self.op("Gelu", self.dense(x, self.width, 2 * self.width), approximate=approximate)
        return self.op("Add", x, self.dense(wide, 2 * self.width, self.width))

    def mixed(self, scores: str, value: str) -> str:
        """softmax(scores) x value, heads side by side again, and the projection behind it."""
        context = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        joined = self.op("Transpose", context, perm=[0, 2, 1, 3])
        joined = self.op("Reshape", joined, self.ints(0, 0, self.width))
        return self.dense(joined, self.width, self.width)


def gpt2(width: int = 16, heads: int = 2, vocab: int = 30) -> onnx.ModelProto:
    """One layer of GPT-2 that takes keys and values of the words before and gives them on."""
    g = Decoder(width, heads)
    ids = g.input("ids", ["batch", "words"], np.int64)
    past = [g.input(n, ["batch", heads, "before", width // heads]) for n in ("past_k", "past_v")]
    count = g.op("Gather", g.op("Shape", ids), g.constant(1, np.int64))
    before = g.op("Gather", g.op("Shape", past[0]), g.constant(2, np.int64))
    total = g.op("Add", before, count)
    places = g.op("Range", before, total, g.constant(1, np.int64))
    words = g.random(vocab, width)
    x = g.op("Add", g.op("Gather", words, ids), g.op("Gather", g.random(64, width), places))
    parts = g.ops("Split", g.dense(g.norm(x), width, 3 * width), results=3, axis=-1, num_outputs=3)
    query, key, value = (g.by_head(p, [0, 2, 1, 3]) for p in parts)
    key = g.op("Concat", past[0], key, axis=2, result="k")
    value = g.op("Concat", past[1], value, axis=2, result="v")
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = g.op("Div", scores, g.constant(math.sqrt(width // heads), np.float32))
    every = g.op("Range", g.constant(0, np.int64), total, g.constant(1, np.int64))
    seen = g.op("LessOrEqual", every, g.op("Unsqueeze", places, g.ints(1)))
    scores = g.op("Where", seen, scores, g.constant(LOWEST, np.float32))
    x = g.feed_forward(g.op("Add", x, g.mixed(scores, value)), "tanh")
    g.op("MatMul", g.norm(x), g.op("Transpose", words, perm=[1, 0]), result="logits")
    for name in ("logits", "k", "v"):
        g.output(name)
    return g.model()


def vit(width: int = 16, heads: int = 2, size: int = 16, patch: int = 4) -> onnx.ModelProto:
    """Patches by a convolution, a class token before them, one encoder layer, the token's class."""
    g = Decoder(width, heads)
    image = g.input("image", ["batch", 3, size, size])
    patches = g.op("Conv", image, g.random(width, 3, patch, patch), strides=[patch, patch])
    patches = g.op("Transpose", g.op("Reshape", patches, g.ints(0, width, -1)), perm=[0, 2, 1])
    batch = g.op("Slice", g.op("Shape", image), g.ints(0), g.ints(1))
    token = g.op("Expand", g.random(1, 1, width), g.op("Concat", batch, g.ints(1, width), axis=0))
    x = g.op("Concat", token, patches, axis=1)
    x = g.op("Add", x, g.random(1, (size // patch) ** 2 + 1, width))
    y = g.norm(x)
    query, key, value = (
        g.by_head(g.dense(y, width, width), perm)
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    )
    scale = g.constant(math.sqrt(width // heads), np.float32)
    scores = g.op("Div", g.op("MatMul", query, key), scale)
    x = g.feed_forward(g.op("Add", x, g.mixed(scores, value)), "none")
    first = g.op("Gather", g.norm(x), g.constant(0, np.int64), axis=1)
    g.op("Gemm", first, g.random(10, width), g.random(10), transB=1, result="y")
    g.output("y")
    return g.model()


def recurrent(kind: str, inputs: int = 5, hidden: int = 4) -> onnx.ModelProto:
    """A layer of a kind ("LSTM", "GRU", "RNN") in both directions, and a dense one on its last
    state."""
    g = Decoder(2 * hidden, 1)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    x = g.input("x", ["time", "batch", inputs])
    weights = g.random(2, gates, inputs), g.random(2, gates, hidden), g.random(2, 2 * gates)
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    every, last = g.ops(
        kind, x, *weights, results=2, hidden_size=hidden, direction="bidirectional", **more
    )
    g.op("Transpose", every, perm=[2, 0, 1, 3], result="every")
    both = g.op("Reshape", g.op("Transpose", last, perm=[1, 0, 2]), g.ints(0, 2 * hidden))
    g.op("Sigmoid", g.dense(both, 2 * hidden, 3), result="y")
    g.output("every")
    g.output("y")
    return g.model()


def yolo(size: int = 32) -> onnx.ModelProto:
    """A detector's parts: SiLU, pools side by side, an upsampled branch, channels to space, boxes
    from both, and the best of them."""
    g = ConvNet(3)

    def silu(x: str, *sizes: int) -> str:
        y = g.conv(x, *sizes, act=None)
        return g.op("Mul", y, g.op("Sigmoid", y))

    fine = silu(silu(g.input("image", ["batch", 3, size, size]), 3, 8, 3, 2), 8, 16, 3, 2)
    coarse = silu(fine, 16, 16, 3, 2)
    pools = [coarse]
    for _ in range(2):
        pools.append(g.op("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4))
    coarse = silu(g.op("Concat", *pools, axis=1), 48, 16, 1)
    scales = g.constant([1, 1, 2, 2], np.float32)
    up = g.op("Resize", coarse, "", scales, mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric")  # fmt: skip
    left, right = g.ops("Split", g.op("Concat", up, fine, axis=1), results=2, axis=1)
    slope = g.weight("slope", np.full((16, 1, 1), 0.1, np.float32))
    both = g.op("Add", g.op("PRelu", left, slope), g.op("LeakyRelu", right, alpha=0.1))
    deep = g.op("DepthToSpace", silu(coarse, 16, 64, 1), blocksize=2)
    filters = g.rng.standard_normal((16, 4, 2, 2)).astype(np.float32)
    fine = g.op("ConvTranspose", both, g.weight("turned", filters), strides=[2, 2])
    fine = g.op("AveragePool", fine, kernel_shape=[2, 2], strides=[2, 2])
    mean = g.op("InstanceNormalization", fine, *(
        g.weight(f"norm{i}", g.rng.uniform(0.5, 1, 4).astype(np.float32)) for i in range(2)
    ))  # fmt: skip
    heads = g.op("Concat", mean, g.op("Pad", deep, g.constant([0] * 8, np.int64)), axis=1)
    boxes = g.op("Reshape", g.conv(heads, 20, 6, 1, act=None, norm=False), g.constant(
        [0, 6, -1], np.int64))  # fmt: skip
    place, sure = g.ops("Split", boxes, g.constant([4, 2], np.int64), results=2, axis=1)
    best = g.op("Squeeze", g.op("ReduceMax", g.op("Softmax", sure, axis=1), axes=[1]),
                g.constant([1], np.int64))  # fmt: skip
    score, _ = g.ops("TopK", best, g.constant([7], np.int64), results=["score", "where"], axis=1)
    g.op("Exp", place, result="boxes")
    for name in (score, "where", "boxes"):
        g.output(name)
    return g.model()
