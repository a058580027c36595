"""The products that benchmarks.gemm times, group by group, with the bar of each group.

A group says how its models are built (`DATA`), in which precision engines compute, who they are,
and what a row has to reach. A row holds where it reaches the group's ratio to the fastest peer, or
90 % of the arithmetic peak, or, where memory binds it, 90 % of the read bandwidth; none
may be below the floor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Work:
    """One product, or `layers` of them in a row; `batch` matrices if both operands are inputs.

    bits: of compressed weights, which have scales per column and `group` rows of K (0: all)."""

    m: int
    k: int
    n: int
    batch: int = 0
    transposed: bool = False
    layers: int = 1
    bits: int = 0
    group: int = 0

    @property
    def name(self) -> str:
        size = f"{self.m}x{self.k}x{self.n}"
        if self.batch:
            return f"{self.batch}x({size}{', B^T' if self.transposed else ''})"
        if self.bits:
            return f"{size} int{self.bits}{f' by {self.group}' if self.group else ''}"
        return f"{self.layers} of {size}" if self.layers > 1 else size

    @property
    def flops(self) -> int:
        return 2 * max(1, self.batch) * self.layers * self.m * self.k * self.n


@dataclass(frozen=True)
class Data:
    """A work's ONNX model, its inputs and weights by name, and the exact answer (or that of f64).

    `tolerance` bounds an error relative to the answer's largest value. `bytes` is what one
    inference has to read: weights as they are stored, and inputs. `forms`: the same model as a
    peer, by name, reads it best."""

    model: bytes
    inputs: Arrays
    weights: Arrays
    answer: NDArray[np.float64]
    tolerance: float
    bytes: int
    forms: dict[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True)
class Group:
    """Works with one bar. `peak` names the unit whose peak counts
    (irc_compiler.runtime.machine.roofline)."""

    kind: str
    precision: str
    peak: str
    peers: tuple[str, ...]
    ratio: float
    floor: float
    works: tuple[Work, ...]
    streams: bool = False
    seconds: float = field(default=3.0)


_BF16 = (Work(64, 768, 3072), Work(128, 768, 768), Work(256, 1024, 1024))
_LARGE = (Work(1024, 1024, 1024), Work(2048, 2048, 2048))
_ALL = ("onnxruntime", "openvino", "numpy")

GROUPS: dict[str, Group] = {
    "f32": Group(
        "layer", "f32", "f32", _ALL, 1.12, 1.0, (*_BF16, Work(512, 512, 512), *_LARGE)
    ),
    "odd": Group(
        "layer", "f32", "f32", _ALL, 1.15, 1.0,
        (Work(13, 257, 511), Work(100, 300, 77), Work(33, 1000, 65), Work(200, 147, 64)),
    ),
    "skinny": Group(
        "layer", "f32", "f32", _ALL, 1.1, 0.97,
        (
            Work(1, 1024, 1000), Work(1, 4096, 4096), Work(8, 1024, 1024), Work(10, 1024, 1000),
            Work(1000, 1024, 1),
        ),
        streams=True,
    ),
    "batched": Group(
        "batched", "f32", "f32", _ALL, 1.3, 1.0,
        (
            Work(128, 64, 128, batch=12), Work(32, 64, 32, batch=96, transposed=True),
            Work(16, 16, 16, batch=64),
        ),
    ),
    "bf16": Group("layer", "bf16", "bf16", ("openvino",), 1.5, 1.2, (*_BF16, *_LARGE)),
    "chain": Group(
        "chain", "bf16", "bf16", ("openvino",), 1.3, 1.3, (Work(128, 768, 768, layers=16),)
    ),
    "int8": Group(
        "quantised", "int8", "int8", ("onnxruntime", "openvino"), 1.5, 1.2,
        (Work(64, 768, 3072), Work(128, 768, 768), Work(1024, 1024, 1024)),
    ),
    "weight-only": Group(
        "compressed", "f32", "f32", ("onnxruntime", "openvino"), 1.3, 1.0,
        (
            Work(1, 4096, 4096, bits=8), Work(1, 4096, 4096, bits=4, group=128),
            Work(16, 4096, 4096, bits=8), Work(16, 4096, 4096, bits=4, group=128),
        ),
        streams=True,
    ),
    "f64": Group(
        "integers", "f64", "f64", ("numpy",), 1.1, 1.0,
        (Work(256, 256, 256), Work(1024, 1024, 1024)),
    ),
}  # fmt: skip


def layer(work: Work, precision: str) -> Data:
    """Gemm with bias and ReLU on normal data; the answer is that of the factors as rounded."""
    rng = _generator(work)
    a, b, c = (_normal(rng, *s) for s in ((work.m, work.k), (work.k, work.n), (work.n,)))
    answer = np.maximum(_factor(a, precision) @ _factor(b, precision) + c, 0)
    return _model({"a": a}, {"b": b, "c": c}, answer, work.k * 2.0**-24, _layers([("b", "c")]))


def integers(work: Work, precision: str) -> Data:
    """The same layer in f64 on small integers, whose answer is exact."""
    rng = _generator(work)
    a, b, c = (
        rng.integers(-9, 10, shape).astype(np.float64)
        for shape in ((work.m, work.k), (work.k, work.n), (work.n,))
    )
    answer = np.maximum(a @ b + c, 0)
    return _model({"a": a}, {"b": b, "c": c}, answer, 0.0, _layers([("b", "c")]))


def chain(work: Work, precision: str) -> Data:
    """Layers with weights of their own, each the next one's input.

    A sum that lies near a tie of bf16 may round either way: the error is a few of its steps.
    """
    rng = _generator(work)
    a = _normal(rng, work.m, work.k)
    weights: Arrays = {}
    value = a.astype(np.float64)
    for i in range(work.layers):
        b = _normal(rng, work.k, work.n) * np.float32((2 / work.k) ** 0.5)
        c = _normal(rng, work.n) * np.float32(0.1)
        weights |= {f"b{i}": b, f"c{i}": c}
        value = np.maximum(_factor(value, precision) @ _factor(b, precision) + c, 0)
    names = [(f"b{i}", f"c{i}") for i in range(work.layers)]
    return _model({"a": a}, weights, value, 2.0**-6, _layers(names))


def batched(work: Work, precision: str) -> Data:
    """MatMul of two inputs, the right one transposed if the work says so."""
    from onnx import helper

    rng = _generator(work)
    shape = (work.n, work.k) if work.transposed else (work.k, work.n)
    a, b = _normal(rng, work.batch, work.m, work.k), _normal(rng, work.batch, *shape)
    right = b.swapaxes(1, 2) if work.transposed else b
    nodes = [helper.make_node("MatMul", ["a", "t" if work.transposed else "b"], ["y"])]
    if work.transposed:
        nodes.insert(0, helper.make_node("Transpose", ["b"], ["t"], perm=[0, 2, 1]))
    answer = _factor(a, precision) @ _factor(right, precision)
    return _model({"a": a, "b": b}, {}, answer, work.k * 2.0**-24, nodes)


def compressed(work: Work, precision: str) -> Data:
    """MatMul of an activation with dequantised weights: DequantizeLinear's, and for onnxruntime
    the same numbers in its own MatMulNBits where that has the group's size."""
    from onnx import helper

    rng = _generator(work)
    a = _normal(rng, work.m, work.k)
    group, zero = work.group or work.k, 1 << work.bits - 1
    kind = np.dtype(ml_dtypes.uint4 if work.bits == 4 else np.uint8)
    codes = rng.integers(0, 1 << work.bits, (work.k, work.n)).astype(np.uint8)
    scale = rng.uniform(0.001, 0.1, (work.k // group, work.n)).astype(np.float32)
    wide = (codes.astype(np.float32) - np.float32(zero)) * np.repeat(scale, group, 0)
    weights: Arrays = {
        "b": codes.astype(kind),
        "s": scale if work.group else scale[0],
        "z": np.full(scale.shape if work.group else work.n, zero).astype(kind),
    }
    spread = {"axis": 0, "block_size": group} if work.group else {"axis": 1}
    nodes = [
        helper.make_node("DequantizeLinear", ["b", "s", "z"], ["w"], **spread),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    answer = a.astype(np.float64) @ wide.astype(np.float64)
    data = _model({"a": a}, weights, answer, work.k * 2.0**-24, nodes, opset=21)
    stored = codes.size * work.bits // 8 + scale.nbytes + a.nbytes
    forms: dict[str, bytes] = {}
    if work.group:
        cells = codes.T.reshape(work.n, work.k // group, group)
        packed = cells if work.bits == 8 else cells[..., ::2] | cells[..., 1::2] << 4
        own: Arrays = {"b": packed, "s": np.ascontiguousarray(scale.T).reshape(-1)}
        node = helper.make_node(
            "MatMulNBits", ["a", "b", "s"], ["y"], domain="com.microsoft", K=work.k, N=work.n,
            bits=work.bits, block_size=group, accuracy_level=1,
        )  # fmt: skip
        forms["onnxruntime"] = _model({"a": a}, own, answer, 0.0, [node], opset=21).model
    return replace(data, bytes=stored, forms=forms)


def quantised(work: Work, precision: str) -> Data:
    """u8 times i8 with scales per column, requantised to u8: QLinearMatMul, and for OpenVINO, which
    does not know it, the dequantised values' product. Engines may differ by one step at ties."""
    from onnx import helper

    rng = _generator(work)
    a = rng.integers(0, 256, (work.m, work.k)).astype(np.uint8)
    b = rng.integers(-127, 128, (work.k, work.n)).astype(np.int8)
    scale = rng.uniform(0.002, 0.02, work.n).astype(np.float32)
    spread = np.float32(0.02 * 0.01 * 74 * 74 * work.k**0.5 / 40)
    weights: Arrays = {
        "sa": np.array(0.02, np.float32), "za": np.array(120, np.uint8), "b": b, "sb": scale,
        "zb": np.zeros(work.n, np.int8), "sy": np.array(spread), "zy": np.array(128, np.uint8),
    }  # fmt: skip
    factor = weights["sa"] * scale / spread
    sums = (a.astype(np.float64) - 120) @ b.astype(np.float64)
    answer = np.clip(np.rint(sums.astype(np.float32) * factor) + 128, 0, 255).astype(np.float64)
    linear = helper.make_node(
        "QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"]
    )
    nodes = [
        helper.make_node("DequantizeLinear", ["a", "sa", "za"], ["x"]),
        helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["w"], axis=1),
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "sy", "zy"], ["y"]),
    ]
    form = _model({"a": a}, weights, answer, 0.0, nodes, opset=21).model
    data = _model({"a": a}, weights, answer, 1.001 / 255, [linear], opset=21)
    return replace(data, forms={"openvino": form})


DATA: dict[str, Callable[[Work, str], Data]] = {
    "layer": layer,
    "integers": integers,
    "chain": chain,
    "batched": batched,
    "compressed": compressed,
    "quantised": quantised,
}


def _generator(work: Work) -> np.random.Generator:
    return np.random.default_rng(work.m + work.k + work.n)


def _normal(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    return rng.standard_normal(shape).astype(np.float32)


def _factor(x: NDArray[np.floating], precision: str) -> NDArray[np.float64]:
    """A factor as a precision sees it, in f64."""
    rounded = x.astype(np.float32).astype(ml_dtypes.bfloat16) if precision == "bf16" else x
    return rounded.astype(np.float64)


def _layers(names: list[tuple[str, str]]) -> list[object]:
    """Gemm and Relu for each pair of weight and bias, from "a" to "y"."""
    from onnx import helper

    nodes: list[object] = []
    value = "a"
    for i, (b, c) in enumerate(names):
        out = "y" if i == len(names) - 1 else f"y{i}"
        nodes.append(helper.make_node("Gemm", [value, b, c], [f"s{i}"]))
        nodes.append(helper.make_node("Relu", [f"s{i}"], [out]))
        value = out
    return nodes


def _model(
    inputs: Arrays,
    weights: Arrays,
    answer: NDArray[np.float64],
    tolerance: float,
    nodes: list,
    opset: int = 17,
) -> Data:
    from onnx import helper, numpy_helper

    element = helper.np_dtype_to_tensor_dtype(next(iter(inputs.values())).dtype)
    ports = [helper.make_tensor_value_info(k, element, v.shape) for k, v in inputs.items()]
    graph = helper.make_graph(
        nodes,
        "product",
        ports,
        [helper.make_tensor_value_info("y", element, answer.shape)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10 if opset > 20 else 9)
    size = sum(v.nbytes for v in (*inputs.values(), *weights.values()))
    return Data(model.SerializeToString(), inputs, weights, answer, tolerance, size)
