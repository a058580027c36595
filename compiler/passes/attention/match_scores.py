"""What is done to a product of queries and keys up to the mixture, from the mixture back.

Exporters scale the product, cap it softly, add masks or select by them, split the axes of the batch
in between to do so, and repair rows that see nothing behind the softmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops import Softmax, Softmax1
from ....ir.types import normalize_axis
from ...rewrite.patch import MatchFailure, has_one_use, producer
from ..match.values import Shape, constant_scalar, known_axes, shape_of, split_constant_operand
from .masks import MASKED_SCORE, Mask


@dataclass(frozen=True)
class SoftmaxMatch:
    """A softmax of `scores` along the last axis. `zeros`: what is not a number behind it becomes
    zero. `sink`: one more score per query, whose weight is cut off again."""

    scores: Value
    shape: Shape
    zeros: bool
    sink: Value | None = None


@dataclass(frozen=True)
class ScoreScale:
    """A value without a key axis that scores of the shape `level` are multiplied (divided) by."""

    value: Value
    divides: bool
    level: Shape


@dataclass(frozen=True)
class ScoreChain:
    """What goes into a softmax: scale * (a product) times factors, and then the masks, the last one
    first. `shape`: the product's. With a `cap`, cap * tanh(...) stands for the scaled product. What
    the masks make lower than `floor` is raised to it."""

    product: int
    shape: Shape
    scale: float
    factors: tuple[ScoreScale, ...] = ()
    masks: tuple[Mask, ...] = ()
    cap: float = 0.0
    floor: float = -math.inf


def find_softmax(graph: Graph, value: Value) -> SoftmaxMatch | None:
    """The softmax that makes `value` for one reader, whatever splits its batch."""
    value = _unsplit(graph, value)
    if not has_one_use(graph, value):
        return None
    select, zeros = producer(graph, value, "Select"), False
    if select is not None:
        asked, inner = producer(graph, graph.input(select, 0), "IsNaN"), graph.input(select, 2)
        if asked is None or graph.input(asked, 0) != inner or graph.use_count(inner) != 2:
            return None
        if constant_scalar(graph, graph.input(select, 1)) != 0:
            return None
        value, zeros = inner, True
    shape, cut = shape_of(graph, value), graph.op(value.node).kind == "Slice"
    if cut and (
        not _all_but_last(graph, value) or not has_one_use(graph, graph.input(value.node, 0))
    ):
        return None
    value = graph.input(value.node, 0) if cut else value
    op = graph.op(value.node)
    if not isinstance(op, Softmax | Softmax1) or shape is None:
        return None
    if normalize_axis(op.axis, len(shape)) != len(shape) - 1:
        return None
    scores = graph.input(value.node, 0)
    if not cut:
        return SoftmaxMatch(scores, shape, zeros)
    found = _without_sink(graph, scores)
    return None if found is None else SoftmaxMatch(found[0], shape, zeros, found[1])


def _all_but_last(graph: Graph, value: Value) -> bool:
    """Whether a Slice takes all but the last of the last axis."""
    shape = shape_of(graph, value)
    known = [constant_scalar(graph, v) for v in graph.inputs(value.node)[1:]]
    last = None if shape is None else len(shape) - 1
    return len(known) == 4 and known[:3] == [0, -1, 1] and known[3] in (-1, last)


def _without_sink(graph: Graph, value: Value) -> tuple[Value, Value] | None:
    """(scores, sink) of scores with one more column, less their largest or not."""
    shape = shape_of(graph, value)
    if shape is None or not has_one_use(graph, value):
        return None
    less = producer(graph, value, "Subtract")
    if less is not None:
        value, largest = graph.input(less, 0), graph.input(less, 1)
        found = producer(graph, largest, "ReduceMax")
        if found is None or graph.input(found, 0) != value or not has_one_use(graph, largest):
            return None
        axes = known_axes(graph, graph.input(found, 1), len(shape))
        if axes != [len(shape) - 1] or not getattr(graph.op(found), "keep_dims", False):
            return None
        if set(graph.readers(value)) != {less, found}:
            return None
    joined = producer(graph, value, "Concat")
    if joined is None or len(graph.inputs(joined)) != 2:
        return None
    scores, sink = graph.input(joined, 0), graph.input(joined, 1)
    if normalize_axis(int(getattr(graph.op(joined), "axis", 0)), len(shape)) != len(shape) - 1:
        return None
    one = shape_of(graph, sink)
    if one is None or eq(one[-1], 1) is not True:
        return None
    spread = producer(graph, sink, "Broadcast")
    source = None if spread is None else shape_of(graph, graph.input(spread, 0))
    if spread is not None and source is not None and len(source) == len(one):
        sink = graph.input(spread, 0)
    return scores, sink


def _unsplit(graph: Graph, value: Value) -> Value:
    """The value before reshapes that it alone is made by and that keep its last two axes."""
    while has_one_use(graph, value) and graph.op(value.node).kind == "Reshape":
        before, after = shape_of(graph, graph.input(value.node, 0)), shape_of(graph, value)
        if before is None or after is None or min(len(before), len(after)) < 2:
            return value
        if not all(eq(a, b) is True for a, b in zip(before[-2:], after[-2:], strict=True)):
            return value
        value = graph.input(value.node, 0)
    return value


def find_scores(graph: Graph, value: Value) -> ScoreChain | MatchFailure | None:
    """Follow what is done to a product up to the softmax, from the softmax back."""
    scale, cap, masks, factors, floor = 1.0, 0.0, list[Mask](), list[ScoreScale](), -math.inf
    while True:
        value = _unsplit(graph, value)
        if not has_one_use(graph, value):
            return MatchFailure("the scores have other readers")
        node, kind, shape = value.node, graph.op(value.node).kind, shape_of(graph, value)
        if shape is None:
            return None
        if kind == "MatMul":
            return ScoreChain(node, shape, scale, tuple(factors), tuple(masks), cap, floor)
        if kind in ("Multiply", "Divide"):
            scaled = match_scale(graph, node)
            if scaled is not None:
                value, factor = scaled
                scale *= factor
            elif (found := _match_multiply(graph, node, shape)) is not None:
                value, by = found
                factors.append(by)
            else:
                return None
        elif kind == "Maximum" and scale == 1 and not masks:
            raised = split_constant_operand(graph, node)
            if raised is None or not raised[1] <= MASKED_SCORE:
                return MatchFailure("scores that count are raised")
            value, floor = raised[0], max(floor, float(raised[1]))
        elif kind == "Tanh" and not cap and not factors and scale:
            value, cap, scale = graph.input(node, 0), scale, 1.0
        elif kind in ("Add", "Select") and not cap:
            masked = (
                _match_add(graph, node, shape)
                if kind == "Add"
                else _match_select(graph, node, shape)
            )
            if masked is None:
                return None
            value, mask = masked
            if factors or (mask.fill is not None and scale <= 0):
                return MatchFailure("the masked scores are scaled")
            fill = None if mask.fill is None else mask.fill * scale
            masks.append(Mask(mask.value, fill, mask.inverted, shape, scale))
        else:
            return None
        before = shape_of(graph, value)
        # The batch of a mask is one of attention's; keys are as many as values, here as there.
        if before is None or len(before) != len(shape) or eq(before[-2], shape[-2]) is not True:
            return MatchFailure("a mask or a scale broadcasts the scores")


def match_scale(graph: Graph, node: int) -> tuple[Value, float] | None:
    """The value that a Multiply or Divide scales by a number, and the factor."""
    if graph.op(node).kind == "Multiply":
        found = split_constant_operand(graph, node)
        return None if found is None else (found[0], float(found[1]))
    divisor = constant_scalar(graph, graph.input(node, 1))
    return None if not divisor else (graph.input(node, 0), 1 / divisor)


def _match_multiply(graph: Graph, node: int, shape: Shape) -> tuple[Value, ScoreScale] | None:
    """Scores and what differs between heads or queries only that they are multiplied by."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    divides = graph.op(node).kind == "Divide"
    for scores, by in ((left, right),) if divides else ((left, right), (right, left)):
        have = shape_of(graph, by)
        if have is None or not have or eq(have[-1], 1) is not True:
            continue
        if _leads_to_product(graph, scores):
            return scores, ScoreScale(by, divides, shape)
    return None


def _match_add(graph: Graph, node: int, shape: Shape) -> tuple[Value, Mask] | None:
    """Scores and the mask added to them."""
    left, right = graph.input(node, 0), graph.input(node, 1)
    for scores, mask in ((left, right), (right, left)):
        if _leads_to_product(graph, scores):
            return scores, Mask(mask, level=shape)
    return None


def _match_select(graph: Graph, node: int, shape: Shape) -> tuple[Value, Mask] | None:
    """Scores and the mask that chooses between them and a number."""
    condition, yes, no = (graph.input(node, port) for port in range(3))
    inverted = constant_scalar(graph, no) is None
    scores, other = (no, yes) if inverted else (yes, no)
    fill = constant_scalar(graph, other)
    if fill is None or math.isnan(fill):
        return None
    return scores, Mask(condition, float(fill), inverted, shape)


def _leads_to_product(graph: Graph, value: Value, depth: int = 8) -> bool:
    """Whether a value is a product with a few scales and masks applied to it."""
    while depth:
        depth -= 1
        value = _unsplit(graph, value)
        if not has_one_use(graph, value):
            return False
        kind = graph.op(value.node).kind
        if kind == "MatMul":
            return True
        if kind in ("Add", "Multiply") and match_scale(graph, value.node) is None:
            both = (graph.input(value.node, port) for port in (0, 1))
            return any(_leads_to_product(graph, v, depth) for v in both)
        if kind == "Select":
            chosen = _match_select(graph, value.node, ())
            if chosen is None:
                return False
            value = chosen[0]
        elif kind == "Tanh":
            value = graph.input(value.node, 0)
        elif kind in ("Multiply", "Divide"):
            scaled = match_scale(graph, value.node)
            value = graph.input(value.node, 0) if scaled is None else scaled[0]
        else:
            return False
    return False
