"""Operations of earlier sets as the latest of their kind, which have kernels."""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import Concat, Interpolate1, LSTMCell1, ROIAlign3, Split
from ....ir.ops.nn.older_versions import GATES
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import shape_of


def upgrade_roi_align(graph: Graph, node: int, op: ROIAlign3) -> Patch:
    """ROIAlign with the default of aligned_mode."""
    patch = Patch()
    return patch.replace(Value(node), patch.add(op.to_latest(), *graph.inputs(node)))


def upgrade_interpolate(graph: Graph, node: int, op: Interpolate1) -> Patch | MatchFailure:
    """Interpolate with its axes as an input."""
    shape = shape_of(graph, graph.input(node, 0))
    if shape is None:
        return MatchFailure("the rank is unknown")
    patch, axes = Patch(), op.sorted_axes(len(shape))
    scales = patch.constant([1.0] * len(axes), DType.f32)
    made = patch.add(op.to_latest(len(shape)), *graph.inputs(node), scales, patch.integers(axes))
    return patch.replace(Value(node), made)


def upgrade_lstm_cell(graph: Graph, node: int, op: LSTMCell1) -> Patch:
    """LSTMCell with its gates in the order that set 4 has."""
    patch, order, inputs = Patch(), op.gate_order(), graph.inputs(node)
    weights: list[Value | None] = []
    for value in inputs[3:]:
        if value is None or order == list(range(len(GATES))):
            weights.append(value)
            continue
        parts = patch.add(Split(len(GATES)), value, patch.integers(0))
        weights.append(patch.add(Concat(0), *(Value(parts.node, n) for n in order)))
    made = patch.add(op.to_latest(), *inputs[:3], *weights, name=graph.node(node).name)
    for port in range(op.output_count()):
        patch.replace(Value(node, port), Value(made.node, port))
    return patch


_RULES = (
    op_rule("decompose_roi_align_3", (ROIAlign3,), upgrade_roi_align),
    op_rule("decompose_interpolate_1", (Interpolate1,), upgrade_interpolate),
    op_rule("decompose_lstm_cell_1", (LSTMCell1,), upgrade_lstm_cell),
)

upgrade_older_versions = Pass("upgrade_older_versions", lambda options: _RULES)
