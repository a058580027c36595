"""Ranges of floats, and Eye, as ranges of integers, for which there is a kernel."""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Add,
    Convert,
    Equal,
    Range,
    Reshape,
    Unsqueeze,
)
from ....ir.ops.tensor.shape_values import Eye
from ...rewrite.engine import Pass, Rule, op_rule
from ...rewrite.patch import MatchFailure, Patch, producer
from ..match.values import constant_scalar, dtype_of, shape_of


def decompose_range(graph: Graph, node: int) -> Patch | MatchFailure | None:
    """A range of floats between whole sizes is one of integers, converted. (Floats represent
    numbers apart up to 2^24 only: longer ranges are none of sizes.)"""
    type_ = dtype_of(graph, Value(node))
    if not type_.is_float:
        return None
    patch, ends = Patch(), list[Value]()
    for port in range(3):
        value = graph.input(node, port)
        given, source = constant_scalar(graph, value), producer(graph, value, "Convert")
        if given is not None and float(given).is_integer() and abs(given) < 1 << 24:
            ends.append(patch.integers(int(given)))
        elif source is not None and graph.known_value(graph.input(source, 0)) is not None:
            inner = graph.input(source, 0)
            shape = shape_of(graph, inner)
            wide = patch.add(Convert(DType.i64), inner)
            ends.append(wide if shape == () else patch.add(Reshape(), wide, patch.integers([])))
        else:
            return MatchFailure("an end is not a whole size")
    made = patch.add(Range(DType.i64), *ends)
    return patch.replace(Value(node), patch.add(Convert(type_), made))


def decompose_eye(graph: Graph, node: int, op: Eye) -> Patch | MatchFailure | None:
    """Numbers of rows compared with those of columns."""
    diagonal = constant_scalar(graph, graph.input(node, 2))
    if len(graph.inputs(node)) > 3 or diagonal is None:
        return MatchFailure("there is a batch, or the diagonal is not known")
    patch = Patch()

    def count_axis(port: int, start: int, axis: int) -> Value:
        count = patch.add(Convert(DType.i64), graph.input(node, port))
        count = patch.add(Reshape(), count, patch.integers([]))
        ends = [patch.integers(n) for n in (start, 1)]
        stop = patch.add(Add(), count, ends[0])
        return patch.add(
            Unsqueeze(), patch.add(Range(DType.i64), ends[0], stop, ends[1]), patch.integers([axis])
        )

    same = patch.add(Equal(), count_axis(0, int(diagonal), 1), count_axis(1, 0, 0))
    return patch.replace(Value(node), patch.add(Convert(op.output_type), same))


_RULES = (
    Rule("decompose_range", ("Range",), decompose_range),
    op_rule("decompose_eye", (Eye,), decompose_eye),
)

decompose_range_eye = Pass("decompose_range_eye", lambda options: _RULES)
