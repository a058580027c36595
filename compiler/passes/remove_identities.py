"""Remove operations that hand their input on unchanged, bit for bit."""

from __future__ import annotations

from ...ir.graph import Graph, Value
from ...ir.ops import Constant
from ...ir.patch import Patch, Refusal, producer, sole_use
from ...ir.types import TensorType
from ..rewrite import Pass, Rule

# Kinds whose output equals input 0 whenever its type does: they only move or rename elements, and
# with equal shapes there is nothing to move. (Transposes are handled below: equal sizes do not
# make an order the identity.)
_MOVERS = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Broadcast", "Convert", "Slice")
# x * 1, x / 1, x - 0: exact for every x. (x + 0 is not: it turns -0.0 into 0.0.)
_NEUTRAL = {"Multiply": 1, "Divide": 1, "Subtract": 0}


def remove_mover(graph: Graph, node: int) -> Patch | Refusal | None:
    """A mover whose output has its input's type."""
    source, value = graph.input(node, 0), Value(node)
    op = graph.op(node)
    if graph.type(source) != graph.type(value):
        return None
    if op.kind == "Slice":
        steps = graph.known(graph.input(node, 3))
        if steps is None or any(int(s) != 1 for s in steps.reshape(-1)):
            return None
    shape = graph.type(source)
    if not isinstance(shape, TensorType) or shape.shape is None:
        return Refusal("the shape is unknown") if op.kind != "Identity" else _drop(value, source)
    return _drop(value, source)


def remove_transpose(graph: Graph, node: int) -> Patch | None:
    """A transpose that keeps every axis in its place."""
    inputs = graph.inputs(node)
    order = graph.known(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    if order is None or order.dtype == object or order.size == 0:
        return None
    if [int(i) for i in order.reshape(-1)] != list(range(order.size)):
        return None
    return _drop(Value(node), graph.input(node, 0))


def remove_single_concat(graph: Graph, node: int) -> Patch | None:
    """A concatenation of one input."""
    inputs = graph.inputs(node)
    return _drop(Value(node), graph.input(node, 0)) if len(inputs) == 1 else None


def remove_neutral(graph: Graph, node: int) -> Patch | Refusal | None:
    """Multiplication or division by 1, subtraction of 0."""
    op = graph.op(node)
    source, other = graph.input(node, 0), graph.input(node, 1)
    constant = graph.op(other.node)
    if not isinstance(constant, Constant) or constant.data.dtype.kind not in "fiu":
        return None
    if constant.data.size != 1 or constant.data.reshape(()).item() != _NEUTRAL[op.kind]:
        return None
    if graph.type(source) != graph.type(Value(node)):
        return Refusal("the constant broadcasts the other operand")
    return _drop(Value(node), source)


def merge_reshapes(graph: Graph, node: int) -> Patch | Refusal | None:
    """A reshape of a reshape: the inner one is left out where the outer's target does not copy
    sizes of its input."""
    inner = producer(graph, graph.input(node, 0), "Reshape")
    if inner is None:
        return None
    if not sole_use(graph, Value(inner)):
        return Refusal("the inner reshape has other readers")
    target = graph.known(graph.input(node, 1))
    if target is None:
        return Refusal("the target is unknown")
    if any(isinstance(d, int) and d == 0 for d in target.reshape(-1).tolist()):
        return Refusal("the target copies sizes of the inner reshape")
    patch = Patch()
    new = patch.add(graph.op(node), graph.input(inner, 0), graph.input(node, 1))
    return patch.replace(Value(node), new)


def _drop(value: Value, source: Value) -> Patch:
    return Patch().replace(value, source)


_RULES = (
    Rule("remove_mover", _MOVERS, remove_mover),
    Rule("remove_transpose", ("Transpose",), remove_transpose),
    Rule("remove_single_concat", ("Concat",), remove_single_concat),
    Rule("remove_neutral", tuple(_NEUTRAL), remove_neutral),
    Rule("merge_reshapes", ("Reshape",), merge_reshapes),
)

remove_identities = Pass("remove_identities", lambda options: _RULES)
