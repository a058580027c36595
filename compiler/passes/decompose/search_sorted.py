"""SearchSorted in short sequences: how many elements are before a value, counted by comparisons.
Bucketize searches among its boundaries."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Bucketize,
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
_EXACT_IN_F64 = frozenset(DType(name) for name in "i8 u8 i16 u16 i32 u32 f16 bf16 f32 f64".split())


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


def decompose_bucketize(has_kernel: Callable[[Graph, int], bool]) -> Pass:
    """The pass that searches among the boundaries of each Bucketize for which `has_kernel` is
    False: the bucket of a value is how many boundaries are before it."""

    def search_boundaries(graph: Graph, node: int, op: Bucketize) -> Patch | MatchFailure | None:
        values, bounds = graph.inputs(node)
        if has_kernel(graph, node) or values is None or bounds is None:
            return None
        patch = Patch()
        if dtype_of(graph, values) is not dtype_of(graph, bounds):
            if any(dtype_of(graph, v) not in _EXACT_IN_F64 for v in (values, bounds)):
                return MatchFailure("integers of 64 bits among boundaries of another type")
            values, bounds = (patch.add(Convert(DType.f64), v) for v in (values, bounds))
        search = SearchSorted(not op.with_right_bound, op.output_type)
        return patch.replace(Value(node), patch.add(search, bounds, values))

    rules = (op_rule("decompose_bucketize", (Bucketize,), search_boundaries),)
    return Pass("decompose_bucketize", lambda options: rules)


_RULES = (op_rule("decompose_search_sorted", (SearchSorted,), decompose_search),)

decompose_search_sorted = Pass("decompose_search_sorted", lambda options: _RULES)
