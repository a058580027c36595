"""Small models that need every family of kernels, for any float type but f64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import irc_compiler as irc
import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto

from fuzz.step_models import BUILT, build, trees_model
from support.models.onnx_graph import OnnxGraph

# By the name of an element type: ONNX's number, numpy's type.
FLOATS = {
    "f32": (TensorProto.FLOAT, np.float32),
    "f16": (TensorProto.FLOAT16, np.float16),
    "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}


class TypedGraph(OnnxGraph):
    """Inputs and outputs are f32; all between is of one float type."""

    def __init__(self, dtype: str) -> None:
        super().__init__(23)
        self.number, self.numpy = FLOATS[dtype]
        self.rng = np.random.default_rng(0)

    def values(self, name: str, *shape: int | str) -> str:
        """An input, cast to the type."""
        return self.op("Cast", self.input(name, shape), to=self.number)

    def random(self, *shape: int, scale: float = 1.0) -> str:
        """A constant of the type."""
        array = (self.rng.standard_normal(shape) * scale).astype(self.numpy)
        return self.weight(f"w{len(self.initializers)}", array)

    def integers(self, values: Sequence[int]) -> str:
        return self.constant(list(values), np.int64)

    def finish(self, *results: str) -> onnx.ModelProto:
        """The model whose outputs are the results as f32."""
        for n, result in enumerate(results):
            name = self.op("Cast", result, to=TensorProto.FLOAT, result=f"y{n}")
            self.outputs.append(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        return self.model(check=False)


def products(g: TypedGraph) -> onnx.ModelProto:
    """GEMM with a packed weight, GEMV, and a product of two values."""
    x, z = g.values("x", "N", 40), g.values("z", 40, "M")
    y = g.op("MatMul", x, g.random(40, 37))
    y = g.op("Gelu", g.op("Add", y, g.random(37)))
    row = g.op("MatMul", g.values("r", 1, 40), g.random(40, 33))
    return g.finish(y, row, g.op("MatMul", x, z))


def images(g: TypedGraph) -> onnx.ModelProto:
    """Convolutions (direct, Winograd, depthwise, pointwise), pools, squeeze-and-excite."""
    y = g.op(
        "Conv", g.values("x", 1, 3, 20, 20), g.random(16, 3, 5, 5), g.random(16), strides=[2, 2]
    )
    y = g.op("Relu", y)
    y = g.op("MaxPool", y, kernel_shape=[3, 3], pads=[1] * 4)
    z = g.op("Relu", g.op("Conv", y, g.random(16, 16, 3, 3), pads=[1] * 4))
    z = g.op("Conv", z, g.random(16, 1, 3, 3), pads=[1] * 4, group=16)
    s = g.op("Relu", g.op("Conv", g.op("GlobalAveragePool", z), g.random(4, 16, 1, 1)))
    s = g.op("Sigmoid", g.op("Conv", s, g.random(16, 4, 1, 1)))
    y = g.op("Add", g.op("Mul", z, s), y)
    return g.finish(g.op("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2]))


def sequences(g: TypedGraph) -> onnx.ModelProto:
    """Attention, softmax, norms, reductions, gathers."""
    q = g.values("q", "B", 2, "Q", 16)
    k, v = g.values("k", "B", 2, "K", 16), g.values("v", "B", 2, "K", 16)
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    y = g.op("MatMul", g.op("Softmax", g.op("Mul", scores, g.random(1))), v)
    y = g.op("LayerNormalization", y, g.random(16), g.random(16))
    soft = g.op("Softmax", g.values("s", "B", 19), axis=-1)
    sums = [g.op(f"Reduce{kind}", soft, g.integers([-1])) for kind in ("Sum", "Max", "L2")]
    rows = g.op("Gather", g.random(11, 16), g.input("i", ("B",), np.int64))
    return g.finish(y, soft, *sums, rows)


def recurrent(g: TypedGraph) -> onnx.ModelProto:
    """An LSTM layer."""
    x = g.values("x", 5, 2, 8)
    y = g.ops("LSTM", x, g.random(1, 24, 8), g.random(1, 24, 6), hidden_size=6, results=3)
    return g.finish(y[0])


def choices(g: TypedGraph) -> onnx.ModelProto:
    """Sorting, running sums, elements by index, counting, resizing, regions."""
    x = g.values("x", "N", 21)
    best, where = g.ops("TopK", x, g.integers([3]), results=2)
    picked = g.op("GatherElements", x, where, axis=1)
    sums = g.op("CumSum", x, g.constant(1, np.int64))
    zero, one = g.constant(0, np.int64), g.constant(1, np.int64)
    rows = g.op("Squeeze", g.op("Shape", x, start=0, end=1))
    counted = g.op("Cast", g.op("Range", zero, rows, one), to=g.number)
    image = g.values("image", 1, 4, 9, 9)
    half = g.weight("scales", np.array([1, 1, 1.5, 1.5], np.float32))
    larger = g.op("Resize", image, "", half, mode="linear")
    boxes = g.values("boxes", 3, 4)
    index = g.weight("index", np.zeros(3, np.int64))
    aligned = g.op("RoiAlign", image, boxes, index, output_height=2, output_width=2)
    sampled = g.op("GridSample", g.values("pixels", 1, 8, 5, 5), g.values("grid", 1, 3, 4, 2))
    return g.finish(best, picked, sums, counted, larger, aligned, sampled)


def quantized(g: TypedGraph) -> onnx.ModelProto:
    """Products of bytes, a convolution of bytes, 8-bit weights, rounding to bytes."""
    scale = g.weight("scale", np.array(0.05, g.numpy))
    zero, none = g.weight("zero", np.array(7, np.uint8)), g.weight("none", np.array(0, np.int8))
    near = g.op("QuantizeLinear", g.values("x", "N", 40), scale, zero)
    weights = g.weight("bytes", g.rng.integers(-100, 100, (40, 33)).astype(np.int8))
    integers = g.op("MatMulInteger", near, weights, zero, none)
    x, w = (g.op("DequantizeLinear", *a) for a in ((near, scale, zero), (weights, scale, none)))
    exact = g.op("MatMul", g.values("z", "N", 40), w)
    image = g.op("QuantizeLinear", g.values("image", 1, 8, 9, 9), scale, zero)
    filters = g.weight("filters", g.rng.integers(-100, 100, (8, 8, 3, 3)).astype(np.int8))
    y, k = (g.op("DequantizeLinear", *a) for a in ((image, scale, zero), (filters, scale, none)))
    y = g.op("QuantizeLinear", g.op("Relu", g.op("Conv", y, k)), scale, zero)
    words = g.weight("words", np.array(3, np.int16))
    by = g.weight("by", np.array(0.3, g.numpy))
    divided = g.op("QuantizeLinear", g.values("v", 400), by, words)
    return g.finish(integers, g.op("MatMul", x, w), exact, y, divided)


def trees(g: TypedGraph) -> onnx.ModelProto:
    """An ensemble of trees."""
    return trees_model()


GRAPHS: dict[str, Callable[[TypedGraph], onnx.ModelProto]] = {
    "products": products,
    "images": images,
    "sequences": sequences,
    "recurrent": recurrent,
    "choices": choices,
    "quantized": quantized,
    "trees": trees,
}
# The types and precisions that a graph is built for; recurrent and tree kernels are of f32 only,
# and ONNX resizes no bf16.
TYPES = {
    "recurrent": ("f32",),
    "choices": ("f32", "f16"),
    "quantized": ("f32", "f16", "bf16"),
    "trees": ("f32",),
}
CASES = [(n, t, "f32") for n in GRAPHS for t in TYPES.get(n, tuple(FLOATS))]
CASES += [(n, "f32", "bf16") for n in ("products", "images", "sequences", "recurrent")]
CASES += [("products", t, "f16") for t in ("f32", "f16")]


# Also models of operations that only IR has: together they need every family.
FAMILY_CASES = [*CASES, *((name, "f32", "f32") for name in BUILT)]


def family_model(name: str, dtype: str) -> irc.Model:
    """The model of that name in a float type of FLOATS."""
    if name in BUILT:
        return build(*BUILT[name])
    return irc.read_model(GRAPHS[name](TypedGraph(dtype)))
