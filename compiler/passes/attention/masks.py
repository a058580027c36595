"""Masks of attention: joined until one is left, besides a causal one, which hides the keys behind a
query's own.

A mask counts as causal only if what it hides weighs nothing for certain: every row sees a key, and
hidden scores are so low that none that is shown comes near them. Besides another mask, which may
hide the rest of a row, they have to be -inf.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ....ir.dims import bounds, eq
from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Array
from ....ir.ops import Add, Constant, LogicalAnd, LogicalNot, Maximum, Select
from ....ir.scalar.builder import cast_array
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import constant_scalar, dtype_of, shape_of, split_constant_operand
from .affine_masks import added_up_to, shown_up_to
from .match_scores import match_step, scores_port

# Scores at or below this are hidden: adding any score of a model to it leaves it as it is.
MASKED_SCORE = -1e30


@dataclass(frozen=True)
class Mask:
    """A value added to scores; or, with `fill`, booleans that put it where they are false
    (`inverted`: where they are true)."""

    value: Value
    fill: float | None = None
    inverted: bool = False


def add_number(graph: Graph, patch: Patch, x: float, scores: Value) -> Value:
    """Add a constant of the scores' type."""
    dtype = dtype_of(graph, scores)
    return patch.constant(cast_array(np.array(x), dtype), dtype)


def match_mask(graph: Graph, node: int) -> tuple[Value, Mask] | None:
    """(scores, mask) of an Add, or of a Select between scores and a number."""
    port, kind = scores_port(graph, node), graph.op(node).kind
    if port is None or kind not in ("Add", "Select"):
        return None
    scores = graph.input(node, port)
    if kind == "Add":
        return scores, Mask(graph.input(node, 1 - port))
    fill = constant_scalar(graph, graph.input(node, 3 - port))
    if fill is None or math.isnan(fill):
        return None
    return scores, Mask(graph.input(node, 0), float(fill), inverted=port == 2)


def apply_mask(graph: Graph, patch: Patch, scores: Value, mask: Mask, like: Value) -> Value:
    """Add the operation that masks scores, which have the type of `like`."""
    if mask.fill is None:
        return patch.add(Add(), scores, mask.value)
    fill = add_number(graph, patch, mask.fill, like)
    chosen = (fill, scores) if mask.inverted else (scores, fill)
    return patch.add(Select(), mask.value, *chosen)


def raise_mask(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """max(scores + mask, floor) = scores + max(mask, floor), where the floor hides."""
    port = match_step(graph, node)
    raised = None if port is None else split_constant_operand(graph, node)
    if port is None or raised is None:
        return None
    value, floor = raised[0], float(raised[1])
    if not floor <= MASKED_SCORE:
        return MatchFailure("scores that count are raised")
    masked, patch = match_mask(graph, value.node), Patch()
    if masked is None:
        is_product = graph.op(value.node).kind == "MatMul"  # whose numbers are above it
        return patch.replace(Value(node), value) if is_product else None
    scores, mask = masked
    # It makes the mean of all values of a row that sees nothing: no mask is causal besides another.
    while (inner := match_mask(graph, scores.node)) is not None:
        scores, joined = inner[0], _join(graph, patch, mask, inner[1], scores)
        if isinstance(joined, MatchFailure):
            return joined
        mask = joined
    if mask.fill is not None:
        mask = replace(mask, fill=max(mask.fill, floor))
    else:
        number = add_number(graph, patch, floor, scores)
        mask = Mask(patch.add(Maximum(), mask.value, number))
    return patch.replace(Value(node), apply_mask(graph, patch, scores, mask, scores))


def join_masks(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(scores + a) + b = scores + (a + b), also where a or b chooses. A causal mask is left alone,
    behind the others."""
    if match_step(graph, node) is None or (outer := match_mask(graph, node)) is None:
        return None
    value, last = outer
    inner = match_mask(graph, value.node)
    if inner is None:
        return None
    scores, first = inner
    patch = Patch()
    if find_causal(graph, last, scores, -math.inf):
        return None
    if find_causal(graph, first, scores, -math.inf):
        made = apply_mask(graph, patch, scores, last, scores)
        return patch.replace(Value(node), apply_mask(graph, patch, made, first, scores))
    joined = _join(graph, patch, last, first, scores)
    if isinstance(joined, MatchFailure):
        return joined
    return patch.replace(Value(node), apply_mask(graph, patch, scores, joined, scores))


def add_visible_mask(patch: Patch, mask: Mask) -> Value:
    """Add what turns booleans that are true where scores are hidden."""
    return patch.add(LogicalNot(), mask.value) if mask.inverted else mask.value


def _join(
    graph: Graph, patch: Patch, last: Mask, first: Mask, scores: Value
) -> Mask | MatchFailure:
    """Two masks as one. `first` is nearer to the product."""
    if last.fill is None and first.fill is None:
        return Mask(patch.add(Add(), first.value, last.value))
    if last.fill == first.fill:
        shown = [add_visible_mask(patch, m) for m in (first, last)]
        return Mask(patch.add(LogicalAnd(), *shown), last.fill)
    hides, adds = (first, last) if last.fill is None else (last, first)
    if adds.fill is not None or hides.fill is None or hides.fill > MASKED_SCORE:
        return MatchFailure("two masks do not join")
    # Nothing added to what is hidden makes a difference: hiding may as well be adding.
    fill = add_number(graph, patch, hides.fill, scores)
    if hides is last:
        return Mask(patch.add(Select(), add_visible_mask(patch, last), first.value, fill))
    zero = add_number(graph, patch, 0.0, scores)
    hidden = patch.add(Select(), add_visible_mask(patch, first), zero, fill)
    return Mask(patch.add(Add(), hidden, last.value))


def find_causal(graph: Graph, mask: Mask, scores: Value, hidden: float) -> str:
    """ "first" or "last" (Attention.causal) for a mask that is causal and nothing else, or "".
    `hidden`: what hides a key is at most this."""
    shape = shape_of(graph, scores)
    if shape is None or (mask.fill is not None and mask.fill > hidden):
        return ""
    value = mask.value
    if mask.fill is None:
        value, hidden = _without_scale(graph, value, hidden)
    rows, keys = shape[-2:]
    before = keys - rows
    least = bounds(before)[0]
    if least is None or least < 0:
        return ""
    op = graph.op(value.node)
    if isinstance(op, Constant):
        visible = _constant(op, mask, hidden)
        if visible is None or eq(rows, visible.shape[-2]) is not True:
            return ""
        if eq(keys, visible.shape[-1]) is not True:
            return ""
        m, n = visible.shape
        diagonals = (("first", 0), ("last", n - m))
        equal = (k for k, d in diagonals if np.array_equal(visible, np.tri(m, n, d, dtype=bool)))
        return next(equal, "")
    if mask.fill is None:
        limit = added_up_to(graph, value, hidden)
    else:
        limit = shown_up_to(graph, value, inverted=mask.inverted)
    if limit is None:
        return ""
    if eq(limit, 0) is True:
        return "first"
    return "last" if eq(limit, before) is True else ""


def _without_scale(graph: Graph, value: Value, hidden: float) -> tuple[Value, float]:
    """A mask before it is scaled or raised (scale_masked_scores, raise_mask), and what hides
    there."""
    while graph.op(value.node).kind in ("Multiply", "Maximum"):
        found = split_constant_operand(graph, value.node)
        raises = graph.op(value.node).kind == "Maximum"
        if found is None or (found[1] > hidden if raises else found[1] <= 0):
            break
        value, hidden = found[0], hidden if raises else hidden / float(found[1])
    return value, hidden


def _constant(op: Constant, mask: Mask, hidden: float) -> Array | None:
    """What a constant [1..., queries, keys] shows, where it hides all else for certain."""
    data = op.data
    if data.ndim < 2 or data.size < 2 or any(d != 1 for d in data.shape[:-2]):
        return None
    data = data.reshape(data.shape[-2:])
    if mask.fill is not None:
        return data.astype(bool) ^ mask.inverted
    wide = data.astype(np.float64)
    visible = wide == 0
    return visible if bool((wide[~visible] <= hidden).all()) else None
