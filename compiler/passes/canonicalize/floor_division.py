"""A quotient of integers that is truncated, less one where it is inexact and negative, is one that
is rounded down.

OpenVINO's converter of TensorFlow writes `a // b` so: with sizes of images and of sounds whose
length is not known, and then what follows from the quotient is known as a size only where it is one
operation.
"""

from __future__ import annotations

from ....ir.graph import Graph, Value
from ....ir.ops import Add, Divide
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import constant_scalar, dtype_of


def raise_floor(graph: Graph, node: int, op: Add) -> Patch | MatchFailure | None:
    """Divide + Select(Mod != 0 and (a < 0) xor (b < 0), -1, 0) of a by a positive number b."""
    for own, other in ((0, 1), (1, 0)):
        quotient = producer(graph, graph.input(node, own), "Divide")
        less = producer(graph, graph.input(node, other), "Select")
        if quotient is None or less is None:
            continue
        divide = graph.op(quotient)
        assert isinstance(divide, Divide)
        if divide.m_pythondiv or not dtype_of(graph, Value(node)).is_int:
            return None
        choice = [constant_scalar(graph, graph.input(less, port)) for port in (1, 2)]
        if choice != [-1, 0] or not _is_inexact_and_negative(graph, quotient, less):
            return MatchFailure("a quotient less something else")
        patch = Patch()
        return patch.replace(Value(node), patch.add(Divide(), *graph.inputs(quotient)))
    return None


def _is_inexact_and_negative(graph: Graph, quotient: int, less: int) -> bool:
    """Whether a Select asks this of the quotient."""
    a, b = (graph.input(quotient, port) for port in (0, 1))
    both = producer(graph, graph.input(less, 0), "LogicalAnd")
    if both is None or (constant_scalar(graph, b) or 0) < 1:
        return False
    inexact = producer(graph, graph.input(both, 0), "NotEqual")
    negative = producer(graph, graph.input(both, 1), "LogicalXor")
    if inexact is None or negative is None or constant_scalar(graph, graph.input(inexact, 1)) != 0:
        return False
    rest = producer(graph, graph.input(inexact, 0), "Mod")
    below = producer(graph, graph.input(negative, 0), "Less")
    other = graph.known_value(graph.input(negative, 1))
    if rest is None or below is None or other is None or other.any():
        return False
    operands = [graph.input(rest, 0), graph.input(rest, 1), graph.input(below, 0)]
    return operands == [a, b, a] and constant_scalar(graph, graph.input(below, 1)) == 0


_RULES = (op_rule("raise_floor", (Add,), raise_floor),)

raise_floor_division = Pass("raise_floor_division", lambda options: _RULES)
