"""Fold transposes of the last two axes into the flags of matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ....ir.graph import Graph, Value
from ....ir.ops import Gemm, MatMul
from ...legality import is_windowed
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..match.values import shape_of
from .cancel_transposes import order_of


def swaps_last_two(order: Sequence[int]) -> bool:
    """Whether an order exchanges the last two axes and keeps the others."""
    rank = len(order)
    return rank >= 2 and list(order) == [*range(rank - 2), rank - 1, rank - 2]


def fold_input(graph: Graph, node: int, op: MatMul | Gemm) -> Patch | MatchFailure | None:
    """A transposed operand becomes a flag."""
    moved, refused = graph.inputs(node), None
    changed: MatMul | Gemm = op
    for port, flag in ((0, "transpose_a"), (1, "transpose_b")):
        source = producer(graph, moved[port], "Transpose")
        order = None if source is None else order_of(graph, source)
        if source is None or order is None:
            continue
        if not swaps_last_two(order):
            refused = MatchFailure("the transpose moves other axes than the last two")
            continue
        changed = replace(changed, **{flag: not getattr(op, flag)})
        moved[port] = graph.input(source, 0)
    if changed == op:
        return refused
    patch = Patch()
    return patch.replace(Value(node), patch.add(changed, *moved))


def fold_output(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(A B)' = B' A': a transposed product swaps its operands."""
    source = graph.input(node, 0)
    op = graph.op(source.node)
    order = order_of(graph, node)
    if not isinstance(op, MatMul | Gemm) or order is None:
        return None
    inputs = graph.inputs(source.node)
    if not swaps_last_two(order):
        return MatchFailure("the transpose moves other axes than the last two")
    if not has_one_use(graph, source):
        return MatchFailure("the product has other readers")
    if len(inputs) > 2 and inputs[2] is not None:
        return MatchFailure("the product has a third operand")
    shapes = [shape_of(graph, v) for v in inputs[:2]]
    if any(s is None or len(s) < 2 for s in shapes):
        return MatchFailure("an operand is a vector, or its rank is unknown")
    if _becomes_image(graph, node):
        return MatchFailure("an image is made of it, whose readers want its channels last")
    changed = replace(op, transpose_a=not op.transpose_b, transpose_b=not op.transpose_a)
    patch = Patch()
    return patch.replace(Value(node), patch.add(changed, inputs[1], inputs[0]))


def _becomes_image(graph: Graph, node: int) -> bool:
    """Whether windows slide over a reshaped result, or it is resampled: tokens [N, H * W, C] that
    become [N, C, H, W] lie as those want them without the swap."""
    reshaped = [n for n in graph.consumers(node) if graph.op(n).kind == "Reshape"]
    readers = [reader for n in reshaped for reader in graph.consumers(n)]
    return any(graph.op(r).kind == "Interpolate" or is_windowed(graph, r) for r in readers)


_RULES = (
    op_rule("fold_input", (MatMul, Gemm), fold_input),
    Rule("fold_output", ("Transpose",), fold_output),
)

fold_transposes = Pass("fold_transposes", lambda options: _RULES)
