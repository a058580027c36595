"""Masks of attention: several as one, and causal ones, which hide the keys behind a query's own.

A mask counts as causal only if what it hides weighs nothing for certain: every row sees a key, and
hidden scores are so low that none that is shown comes near them. Besides another mask, which may
hide the rest of a row, they have to be -inf.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ....ir.dims import bounds, eq
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import Add, Attention, Constant, LogicalAnd, LogicalNot, Maximum, Multiply, Select
from ....ir.scalar.builder import cast_array
from ...rewrite.patch import MatchFailure, Patch
from ..match.values import Shape, dtype_of, shape_of
from .affine_masks import added_up_to, shown_up_to
from .batch_axes import with_lead

# Scores at or below this are hidden: adding any score of a model to it leaves it as it is.
MASKED_SCORE = -1e30


@dataclass(frozen=True)
class Mask:
    """A value added to scores of the shape `level`, which are times `scale` behind it; or, with
    `fill`, booleans that put it where they are false (`inverted`: where they are true)."""

    value: Value
    fill: float | None = None
    inverted: bool = False
    level: Shape = ()
    scale: float = 1.0


def merge_masks(
    graph: Graph,
    patch: Patch,
    masks: Sequence[Mask],
    scores: Value,
    lead: Shape,
    floor: float,
) -> tuple[Attention, Value | None] | MatchFailure:
    """The attention with one mask that does what these do, the last one first. `lead`: the axes of
    its batch. What they make lower than `floor`, which hides, is raised to it: a row that sees
    nothing is the mean of all values then, and so no mask is causal besides another."""
    left, causal = list(masks), ""
    for mask in masks if floor == -np.inf or len(masks) == 1 else ():
        found = _causal(graph, mask, scores, -np.inf if len(masks) > 1 else MASKED_SCORE)
        if found and not causal:
            causal = found
            left.remove(mask)
    for i, mask in enumerate(left):
        value = with_lead(graph, patch, mask.value, mask.level, lead)
        if isinstance(value, MatchFailure):
            return value
        if mask.fill is None and mask.scale != 1:
            value = patch.add(Multiply(), value, _number(graph, patch, mask.scale, scores))
        left[i] = replace(mask, value=value)
    while len(left) > 1:
        *others, last, first = left
        joined = _join_masks(graph, patch, last, first, scores)
        if isinstance(joined, MatchFailure):
            return joined
        left = [*others, joined]
    if not left:
        return Attention(causal=causal), None
    (mask,) = left
    if mask.fill is not None:
        return Attention(causal=causal, fill=max(mask.fill, floor)), _add_visible_mask(patch, mask)
    if floor > -np.inf:
        raised = patch.add(Maximum(), mask.value, _number(graph, patch, floor, scores))
        return Attention(causal=causal), raised
    return Attention(causal=causal), mask.value


def _add_visible_mask(patch: Patch, mask: Mask) -> Value:
    return patch.add(LogicalNot(), mask.value) if mask.inverted else mask.value


def _join_masks(
    graph: Graph, patch: Patch, last: Mask, first: Mask, scores: Value
) -> Mask | MatchFailure:
    """Two masks as one. `first` is nearer to the product."""
    if last.fill is None and first.fill is None:
        return Mask(patch.add(Add(), first.value, last.value))
    if last.fill == first.fill:
        return Mask(
            patch.add(
                LogicalAnd(), _add_visible_mask(patch, first), _add_visible_mask(patch, last)
            ),
            last.fill,
        )
    hides, adds = (first, last) if last.fill is None else (last, first)
    if adds.fill is not None or hides.fill is None or hides.fill > MASKED_SCORE:
        return MatchFailure("two masks do not join")
    # Nothing added to what is hidden makes a difference: hiding may as well be adding.
    fill = _number(graph, patch, hides.fill, scores)
    if hides is last:
        return Mask(patch.add(Select(), _add_visible_mask(patch, last), first.value, fill))
    zero = _number(graph, patch, 0.0, scores)
    hidden = patch.add(Select(), _add_visible_mask(patch, first), zero, fill)
    return Mask(patch.add(Add(), hidden, last.value))


def _number(graph: Graph, patch: Patch, x: float, scores: Value) -> Value:
    dtype = dtype_of(graph, scores)
    return patch.constant(cast_array(np.array(x), dtype), dtype)


def _causal(graph: Graph, mask: Mask, scores: Value, hidden: float) -> str:
    """ "first" or "last" (Attention.causal) for a mask that is causal and nothing else, or ""."""
    op, shape = graph.op(mask.value.node), shape_of(graph, scores)
    if shape is None or mask.scale <= 0 or (mask.fill is not None and mask.fill > hidden):
        return ""
    hidden = hidden if mask.fill is not None else hidden / mask.scale
    rows, keys = shape[-2:]
    before = keys - rows
    least = bounds(before)[0]
    if least is None or least < 0:
        return ""
    if isinstance(op, Constant):
        visible = _constant(op, mask, hidden)
        if visible is None or eq(rows, visible.shape[-2]) is not True:
            return ""
        if eq(keys, visible.shape[-1]) is not True:
            return ""
        m, n = visible.shape
        for name, last in (("first", 0), ("last", n - m)):
            if np.array_equal(visible, np.tri(m, n, last, dtype=bool)):
                return name
        return ""
    if mask.fill is None:
        limit = added_up_to(graph, mask.value, hidden)
    else:
        limit = shown_up_to(graph, mask.value, inverted=mask.inverted)
    if limit is None:
        return ""
    if eq(limit, 0) is True:
        return "first"
    return "last" if eq(limit, before) is True else ""


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
