"""Scores of attention: the values between a product of queries and keys and its softmax.

Scores have one reader each. Constants are never scores, so that the walk up to the product finds
which operand of an operation they are.
"""

from __future__ import annotations

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import MatMul, Softmax, Softmax1
from ....ir.types import normalize_axis
from ...legality import head_size_failure
from ...rewrite.patch import has_one_use, producer
from ..match.values import constant_scalar, known_axes, shape_of, split_constant_operand

# The inputs through which scores may reach an operation.
_PORTS = {
    "Add": (0, 1),
    "Multiply": (0, 1),
    "Divide": (0,),
    "Select": (1, 2),
    "Tanh": (0,),
    "Maximum": (0, 1),
    "Reshape": (0,),
}
# Operations that read scores or weights, up to the product with the values.
STEPS = ("Add", "Multiply", "Divide", "Select", "Tanh", "Maximum", "Softmax", "MatMul")
# What may follow scores until the product with the values: see find_softmax for the later ones.
_FOLLOWING = frozenset(_PORTS) | {"Softmax", "Concat", "Subtract", "Slice"}
# Readers in addition to the one that passes scores or weights on.
_OBSERVERS = frozenset({"IsNaN", "ReduceMax"})
_MAX_STEPS = 12


@dataclass(frozen=True)
class SoftmaxMatch:
    """A softmax of `scores` along the last axis. `zeros`: what is not a number behind it becomes
    zero. `sink`: one more score per query, whose weight is cut off again."""

    scores: Value
    zeros: bool
    sink: Value | None = None


def is_scores(graph: Graph, value: Value, depth: int = _MAX_STEPS) -> bool:
    """Whether a value is a product of queries and keys, or made of one."""
    if depth == 0 or not has_one_use(graph, value):
        return False
    node, op = value.node, graph.op(value.node)
    if isinstance(op, MatMul):
        query = graph.input(node, 0)
        shape = shape_of(graph, query)
        size = shape[-2 if op.transpose_a else -1] if shape is not None and len(shape) > 1 else 0
        return head_size_failure(graph, query, size) is None
    return any(is_scores(graph, graph.input(node, p), depth - 1) for p in _PORTS.get(op.kind, ()))


def scores_port(graph: Graph, node: int) -> int | None:
    """The input of an operation that is scores."""
    ports = _PORTS.get(graph.op(node).kind, ())
    return next((p for p in ports if is_scores(graph, graph.input(node, p))), None)


def match_step(graph: Graph, node: int) -> int | None:
    """The input through which scores pass an operation between product and softmax; None for any
    other operation, and while batches are split or merged on the way (batch_axes.py)."""
    # feeds_mixture visits few nodes; scores_port walks back to the product.
    if not feeds_mixture(graph, Value(node), reshaped=False):
        return None
    port = scores_port(graph, node)
    return None if port is None or follows_reshape(graph, graph.input(node, port)) else port


def follows_reshape(graph: Graph, scores: Value) -> bool:
    """Whether a batch is split or merged between the product and its scores."""
    while (port := scores_port(graph, scores.node)) is not None:
        if graph.op(scores.node).kind == "Reshape":
            return True
        scores = graph.input(scores.node, port)
    return False


def feeds_mixture(graph: Graph, value: Value, *, reshaped: bool, weights: bool = False) -> bool:
    """Whether scores (`weights`: what a softmax made of them) go through a softmax to a product and
    nowhere else; `reshaped`: also where reshapes are on the way."""
    for _ in range(_MAX_STEPS):
        readers = [r for r in graph.readers(value) if graph.op(r).kind not in _OBSERVERS]
        if len(readers) != 1:
            return False
        kind = graph.op(readers[0]).kind
        if kind == "MatMul":
            return weights
        if kind not in _FOLLOWING or (kind == "Reshape" and not reshaped):
            return False
        weights |= kind == "Softmax"
        value = Value(readers[0])
    return False


def match_scale(graph: Graph, node: int) -> tuple[Value, float] | None:
    """The value that a Multiply or Divide scales by a number, and the factor."""
    if graph.op(node).kind == "Multiply":
        found = split_constant_operand(graph, node)
        return None if found is None else (found[0], float(found[1]))
    divisor = constant_scalar(graph, graph.input(node, 1))
    return None if not divisor else (graph.input(node, 0), 1 / divisor)


def broadcasts_scores(graph: Graph, node: int, scores: Value) -> bool:
    """Whether an operation may give scores more axes or rows than they have."""
    # The batch of a mask is one of attention's; keys are as many as values, here as there.
    before, after = shape_of(graph, scores), shape_of(graph, Value(node))
    if before is None or after is None or len(before) != len(after):
        return True
    return eq(before[-2], after[-2]) is not True


def find_softmax(graph: Graph, value: Value) -> SoftmaxMatch | None:
    """The softmax that makes `value` for one reader."""
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
        return SoftmaxMatch(scores, zeros)
    found = _without_sink(graph, scores)
    return None if found is None else SoftmaxMatch(found[0], zeros, found[1])


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
