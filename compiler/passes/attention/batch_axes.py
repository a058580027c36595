"""Axes of a batch that exporters split and merge around products: [B * H, S, T] as [B, H, S, T].

Attention is written where they are split furthest. A reshape needs a target of constants, so that
at most one size may be unknown besides those that keep their place; where the value came from such
a reshape anyway, what was reshaped is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.dims import Dim, eq, product
from ....ir.graph import Graph, Value
from ....ir.ops import Reshape
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import Shape, shape_of


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


def deliver(
    graph: Graph, patch: Patch, made: Value, node: int, lead: Shape
) -> Patch | MatchFailure:
    """Let `made`, of axes `lead`, take the place of `node`, or of the reshape that alone reads it
    and splits its axes alike."""
    shape, use = shape_of(graph, Value(node)), graph.only_use(Value(node))
    assert shape is not None
    full = (*lead, *shape[-2:])
    if are_equal(shape, full) or len(shape) == len(full):
        return patch.replace(Value(node), made)
    if use is not None and graph.op(use.node).kind == "Reshape":
        split = shape_of(graph, Value(use.node))
        if split is not None and have_known_sizes(split, full):
            return patch.replace(Value(use.node), made)
    back = add_reshape(patch, made, full, shape)
    return back if isinstance(back, MatchFailure) else patch.replace(Value(node), back)
