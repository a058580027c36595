"""Remove operations that hand their input on unchanged, bit for bit."""

from __future__ import annotations

import math

import numpy as np

from ....ir.dims import eq
from ....ir.graph import Graph, Value
from ....ir.ops import Constant, Convert
from ....ir.ops.math.elementwise import Elementwise
from ....ir.types import broadcast_shapes
from ...legality import is_elementwise
from ...rewrite.engine import Pass, Rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.casts import loses_nothing
from ..match.values import broadcasts_to, dtype_of, known_axes, shape_of

# Kinds whose output equals input 0 whenever its type does: they only move or rename elements, and
# with equal shapes there is nothing to move. (Transposes are handled below: equal sizes do not
# make an order the identity.)
_MOVERS = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Broadcast", "Convert", "Slice", "Pad")
_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")
# x * 1, x / 1, x ** 1, x - 0, x + -0.0: exact for every x. (x + 0.0 is not: it turns -0.0 into
# 0.0.) The number, whether it may also be the first operand.
_NEUTRAL = {
    "Multiply": (1.0, True),
    "Divide": (1.0, False),
    "Power": (1.0, False),
    "Subtract": (0.0, False),
    "Add": (-0.0, True),
}
# A constant with more elements than this is not looked at.
_MAX_COMPARED_ELEMENTS = 1 << 16


def remove_mover(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A mover whose output has its input's type."""
    source, value = graph.input(node, 0), Value(node)
    op = graph.op(node)
    if graph.type(source) != graph.type(value):
        return None
    if op.kind == "Slice":
        steps = graph.known_value(graph.input(node, 3))
        if steps is None or not all(s == 1 for s in steps.reshape(-1).tolist()):
            return None
    if op.kind == "Pad":
        # Equal sizes may also come from padding one end and cutting the other.
        pads = [graph.known_value(graph.input(node, port)) for port in (1, 2)]
        if any(
            p is None or any(eq(n, 0) is not True for n in p.reshape(-1).tolist()) for p in pads
        ):
            return None
    if op.kind == "Broadcast" and any(
        v and graph.known_value(v) is None for v in graph.inputs(node)[2:]
    ):
        return MatchFailure("the axes to broadcast on are seen when it runs")
    if op.kind != "Identity" and shape_of(graph, source) is None:
        return MatchFailure("the shape is unknown")
    return _drop(value, source)


def remove_transpose(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A transpose that keeps every axis at its index."""
    order = known_axes(graph, graph.input(node, 1), 64)
    if not order or order != list(range(len(order))):
        return None
    return _drop_moved(graph, node)


def remove_single_concat(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A concatenation of one input."""
    return _drop_moved(graph, node) if len(graph.inputs(node)) == 1 else None


def _drop_moved(graph: Graph, node: int) -> Patch | MatchFailure:
    """Without a node whose axes are those of its input, if that has them."""
    source = graph.input(node, 0)
    if shape_of(graph, source) is None:
        return MatchFailure("whether the input has these axes is seen when it runs")
    return _drop(Value(node), source)


def remove_neutral(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """Arithmetic with its neutral element."""
    neutral, either = _NEUTRAL[graph.op(node).kind]
    left, right = graph.input(node, 0), graph.input(node, 1)
    for source, other in ((left, right), (right, left)) if either else ((left, right),):
        if _is_all(graph, other, neutral):
            if shape_of(graph, source) is None and shape_of(graph, other) != ():
                return MatchFailure("whether the constant broadcasts the other operand is unknown")
            if graph.type(source) != graph.type(Value(node)):
                return MatchFailure("the constant broadcasts the other operand")
            return _drop(Value(node), source)
    return None


def _is_all(graph: Graph, value: Value, number: float) -> bool:
    """Whether a constant holds nothing but this number (0.0 and -0.0 are two)."""
    op = graph.op(value.node)
    if not isinstance(op, Constant) or not 0 < op.data.size <= _MAX_COMPARED_ELEMENTS:
        return False
    if op.dtype.is_int:
        return bool(np.all(op.data == int(number)))
    if op.data.dtype.kind != "f" or not np.all(op.data == number):
        return False
    return number != 0 or bool(np.all(np.signbit(op.data) == (math.copysign(1, number) < 0)))


def merge_reshapes(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A reshape of a reshape: the inner one is left out, or both where they undo one another."""
    inner = graph.input(node, 0)
    if graph.op(inner.node).kind not in _RESHAPES:
        return None
    source = graph.input(inner.node, 0)
    if any(v is not None and graph.known_value(v) is None for v in graph.inputs(inner.node)[1:]):
        return MatchFailure("whether the inner reshape is one is seen when it runs")
    if shape_of(graph, source) is None:
        return MatchFailure("the shape is unknown")
    if graph.type(source) == graph.type(Value(node)):
        return _drop(Value(node), source)
    if graph.op(node).kind != "Reshape":
        return None
    target = graph.known_value(graph.input(node, 1))
    if target is None:
        return MatchFailure("the target is unknown")
    if any(isinstance(d, int) and d == 0 for d in target.reshape(-1).tolist()):
        return MatchFailure("the target copies sizes of the inner reshape")
    patch = Patch()
    return patch.replace(Value(node), patch.add(graph.op(node), source, graph.input(node, 1)))


def merge_conversions(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A conversion of a conversion that loses nothing: one conversion, or none."""
    inner = producer(graph, graph.input(node, 0), "Convert")
    op = graph.op(node)
    if inner is None or not isinstance(op, Convert):
        return None
    source = graph.input(inner, 0)
    first, middle = dtype_of(graph, source), dtype_of(graph, Value(inner))
    if not loses_nothing(first, middle, op.destination_type):
        return MatchFailure(f"{first} to {middle} to {op.destination_type} is not one conversion")
    if first is op.destination_type:
        return _drop(Value(node), source)
    patch = Patch()
    return patch.replace(Value(node), patch.add(op, source))


def bypass_broadcast(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """An elementwise operation broadcasts by itself: it reads what a Broadcast reads where its
    other operands give the same shape."""
    if not isinstance(graph.op(node), Elementwise) or len(graph.inputs(node)) < 2:
        return None
    inputs = graph.inputs(node)
    for port, value in enumerate(inputs):
        if value is None or graph.op(value.node).kind != "Broadcast":
            continue
        source = graph.input(value.node, 0)
        moved = [source if v == value else v for v in inputs]
        shapes = [shape_of(graph, v) for v in moved if v is not None]
        if getattr(graph.op(value.node), "mode", "").lower() not in ("numpy", "bidirectional"):
            return MatchFailure("the broadcast follows another rule")
        if not is_elementwise(graph, node) or any(s is None for s in shapes):
            return MatchFailure("the operation depends on the index of an axis")
        shape, between = shape_of(graph, Value(node)), shape_of(graph, value)
        if shape is None or broadcast_shapes(*shapes) != shape:
            return MatchFailure("the other operands do not have the shape")
        if between is None or broadcasts_to(between, shape) is not True:
            return MatchFailure("what is broadcast to is seen when it runs")
        if getattr(graph.op(node), "auto_broadcast", "numpy").lower() == "none":
            return MatchFailure("the operation does not broadcast")
        moved = [source if p == port else v for p, v in enumerate(inputs)]
        patch = Patch()
        return patch.replace(Value(node), patch.add(graph.op(node), *moved))
    return None


def _drop(value: Value, source: Value) -> Patch:
    return Patch().replace(value, source)


_RULES = (
    Rule("remove_mover", _MOVERS, remove_mover),
    Rule("remove_transpose", ("Transpose",), remove_transpose),
    Rule("remove_single_concat", ("Concat",), remove_single_concat),
    Rule("remove_neutral", tuple(_NEUTRAL), remove_neutral),
    Rule("merge_reshapes", _RESHAPES, merge_reshapes),
    Rule("merge_conversions", ("Convert",), merge_conversions),
    Rule("bypass_broadcast", (), bypass_broadcast),
)

remove_identities = Pass("remove_identities", lambda options: _RULES)
