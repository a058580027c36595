"""Recognise attention: scores, mask, softmax and mixture as one operation.

Exporters scale the queries, the keys, both by a root, or the scores; they add masks or select by
them; they repeat keys and values that several heads share, and turn rows that see nothing to zeros.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ....ir.graph import Graph, Value
from ....ir.ops import (
    Attention,
    Constant,
    Divide,
    MatMul,
    Multiply,
    ScaledDotProductAttention,
)
from ...legality import head_size_failure
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..layout.cancel_transposes import add_transpose, order_of
from ..match.values import Shape, constant_scalar, same_shape, shape_of
from .batch_axes import add_reshape, before_reshape, deliver, with_lead
from .grouped_query import share_heads
from .masks import merge_masks
from .match_scores import ScoreChain, SoftmaxMatch, find_scores, find_softmax, match_scale

# Operations that only move elements: a scale may as well be applied behind them.
_MOVES = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze"})


def take_operation(
    graph: Graph, node: int, op: ScaledDotProductAttention
) -> Patch | MatchFailure | None:
    """OpenVINO's operation, whose scale is known."""
    inputs = graph.inputs(node)
    query, key, value, mask, given = (*inputs, None, None)[:5]
    shape = shape_of(graph, query)
    values = shape_of(graph, value)
    if shape is None or values is None or shape_of(graph, key) is None:
        return MatchFailure("a rank is unknown")
    assert query is not None and value is not None
    size = shape[-1]
    refused = head_size_failure(graph, query, size) or head_size_failure(graph, value, values[-1])
    if refused:
        return MatchFailure(refused)
    assert isinstance(size, int)
    scale = 1 / math.sqrt(size) if given is None else constant_scalar(graph, given)
    if scale is None or not math.isfinite(scale):
        return MatchFailure("the scale is not known")
    if op.causal or (mask is not None and _is_zero(graph, mask)):
        mask = None
    made = Attention(float(scale), "first" if op.causal else "")
    patch = Patch()
    return patch.replace(Value(node), patch.add(made, query, key, value, mask))


def _is_zero(graph: Graph, value: Value) -> bool:
    """Whether an added mask is a constant of zeros."""
    op = graph.op(value.node)
    return isinstance(op, Constant) and op.dtype.is_float and not np.any(op.data)


def fuse_products(graph: Graph, node: int, last: MatMul) -> Patch | MatchFailure | None:
    """softmax(scores) x value in primitive operations, seen from the last product."""
    for port in (0, 1):
        softmax = find_softmax(graph, graph.input(node, port))
        if softmax is None:
            continue
        if port != int(last.transpose_b if port else last.transpose_a):
            return MatchFailure("the mixture reads the softmax the other way round")
        scores = find_scores(graph, softmax.scores)
        if scores is None or isinstance(scores, MatchFailure):
            return scores
        return _build_attention(graph, node, softmax, scores, turned=port == 1)
    return None


def _build_attention(
    graph: Graph, node: int, softmax: SoftmaxMatch, scores: ScoreChain, *, turned: bool
) -> Patch | MatchFailure:
    """`turned`: the last product is value^T x softmax^T."""
    last, first, patch = graph.op(node), graph.op(scores.product), Patch()
    assert isinstance(first, MatMul) and isinstance(last, MatMul)
    masked = (m.level for m in (*scores.masks, *scores.factors))
    levels = [softmax.shape, *masked, scores.shape]
    # Where axes of the batch are split furthest, every other shape of theirs can be derived.
    lead = max((level[:-2] for level in levels), key=len)
    rows: list[tuple[Value, float]] = []
    turn_values = not last.transpose_a if turned else last.transpose_b
    for product, port, turn, scaled in (
        (scores.product, 0, first.transpose_a, True),
        (scores.product, 1, not first.transpose_b, True),
        (node, int(not turned), turn_values, False),
    ):
        value, level = graph.input(product, port), shape_of(graph, Value(product))
        found = _operand(graph, patch, value, level or (), lead, turn=turn, scaled=scaled)
        if isinstance(found, MatchFailure):
            return found
        rows.append(found)
    (query, q), (key, k), (values, _) = rows
    for factor in scores.factors:
        spread = with_lead(graph, patch, factor.value, factor.level, lead)
        if isinstance(spread, MatchFailure):
            return spread
        query = patch.add(Divide() if factor.divides else Multiply(), query, spread)
    scale = scores.scale * q * k
    if not math.isfinite(scale):
        return MatchFailure("the scale is not finite")
    op = merge_masks(graph, patch, scores.masks, Value(scores.product), lead, scores.floor)
    if isinstance(op, MatchFailure):
        return op
    made, mask = op
    op = replace(made, scale=scale, zeros=softmax.zeros, cap=scores.cap)
    sink = softmax.sink
    if sink is not None:
        spread = with_lead(graph, patch, sink, softmax.shape, lead)
        if isinstance(spread, MatchFailure):
            return spread
        sink = spread
    result = patch.add(op, query, key, values, mask, sink)
    shape = shape_of(graph, Value(node))
    assert shape is not None
    if turned:
        rank = len(lead) + 2
        result = add_transpose(patch, result, [*range(rank - 2), rank - 1, rank - 2])
    return deliver(graph, patch, result, node, lead)


def _operand(
    graph: Graph, patch: Patch, value: Value, level: Shape, lead: Shape, *, turn: bool, scaled: bool
) -> tuple[Value, float] | MatchFailure:
    """An operand of a product, whose shape is `level`, as attention takes it, and the factor that
    scaled it."""
    shape = shape_of(graph, value)
    if shape is None or len(shape) < 2:
        return MatchFailure("a rank is unknown, or an operand is a vector")
    refused = head_size_failure(graph, value, shape[-2 if turn else -1])
    if refused:
        return MatchFailure(refused)
    before = before_reshape(graph, value, lead)
    found, factor = _rows(graph, patch, before or value, turn=turn, scaled=scaled)
    if before is None and len(shape) != len(lead) + 2:
        broadcast = (a == 1 != b for a, b in zip(shape[:-2], level[:-2], strict=False))
        if len(shape) != len(level) or any(broadcast):
            return MatchFailure("an operand broadcasts over axes of the batch that are split")
        moved = [*shape[:-2], shape[-1], shape[-2]] if turn else shape
        spread = add_reshape(patch, found, moved, (*lead, *moved[-2:]))
        if isinstance(spread, MatchFailure):
            return spread
        found = spread
    return found, factor


def _rows(
    graph: Graph, patch: Patch, value: Value, *, turn: bool, scaled: bool
) -> tuple[Value, float]:
    """An operand with a row per query or key (if `scaled`, before what scales it), the factor."""
    shape = shape_of(graph, value)
    assert shape is not None
    source, order = producer(graph, value, "Transpose"), list(range(len(shape)))
    known = None if source is None else order_of(graph, source)
    base = value
    if source is not None and known is not None:
        base, order = graph.input(source, 0), known
    found, factor = _without_scale(graph, patch, base) if scaled else (base, 1.0)
    if not turn and found == base:
        return value, factor
    if turn:
        order = [*order[:-2], order[-1], order[-2]]
    return add_transpose(patch, found, order), factor


def _without_scale(graph: Graph, patch: Patch, value: Value) -> tuple[Value, float]:
    """The value before it was scaled by a number, with what moved it afterwards done again, and
    the factor; the value itself and 1 where nothing scales it."""
    moves: list[int] = []
    at = value
    while has_one_use(graph, at) and graph.op(at.node).kind in _MOVES:
        moves.append(at.node)
        at = graph.input(at.node, 0)
    scaled = None
    if has_one_use(graph, at) and graph.op(at.node).kind in ("Multiply", "Divide"):
        scaled = match_scale(graph, at.node)
    if scaled is None or not same_shape(graph, scaled[0], at):
        return value, 1.0
    found, factor = scaled
    for node in reversed(moves):
        found = patch.add(graph.op(node), found, *graph.inputs(node)[1:])
    return found, factor


_RULES = (
    op_rule("take_operation", (ScaledDotProductAttention,), take_operation),
    op_rule("fuse_products", (MatMul,), fuse_products),
    op_rule("share_heads", (Attention,), share_heads),
)

fuse_attention = Pass("fuse_attention", lambda options: _RULES)
