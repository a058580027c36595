"""SearchSorted in short sequences: how many elements are before a value, counted by comparisons."""

from __future__ import annotations

from ....ir.graph import Graph, Value
from ....ir.ops import (
    Convert,
    Equal,
    Greater,
    GreaterEqual,
    LogicalAnd,
    LogicalNot,
    LogicalOr,
    NotEqual,
    ReduceSum,
    SearchSorted,
    Unsqueeze,
)
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import dtype_of, shape_of

# A binary search takes fewer comparisons in longer sequences.
_MAX_LENGTH = 64


def decompose_search(graph: Graph, node: int, op: SearchSorted) -> Patch | MatchFailure | None:
    """Compare every value with every element of its row; NaN is behind all numbers."""
    rows, values = graph.input(node, 0), graph.input(node, 1)
    have, want = shape_of(graph, rows), shape_of(graph, values)
    if have is None or want is None or not have or not isinstance(have[-1], int):
        return MatchFailure("a rank or the length of the sequences is unknown")
    if not 0 < have[-1] <= _MAX_LENGTH:
        return MatchFailure("long sequences")
    patch = Patch()
    value = patch.add(Unsqueeze(), values, patch.integers([len(want)]))
    element = rows
    if len(have) > 1:
        element = patch.add(Unsqueeze(), rows, patch.integers([len(have) - 1]))
    after = Greater() if op.right_mode else GreaterEqual()
    before = patch.add(LogicalNot(), patch.add(after, element, value))
    if dtype_of(graph, rows).is_float:
        before = patch.add(LogicalAnd(), before, patch.add(Equal(), element, element))
        if op.right_mode:
            before = patch.add(LogicalOr(), before, patch.add(NotEqual(), value, value))
    counted = patch.add(Convert(op.output_type), before)
    made = patch.add(ReduceSum(keep_dims=False), counted, patch.integers([len(want)]))
    return patch.replace(Value(node), made)


_RULES = (op_rule("decompose_search_sorted", (SearchSorted,), decompose_search),)

decompose_search_sorted = Pass("decompose_search_sorted", lambda options: _RULES)
