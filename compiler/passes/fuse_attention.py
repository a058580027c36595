"""Recognise attention: scores, mask, softmax and mixture as one operation.

Exporters scale the queries, the keys, both by a root, or the scores; they add masks or select by
them; they repeat keys and values that several heads share, and turn rows that see nothing to zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...ir.graph import Graph, Value
from ...ir.ops import (
    Attention,
    Constant,
    MatMul,
    ScaledDotProductAttention,
    Softmax,
)
from ...ir.patch import Patch, Refusal, producer, sole_use
from ...ir.types import normalize_axis
from ..lowering.attention import refuse_heads
from ..rewrite import Pass, Rule
from .attention_masks import Mask, merge_masks
from .cancel_transposes import add_transpose, order_of
from .matching import number, numbered, same_shape, shape_of
from .share_heads import share_heads

# Operations that only move elements: a scale may as well be applied behind them.
_MOVES = frozenset({"Transpose", "Reshape", "Squeeze", "Unsqueeze"})


def take_operation(graph: Graph, node: int) -> Patch | Refusal | None:
    """OpenVINO's operation, whose scale is known."""
    op, inputs = graph.op(node), graph.inputs(node)
    assert isinstance(op, ScaledDotProductAttention)
    query, key, value, mask, given = (*inputs, None, None)[:5]
    shape = shape_of(graph, query)
    values = shape_of(graph, value)
    if shape is None or values is None or shape_of(graph, key) is None:
        return Refusal("a rank is unknown")
    assert query is not None and value is not None
    size = shape[-1]
    refused = refuse_heads(graph, query, size) or refuse_heads(graph, value, values[-1])
    if refused:
        return Refusal(refused)
    assert isinstance(size, int)
    scale = 1 / math.sqrt(size) if given is None else number(graph, given)
    if scale is None or not math.isfinite(scale):
        return Refusal("the scale is not known")
    if op.causal or (mask is not None and _is_zero(graph, mask)):
        mask = None
    made = Attention(float(scale), "first" if op.causal else "")
    patch = Patch()
    return patch.replace(Value(node), patch.add(made, query, key, value, mask))


def _is_zero(graph: Graph, value: Value) -> bool:
    """Whether an added mask is a constant of zeros."""
    op = graph.op(value.node)
    return isinstance(op, Constant) and op.dtype.is_float and not np.any(op.data)


@dataclass(frozen=True)
class _Scores:
    """What goes into a softmax: scale * (a product), and then the masks, the last one first."""

    product: int
    scale: float
    masks: tuple[Mask, ...] = ()


def fuse_products(graph: Graph, node: int) -> Patch | Refusal | None:
    """softmax(scores) x value in primitive operations, seen from the last product."""
    last = graph.op(node)
    assert isinstance(last, MatMul)
    found = _softmax(graph, graph.input(node, 0))
    if found is None:
        return None
    softmax, zeros = found
    scores = _scores(graph, graph.input(softmax, 0))
    if scores is None or isinstance(scores, Refusal):
        return scores
    first = graph.op(scores.product)
    assert isinstance(first, MatMul)
    patch = Patch()
    rows: list[tuple[Value, float]] = []
    for value, turn, scaled in (
        (graph.input(scores.product, 0), first.transpose_a, True),
        (graph.input(scores.product, 1), not first.transpose_b, True),
        (graph.input(node, 1), last.transpose_b, False),
    ):
        shape = shape_of(graph, value)
        if shape is None or len(shape) < 2:
            return Refusal("a rank is unknown, or an operand is a vector")
        refused = refuse_heads(graph, value, shape[-2 if turn else -1])
        if refused:
            return Refusal(refused)
        rows.append(_rows(graph, patch, value, turn=turn, scaled=scaled))
    if last.transpose_a:
        return Refusal("the mixture reads the transposed softmax")
    (query, q), (key, k), (values, _) = rows
    scale = scores.scale * q * k
    if not math.isfinite(scale):
        return Refusal("the scale is not finite")
    op = merge_masks(graph, patch, scores.masks, Value(scores.product))
    if isinstance(op, Refusal):
        return op
    made, mask = op
    op = replace(made, scale=scale, zeros=zeros)
    return patch.replace(Value(node), patch.add(op, query, key, values, mask))


def _softmax(graph: Graph, value: Value) -> tuple[int, bool] | None:
    """The softmax along the last axis that makes `value` for one reader, and whether what is not
    a number is turned to zeros behind it."""
    if not sole_use(graph, value):
        return None
    select, zeros = producer(graph, value, "Select"), False
    if select is not None:
        asked, inner = producer(graph, graph.input(select, 0), "IsNaN"), graph.input(select, 2)
        if asked is None or graph.input(asked, 0) != inner or len(graph.uses(inner)) != 2:
            return None
        if number(graph, graph.input(select, 1)) != 0:
            return None
        value, zeros = inner, True
    op, shape = graph.op(value.node), shape_of(graph, value)
    if not isinstance(op, Softmax) or shape is None:
        return None
    if normalize_axis(op.axis, len(shape)) != len(shape) - 1:
        return None
    return value.node, zeros


def _scores(graph: Graph, value: Value) -> _Scores | Refusal | None:
    """Follow what is done to a product up to the softmax, from the softmax back."""
    scale, masks = 1.0, list[Mask]()
    while True:
        if not sole_use(graph, value):
            return Refusal("the scores have other readers")
        node, kind = value.node, graph.op(value.node).kind
        if kind == "MatMul":
            return _Scores(node, scale, tuple(masks))
        if kind in ("Multiply", "Divide"):
            scaled = _scaled(graph, node)
            if scaled is None:
                return None
            value, factor = scaled
            scale *= factor
        elif kind in ("Add", "Select"):
            masked = _added(graph, node) if kind == "Add" else _chosen(graph, node)
            if masked is None:
                return None
            if scale != 1:
                return Refusal("the masked scores are scaled")
            value, mask = masked
            masks.append(mask)
        else:
            return None
        if not same_shape(graph, value, Value(node)):
            return Refusal("a mask or a scale broadcasts the scores")


def _scaled(graph: Graph, node: int) -> tuple[Value, float] | None:
    """The value that a Multiply or Divide scales by a number, and the factor."""
    if graph.op(node).kind == "Multiply":
        found = numbered(graph, node)
        return None if found is None else (found[0], float(found[1]))
    divisor = number(graph, graph.input(node, 1))
    return None if not divisor else (graph.input(node, 0), 1 / divisor)


def _added(graph: Graph, node: int) -> tuple[Value, Mask] | None:
    """Scores and the mask added to them."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    for scores, mask in ((left, right), (right, left)):
        if _leads_to_product(graph, scores):
            return scores, Mask(mask)
    return None


def _chosen(graph: Graph, node: int) -> tuple[Value, Mask] | None:
    """Scores and the mask that chooses between them and a number."""
    condition, yes, no = (graph.input(node, port) for port in range(3))
    inverted = number(graph, no) is None
    scores, other = (no, yes) if inverted else (yes, no)
    fill = number(graph, other)
    if fill is None or math.isnan(fill):
        return None
    return scores, Mask(condition, float(fill), inverted)


def _leads_to_product(graph: Graph, value: Value, depth: int = 6) -> bool:
    """Whether a value is a product with a few scales and masks applied to it."""
    while depth:
        depth -= 1
        if not sole_use(graph, value):
            return False
        kind = graph.op(value.node).kind
        if kind == "MatMul":
            return True
        if kind == "Add":
            both = (graph.input(value.node, port) for port in (0, 1))
            return any(_leads_to_product(graph, v, depth) for v in both)
        if kind == "Select":
            chosen = _chosen(graph, value.node)
            if chosen is None:
                return False
            value = chosen[0]
        elif kind in ("Multiply", "Divide") and (scaled := _scaled(graph, value.node)):
            value = scaled[0]
        else:
            return False
    return False


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
    while sole_use(graph, at) and graph.op(at.node).kind in _MOVES:
        moves.append(at.node)
        at = graph.input(at.node, 0)
    scaled = None
    if sole_use(graph, at) and graph.op(at.node).kind in ("Multiply", "Divide"):
        scaled = _scaled(graph, at.node)
    if scaled is None or not same_shape(graph, scaled[0], at):
        return value, 1.0
    found, factor = scaled
    for node in reversed(moves):
        found = patch.add(graph.op(node), found, *graph.inputs(node)[1:])
    return found, factor


_RULES = (
    Rule("take_operation", ("ScaledDotProductAttention",), take_operation),
    Rule("fuse_products", ("MatMul",), fuse_products),
    Rule("share_heads", ("Attention",), share_heads),
)

fuse_attention = Pass("fuse_attention", lambda options: _RULES)
