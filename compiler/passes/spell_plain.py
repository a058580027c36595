"""Operations without a kernel of their own in those that have one: Roll, ranges of floats, Eye,
LRN, NormalizeL2, MVN of any axes."""

from __future__ import annotations

import numpy as np

from ...ir.dim import bounds
from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.ops import (
    MVN,
    Add,
    AvgPool,
    Concat,
    Constant,
    Convert,
    Divide,
    Equal,
    Maximum,
    Multiply,
    Power,
    Range,
    ReduceSum,
    Reshape,
    ShapeOf,
    Slice,
    Sqrt,
    Unsqueeze,
)
from ...ir.ops.normalize import LRN, NormalizeL2
from ...ir.ops.shape_values import Eye
from ...ir.patch import Patch, Refusal, producer
from ..rewrite import Pass, Rule
from .cancel_transposes import add_transpose, inverse
from .matching import dtype_of, known_axes, number, shape_of

_WIDE = (DType.f32, DType.f64)
_END = np.iinfo(np.int64).max


def _listed(patch: Patch, *numbers: int) -> Value:
    return patch.add(Constant.of(np.array(numbers, np.int64), DType.i64))


def _like(graph: Graph, patch: Patch, value: Value, wanted: float) -> Value:
    """A number of the value's type."""
    dtype = dtype_of(graph, value)
    return patch.add(Constant.of(np.array(wanted, dtype.numpy), dtype))


def spell_roll(graph: Graph, node: int) -> Patch | Refusal | None:
    """Both parts of each axis, the other way round."""
    data, moves = graph.input(node, 0), graph.known(graph.input(node, 1))
    shape = shape_of(graph, data)
    axes = None if shape is None else known_axes(graph, graph.input(node, 2), len(shape))
    if shape is None or moves is None or axes is None or moves.dtype.kind not in "iu":
        return Refusal("the shifts or the axes are not known")
    by = [int(m) for m in moves.reshape(-1)]
    patch, value = Patch(), data
    for axis, shift in zip(axes, by * len(axes) if len(by) == 1 else by, strict=True):
        size = shape[axis]
        if isinstance(size, int):
            shift %= max(size, 1)
        elif abs(shift) > (bounds(size)[0] or 0):
            return Refusal("a shift may be longer than its axis")
        if not shift:
            continue
        one, at = _listed(patch, 1), _listed(patch, axis)
        cut = _listed(patch, -shift)
        last = patch.add(Slice(), value, cut, _listed(patch, _END), one, at)
        first = patch.add(Slice(), value, _listed(patch, 0), cut, one, at)
        value = patch.add(Concat(axis), last, first)
    return patch.replace(Value(node), value)


def spell_range(graph: Graph, node: int) -> Patch | Refusal | None:
    """A range of floats between whole sizes is one of integers, converted. (Floats tell whole
    numbers apart up to 2^24 only: longer ranges are none of sizes.)"""
    type_ = dtype_of(graph, Value(node))
    if not type_.is_float:
        return None
    patch, ends = Patch(), list[Value]()
    for port in range(3):
        value = graph.input(node, port)
        given, source = number(graph, value), producer(graph, value, "Convert")
        if given is not None and float(given).is_integer() and abs(given) < 1 << 24:
            ends.append(patch.add(Constant.of(np.array(int(given), np.int64), DType.i64)))
        elif source is not None and graph.known(graph.input(source, 0)) is not None:
            inner = graph.input(source, 0)
            shape = shape_of(graph, inner)
            wide = patch.add(Convert(DType.i64), inner)
            ends.append(wide if shape == () else patch.add(Reshape(), wide, _listed(patch)))
        else:
            return Refusal("an end is no whole size")
    made = patch.add(Range(DType.i64), *ends)
    return patch.replace(Value(node), patch.add(Convert(type_), made))


def spell_eye(graph: Graph, node: int) -> Patch | Refusal | None:
    """Numbers of rows compared with those of columns."""
    op = graph.op(node)
    assert isinstance(op, Eye)
    diagonal = number(graph, graph.input(node, 2))
    if len(graph.inputs(node)) > 3 or diagonal is None:
        return Refusal("there is a batch, or the diagonal is not known")
    patch = Patch()

    def counted(port: int, start: int, axis: int) -> Value:
        count = patch.add(Convert(DType.i64), graph.input(node, port))
        count = patch.add(Reshape(), count, _listed(patch))
        ends = [patch.add(Constant.of(np.array(n, np.int64), DType.i64)) for n in (start, 1)]
        stop = patch.add(Add(), count, ends[0])
        return patch.add(
            Unsqueeze(), patch.add(Range(DType.i64), ends[0], stop, ends[1]), _listed(patch, axis)
        )

    same = patch.add(Equal(), counted(0, int(diagonal), 1), counted(1, 0, 0))
    return patch.replace(Value(node), patch.add(Convert(op.output_type), same))


def spell_lrn(graph: Graph, node: int) -> Patch | Refusal | None:
    """Normalisation by neighbouring channels: a mean of squares that slides over them."""
    op, data = graph.op(node), graph.input(node, 0)
    assert isinstance(op, LRN)
    shape = shape_of(graph, data)
    axes = None if shape is None else known_axes(graph, graph.input(node, 1), len(shape))
    if shape is None or axes != [1] or dtype_of(graph, data) not in _WIDE:
        return Refusal("not along the channels alone, or of a narrow type")
    if not isinstance(shape[1], int) or len(shape) < 3:
        return Refusal("no channels of images")
    before = (op.size - 1) // 2
    patch = Patch()
    planes = patch.add(Reshape(True), data, _listed(patch, 0, 1, shape[1], -1))
    means = patch.add(
        AvgPool(
            strides=(1, 1),
            pads_begin=(before, 0),
            pads_end=(op.size - 1 - before, 0),
            kernel=(op.size, 1),
            rounding_type="floor",
            auto_pad="explicit",
        ),
        patch.add(Multiply(), planes, planes),
    )
    scaled = patch.add(Multiply(), means, _like(graph, patch, data, op.alpha))
    inside = patch.add(Add(), scaled, _like(graph, patch, data, op.bias))
    norm = patch.add(Power(), inside, _like(graph, patch, data, op.beta))
    made = patch.add(Divide(), planes, norm)
    return patch.replace(
        Value(node), patch.add(Reshape(), made, patch.add(ShapeOf(DType.i64), data))
    )


def spell_normalize(graph: Graph, node: int) -> Patch | Refusal | None:
    """x / sqrt(sum of squares and eps)."""
    op, data = graph.op(node), graph.input(node, 0)
    assert isinstance(op, NormalizeL2)
    known = graph.known(graph.input(node, 1))
    if dtype_of(graph, data) not in _WIDE or known is None or not known.size:
        return Refusal("a narrow type, or axes that are not known")
    patch = Patch()
    total = patch.add(ReduceSum(True), patch.add(Multiply(), data, data), graph.input(node, 1))
    joined = Add() if op.eps_mode.lower() == "add" else Maximum()
    inside = patch.add(joined, total, _like(graph, patch, data, op.eps))
    return patch.replace(Value(node), patch.add(Divide(), data, patch.add(Sqrt(), inside)))


def spell_mvn(graph: Graph, node: int) -> Patch | Refusal | None:
    """Axes that are normalised become the last ones."""
    op, data = graph.op(node), graph.input(node, 0)
    if not isinstance(op, MVN):
        return None
    shape = shape_of(graph, data)
    axes = None if shape is None else known_axes(graph, graph.input(node, 1), len(shape))
    if shape is None or axes is None:
        return Refusal("the rank or the axes are not known")
    rank, last = len(shape), sorted(set(axes))
    order = [*(a for a in range(rank) if a not in last), *last]
    if order == list(range(rank)) or not last:
        return None
    patch = Patch()
    listed = _listed(patch, *range(rank - len(last), rank))
    made = patch.add(op, add_transpose(patch, data, order), listed)
    return patch.replace(Value(node), add_transpose(patch, made, inverse(order)))


_RULES = (
    Rule("spell_roll", ("Roll",), spell_roll),
    Rule("spell_range", ("Range",), spell_range),
    Rule("spell_eye", ("Eye",), spell_eye),
    Rule("spell_lrn", ("LRN",), spell_lrn),
    Rule("spell_normalize", ("NormalizeL2",), spell_normalize),
    Rule("spell_mvn", ("MVN",), spell_mvn),
)

spell_plain = Pass("spell_plain", lambda options: _RULES)
