"""Small ONNX models: one operation, one layer, one chain. Float32 unless a function says otherwise.

Weights are random with a fixed seed; with `integers=True` they are integers of -3..3, so that
results on whole inputs are exact in float32 whatever the order of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import DTypeLike, NDArray

from support.models.onnx_graph import Dims, OnnxGraph

Dense = Literal["MatMul", "Gemm", "GemmT"]
Signature = tuple[Dims | None, DTypeLike]


def mlp(
    sizes: Sequence[int] = (32, 64, 64, 1),
    batch: int | str = "N",
    activation: str | None = "Relu",
    final: str | None = None,
    *,
    dense: Dense | Sequence[Dense] = "MatMul",
    bias: bool = True,
    opset: int = 17,
    seed: int = 0,
    integers: bool = False,
) -> onnx.ModelProto:
    """Dense layers with `activation` between them and `final` at the end: x [batch, sizes[0]] to y.

    `dense` says how layers are written, for all or for each: "MatMul" (and Add), "Gemm", or "GemmT"
    with the weight stored transposed and transB.
    """
    styles: list[Dense] = list(dense) if not isinstance(dense, str) else [dense] * (len(sizes) - 1)
    graph = OnnxGraph(opset)
    rng = np.random.default_rng(seed)
    x = graph.input("x", [batch, sizes[0]])
    for number, style in enumerate(styles):
        with graph.scope(f"layer{number}"):
            shape = (sizes[number], sizes[number + 1])
            last = number == len(styles) - 1
            x = _dense(graph, x, _weights(rng, shape, integers), bias, style, rng, integers)
            x = _activate(graph, x, final if last else activation)
    return _finish(graph, x, [batch, sizes[-1]])


def gemm_relu(
    m: int | str,
    k: int,
    n: int,
    *,
    batch: Sequence[int | str] = (),
    dense: Dense = "MatMul",
    bias: bool = True,
    activation: str | None = "Relu",
    opset: int = 17,
    seed: int = 0,
    integers: bool = False,
) -> onnx.ModelProto:
    """One dense layer: x [*batch, m, k] times a constant [k, n], plus bias [n], activated, to y.

    A Gemm takes no `batch`.
    """
    graph = OnnxGraph(opset)
    rng = np.random.default_rng(seed)
    x = graph.input("x", [*batch, m, k])
    x = _dense(graph, x, _weights(rng, (k, n), integers), bias, dense, rng, integers)
    return _finish(graph, _activate(graph, x, activation), [*batch, m, n])


def attention(
    batch: int | str = "N",
    sequence: int | str = "S",
    hidden: int = 32,
    heads: int = 4,
    *,
    mask: bool = True,
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Self-attention and its residual: x [batch, sequence, hidden] to y of the same shape.

    The mask, added to the scores, is the input `mask` [batch, 1, 1, sequence]. Reshapes use 0 and
    -1 in place of run-time sizes. (`encoders.bert` writes the chains that exporters write.)
    """
    graph = OnnxGraph(opset)
    rng = np.random.default_rng(seed)
    x = graph.input("x", [batch, sequence, hidden])
    if mask:
        graph.input("mask", [batch, 1, 1, sequence])

    def projection(name: str, value: str) -> str:
        with graph.scope(name):
            weight = _weights(rng, (hidden, hidden), False)
            return _dense(graph, value, weight, True, "MatMul", rng, False)

    def split(name: str, perm: list[int]) -> str:
        target = graph.constant([0, -1, heads, hidden // heads], np.int64)
        return graph.op("Transpose", graph.op("Reshape", projection(name, x), target), perm=perm)

    query, key = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1])
    value = split("value", [0, 2, 1, 3])
    scale = graph.constant(np.sqrt(hidden // heads), np.float32)
    scores = graph.op("Div", graph.op("MatMul", query, key), scale)
    if mask:
        scores = graph.op("Add", scores, "mask")
    context = graph.op("MatMul", graph.op("Softmax", scores, axis=-1), value)
    merged = graph.op("Transpose", context, perm=[0, 2, 1, 3])
    merged = graph.op("Reshape", merged, graph.constant([0, -1, hidden], np.int64))
    return _finish(
        graph, graph.op("Add", x, projection("output", merged)), [batch, sequence, hidden]
    )


def op_model(
    op_type: str,
    inputs: Mapping[str, Signature | NDArray[Any] | np.generic | None],
    outputs: int | Sequence[str] | Mapping[str, Signature] = 1,
    opset: int = 17,
    *,
    check: bool = True,
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node, to test one operation.

    `inputs`, in the node's order: (shape, dtype) makes a model input, an array an initialiser, None
    an optional input left out. `outputs`: a number (they are y, or y0, y1, ...), names, or names
    with (shape, dtype); types not given are inferred by onnx. `attributes` are the node's own.

        op_model("Softmax", {"x": (("N", 8), np.float32)}, axis=-1)
        op_model("Split", {"x": ((6,), "f4"), "split": np.array([2, 4])}, 2, axis=0)
    """
    graph = OnnxGraph(opset)
    arguments: list[str] = []
    for name, value in inputs.items():
        if value is None:
            arguments.append("")
        elif isinstance(value, np.ndarray | np.generic):
            arguments.append(graph.weight(name, np.asarray(value)))
        else:
            arguments.append(graph.input(name, *value))
    if isinstance(outputs, int):
        outputs = ["y"] if outputs == 1 else [f"y{number}" for number in range(outputs)]
    graph.ops(op_type, *arguments, results=list(outputs), **attributes)
    for name in outputs:
        shape, dtype = outputs[name] if isinstance(outputs, Mapping) else (None, None)
        graph.output(name, shape, dtype)
    return graph.model(op_type, check=check)


def chain(
    ops: Sequence[str | tuple[str, float | NDArray[Any] | str]],
    shape: Dims = ("N", 16),
    *,
    opset: int = 17,
    outputs: Sequence[int] = (),
) -> onnx.ModelProto:
    """Elementwise operations one after the other on x, float32 of that shape, to y.

    An entry is the name of a unary operation, or (name, second operand): a number, an array, or
    "x" for the model's input again. The values after the entries numbered in `outputs` are outputs
    too, called t0, t1, ...

        chain(["Relu", ("Mul", 0.5), ("Add", "x"), "Tanh"])
    """
    graph = OnnxGraph(opset)
    value = graph.input("x", shape)
    for number, entry in enumerate(ops):
        result = "y" if number == len(ops) - 1 else f"t{number}"
        op_type, operands = (entry, []) if isinstance(entry, str) else (entry[0], [entry[1]])
        names = [o if isinstance(o, str) else graph.constant(o, np.float32) for o in operands]
        value = graph.op(op_type, value, *names, result=result)
    for number in outputs:
        graph.output(f"t{number}", None)
    graph.output("y")
    return graph.model("chain")


def layer_norm(
    shape: Dims = ("N", 32),
    *,
    form: Literal["pow", "mul", "op"] = "pow",
    epsilon: float = 1e-5,
    affine: bool = True,
    opset: int = 17,
    seed: int = 0,
) -> onnx.ModelProto:
    """Layer normalisation of x over its last axis, which is an int, to y.

    `form`: primitive operations with the square as Pow or as a product, or the operation itself.
    """
    graph = OnnxGraph(opset)
    rng = np.random.default_rng(seed)
    x = graph.input("x", shape)
    width = shape[-1]
    if not isinstance(width, int):
        raise ValueError(f"shape={tuple(shape)}: the last axis is normalised, so it is an int")
    weight = graph.weight("weight", 1 + _weights(rng, (width,), False))
    bias = graph.weight("bias", _weights(rng, (width,), False))
    if form == "op":
        inputs = [x, weight, bias] if affine else [x, graph.constant(np.ones(width), np.float32)]
        y = graph.op("LayerNormalization", *inputs, axis=-1, epsilon=epsilon)
        return _finish(graph, y, shape)

    def mean(value: str) -> str:
        if opset < 18:
            return graph.op("ReduceMean", value, axes=[-1])
        return graph.op("ReduceMean", value, graph.constant([-1], np.int64))

    centred = graph.op("Sub", x, mean(x))
    if form == "pow":
        squares = graph.op("Pow", centred, graph.constant(2.0, np.float32))
    else:
        squares = graph.op("Mul", centred, centred)
    variance = graph.op("Add", mean(squares), graph.constant(epsilon, np.float32))
    y = graph.op("Div", centred, graph.op("Sqrt", variance))
    if affine:
        y = graph.op("Add", graph.op("Mul", y, weight), bias)
    return _finish(graph, y, shape)


def gelu(
    shape: Dims = ("N", 16), *, form: Literal["erf", "tanh", "op"] = "erf", opset: int = 17
) -> onnx.ModelProto:
    """Gelu of x to y: in primitive operations, x * 0.5 * (1 + erf(x / sqrt 2)) or the tanh form."""
    if form == "op":
        return op_model("Gelu", {"x": (shape, np.float32)}, {"y": (shape, np.float32)}, opset)
    graph = OnnxGraph(opset)
    x = graph.input("x", shape)

    def scalar(value: float) -> str:
        return graph.constant(value, np.float32)

    if form == "erf":
        gate = graph.op("Erf", graph.op("Div", x, scalar(np.sqrt(2))))
    else:
        cube = graph.op("Mul", graph.op("Pow", x, scalar(3.0)), scalar(0.044715))
        inner = graph.op("Mul", graph.op("Add", x, cube), scalar(np.sqrt(2 / np.pi)))
        gate = graph.op("Tanh", inner)
    y = graph.op("Mul", x, graph.op("Add", gate, scalar(1.0)))
    return _finish(graph, graph.op("Mul", y, scalar(0.5)), shape)


def _weights(rng: np.random.Generator, shape: tuple[int, ...], integers: bool) -> NDArray[Any]:
    if integers:
        return rng.integers(-3, 4, size=shape).astype(np.float32)
    return rng.standard_normal(shape, np.float32) / np.float32(np.sqrt(shape[0]))


def _dense(
    graph: OnnxGraph,
    x: str,
    weight: NDArray[Any],
    bias: bool,
    style: Dense,
    rng: np.random.Generator,
    integers: bool,
) -> str:
    """x times `weight` [in, out], plus a bias [out] if there is one."""
    prefix = f"{graph.path}." if graph.path else ""
    transposed = style == "GemmT"
    stored = graph.weight(f"{prefix}weight", weight.T if transposed else weight)
    added = []
    if bias:
        added = [graph.weight(f"{prefix}bias", _weights(rng, weight.shape[1:], integers))]
    if style == "MatMul":
        product = graph.op("MatMul", x, stored)
        return graph.op("Add", product, *added) if added else product
    return graph.op("Gemm", x, stored, *added, transB=1 if transposed else None)


def _activate(graph: OnnxGraph, x: str, activation: str | None) -> str:
    if activation is None:
        return x
    return graph.op(activation, x, axis=-1 if activation == "Softmax" else None)


def _finish(graph: OnnxGraph, value: str, shape: Dims) -> onnx.ModelProto:
    """Calls `value`, the last node's output, y, and declares it."""
    graph.nodes[-1].output[0] = "y"
    graph.output("y", shape, np.float32)
    return graph.model()
