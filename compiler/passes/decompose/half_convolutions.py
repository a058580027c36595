"""Compute convolutions and recurrent layers of f16 in f32, and what follows them up to a product.

No processor that irc generates these kernels for multiplies f16 elements faster than it converts
them one by one, so a convolution of f16 took four times as long as one of f32, and recurrent layers
had no kernel at all. Peers convert whole models to f32. Here matrix products keep their f16 weights
in half the memory: at products, results and operations that are not listed, values are rounded to
f16, by the kernel that writes them. In between none is (docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Use, Value
from ....ir.infer import infer_graph
from ....ir.ops import Constant, Convert
from ....ir.types import TensorType
from ...legality import CONVOLUTIONS, RECURRENT
from ...rewrite.trace import Trace

_PASS: Final = "widen_half_convolutions"
# What computes on values of f32 as on those of f16, and has nothing to gain from half the bytes.
_FOLLOWERS: Final = frozenset(
    "Add Subtract Multiply Divide Maximum Minimum Negative Abs Relu PRelu Sigmoid Tanh Clamp Elu "
    "Selu Gelu HSwish HSigmoid HardSigmoid Swish Mish SoftPlus SoftSign Exp Sqrt "
    "BatchNormInference MaxPool AvgPool AdaptiveAvgPool AdaptiveMaxPool ReduceMean ReduceMax "
    "ReduceSum Interpolate Pad Concat Split VariadicSplit Slice StridedSlice Reshape Transpose "
    "Squeeze Unsqueeze DepthToSpace SpaceToDepth ShuffleChannels ReverseSequence".split()
)


def widen_half_convolutions(graph: Graph, trace: Trace) -> None:
    """Rewrite the graph in place: types of results stay, and those of values that others read."""
    wide: dict[Value, Value] = {}
    made: set[int] = set()
    for node in graph.order():
        if trace.is_exhausted:
            break
        if _is_widened(graph, node, wide):
            trace.hit(_PASS, _PASS, graph.node(node).name)
            made.add(node)
            for port, value in list(_half_inputs(graph, node)):
                graph.connect(_widen(graph, value, wide), Use(node, port))
            wide |= {v: v for v in graph.values(node) if _is_half(graph, v)}
    if not made:
        return
    for value in [v for v, same in wide.items() if v == same]:
        others = [use for use in graph.uses(value) if use.node not in made]
        if others:
            _round_uses(graph, value, others)
    infer_graph(graph)


def _is_widened(graph: Graph, node: int, wide: dict[Value, Value]) -> bool:
    kind, halves = graph.op(node).kind, [v for _, v in _half_inputs(graph, node)]
    if kind in CONVOLUTIONS or kind in RECURRENT:
        return bool(halves)
    return kind in _FOLLOWERS and any(wide.get(v) == v for v in halves)


def _half_inputs(graph: Graph, node: int) -> Iterator[tuple[int, Value]]:
    """Ports and values of f16 that the node reads."""
    for port, value in enumerate(graph.inputs(node)):
        if value is not None and _is_half(graph, value):
            yield port, value


def _is_half(graph: Graph, value: Value) -> bool:
    type_ = graph.type(value)
    return isinstance(type_, TensorType) and type_.dtype is DType.f16


def _widen(graph: Graph, value: Value, wide: dict[Value, Value]) -> Value:
    """The value as f32: what a widened node makes, a constant of its own, or a conversion."""
    found = wide.get(value)
    if found is None:
        op, name = graph.op(value.node), graph.node(value.node).name
        if isinstance(op, Constant):
            node = graph.add(Constant.of(op.data.astype(np.float32), DType.f32), [], name=name)
        else:
            node = graph.add(Convert(DType.f32), [value], name=name)
        found = wide[value] = Value(node)
    return found


def _round_uses(graph: Graph, value: Value, uses: list[Use]) -> None:
    """Round the value to f16 for these uses. Its tensor names are those of the rounded one."""
    made = graph.node(value.node)
    node = graph.add(Convert(DType.f16), [value], name=made.name)
    if value.port < len(made.names):
        graph.node(node).names = [made.names[value.port]]
        made.names[value.port] = frozenset()
    for use in uses:
        graph.connect(Value(node), use)
