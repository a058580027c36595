"""Recognise attention: scores, mask, softmax and mixture as one operation."""

from __future__ import annotations

import math

import numpy as np

from ...ir.graph import Graph, Value
from ...ir.ops import Attention, Constant, ScaledDotProductAttention
from ...ir.patch import Patch, Refusal
from ..lowering.attention import refuse_attention
from ..rewrite import Pass, Rule
from .matching import number, shape_of


def take_operation(graph: Graph, node: int) -> Patch | Refusal | None:
    """OpenVINO's operation, whose scale is known."""
    op, inputs = graph.op(node), graph.inputs(node)
    assert isinstance(op, ScaledDotProductAttention)
    query, key, value, mask, given = (*inputs, None, None)[:5]
    shape = shape_of(graph, query)
    if shape is None or shape_of(graph, key) is None or shape_of(graph, value) is None:
        return Refusal("a rank is unknown")
    refused = refuse_attention(graph, node)
    if refused:
        return Refusal(refused)
    size = shape[-1]
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


_RULES = (Rule("take_operation", ("ScaledDotProductAttention",), take_operation),)

fuse_attention = Pass("fuse_attention", lambda options: _RULES)
