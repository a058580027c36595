"""Ranges of floats, and Eye, as ranges of integers, for which there is a kernel."""

from __future__ import annotations

import math

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
    numbers apart up to 2^24 only: longer ranges are none of sizes.) One from 0.5 on, as of the
    centres of pixels, is 0.5 behind that of integers. One of integers has a kernel as it is."""
    type_ = dtype_of(graph, Value(node))
    if not type_.is_float:
        return None
    is_half = _begins_at_half(graph, node)
    patch, ends = Patch(), list[Value]()
    for port in range(3):
        value = graph.input(node, port)
        given, source = constant_scalar(graph, value), producer(graph, value, "Convert")
        inner = value if source is None else graph.input(source, 0)
        fits = is_half and port == 0
        if given is not None and abs(given) < 1 << 24 and (fits or float(given).is_integer()):
            ends.append(patch.integers(math.floor(given)))
        elif (source is not None or is_half) and _is_size(graph, inner):
            shape = shape_of(graph, inner)
            wide = patch.add(Convert(DType.i64), inner)
            ends.append(wide if shape == () else patch.add(Reshape(), wide, patch.integers([])))
        else:
            return MatchFailure("an end is not a whole size")
    made = patch.add(Convert(type_), patch.add(Range(DType.i64), *ends))
    if is_half:
        made = patch.add(Add(), made, patch.constant(0.5, type_))
    return patch.replace(Value(node), made)


def _is_size(graph: Graph, value: Value) -> bool:
    """Whether a value is an integer that is known, as a number or by sizes."""
    return dtype_of(graph, value).is_int and graph.known_value(value) is not None


def _begins_at_half(graph: Graph, node: int) -> bool:
    """Whether a range begins half way between two integers and goes up. To a size, by an integer,
    it has as many numbers as the range that begins at the lower one, and f32 holds both."""
    if dtype_of(graph, Value(node)) not in (DType.f32, DType.f64):
        return False
    start, step = (constant_scalar(graph, graph.input(node, port)) for port in (0, 2))
    return start is not None and start % 1 == 0.5 and step is not None and step > 0


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
