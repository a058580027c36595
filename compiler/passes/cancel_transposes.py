"""Merge transposes that meet, directly or across elementwise operations."""

from __future__ import annotations

import numpy as np

from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.ops import Constant, Transpose
from ...ir.ops.elementwise import Elementwise
from ...ir.patch import Patch, Refusal, producer, sole_use
from ...ir.types import TensorType
from ..rewrite import Pass, Rule


def order_of(graph: Graph, node: int) -> list[int] | None:
    """The known order of a Transpose; an empty one reverses the axes."""
    inputs = graph.inputs(node)
    type_ = graph.type(graph.input(node, 0))
    if not isinstance(type_, TensorType) or type_.shape is None:
        return None
    known = graph.known(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    if known is None or known.dtype == object:
        return None
    order = [int(i) for i in known.reshape(-1)]
    return order or list(reversed(range(len(type_.shape))))


def add_transpose(patch: Patch, value: Value, order: list[int]) -> Value:
    """Append a Transpose, or nothing where the order is the identity."""
    if order == list(range(len(order))):
        return value
    axes = patch.add(Constant.of(np.array(order, np.int64), DType.i64))
    return patch.add(Transpose(), value, axes)


def merge_pair(graph: Graph, node: int) -> Patch | None:
    """Transpose of a transpose: one transpose, or none."""
    inner = producer(graph, graph.input(node, 0), "Transpose")
    outer_order = order_of(graph, node)
    inner_order = None if inner is None else order_of(graph, inner)
    if inner is None or outer_order is None or inner_order is None:
        return None
    patch = Patch()
    merged = [inner_order[i] for i in outer_order]
    return patch.replace(Value(node), add_transpose(patch, graph.input(inner, 0), merged))


def lift_through_elementwise(graph: Graph, node: int) -> Patch | Refusal | None:
    """Transpose(f(Transpose(x), ...)): the outer one moves above f, where the pair merges.

    Applies where f is read only here, and each of its inputs is a transpose read only by f (at
    least one), a constant, or a single element.
    """
    middle = graph.input(node, 0).node
    op = graph.op(middle)
    order = order_of(graph, node)
    if not isinstance(op, Elementwise) or order is None:
        return None
    inputs = graph.inputs(middle)
    inner = [v for v in inputs if v is not None and graph.op(v.node).kind == "Transpose"]
    if not inner:
        return None
    if not sole_use(graph, Value(middle)):
        return Refusal("the elementwise operation has other readers")
    patch = Patch()
    moved: list[Value | None] = []
    for value in inputs:
        type_ = None if value is None else graph.type(value)
        if value is None or not isinstance(type_, TensorType) or type_.shape is None:
            return Refusal("an operand is absent or of unknown rank")
        rank = len(type_.shape)
        if type_.element_count == 1 and rank <= len(order):
            moved.append(value)
        elif rank != len(order):
            return Refusal("an operand has another rank")
        elif value in inner and (inner_order := order_of(graph, value.node)) is not None:
            source = graph.input(value.node, 0)
            moved.append(add_transpose(patch, source, [inner_order[i] for i in order]))
        elif isinstance(graph.op(value.node), Constant):
            moved.append(add_transpose(patch, value, order))
        else:
            return Refusal("an operand is not transposed")
    return patch.replace(Value(node), patch.add(op, *moved))


_RULES = (
    Rule("merge_pair", ("Transpose",), merge_pair),
    Rule("lift_through_elementwise", ("Transpose",), lift_through_elementwise),
)

cancel_transposes = Pass("cancel_transposes", lambda options: _RULES)
