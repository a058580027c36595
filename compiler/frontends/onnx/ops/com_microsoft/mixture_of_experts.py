"""onnxruntime's MoE and QMoE (domain com.microsoft): tokens through experts that a router picks.

Every expert computes every token, and weights of 0 drop what the router did not pick.
Sizes: tokens T, experts E, hidden size H, inner size I. Source: docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.lazy_dataclass import dataclass
from ......ir.ops import (
    Add,
    Broadcast,
    Clamp,
    Dequantize,
    Divide,
    Gather,
    GatherElements,
    Gelu,
    MatMul,
    Multiply,
    ReduceSum,
    Relu,
    Reshape,
    ScatterElementsUpdate,
    ShapeOf,
    Sigmoid,
    Softmax,
    Split,
    Swish,
    TopK,
    Transpose,
    Unsqueeze,
)
from ..elementary import sizes_of
from .matmul_nbits import unpack_codes

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


@dataclass(frozen=True)
class _ExpertLayer:
    """A layer of every expert: weights [E, outputs, inputs] and biases [E, outputs]."""

    weights: Value
    bias: Value | None


def moe(n: ImportContext) -> Value:
    layers = [
        None
        if (weights := n.optional(port)) is None
        else _ExpertLayer(weights, n.optional(port + 1))
        for port in (2, 4, 6)
    ]
    return _mix_experts(n, layers, None)


def quantized_moe(n: ImportContext) -> Value:
    """The same of weights of a few bits: code - zero point, times a scale per row or block."""
    if n.text("quant_type", "int") != "int":
        raise n.unsupported_error("QMoE of floats")
    if n.integer("weights_prepacked", -1) == 1:
        raise n.unsupported_error("QMoE with weights packed for an execution provider")
    n.has("accuracy_level")
    if any(n.optional(port) is not None for port in range(15, len(n.inputs))):
        raise n.unsupported_error("QMoE with scales of activations or of whole experts")
    layers = [_dequantize_weights(n, i) for i in range(3)]
    return _mix_experts(n, layers, n.optional(14))


def _dequantize_weights(n: ImportContext, i: int) -> _ExpertLayer | None:
    weights = n.optional(2 + 3 * i)
    if weights is None:
        return None
    bits = n.integer("expert_weight_bits", 4)
    bits = n.integer(f"fc{i + 1}_expert_weight_bits", bits)
    if bits not in (2, 4, 8):
        raise n.unsupported_error(f"QMoE of {bits} bits")
    data, scale = n.constant_of(weights), n.constant_of(n.input(3 + 3 * i))
    given = n.optional(11 + i)
    zeros = None if given is None else n.constant_of(given)
    if data is None or scale is None or (given is not None and zeros is None):
        raise n.unsupported_error("QMoE with weights that are not constants")
    experts, rows, packed = data.shape
    width, block = packed * (8 // bits), max(n.integer("block_size", 0), 0)
    blocks = -(-width // block) if block else 1
    if scale.size != experts * rows * blocks:
        raise n.type_error(
            "QMoE has another number of scales", got=scale.shape, expected=(experts, rows, blocks)
        )
    kind = np.uint8 if bits == 8 else ml_dtypes.uint4
    dtype = DType.from_numpy(np.dtype(kind))
    codes = unpack_codes(data, bits, experts * rows, width).reshape(experts, rows, width)
    points = np.full((experts, rows, blocks), 1 << bits - 1, np.uint8)
    if zeros is not None and block:
        points = unpack_codes(zeros, bits, experts * rows, blocks)
    elif zeros is not None:
        points = unpack_codes(zeros, bits, experts, rows)
    factor = n.constant(scale.reshape(experts, rows, blocks), n.dtype(n.input(0)))
    shift = n.constant(points.reshape(experts, rows, blocks).astype(kind), dtype)
    op = Dequantize(2, block or width)
    found = n.add(op, n.constant(codes.astype(kind), dtype), factor, shift)
    return _ExpertLayer(found, n.optional(4 + 3 * i))


def _mix_experts(
    n: ImportContext, layers: list[_ExpertLayer | None], mixing: Value | None
) -> Value:
    x, router = n.input(0), n.input(1)
    first, second, third = layers
    assert first is not None and second is not None
    if n.flag("use_sparse_mixer") or n.flag("swiglu_limit_after_activation"):
        raise n.unsupported_error(
            f"{n.op_type} with a sparse mixer or a limit after the activation"
        )
    shape = n.shape(first.weights)
    if shape is None or not isinstance(shape[2], int):
        raise n.unsupported_error(f"{n.op_type} of an unknown hidden size")
    rows = n.add(Unsqueeze(), n.add(Reshape(), x, n.ints_value([-1, shape[2]])), n.ints_value([0]))
    inner = _activate(n, rows, first, third)
    found = _layer(n, inner, second)
    weights = n.add(Transpose(), _routing(n, router, mixing), n.ints_value([1, 0]))
    weighted = n.add(Multiply(), found, n.add(Unsqueeze(), weights, n.ints_value([2])))
    total = n.add(ReduceSum(), weighted, n.ints_value([0]))
    return n.add(Reshape(), total, sizes_of(n, x))


def _layer(n: ImportContext, x: Value, layer: _ExpertLayer) -> Value:
    """[E, T, outputs] of [E or 1, T, inputs]."""
    product = n.add(MatMul(transpose_b=True), x, layer.weights)
    if layer.bias is None:
        return product
    return n.add(Add(), product, n.add(Unsqueeze(), layer.bias, n.ints_value([1])))


def _activate(n: ImportContext, x: Value, first: _ExpertLayer, third: _ExpertLayer | None) -> Value:
    kind, fusion = n.text("activation_type", "relu"), n.integer("swiglu_fusion", 0)
    names = ("activation_alpha", "activation_beta", "swiglu_limit")
    alpha, beta, limit = (
        n.number(name, default) for name, default in zip(names, (1.0, 0.0, math.inf), strict=True)
    )
    inner = _layer(n, x, first)
    if kind == "swiglu":
        gate, linear = _halves(n, inner, x, third, fusion)
        if math.isfinite(limit):
            gate = n.add(Clamp(-math.inf, limit), gate)
            linear = n.add(Clamp(-limit, limit), linear)
        scaled = n.add(Sigmoid(), n.add(Multiply(), gate, n.like(gate, alpha)))
        gate = n.add(Multiply(), gate, scaled)
        return n.add(Multiply(), gate, n.add(Add(), linear, n.like(linear, beta)))
    plain = {"relu": Relu(), "gelu": Gelu("TANH"), "silu": Swish()}
    if kind in plain:
        inner = n.add(plain[kind], inner)
    elif kind != "identity":
        raise n.unsupported_error(f"{n.op_type} with activation {kind[:40]}")
    return inner if third is None else n.add(Multiply(), inner, _layer(n, x, third))


def _halves(
    n: ImportContext, inner: Value, x: Value, third: _ExpertLayer | None, fusion: int
) -> tuple[Value, Value]:
    """The gate and the linear half, from two layers or from one."""
    if fusion == 0:
        if third is None:
            raise n.error("swiglu without fusion needs the third layer")
        return inner, _layer(n, x, third)
    if fusion == 2:
        gate, linear = n.add_all(Split(2), inner, n.int_value(2))
        return gate, linear
    pairs = n.add(Reshape(special_zero=True), inner, n.ints_value([0, 0, -1, 2]))
    gate, linear = (n.add(Gather(), pairs, n.int_value(i), n.int_value(3)) for i in (0, 1))
    return gate, linear


def _routing(n: ImportContext, router: Value, mixing: Value | None) -> Value:
    """[T, E]: how much each expert counts for each token."""
    count = n.integer("k", 1)
    op = TopK(1, "max", "value", DType.i64)
    best, index = n.add_all(op, router, n.int_value(count))
    if mixing is not None:
        best = n.add(GatherElements(1), mixing, index)
        if n.flag("normalize_routing_weights"):
            best = n.add(Divide(), best, n.add(ReduceSum(True), best, n.ints_value([1])))
    elif n.flag("normalize_routing_weights"):
        best = n.add(Softmax(1), best)
    else:
        best = n.add(GatherElements(1), n.add(Softmax(1), router), index)
    zeros = n.add(Broadcast(), n.like(best, 0), n.add(ShapeOf(DType.i64), router))
    return n.add(ScatterElementsUpdate(), zeros, index, best, n.int_value(1))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "com.microsoft::MoE": {1: moe},
    "com.microsoft::QMoE": {1: quantized_moe},
}
