"""Small models whose plans hold a step of every family of kernels, with sizes known and not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import (
    CTCGreedyDecoder,
    CTCGreedyDecoderSeqLen,
    DequantizeRows,
    QuantizeRows,
    ROIPooling,
    SuppressBoxes,
)
from irc_compiler.plan.plan import KernelStep, Region
from irc_compiler.plan.verify.values import RegionLayoutTables
from onnx import TensorProto, helper, numpy_helper

f4, i8 = np.float32, np.int64
Given = Mapping[str, Any]
_TYPES = {f4: TensorProto.FLOAT, i8: TensorProto.INT64, np.uint8: TensorProto.UINT8}


def weight(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)) % 7 - 3).astype(f4).reshape(shape)


def _model(kind: str, inputs: Given, outputs: int, attributes: Given) -> onnx.ModelProto:
    given, held, names = list[Any](), list[Any](), list[str]()
    for name, value in inputs.items():
        names.append("" if value is None else name)
        if isinstance(value, np.ndarray):
            held.append(numpy_helper.from_array(value, name))
        elif value is not None:
            given.append(helper.make_tensor_value_info(name, _TYPES[value[1]], value[0]))
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(kind, names, results, **attributes)
    found = [onnx.ValueInfoProto(name=r) for r in results]
    graph = helper.make_graph([node], kind, given, found, held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


def _window(kind: str, shape: list[Any], *filters: Any, **attributes: Any) -> tuple[Any, ...]:
    inputs: dict[str, Any] = {"x": (shape, f4)}
    if filters:
        inputs["w"] = weight(*filters)
    return kind, inputs, 1, attributes


LISTED: dict[str, tuple[str, Given, int, Given]] = {
    "conv1d": _window("Conv", [2, 3, 13], 5, 3, 3, pads=[1, 1]),
    "conv1d dynamic": _window("Conv", ["N", 3, "W"], 5, 3, 3, pads=[1, 1], dilations=[2]),
    "conv2d": _window("Conv", [1, 3, 11, 12], 5, 3, 5, 5, pads=[2] * 4, strides=[2, 1]),
    "conv2d dynamic": _window("Conv", ["N", 3, "H", "W"], 5, 3, 5, 5, pads=[2] * 4),
    "grouped": _window("Conv", [1, 4, 9, 12], 6, 2, 3, 3, group=2),
    "winograd": _window("Conv", [1, 32, 12, 12], 32, 32, 3, 3, pads=[1] * 4),
    "winograd dynamic": _window("Conv", ["N", 32, "H", "W"], 32, 32, 3, 3, pads=[1] * 4),
    "depthwise": _window("Conv", [1, 16, 9, 12], 16, 1, 3, 3, pads=[1] * 4, group=16),
    "depthwise dynamic": _window("Conv", ["N", 16, "H", "W"], 16, 1, 3, 3, pads=[1] * 4, group=16),
    "conv3d": _window("Conv", [1, 2, 5, 6, 7], 4, 2, 3, 3, 3, pads=[1] * 6),
    "conv3d dynamic": _window("Conv", ["N", 2, "H", "W", 7], 4, 2, 3, 3, 3, pads=[1] * 6),
    "transposed": _window("ConvTranspose", [1, 4, 6, 7], 4, 3, 3, 3, strides=[2, 2]),
    "bytes": (
        "ConvInteger",
        {
            "x": ([1, 8, "H", 9], np.uint8),
            "w": weight(8, 8, 3, 3).astype(np.int8),
            "zero": np.array(3, np.uint8),
        },
        1,
        {"pads": [1] * 4},
    ),
    "max pool": _window("MaxPool", [1, 5, 9, 12], kernel_shape=[3, 2], strides=[2, 2]),
    "mean pool": _window("AveragePool", ["N", 5, "H", "W"], kernel_shape=[3, 3], pads=[1] * 4),
    "gemm": ("MatMul", {"a": ([7, 12], f4), "b": weight(12, 19)}, 1, {}),
    "gemm dynamic": ("MatMul", {"a": (["N", "K"], f4), "b": (["K", 19], f4)}, 1, {}),
    "gemv": ("MatMul", {"a": ([1, 40], f4), "b": weight(40, 33)}, 1, {}),
    "batched": ("MatMul", {"a": (["N", 3, 5, 8], f4), "b": ([3, 8, 6], f4)}, 1, {}),
    "gemm of bytes": (
        "MatMulInteger",
        {"a": (["N", 12], np.uint8), "b": weight(12, 20).astype(np.int8)},
        1,
        {},
    ),
    "softmax": ("Softmax", {"x": (["N", 4, 17], f4)}, 1, {}),
    "norm": (
        "LayerNormalization",
        {"x": (["N", 4, 19], f4), "s": weight(19), "b": weight(19)},
        1,
        {},
    ),
    "reduce": ("ReduceMean", {"x": (["N", 6, 11], f4), "axes": np.array([1])}, 1, {}),
    "reduce all": ("ReduceMax", {"x": ([3, 6, 11], f4)}, 1, {}),
    "transpose": ("Transpose", {"x": (["N", 6, 11], f4)}, 1, {"perm": [2, 0, 1]}),
    "add": ("Add", {"x": (["N", 6, 11], f4), "y": ([6, 1], f4)}, 1, {}),
    "concat": ("Concat", {"x": (["N", 6], f4), "y": (["N", 5], f4)}, 1, {"axis": 1}),
    "slice": (
        "Slice",
        {"x": ([9, 20], f4), "a": np.array([8, 1]), "b": np.array([-99, 19])}
        | {"axes": np.array([0, 1]), "s": np.array([-2, 3])},
        1,
        {},
    ),
    "gather": ("Gather", {"x": (["N", 6, 11], f4), "i": ([4], i8)}, 1, {"axis": 1}),
    "gather elements": (
        "GatherElements",
        {"x": (["N", 6], f4), "i": (["N", 3], i8)},
        1,
        {"axis": 1},
    ),
    "gather nd": ("GatherND", {"x": ([4, 6, 5], f4), "i": ([3, 2], i8)}, 1, {}),
    "scatter": (
        "ScatterElements",
        {"x": (["N", 6], f4), "i": (["N", 3], i8), "u": (["N", 3], f4)},
        1,
        {"axis": 1},
    ),
    "scatter nd": ("ScatterND", {"x": ([6, 5], f4), "i": ([3, 1], i8), "u": ([3, 5], f4)}, 1, {}),
    "sort": ("TopK", {"x": (["N", 21], f4), "k": np.array([4])}, 2, {}),
    "scan": ("CumSum", {"x": (["N", 6, 5], f4), "axis": np.array(1)}, 1, {}),
    "pad": ("Pad", {"x": (["N", 9], f4), "p": np.array([0, 2, 1, 3])}, 1, {"mode": "reflect"}),
    "resize": (
        "Resize",
        {"x": ([1, 3, "H", "W"], f4), "r": None, "s": np.array([1, 1, 2, 1.5], f4)},
        1,
        {"mode": "linear"},
    ),
    "lstm": (
        "LSTM",
        {"x": (["T", 2, 5], f4), "w": weight(1, 32, 5), "r": weight(1, 32, 8)},
        3,
        {"hidden_size": 8},
    ),
    "gru": (
        "GRU",
        {"x": (["T", 2, 5], f4), "w": weight(2, 24, 5), "r": weight(2, 24, 8)},
        2,
        {"hidden_size": 8, "direction": "bidirectional"},
    ),
    "regions": (
        "RoiAlign",
        {"x": ([2, 3, 9, 9], f4), "r": (["R", 4], f4), "n": (["R"], i8)},
        1,
        {"output_height": 3, "output_width": 2, "sampling_ratio": 2},
    ),
    "largest of regions": (
        "MaxRoiPool",
        {"x": ([2, 3, 9, 9], f4), "r": (["R", 5], f4)},
        1,
        {"pooled_shape": [3, 2]},
    ),
    "samples of an image": (
        "GridSample",
        {"x": (["N", 8, "H", "W"], f4), "g": (["N", "P", 3, 2], f4)},
        1,
        {"padding_mode": "border"},
    ),
    "one hot": ("Range", {"a": ([], i8), "b": ([], i8), "c": ([], i8)}, 1, {}),
    "shape": ("Shape", {"x": (["N", 6, "K"], f4)}, 1, {}),
}

# Operations that ONNX does not have, and their inputs.
BUILT: dict[str, tuple[Op, Given]] = {
    "suppressed boxes": (
        SuppressBoxes("corner", 5, 0.5, 0.1),
        {"b": (["N", "B", 4], f4), "s": (["N", "C", "B"], f4)},
    ),
    "decoded by mask": (CTCGreedyDecoder(), {"x": (["T", "N", 7], f4), "m": (["T", "N"], f4)}),
    "decoded by length": (
        CTCGreedyDecoderSeqLen(),
        {"x": (["N", "T", "C"], f4), "n": (["N"], i8)},
    ),
    "samples of regions": (
        ROIPooling(3, 2, 1.0, "bilinear"),
        {"x": ([2, 3, "H", "W"], f4), "r": (["R", 5], f4)},
    ),
    "rows to 8 bits": (QuantizeRows(8), {"x": (["N", 3, 32], f4)}),
    "rows to 4 bits": (QuantizeRows(4), {"x": (["N", 3, 64], f4)}),
    "rows of 8 bits": (DequantizeRows(8), {"x": (["N", 3, 36], np.uint8)}),
    "rows of 4 bits": (DequantizeRows(4), {"x": (["N", 3, 40], np.uint8)}),
}


def build(op: Op, inputs: Given) -> irc.Model:
    """The model of one operation. An input is an array, or (shape, element type)."""
    values: list[ops.Tensor] = []
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            values.append(ops.constant(value))
        else:
            values.append(ops.parameter(name, value[0], DType.from_numpy(np.dtype(value[1]))))
    return ops.model(ops.apply(op, *values))


def _chains() -> Iterator[tuple[str, onnx.ModelProto]]:
    """What several operations make, or operators of other domains: attention (one with a causal
    mask, one whose heads are split axes), compressed weights, and squeeze-and-excite."""
    read = onnx.parser.parse_model
    head = '<ir_version: 9, opset_import: ["" : 18]> '
    for name, rows in (("attention", "5"), ("attention dynamic", "S")):
        yield (
            name,
            read(
                f"{head} g (float[N,2,{rows},16] q, float[N,2,16,{rows}] k, float[N,2,{rows},16] v,"
                f" float[N,1,{rows},{rows}] m) => (float[N,2,{rows},16] y)"
                " { s = MatMul(q, k) t = Add(s, m) p = Softmax<axis=-1>(t) y = MatMul(p, v) }"
            ),
        )
    yield (
        "attention causal",
        read(
            '<ir_version: 10, opset_import: ["" : 23]>'
            " g (float[N,2,S,16] q, float[N,2,T,16] k, float[N,2,T,16] v) => (float[N,2,S,16] y)"
            " { y = Attention<is_causal=1>(q, k, v) }"
        ),
    )
    heads = read(
        f"{head} g (float[1,2,S,32] x) => (float[1,2,S,32] y)"
        " { a = Transpose<perm=[0,2,1,3]>(x) b = Reshape(a, r) c = MatMul(b, w)"
        " d = Reshape(c, s) y = Transpose<perm=[0,2,1,3]>(d) }"
    )
    for name, values in {"s": [1, -1, 2, 32], "r": [1, -1, 64]}.items():
        heads.graph.initializer.append(numpy_helper.from_array(np.array(values, i8), name))
    heads.graph.initializer.append(numpy_helper.from_array(weight(64, 64), "w"))
    yield "split heads", heads
    nbits = read(
        '<ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>'
        " g (float[N,64] x) => (float[N,24] y)"
        " { y = com.microsoft.MatMulNBits<K=64, N=24, bits=4, block_size=32>(x, c, f) }"
    )
    codes = (np.arange(24 * 2 * 16) % 251).astype(np.uint8).reshape(24, 2, 16)
    nbits.graph.initializer.append(numpy_helper.from_array(codes, "c"))
    nbits.graph.initializer.append(numpy_helper.from_array(np.abs(weight(48)) + 1, "f"))
    yield "compressed weights", nbits
    excite = read(
        f"{head} g (float[N,3,7,7] z) => (float[N,5,5,5] y)"
        " { x = Conv(z, v) a = GlobalAveragePool(x) b = Conv(a, w) c = Relu(b) d = Conv(c, u)"
        " e = Sigmoid(d) m = Mul(x, e) y = Conv(m, t) }"
    )
    filters = {"v": (16, 3, 3, 3), "w": (4, 16, 1, 1), "u": (16, 4, 1, 1), "t": (5, 16, 1, 1)}
    for name, shape in filters.items():
        excite.graph.initializer.append(numpy_helper.from_array(weight(*shape), name))
    yield "excite", excite
    yield "trees", trees_model()


def trees_model() -> onnx.ModelProto:
    """Three trees of five nodes with two targets."""
    nodes = {
        "treeids": [t for t in range(3) for _ in range(5)],
        "nodeids": [*range(5)] * 3,
        "featureids": [0, 1, 0, 0, 0] * 3,
        "modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF"] * 3,
        "values": [0.5, 1.5, 0.0, 0.0, 0.0] * 3,
        "truenodeids": [1, 3, 0, 0, 0] * 3,
        "falsenodeids": [2, 4, 0, 0, 0] * 3,
    }
    leaves = {
        "treeids": [t for t in range(3) for _ in range(6)],
        "nodeids": [2, 2, 3, 3, 4, 4] * 3,
        "ids": [0, 1] * 9,
        "weights": [float(n) for n in range(18)],
    }
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]>'
        " g (float[N,4] x) => (float[N,2] y)"
        " { y = ai.onnx.ml.TreeEnsembleRegressor<n_targets=2>(x) }"
    )
    for kind, columns in (("nodes", nodes), ("target", leaves)):
        for name, values in columns.items():
            made.graph.node[0].attribute.append(helper.make_attribute(f"{kind}_{name}", values))
    return made


def models() -> list[tuple[str, onnx.ModelProto | irc.Model]]:
    """(name, model) of each."""
    listed = [(name, _model(*given)) for name, given in LISTED.items()]
    built = [(name, build(*given)) for name, given in BUILT.items()]
    return [*listed, *built, *_chains()]


def native_steps() -> list[tuple[str, irc.CompiledModel, Region, KernelStep, dict[str, int]]]:
    """(model, compiled, region, step, sizes) of every kernel step that their plans have."""
    found: list[tuple[str, irc.CompiledModel, Region, KernelStep, dict[str, int]]] = []
    for name, model in models():
        net = irc.compile_model(model)
        for region in net.plan.all_regions():
            env = {s.symbol: 7 for s in region.symbols}
            RegionLayoutTables(region, net.plan.constants).sizes(env)
            steps = [s for s in region.steps if isinstance(s, KernelStep)]
            found += [(name, net, region, step, env) for step in steps]
    return found
