"""Axes of a batch that exporters split and merge around products: [B * H, S, T] as [B, H, S, T].

What splits them is hoisted above the first product, what merges them sinks below the second, so
that all between has the axes that are split furthest. An added reshape needs a target of constants,
so that at most one size may be unknown besides those that keep their axis; where the value came
from such a reshape anyway, what was reshaped is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....ir.dims import Dim, eq, product
from ....ir.graph import Graph, Value
from ....ir.ops import MatMul, Reshape, Softmax, Softmax1
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import Shape, same_shape, shape_of
from .match_scores import feeds_mixture, find_softmax, follows_reshape, is_scores, scores_port


def are_equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are equal for certain."""
    return len(a) == len(b) and all(eq(x, y) is True for x, y in zip(a, b, strict=True))


def add_reshape(
    patch: Patch, value: Value, have: Sequence[Dim], want: Sequence[Dim]
) -> Value | MatchFailure:
    """The value, whose shape is `have`, as `want`."""
    if are_equal(have, want):
        return value
    target: list[int] = []
    for axis, size in enumerate(want):
        if isinstance(size, int):
            target.append(size)
        elif axis < len(have) and eq(have[axis], size) is True:
            target.append(0)
        else:
            target.append(-1)
    if target.count(-1) > 1 or any(size == 0 for size in want):
        return MatchFailure("axes of the batch are split by dynamic sizes")
    listed = patch.integers(target)
    return patch.add(Reshape(True), value, listed)


def before_reshape(graph: Graph, value: Value, lead: Shape) -> Value | None:
    """What has the axes `lead` before the last two, and becomes `value` by a reshape."""
    shape, node = shape_of(graph, value), producer(graph, value, "Reshape")
    if shape is None or node is None or are_equal(shape[:-2], lead):
        return None
    source = graph.input(node, 0)
    found = shape_of(graph, source)
    return source if found is not None and have_known_sizes(found, (*lead, *shape[-2:])) else None


def have_known_sizes(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes of as many elements are equal for certain: all sizes but one are."""
    return len(a) == len(b) and sum(eq(x, y) is not True for x, y in zip(a, b, strict=True)) < 2


def with_lead(
    graph: Graph, patch: Patch, value: Value, level: Shape, lead: Shape
) -> Value | MatchFailure:
    """A value that broadcasts to the shape `level`, as one that broadcasts to [lead..., same two].

    An axis of the level is a run of axes of `lead`; where the value has size 1 it has ones there.
    """
    have = shape_of(graph, value)
    if have is None:
        return MatchFailure("a rank is unknown")
    if len(level) == len(lead) + 2 or len(have) <= 2:
        return value
    if (before := before_reshape(graph, value, lead)) is not None:
        return before
    left, wanted = list(lead), list[Dim]()
    for axis, own_size in zip(reversed(range(len(level) - 2)), reversed(have[:-2]), strict=False):
        size, run = level[axis], list[Dim]()
        while left and (not axis or not run or eq(product(run), size) is not True):
            run.insert(0, left.pop())
        # Both have as many elements: the rest is the first axis, whatever its size is called.
        if axis and eq(product(run), size) is not True:
            return MatchFailure("axes of the batch are not split into each other")
        if eq(own_size, 1) is not True and eq(own_size, size) is not True:
            return MatchFailure("it is not known how a mask broadcasts")
        wanted[:0] = [1] * len(run) if eq(own_size, 1) is True else run
    want = (*wanted, *have[-2:])
    found = add_reshape(patch, value, have, want)
    node = producer(graph, value, "Reshape")
    if isinstance(found, MatchFailure) and node is not None:
        # The input of a Reshape may determine more of the sizes.
        source = graph.input(node, 0)
        return add_reshape(patch, source, shape_of(graph, source) or (), want)
    return found


def keeps_matrices(graph: Graph, node: int) -> bool:
    """Whether a Reshape keeps the last two axes."""
    before, after = shape_of(graph, graph.input(node, 0)), shape_of(graph, Value(node))
    if before is None or after is None or min(len(before), len(after)) < 2:
        return False
    return are_equal(before[-2:], after[-2:])


def hoist_split(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Reshape(op(scores)) = op(Reshape(scores)) where it splits axes of the batch, up to
    Reshape(query x key) = Reshape(query) x Reshape(key)."""
    made, patch = graph.input(node, 0), Patch()
    weights = _is_weights(graph, made)
    if not keeps_matrices(graph, node) or not (weights or is_scores(graph, made)):
        return None
    if not feeds_mixture(graph, Value(node), reshaped=True, weights=weights):
        return None
    before, after = shape_of(graph, made) or (), shape_of(graph, Value(node)) or ()
    kind, lead = graph.op(made.node).kind, after[:-2]
    if have_known_sizes(before, after):
        return patch.replace(Value(node), made)
    if kind == "Reshape" and (source := before_reshape(graph, made, lead)) is not None:
        return patch.replace(Value(node), source)
    if len(before) >= len(after) or kind == "Reshape" or (weights and kind != "Softmax"):
        return None
    split: dict[int, Value] = {}
    if kind != "MatMul":
        port = scores_port(graph, made.node) or 0
        scores = graph.input(made.node, port)
        if not same_shape(graph, scores, made):
            return MatchFailure("a mask or a scale broadcasts the scores")
        source = before_reshape(graph, scores, lead)
        split[port] = source or patch.add(graph.op(node), scores, graph.input(node, 1))
    moved = _rebuild(graph, patch, made.node, split, lead)
    return moved if isinstance(moved, MatchFailure) else patch.replace(Value(node), moved)


def sink_merge(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """op(Reshape(scores)) = Reshape(op(scores)) where it merges axes of the batch, down to
    Reshape(weights) x values = Reshape(weights x Reshape(values))."""
    kind = graph.op(node).kind
    for port, value in enumerate(graph.inputs(node)):
        merge = producer(graph, value, "Reshape")
        if merge is None or kind == "Reshape" or not keeps_matrices(graph, merge):
            continue
        scores, patch = graph.input(merge, 0), Patch()
        before, after = shape_of(graph, scores) or (), shape_of(graph, Value(merge)) or ()
        softmax = find_softmax(graph, scores)
        weights, top = softmax is not None, scores if softmax is None else softmax.scores
        if len(before) <= len(after) or not is_scores(graph, top):
            continue
        if follows_reshape(graph, top):  # a split that is hoisted first, or stays
            return None
        if kind == "MatMul":
            if not weights:
                return None
        elif not feeds_mixture(
            graph, Value(node), reshaped=True, weights=weights or kind == "Softmax"
        ):
            return None
        made = _rebuild(graph, patch, node, {port: scores}, before[:-2])
        if isinstance(made, MatchFailure):
            return made
        if kind == "MatMul":
            return _deliver(graph, patch, made, node, before[:-2])
        if not same_shape(graph, Value(node), Value(merge)):
            return MatchFailure("a mask or a scale broadcasts the scores")
        return patch.replace(Value(node), patch.add(graph.op(merge), made, graph.input(merge, 1)))
    return None


def _is_weights(graph: Graph, value: Value) -> bool:
    """Whether a softmax of scores made a value."""
    found = find_softmax(graph, value)
    return found is not None and is_scores(graph, found.scores)


def _rebuild(
    graph: Graph, patch: Patch, node: int, given: Mapping[int, Value], lead: Shape
) -> Value | MatchFailure:
    """Add the operation of a node again, with the axes `lead` before the last two of its inputs, of
    which some are given."""
    op, level, inputs = graph.op(node), shape_of(graph, Value(node)), list[Value]()
    assert level is not None
    for port, value in enumerate(graph.inputs(node)):
        assert value is not None
        if isinstance(op, MatMul) and port not in given:
            own = shape_of(graph, value) or ()
            broadcast = (a == 1 != b for a, b in zip(own[:-2], level[:-2], strict=False))
            if len(own) not in (len(level), len(lead) + 2) or any(broadcast):
                return MatchFailure("an operand broadcasts over axes of the batch that are split")
            level_of = own
        else:
            level_of = level
        moved = given.get(port) or with_lead(graph, patch, value, level_of, lead)
        if isinstance(moved, MatchFailure):
            return moved
        inputs.append(moved)
    if isinstance(op, Softmax | Softmax1):
        op = replace(op, axis=len(lead) + 1)
    return patch.add(op, *inputs)


def _deliver(
    graph: Graph, patch: Patch, made: Value, node: int, lead: Shape
) -> Patch | MatchFailure:
    """Let `made`, of axes `lead`, replace a product, or of the reshape that alone reads
    it and splits its axes alike."""
    shape, use = shape_of(graph, Value(node)) or (), graph.only_use(Value(node))
    full = (*lead, *shape[-2:])
    if use is not None and graph.op(use.node).kind == "Reshape":
        split = shape_of(graph, Value(use.node))
        if split is not None and have_known_sizes(split, full):
            return patch.replace(Value(use.node), made)
    back = add_reshape(patch, made, full, shape)
    return back if isinstance(back, MatchFailure) else patch.replace(Value(node), back)
