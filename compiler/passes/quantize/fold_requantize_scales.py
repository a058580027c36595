"""The scale of a Quantize goes into the constants behind it: (sum * s + b) / q = sum * (s / q) +
b / q. A division per element, and a rounding of each constant, less.

Where every path from the Quantize ends in bytes or constants: the results may differ by a step at
ties, as docs/numerics.md has it for quantised graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import Clamp, Constant, Quantize
from ....ir.types import joined_shape
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, has_one_use
from ..match.values import broadcasts_to, dtype_of, shape_of
from .sink_dequantize import parts

# How many operations a walk behind a Quantize looks through.
_MAX_WALK_DEPTH = 6


def take_scale(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Quantize(x, scale) = Quantize(x / scale), divided where x is made."""
    op, (x, scale, zero) = graph.op(node), (*graph.inputs(node), None, None)[:3]
    known = None if scale is None else graph.op(scale.node)
    if x is None or not isinstance(known, Constant) or not isinstance(op, Quantize):
        return None
    divisor = known.data.astype(np.float64)
    if not np.isfinite(divisor).all() or not (divisor > 0).all():
        return MatchFailure("a scale is not positive")
    patch = Patch()
    made = _divide_value(graph, patch, x, divisor, _MAX_WALK_DEPTH)
    if made is None:
        return MatchFailure("what is quantised is not made of bytes and constants alone")
    value = made
    return patch.replace(Value(node), patch.add(Quantize(op.destination_type), value, None, zero))


def _divide_value(
    graph: Graph, patch: Patch, value: Value, divisor: Array, depth: int
) -> Value | None:
    """The value divided by a constant, of the same operations with other constants."""
    op, inputs = graph.op(value.node), graph.inputs(value.node)
    if isinstance(op, Constant):
        return patch.constant(op.data.astype(np.float64) / divisor, DType.f32)
    if depth == 0 or not has_one_use(graph, value) and op.kind != "Dequantize":
        return None
    given = [v for v in inputs if v is not None]
    if op.kind == "Dequantize":
        return _divide_dequantized(graph, patch, value, divisor)
    if op.kind in ("Relu", "Add", "Subtract"):
        made = [_divide_value(graph, patch, v, divisor, depth - 1) for v in given]
        found = [v for v in made if v is not None]
        return patch.add(op, *found) if len(found) == len(made) else None
    if isinstance(op, Clamp) and divisor.size == 1:
        inner = _divide_value(graph, patch, given[0], divisor, depth - 1)
        limits = (float(np.float32(v / divisor.item())) for v in (op.min, op.max))
        return None if inner is None else patch.add(Clamp(*limits), inner)
    if op.kind == "Multiply":
        return _divide_scaled_sum(graph, patch, given, divisor)
    return None


def _divide_scaled_sum(
    graph: Graph, patch: Patch, factors: Sequence[Value], divisor: Array
) -> Value | None:
    """An integer sum times a constant."""
    for value, other in (factors, factors[::-1]):
        scale, source = graph.op(other.node), value
        if not isinstance(scale, Constant) or not _is_sum(graph, source):
            continue
        shape, target = np.shape(scale.data), shape_of(graph, source)
        joined = joined_shape(shape, divisor.shape)
        if target is None or broadcasts_to(joined, target) is not True:
            continue
        made = patch.constant(scale.data.astype(np.float64) / divisor, DType.f32)
        return patch.add(graph.op(graph.uses(value)[0].node), value, made)
    return None


def _is_sum(graph: Graph, value: Value) -> bool:
    """Whether a value is an i32 as f32, or that times one more factor."""
    op = graph.op(value.node)
    if op.kind == "Multiply":
        return any(_is_sum(graph, v) for v in graph.inputs(value.node) if v is not None)
    return op.kind == "Convert" and dtype_of(graph, graph.input(value.node, 0)) is DType.i32


def _divide_dequantized(graph: Graph, patch: Patch, value: Value, divisor: Array) -> Value | None:
    found = parts(graph, value)
    assert found is not None
    op, codes, scale, zero = found
    known, target = graph.op(scale.node), shape_of(graph, codes)
    if not isinstance(known, Constant) or op.group or target is None:
        return None
    data = known.data.astype(np.float64) / divisor
    if broadcasts_to(data.shape, target) is not True or known.dtype is not DType.f32:
        return None
    return patch.add(op, codes, patch.constant(data, DType.f32), zero)


_RULES = (Rule("take_scale", ("Quantize",), take_scale),)

fold_requantize_scales = Pass("fold_requantize_scales", lambda options: _RULES)
