"""Quantised values by their plain chains: what is stored in bytes stays in bytes.

First of all passes: folding would expand the bytes of a weight before anything could see that a
product may read them. What nothing takes becomes plain again (decompose_leftovers.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import (
    Constant,
    Convert,
    Dequantize,
    Gather,
    Quantize,
    Round,
)
from ....ir.ops.quantization.integer_products import BYTES
from ...legality import integer_form, integer_product_failure
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import Shape, broadcasts_to, dtype_of, same_shape, shape_of

_FLOATS = (DType.f32, DType.f16, DType.bf16, DType.f64)


def _match_convert(
    graph: Graph, value: Value, kinds: Sequence[DType] | None = None
) -> Value | None:
    """What a Convert reads, where it has an integer type of at most 8 bits (or of `kinds`)."""
    node = producer(graph, value, "Convert")
    source = None if node is None else graph.input(node, 0)
    if source is None:
        return None
    dtype = dtype_of(graph, source)
    fits = dtype in kinds if kinds is not None else dtype.is_int and dtype.bits <= 8
    return source if fits else None


def as_codes(array: Array, dtype: DType) -> Array | None:
    """Integers of another type as `dtype`, where it holds each of them."""
    with np.errstate(all="ignore"):
        codes = array.astype(dtype.numpy)
        same = np.array_equal(codes.astype(np.float64), array.astype(np.float64))
    return codes if same else None


def _zero_point(graph: Graph, patch: Patch, value: Value, dtype: DType) -> Value | None:
    """What is subtracted, as a value of the codes' own type: four-bit codes may come with zero
    points that are stored as bytes."""
    found = _match_convert(graph, value, [dtype])
    if found is not None:
        return found
    stored = _match_convert(graph, value)
    op = graph.op(value.node if stored is None else stored.node)
    codes = as_codes(op.data, dtype) if isinstance(op, Constant) else None
    return None if codes is None else patch.constant(codes, dtype)


def _match_zero_point(
    graph: Graph, patch: Patch, value: Value
) -> tuple[Value, Value | None] | None:
    """(codes, zero point or None) of Convert(codes), or of that minus a zero point."""
    plain = _match_convert(graph, value)
    if plain is not None:
        return plain, None
    node = producer(graph, value, "Subtract")
    codes = None if node is None else _match_convert(graph, graph.input(node, 0))
    if node is None or codes is None:
        return None
    zero = _zero_point(graph, patch, graph.input(node, 1), dtype_of(graph, codes))
    return None if zero is None else (codes, zero)


def _match_repeat(graph: Graph, value: Value) -> tuple[Value, int, int] | None:
    """(values, axis, group) of a Gather that repeats each element `group` times along an axis."""
    node = producer(graph, value, "Gather")
    if node is None:
        return None
    op = graph.op(node)
    source, picks, axis = (graph.input(node, i) for i in range(3))
    positions, where = graph.op(picks.node), graph.op(axis.node)
    if not isinstance(positions, Constant) or not isinstance(where, Constant):
        return None
    if (
        not isinstance(op, Gather)
        or op.batch_dims
        or positions.data.ndim != 1
        or where.data.size != 1
    ):
        return None
    listed = positions.data
    group = int(np.count_nonzero(listed == 0))
    if not group or not np.array_equal(listed, np.arange(listed.size) // group):
        return None
    return source, int(where.data.reshape(())), group


def find_dequantize(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """(Convert(codes) - zero) * scale."""
    if dtype_of(graph, Value(node)) not in _FLOATS:
        return None
    for value, scale in _both_orders(graph, node):
        patch = Patch()
        found = _match_zero_point(graph, patch, value)
        if found is None:
            continue
        codes, zero = found
        shape = shape_of(graph, codes)
        if shape is None:
            return MatchFailure("the rank of the codes is unknown")
        grouped = _match_repeat(graph, scale)
        if grouped is not None:
            scale, axis, group = grouped
            if zero is not None:
                zeros = _match_repeat(graph, zero) if zero.node >= 0 else None
                if zeros is None or zeros[1:] != (axis, group):
                    return MatchFailure("scales and zero points have different groups")
                zero = zeros[0]
            return patch.replace(
                Value(node), patch.add(Dequantize(axis, group), codes, scale, zero)
            )
        if same_shape(graph, scale, codes) and shape and graph.known_value(scale) is None:
            continue  # a product of two tensors rather than a scale
        for other in (scale, zero):
            own = None if other is None else _shape(graph, patch, other)
            if other is not None and (own is None or broadcasts_to(own, shape) is not True):
                return MatchFailure("a scale or zero point is not known to broadcast to the codes")
        return patch.replace(Value(node), patch.add(Dequantize(), codes, scale, zero))
    return None


def _shape(graph: Graph, patch: Patch, value: Value) -> Shape | None:
    """The shape of a value of the graph or of a constant of the patch."""
    if value.node >= 0:
        return shape_of(graph, value)
    op = patch.nodes[-value.node - 1].op
    assert isinstance(op, Constant)
    return tuple(op.data.shape)


def _both_orders(graph: Graph, node: int) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
    left, right = graph.input(node, 0), graph.input(node, 1)
    return (left, right), (right, left)


def find_quantize(graph: Graph, node: int, op: Convert) -> Patch | None:
    """Convert(Round(x / scale)), or with a zero point that is also NaN's."""
    dtype, value, patch = op.destination_type, graph.input(node, 0), Patch()
    if dtype not in BYTES or dtype_of(graph, value) is not DType.f32:
        return None
    zero: Value | None = None
    chosen = producer(graph, value, "Select")
    ratio = _match_round(graph, value) if chosen is None else None
    if chosen is not None:
        asked, shift, other = (graph.input(chosen, i) for i in range(3))
        test, total = producer(graph, asked, "IsNaN"), producer(graph, other, "Add")
        if test is None or total is None or graph.input(total, 1) != shift:
            return None
        ratio = _match_round(graph, graph.input(total, 0))
        zero = _zero_point(graph, patch, shift, dtype)
        if zero is None or graph.input(test, 0) != ratio:
            return None
    division = producer(graph, ratio, "Divide")
    if ratio is None or division is None:
        return None
    x, scale = graph.input(division, 0), graph.input(division, 1)
    shape = shape_of(graph, x)
    for other in (scale, zero):
        own = None if other is None else _shape(graph, patch, other)
        if other is not None and (
            shape is None or own is None or broadcasts_to(own, shape) is not True
        ):
            return None
    return patch.replace(Value(node), patch.add(Quantize(dtype), x, scale, zero))


def _match_round(graph: Graph, value: Value) -> Value | None:
    node = producer(graph, value, "Round")
    op = None if node is None else graph.op(node)
    if node is None or not isinstance(op, Round) or op.mode.lower() != "half_to_even":
        return None
    return graph.input(node, 0)


def find_integer_product(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A product of centred bytes in i32."""
    if dtype_of(graph, Value(node)) is not DType.i32:
        return None
    patch = Patch()
    sides = [_match_zero_point(graph, patch, graph.input(node, i)) for i in range(2)]
    if any(s is None or dtype_of(graph, s[0]) not in BYTES for s in sides):
        return None
    (a, a_zero), (b, b_zero) = (s for s in sides if s is not None)
    made = integer_form(graph.op(node))
    if made is None:
        return MatchFailure("no kernel multiplies bytes in this way")
    shapes = [shape_of(graph, v) for v in (a, b)]
    zeros = [() if z is None else _shape(graph, patch, z) for z in (a_zero, b_zero)]
    reason = integer_product_failure(made, shapes, zeros)
    if reason is not None:
        return MatchFailure(reason)
    return patch.replace(Value(node), patch.add(made, a, b, a_zero, b_zero))


_RULES = (
    Rule("find_dequantize", ("Multiply",), find_dequantize),
    op_rule("find_quantize", (Convert,), find_quantize),
    Rule(
        "find_integer_product",
        ("MatMul", "Convolution", "GroupConvolution"),
        find_integer_product,
    ),
)

recognize_qdq = Pass("recognize_qdq", lambda options: _RULES)
