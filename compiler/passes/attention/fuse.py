"""The pass that canonicalizes attention and makes one operation of it: see the package."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Add,
    Attention,
    Constant,
    Convert,
    Divide,
    Gather,
    MatMul,
    Multiply,
    ScaledDotProductAttention,
    Select,
    ShapeOf,
    Softmax,
    Sqrt,
)
from ...legality import MOVES, head_size_failure
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use, producer
from ..layout.cancel_transposes import add_transpose, order_of
from ..match.values import constant_scalar, dtype_of, same_shape, shape_of
from .batch_axes import hoist_split, sink_merge
from .grouped_query import share_heads
from .masks import (
    MASKED_SCORE,
    Mask,
    add_visible_mask,
    find_causal,
    join_masks,
    match_mask,
    raise_mask,
)
from .match_scores import (
    STEPS,
    SoftmaxMatch,
    broadcasts_scores,
    find_softmax,
    match_scale,
)
from .quantized_scores import take_codes
from .scales import merge_scales, scale_masked_scores, scale_queries
from .sink_dequantize_rows import sink_dequantize_rows


def take_operation(
    graph: Graph, node: int, op: ScaledDotProductAttention
) -> Patch | MatchFailure | None:
    """OpenVINO's operation, whose scale is known; two products and a softmax where heads are of a
    size that no kernel takes."""
    inputs = graph.inputs(node)
    query, key, value, mask, given, sink = (*inputs, None, None, None)[:6]
    shape = shape_of(graph, query)
    values = shape_of(graph, value)
    if shape is None or values is None or shape_of(graph, key) is None:
        return MatchFailure("a rank is unknown")
    assert query is not None and value is not None
    size = shape[-1]
    scale = None if given is None else constant_scalar(graph, given)
    if given is None and isinstance(size, int) and size > 0:
        scale = 1 / math.sqrt(size)
    if (given is not None and scale is None) or (scale is not None and not math.isfinite(scale)):
        return MatchFailure("the scale is not known")
    refused = head_size_failure(graph, query, size) or head_size_failure(graph, value, values[-1])
    if refused and (op.causal or dtype_of(graph, query) is not DType.f32):
        return MatchFailure(refused)
    if sink is not None and (refused or scale is None):
        return MatchFailure(refused or "the size of a head is known at run time only")
    if refused or scale is None:
        return _multiply_apart(graph, node, scale)
    if op.causal or (mask is not None and _is_zero(graph, mask)):
        mask = None
    made = Attention(float(scale), "first" if op.causal else "")
    patch = Patch()
    return patch.replace(Value(node), patch.add(made, query, key, value, mask, sink))


def _multiply_apart(graph: Graph, node: int, scale: float | None) -> Patch:
    """softmax(query x key^T * scale + mask) x value, the scores in memory. Without a scale they are
    divided by the root of the size of a head."""
    query, key, value, mask = (*graph.inputs(node), None)[:4]
    patch = Patch()
    product = patch.add(MatMul(transpose_b=True), query, key)
    if scale is not None:
        scores = patch.add(Multiply(), product, patch.constant(scale, DType.f32))
    else:
        last, zero = (patch.constant(n, DType.i64) for n in (-1, 0))
        size = patch.add(Gather(), patch.add(ShapeOf(), query), last, zero)
        root = patch.add(Sqrt(), patch.add(Convert(DType.f32), size))
        scores = patch.add(Divide(), product, root)
    if mask is not None and dtype_of(graph, mask) is DType.boolean:
        scores = patch.add(Select(), mask, scores, patch.constant(-math.inf, DType.f32))
    elif mask is not None:
        scores = patch.add(Add(), scores, mask)
    weights = patch.add(Softmax(axis=-1), scores)
    return patch.replace(Value(node), patch.add(MatMul(), weights, value))


def _is_zero(graph: Graph, value: Value) -> bool:
    """Whether an added mask is a constant of zeros."""
    op = graph.op(value.node)
    return isinstance(op, Constant) and op.dtype.is_float and not np.any(op.data)


def fuse_products(graph: Graph, node: int, last: MatMul) -> Patch | MatchFailure | None:
    """MatMul(Softmax(mask(MatMul(query, key))), values), in normal form (see the package)."""
    for port in (0, 1):
        softmax = find_softmax(graph, graph.input(node, port))
        if softmax is None:
            continue
        if port != int(last.transpose_b if port else last.transpose_a):
            return MatchFailure("the mixture reads the softmax the other way round")
        return _build_attention(graph, node, softmax, turned=port == 1)
    return None


def _build_attention(
    graph: Graph, node: int, softmax: SoftmaxMatch, *, turned: bool
) -> Patch | MatchFailure | None:
    """`turned`: the last product is value^T x softmax^T."""
    masks: list[Mask] = []
    scores = softmax.scores
    while (found := match_mask(graph, scores.node)) is not None:
        if broadcasts_scores(graph, scores.node, found[0]):
            return MatchFailure("a mask or a scale broadcasts the scores")
        scores, mask = found
        masks.append(mask)
    product, cap = _match_cap(graph, scores)
    last, first, patch = graph.op(node), graph.op(product.node), Patch()
    if not isinstance(first, MatMul) or not isinstance(last, MatMul) or cap < 0:
        return None
    if not all(has_one_use(graph, v) for v in (softmax.scores, product)):
        return MatchFailure("the scores have other readers")
    rows: list[Value] = []
    turn_values = not last.transpose_a if turned else last.transpose_b
    for value, turn in (
        (graph.input(product.node, 0), first.transpose_a),
        (graph.input(product.node, 1), not first.transpose_b),
        (graph.input(node, int(not turned)), turn_values),
    ):
        shape = shape_of(graph, value)
        if shape is None or len(shape) < 2:
            return MatchFailure("a rank is unknown, or an operand is a vector")
        refused = head_size_failure(graph, value, shape[-2 if turn else -1])
        if refused:
            return MatchFailure(refused)
        rows.append(_rows(graph, patch, value, turn=turn))
    causal = ""
    for mask in masks:
        least = -math.inf if len(masks) > 1 else MASKED_SCORE
        causal = find_causal(graph, mask, product, least)
        if causal:
            masks.remove(mask)
            break
    if len(masks) > 1:
        return None
    fill, shown = -math.inf, None
    if masks:
        fill = fill if masks[0].fill is None else masks[0].fill
        shown = add_visible_mask(patch, masks[0])
    op = Attention(causal=causal, fill=fill, zeros=softmax.zeros, cap=cap)
    result = patch.add(op, *rows, shown, softmax.sink)
    if turned:
        rank = len(shape_of(graph, Value(node)) or ())
        result = add_transpose(patch, result, [*range(rank - 2), rank - 1, rank - 2])
    return patch.replace(Value(node), result)


def _match_cap(graph: Graph, scores: Value) -> tuple[Value, float]:
    """(product, cap) of tanh(product) * cap, or the value itself and 0."""
    scaled = None
    if graph.op(scores.node).kind in ("Multiply", "Divide"):
        scaled = match_scale(graph, scores.node)
    value, cap = scaled or (scores, 1.0)
    tanh = producer(graph, value, "Tanh")
    return (scores, 0.0) if tanh is None else (graph.input(tanh, 0), cap)


def _rows(graph: Graph, patch: Patch, value: Value, *, turn: bool) -> Value:
    """An operand with a row per query or key."""
    if not turn:
        return value
    shape, source = shape_of(graph, value) or (), producer(graph, value, "Transpose")
    known = None if source is None else order_of(graph, source)
    order = known or list(range(len(shape)))
    base = value if source is None or known is None else graph.input(source, 0)
    return add_transpose(patch, base, [*order[:-2], order[-1], order[-2]])


def absorb_scale(graph: Graph, node: int, op: Attention) -> Patch | None:
    """Attention of scaled queries or keys = Attention with another scale."""
    patch, inputs = Patch(), graph.inputs(node)
    for port in (0, 1):
        value = inputs[port]
        assert value is not None
        found, factor = _without_scale(graph, patch, value)
        if found != value and math.isfinite(op.scale * factor):
            inputs[port] = found
            made = patch.add(replace(op, scale=op.scale * factor), *inputs)
            return patch.replace(Value(node), made)
    return None


def _without_scale(graph: Graph, patch: Patch, value: Value) -> tuple[Value, float]:
    """The value before it was scaled by a number, with what moved it afterwards done again, and
    the factor; the value itself and 1 where nothing scales it."""
    moves: list[int] = []
    at = value
    while has_one_use(graph, at) and graph.op(at.node).kind in MOVES:
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
    Rule("hoist_split", ("Reshape",), hoist_split),
    Rule("sink_merge", STEPS, sink_merge),
    Rule("scale_queries", ("Multiply", "Divide"), scale_queries),
    Rule("scale_masked_scores", ("Multiply", "Divide"), scale_masked_scores),
    Rule("merge_scales", ("Multiply", "Divide"), merge_scales),
    Rule("raise_mask", ("Maximum",), raise_mask),
    Rule("join_masks", ("Add", "Select"), join_masks),
    op_rule("fuse_products", (MatMul,), fuse_products),
    op_rule("absorb_scale", (Attention,), absorb_scale),
    op_rule("share_heads", (Attention,), share_heads),
    op_rule("take_codes", (Attention,), take_codes),
    Rule("sink_dequantize_rows", ("Unsqueeze", "Transpose", "Reshape"), sink_dequantize_rows),
)

fuse_attention = Pass("fuse_attention", lambda options: _RULES)
