"""Make a graph of a plan: FakeQuantize on activations, codes with scales in place of weights.

What `irc.save_model` writes of it is what OpenVINO's own tools write (Convert, Subtract, Multiply
of compressed constants), and what irc compiles to int8 products and weight-only kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.dtype import DType
from ..ir.graph import Graph, Use, Value
from ..ir.infer import infer_graph, infer_node
from ..ir.op import Array, Op
from ..ir.ops import (
    Constant,
    Convert,
    Dequantize,
    FakeQuantize,
    Gemm,
    MatMul,
    Multiply,
    Reshape,
)
from .layers import Layer, find_bias
from .nf4 import as_records
from .plan import ActivationParams, LayerPlan, QuantizationPlan, QuantizedWeight

_LEVELS = 256


class _GraphEditor:
    """Adds nodes to a graph; equal divisors and equal quantizations of a value are one node."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[tuple[Value, object], Value] = {}

    def add(self, op: Op, *inputs: Value, name: str = "") -> Value:
        node = self.graph.add(op, inputs, name=name)
        infer_node(self.graph, node)
        return Value(node)

    def constant(self, data: Array, dtype: DType) -> Value:
        contiguous = np.ascontiguousarray(data).astype(dtype.numpy, copy=False)
        return self.add(Constant.of(contiguous, dtype))

    def divide(self, value: Value, factors: Array, axis: int, name: str) -> Value:
        """The value divided by one factor per channel."""
        key = (value, factors.tobytes())
        if key not in self._made:
            rank = self._rank(value)
            shape = [-1 if i == axis % rank else 1 for i in range(rank)]
            inverse = self.constant(reciprocal(factors).reshape(shape), DType.f32)
            self._made[key] = self.add(Multiply(), value, inverse, name=name)
        return self._made[key]

    def fake_quantize(self, value: Value, params: ActivationParams, name: str) -> Value:
        key = (value, params)
        if key not in self._made:
            limits = [self.constant(np.array(v, np.float32), DType.f32) for v in params.limits]
            made = self.add(FakeQuantize(_LEVELS), value, *limits, *limits, name=name)
            self._made[key] = made
        return self._made[key]

    def _rank(self, value: Value) -> int:
        rank = getattr(self.graph.type(value), "rank", None)
        assert isinstance(rank, int)
        return rank

    def dequantize(self, weight: QuantizedWeight) -> Value:
        """A weight in float32, of codes. A matrix in groups has its depth last."""
        if weight.dtype is DType.nf4:
            return self._dequantize_nf4(weight)
        inputs = [self.constant(weight.codes, weight.dtype), self.constant(weight.scale, DType.f32)]
        if weight.zero is not None:
            inputs.append(self.constant(weight.zero, weight.dtype))
        group = weight.group if weight.scale.shape[weight.axis] > 1 else 0
        return self.add(Dequantize(weight.axis, group), *inputs)

    def _dequantize_nf4(self, weight: QuantizedWeight) -> Value:
        rows, depth = weight.codes.shape
        codes = as_records(weight.codes.reshape(rows, -1, weight.group))
        value = self.add(Convert(DType.f32), self.constant(codes, DType.nf4))
        value = self.add(Multiply(), value, self.constant(weight.scale[..., None], DType.f32))
        target = self.constant(np.array([rows, depth], np.int64), DType.i64)
        return self.add(Reshape(False), value, target)


def reciprocal(factors: Array) -> Array:
    """1 / factors as float32, as both forms multiply by it."""
    return (1.0 / factors.astype(np.float64)).astype(np.float32)


def transpose_weight(weight: QuantizedWeight) -> QuantizedWeight:
    """A matrix in groups with its depth last."""
    if not weight.group or weight.axis == 1:
        return weight
    zero = None if weight.zero is None else weight.zero.T
    return replace(weight, codes=weight.codes.T, scale=weight.scale.T, zero=zero, axis=1)


def apply_to_graph(graph: Graph, layers: list[Layer], plan: QuantizationPlan) -> Graph:
    """A copy of the graph in which the plan's layers are quantized."""
    copy = graph.copy()
    build = _GraphEditor(copy)
    for layer in layers:
        how = plan.layers.get(layer.name)
        if how is not None:
            _quantize_layer(build, layer, how)
    _remove_unread(copy)
    infer_graph(copy)
    return copy


def _quantize_layer(build: _GraphEditor, layer: Layer, how: LayerPlan) -> None:
    graph, use = build.graph, layer.use
    if how.input_scale is not None:
        use = Use(layer.node, 0)
        axis = -1 if layer.is_matrix_product else 1
        value = build.divide(graph.input(*use), how.input_scale, axis, f"{layer.name}/smooth")
        graph.connect(value, use)
    if how.activation is not None:
        value = graph.input(*use)
        source = graph.node(value.node).name or layer.name
        quantized = build.fake_quantize(value, how.activation, f"{source}/quantized")
        graph.connect(quantized, use)
    found = None if how.bias is None else find_bias(graph, layer)
    if found is not None and how.bias is not None:
        graph.connect(build.constant(how.bias, DType.f32), found[0])
    weight, op = transpose_weight(how.weight), graph.op(layer.node)
    graph.connect(build.dequantize(weight), Use(layer.node, 1))
    if weight.group and isinstance(op, MatMul | Gemm):
        graph.node(layer.node).op = replace(op, transpose_b=True)


def _remove_unread(graph: Graph) -> None:
    """Remove the constants that their codes replaced."""
    while True:
        unread = [n for n in graph.unread() if graph.op(n).kind in ("Constant", "Convert")]
        if not unread:
            return
        for node in unread:
            graph.remove(node)
