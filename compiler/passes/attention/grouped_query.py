"""Keys and values repeated for groups of query heads: the groups read them where they are."""

from __future__ import annotations

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops import Attention, Reshape, Unsqueeze
from ...rewrite.patch import MatchFailure, Patch, producer
from ..layout.cancel_transposes import add_transpose
from ..match.values import shape_of


def share_heads(graph: Graph, node: int, op: Attention) -> Patch | MatchFailure | None:
    """[B, N, T, H] repeated to [B, N * G, T, H]: queries become [B, N, G, S, H], which keys and
    values [B, N, 1, T, H] broadcast to."""
    inputs = graph.inputs(node)
    query, key, value, mask, sink, *zeros = (*inputs, None, None)[: max(5, len(inputs))]
    assert query is not None
    one, two = _match_repeat(graph, key), _match_repeat(graph, value)
    if one is None and two is None:
        return None
    shape, out = shape_of(graph, query), shape_of(graph, Value(node))
    if one is None or two is None or one[1:] != two[1:]:
        return MatchFailure("keys and values are not repeated alike")
    if shape is None or out is None or len(shape) != 4:
        return MatchFailure("the queries have not four axes")
    (keys, heads, groups), values = one, two[0]
    if eq(shape[1], heads * groups) is not True:
        return MatchFailure("the queries have another number of heads")
    size, width = shape[-1], out[-1]
    if not isinstance(size, int) or not isinstance(width, int):
        return MatchFailure("the size of a head is known at run time only")
    patch = Patch()
    if mask is not None:
        have = shape_of(graph, mask)
        if have is None or (len(have) > 2 and eq(have[-3], 1) is not True):
            return MatchFailure("the mask differs from head to head")
        if len(have) > 2:
            mask = patch.add(Unsqueeze(), mask, patch.integers([-3]))
    if sink is not None:
        have = shape_of(graph, sink)
        if have is None or len(have) != 4 or eq(have[1], heads * groups) is not True:
            return MatchFailure("the sinks are not one per head")
        sink = patch.add(Reshape(True), sink, patch.integers([0, heads, groups, -1, 1]))
    # Through [B, S, heads, H], whose leading sizes a Reshape copies whatever they are.
    rows = add_transpose(patch, query, [0, 2, 1, 3])
    rows = patch.add(Reshape(True), rows, patch.integers([0, 0, heads, groups, size]))
    made = patch.add(
        op, add_transpose(patch, rows, [0, 2, 3, 1, 4]), keys, values, mask, sink, *zeros
    )
    rows = add_transpose(patch, made, [0, 3, 1, 2, 4])
    rows = patch.add(Reshape(True), rows, patch.integers([0, 0, heads * groups, width]))
    return patch.replace(Value(node), add_transpose(patch, rows, [0, 2, 1, 3]))


def _match_repeat(graph: Graph, value: Value | None) -> tuple[Value, int, int] | None:
    """(the value [B, N, 1, T, H], N, G) that is repeated G times to [B, N * G, T, H]."""
    merged = producer(graph, value, "Reshape")
    wide = None if merged is None else producer(graph, graph.input(merged, 0), "Broadcast")
    if value is None or wide is None:
        return None
    source = graph.input(wide, 0)
    shapes = [shape_of(graph, v) for v in (source, Value(wide), value)]
    one, many, flat = shapes
    if one is None or many is None or flat is None:
        return None
    if len(one) != 5 or len(many) != 5 or len(flat) != 4:
        return None
    heads, groups = many[1], many[2]
    if not isinstance(heads, int) or not isinstance(groups, int):
        return None
    wanted = (
        *zip(one, (many[0], heads, 1, *many[3:]), strict=True),
        *zip(flat, (many[0], heads * groups, *many[3:]), strict=True),
    )
    if not all(eq(a, b) is True for a, b in wanted):
        return None
    return source, heads, groups
