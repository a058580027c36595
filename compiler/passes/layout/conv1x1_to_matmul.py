"""Rewrites a 1-D convolution of size 1 over rows as MatMul(filters, data).

Pattern: Convolution with kernel 1, stride 1 and no padding on [N, positions, channels], whose
producers and consumers are not windows, which have the channels last.
Exporter: torch 2.13, `torch.onnx.export` of nn.Conv1d(positions, positions, 1), by which gMLP mixes
positions between matrix products.
Gain: the data keep their layout; a convolution has its channels last, transposed against the
products before and behind it (docs/dev/tuning/exporter-patterns.md).
"""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Constant, Convolution, MatMul
from ...legality import is_elementwise, is_windowed
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of

# Operations that prefer NHWC, in addition to windowed ones.
_TURNING = frozenset({"Transpose"})
_MAX_MATCH_DEPTH = 4


def multiply_rows(graph: Graph, node: int, op: Convolution) -> Patch | MatchFailure | None:
    """A 1-D convolution of size 1 as MatMul(filters, data)."""
    filters = graph.op(graph.input(node, 1).node)
    data, dtype = graph.input(node, 0), dtype_of(graph, Value(node))
    shape = shape_of(graph, data)
    if not isinstance(filters, Constant) or dtype not in (DType.f32, DType.f64):
        return None
    outputs, *rest = filters.data.shape
    if shape is None or len(rest) != 2 or rest[1] != 1:
        return None
    if any(s != 1 for s in op.strides) or any((*op.pads_begin, *op.pads_end)):
        return None
    if _turns_before(graph, data) or _turns_behind(graph, Value(node)):
        return MatchFailure("what is before or behind has its channels last")
    patch = Patch()
    matrix = patch.constant(filters.data.reshape(outputs, rest[0]), filters.dtype)
    return patch.replace(Value(node), patch.add(MatMul(), matrix, data))


def _prefers_nhwc(graph: Graph, node: int) -> bool:
    return is_windowed(graph, node) or graph.op(node).kind in _TURNING


def _turns_before(graph: Graph, value: Value) -> bool:
    """Whether a value is channels-last, as far as elementwise operations propagate the layout."""
    pending = [(value, _MAX_MATCH_DEPTH)]
    while pending:
        at, depth = pending.pop()
        if _prefers_nhwc(graph, at.node):
            return True
        if depth and is_elementwise(graph, at.node):
            pending += [(v, depth - 1) for v in graph.inputs(at.node) if v is not None]
    return False


def _turns_behind(graph: Graph, value: Value) -> bool:
    """Whether a reader wants a value channels last, directly or behind elementwise operations."""
    pending = [(value.node, _MAX_MATCH_DEPTH)]
    while pending:
        at, depth = pending.pop()
        for reader in graph.consumers(at):
            if _prefers_nhwc(graph, reader):
                return True
            if depth and is_elementwise(graph, reader):
                pending.append((reader, depth - 1))
    return False


_RULES = (op_rule("multiply_rows", (Convolution,), multiply_rows),)

convert_conv1x1_to_matmul = Pass("convert_conv1x1_to_matmul", lambda options: _RULES)
