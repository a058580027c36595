"""NonMaxSuppression with constant limits: a kernel keeps the boxes of each class in memory of known
size, and a step behind it makes their list, whose length depends on the data."""

from __future__ import annotations

import math
import sys

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import ListBoxes, NonMaxSuppression, NonMaxSuppression4, SuppressBoxes
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import constant_scalar, dtype_of, shape_of

_MAX_LIMIT = 1 << 30  # boxes have numbers of 32 bits
_DEFAULTS = (0, 0.0, -sys.float_info.max, 0.0)  # limit, overlap, score, sigma


def decompose_suppression(
    graph: Graph, node: int, op: NonMaxSuppression
) -> Patch | MatchFailure | None:
    """Boxes of f32, with scores that no overlap lowers."""
    if isinstance(op, NonMaxSuppression4):
        return MatchFailure("rows of -1 are behind the list")
    boxes, scores, *given = graph.inputs(node)
    if boxes is None or scores is None or None in (shape_of(graph, boxes), shape_of(graph, scores)):
        return MatchFailure("a rank is unknown")
    if dtype_of(graph, boxes) is not DType.f32 or dtype_of(graph, scores) is not DType.f32:
        return MatchFailure("not in f32")
    limits = list[float]()
    for number, default in enumerate(_DEFAULTS):
        value = given[number] if number < len(given) else None
        found = default if value is None else constant_scalar(graph, value)
        if found is None:
            return MatchFailure("limits are known at run time only")
        limits.append(found)
    limit, overlap, least, sigma = limits
    least = max(least, _DEFAULTS[2])  # of minus infinity, which finite scores exceed as well
    if limit <= 0 or not 0 <= overlap < math.inf or sigma > 0 or not least < math.inf:
        return MatchFailure("no boxes, overlaps below 0, or scores that overlaps lower")
    patch, encoding = Patch(), op.box_encoding.lower()
    limit = int(min(limit, _MAX_LIMIT))
    indices = patch.add(SuppressBoxes(encoding, limit, float(overlap), float(least)), boxes, scores)
    counts = Value(indices.node, 1)
    listed = patch.add(
        ListBoxes(op.sort_result_descending, op.output_type), indices, counts, scores
    )
    for port in range(op.output_count()):
        patch.replace(Value(node, port), Value(listed.node, port))
    return patch


decompose_non_max_suppression = Pass(
    "decompose_non_max_suppression",
    lambda options: (
        op_rule("decompose_suppression", (NonMaxSuppression,), decompose_suppression),
    ),
)
