"""Scales of scores: moved into the queries, behind which attention makes an attribute of them."""

from __future__ import annotations

import math
from dataclasses import replace

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops import MatMul, Multiply
from ...rewrite.patch import MatchFailure, Patch, producer
from ..layout.cancel_transposes import add_transpose
from ..match.values import constant_scalar, same_shape, shape_of
from .masks import Mask, add_number, apply_mask, match_mask
from .match_scores import broadcasts_scores, match_scale, match_step


def scale_queries(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(query x key) * scale = (query * scale) x key, for a number, or one per head or query."""
    port = match_step(graph, node)
    if port is None:
        return None
    product, factor = graph.input(node, port), graph.input(node, 1 - port)
    shape, first = shape_of(graph, factor), graph.op(product.node)
    if not isinstance(first, MatMul) or shape is None:
        return None
    single = constant_scalar(graph, factor) is not None
    if not single and (not shape or eq(shape[-1], 1) is not True):
        return None
    if broadcasts_scores(graph, node, product):
        return MatchFailure("a mask or a scale broadcasts the scores")
    patch = Patch()
    if first.transpose_a and len(shape) > 1 and not single:
        rank = len(shape)
        factor = add_transpose(patch, factor, [*range(rank - 2), rank - 1, rank - 2])
    query = patch.add(graph.op(node), graph.input(product.node, 0), factor)
    return patch.replace(Value(node), patch.add(first, query, graph.input(product.node, 1)))


def scale_masked_scores(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(scores + mask) * s = scores * s + mask * s; a choice of a number alike, where s > 0."""
    port = match_step(graph, node)
    inner = None if port is None else graph.input(node, port)
    masked = None if inner is None else match_mask(graph, inner.node)
    if port is None or inner is None or masked is None:
        return None
    (scores, mask), scaled = masked, match_scale(graph, node)
    if scaled is None:
        shape = shape_of(graph, graph.input(node, 1 - port))
        per_row = shape and eq(shape[-1], 1) is True
        return MatchFailure("the masked scores are scaled") if per_row else None
    factor = scaled[1]
    if not math.isfinite(factor) or (mask.fill is not None and factor <= 0):
        return MatchFailure("the masked scores are scaled")
    if not same_shape(graph, Value(node), inner):
        return MatchFailure("a mask or a scale broadcasts the scores")
    patch = Patch()
    made = patch.add(graph.op(node), scores, graph.input(node, 1 - port))
    if mask.fill is None:
        value = patch.add(Multiply(), mask.value, add_number(graph, patch, factor, scores))
        scaled_mask = Mask(value)
    else:
        scaled_mask = replace(mask, fill=mask.fill * factor)
    return patch.replace(Value(node), apply_mask(graph, patch, made, scaled_mask, scores))


def merge_scales(graph: Graph, node: int) -> Patch | None:
    """(tanh(...) * s) * t = tanh(...) * (s * t)."""
    port = match_step(graph, node)
    outer = None if port is None else match_scale(graph, node)
    if outer is None or graph.op(outer[0].node).kind not in ("Multiply", "Divide"):
        return None
    inner = match_scale(graph, outer[0].node)
    if inner is None or producer(graph, inner[0], "Tanh") is None:
        return None
    if not same_shape(graph, Value(node), inner[0]):
        return None
    patch = Patch()
    factor = add_number(graph, patch, inner[1] * outer[1], inner[0])
    return patch.replace(Value(node), patch.add(Multiply(), inner[0], factor))
