"""Scan: over parts of inputs; of operation set 8, over a batch of sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dims import eq
from ......ir.dtype import DType
from ......ir.graph import Graph, Value
from ......ir.infer import infer_node
from ......ir.op import Op
from ......ir.ops import (
    Broadcast,
    Concat,
    Gather,
    Parameter,
    Result,
    ShapeOf,
    Slice,
    Squeeze,
    TensorIterator,
    Unsqueeze,
)
from ......ir.ops.control_flow.loops import BodyInput, BodyOutput
from ......ir.types import TensorType, Type
from ...import_context import GraphBuilder
from .conditional import stack, steady_body, with_axis

if TYPE_CHECKING:
    from onnx import GraphProto

    from ...import_context import ImportContext, Imported, ImportFunction


def scan(n: ImportContext) -> Imported:
    """States are carried; parts of the other inputs, without their axis, go in one by one."""
    proto, count = n.graph("body"), n.integer("num_scan_inputs")
    values = n.all_inputs()
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    results = len(proto.output) - len(states)
    if len(proto.input) != len(values) or not 0 < count <= len(values) or results < 0:
        raise n.error("the body of a Scan does not fit its inputs", got=len(proto.input))
    axes = n.integers("scan_input_axes", [0] * count)
    backwards = n.integers("scan_input_directions", [0] * count)
    out_axes = n.integers("scan_output_axes", [0] * results)
    out_backwards = n.integers("scan_output_directions", [0] * results)
    if [len(axes), len(backwards), len(out_axes), len(out_backwards)] != [count] * 2 + [
        results
    ] * 2:
        raise n.error("axes and directions of a Scan need one number per input or output")
    axes = [n.axis(a, n.rank(v)) for a, v in zip(axes, scanned, strict=True)]
    types = [n.fact(v).type for v in values]
    tensors = [t for t in types if isinstance(t, TensorType)]
    if len(tensors) < len(types):
        raise n.unsupported_error("a Scan of values that are not tensors")
    ways = axes, backwards, out_axes, out_backwards
    op, captured = _scan(n, proto, tensors[: len(states)], tensors[len(states) :], ways)
    return n.add_all(op, *values, *captured)


def scan_of_batch(n: ImportContext) -> Imported:
    """Scan of operation set 8: every input and output has the batch first, time second, and the
    elements of the batch go through the body apart from one another. With lengths each element is
    cut to its own (one beyond the sequence's end means that end), and what it gives is filled
    up with zeros, as onnxruntime does."""
    proto, count = n.graph("body"), n.integer("num_scan_inputs")
    lengths = n.optional(0)
    values = [n.input(i) for i in range(1, len(n.inputs))]
    states = len(values) - count
    results = len(proto.output) - states
    if len(proto.input) != len(values) or not 0 < count <= len(values) or results < 0:
        raise n.error("the body of a Scan does not fit its inputs", got=len(proto.input))
    backwards = n.integers("directions", [0] * count)
    if len(backwards) != count:
        raise n.error("directions of a Scan need one number per input", got=len(backwards))
    ways = [0] * count, backwards, [0] * results, [0] * results
    for v in values:
        n.rank(v)
    sliced = [*values, *([] if lengths is None else [_lengths(n, lengths, values[-1])])]
    body = GraphBuilder(Graph())
    given = [_element(n, body, n.fact(v).tensor) for v in sliced]
    steps = None
    if lengths is not None:
        length = given.pop()
        steps = _time(n, body, given[-1])
        given[states:] = [_slice_first(n, body, v, length) for v in given[states:]]
    types = [body.graph.type(v) for v in given]
    parts = [t for t in types if isinstance(t, TensorType)]
    inner, captured = _scan(n, proto, parts[:states], parts[states:], ways)
    given += [_parameter(n, body.graph, n.fact(v).tensor) for v in captured]
    made = body.add(inner, given, n.name, n.origin)
    for i, value in enumerate(body.graph.values(made)):
        if steps is not None and i >= states:
            value = _pad_steps(n, body, value, steps)
        body.add(Result(), [with_axis(n, body.graph, Unsqueeze(), value, 0)], "", n.origin)
    ports = [BodyInput("sliced", i) for i in range(len(sliced))]
    ports += [BodyInput("invariant", len(sliced) + i) for i in range(len(captured))]
    outputs = [BodyOutput("joined", i) for i in range(states + results)]
    op = TensorIterator(body.graph, tuple(ports), tuple(outputs))
    return n.add_all(op, *sliced, *captured)


def _lengths(n: ImportContext, lengths: Value, scanned: Value) -> Value:
    """The lengths of a batch's elements, one each."""
    batch, given = n.shape(scanned), n.shape(lengths)
    if given is None or len(given) != 1 or (batch and eq(given[0], batch[0]) is False):
        raise n.type_error(
            "the lengths of a Scan are one number per element of the batch",
            got=n.fact(lengths).type,
            expected=f"[{batch[0]}]" if batch else "a vector",
        )
    return lengths


def _element(n: ImportContext, body: GraphBuilder, batch: TensorType) -> Value:
    """A parameter for one element of a batch, without the batch's axis."""
    part = _part(batch, 0)
    assert part.shape is not None  # its rank is known
    given = _parameter(n, body.graph, TensorType(part.dtype, (1, *part.shape)))
    return with_axis(n, body.graph, Squeeze(), given, 0)


def _add_to_body(n: ImportContext, body: GraphBuilder, op: Op, *inputs: Value) -> Value:
    return Value(body.add(op, inputs, f"{n.name}/{op.kind}", n.origin))


def _slice_first(n: ImportContext, body: GraphBuilder, data: Value, stop: Value) -> Value:
    """The elements before `stop` (a scalar) on the first axis."""
    end = with_axis(n, body.graph, Unsqueeze(), stop, 0)
    zero, one = (body.constant(DType.i64, np.array([i]), n.origin) for i in (0, 1))
    return _add_to_body(n, body, Slice(), data, zero, end, one, zero)


def _time(n: ImportContext, body: GraphBuilder, sequence: Value) -> Value:
    """The number of steps of a sequence, as a scalar."""
    zero = body.constant(DType.i64, np.array(0), n.origin)
    return _add_to_body(n, body, Gather(), _add_to_body(n, body, ShapeOf(), sequence), zero, zero)


def _pad_steps(n: ImportContext, body: GraphBuilder, given: Value, steps: Value) -> Value:
    """As many steps, those that are missing as zeros."""
    far = np.iinfo(np.int64).max
    one, end = (body.constant(DType.i64, np.array([i]), n.origin) for i in (1, far))
    rest = _add_to_body(n, body, Slice(), _add_to_body(n, body, ShapeOf(), given), one, end, one)
    sizes = _add_to_body(n, body, Concat(0), with_axis(n, body.graph, Unsqueeze(), steps, 0), rest)
    type_ = body.graph.type(given)
    assert isinstance(type_, TensorType)
    nothing = body.constant(type_.dtype, np.zeros((), type_.dtype.numpy), n.origin)
    more = _add_to_body(n, body, Broadcast(), nothing, sizes)
    return _slice_first(n, body, _add_to_body(n, body, Concat(0), given, more), steps)


def _parameter(n: ImportContext, body: Graph, type_: TensorType) -> Value:
    node = body.add(Parameter(type_.dtype, type_.shape), origin=n.origin)
    infer_node(body, node)
    return Value(node)


def _scan(
    n: ImportContext,
    proto: GraphProto,
    states: list[TensorType],
    scanned: list[TensorType],
    ways: tuple[list[int], list[int], list[int], list[int]],
) -> tuple[TensorIterator, list[Value]]:
    """The loop over inputs of these types, and what its body takes from around it. `ways` are axes
    and directions of what is scanned, then of what comes out."""
    axes, backwards, out_axes, out_backwards = ways
    count = len(states) + len(scanned)
    parts: list[Type] = [_part(t, a) for t, a in zip(scanned, axes, strict=True)]
    body = steady_body(n, proto, [], [*states], parts, back=0)
    for i, axis in enumerate(axes):
        _unstack(n, body.graph, len(states) + i, axis)
    ports = [BodyInput("carried", i, i) for i in range(len(states))]
    for i, (axis, back) in enumerate(zip(axes, backwards, strict=True)):
        start, end, stride = (-1, 0, -1) if back else (0, -1, 1)
        ports.append(BodyInput("sliced", len(states) + i, -1, axis, start, end, stride))
    ports += [BodyInput("invariant", count + i) for i in range(len(body.captured))]
    outputs = [BodyOutput("last", i) for i in range(len(states))]
    for i, (axis, back) in enumerate(zip(out_axes, out_backwards, strict=True)):
        result = len(states) + i
        axis = stack(n, body.graph, result, axis)
        start, end, stride = (-1, 0, -1) if back else (0, -1, 1)
        outputs.append(BodyOutput("joined", result, axis, start, end, stride))
    return TensorIterator(body.graph, tuple(ports), tuple(outputs)), body.captured


def _part(type_: TensorType, axis: int) -> TensorType:
    """The type of one part of a scanned input, whose axis is gone."""
    shape = type_.shape
    assert shape is not None  # its rank is known
    return TensorType(type_.dtype, (*shape[:axis], *shape[axis + 1 :]))


def _unstack(n: ImportContext, body: Graph, parameter: int, axis: int) -> None:
    """Let a parameter take a part with its axis of size 1, and remove the axis inside."""
    node = body.parameters[parameter]
    record = body.node(node)
    readers = body.uses(Value(node))
    assert isinstance(record.op, Parameter) and record.op.shape is not None
    shape = record.op.shape
    record.op = Parameter(record.op.element_type, (*shape[:axis], 1, *shape[axis:]))
    infer_node(body, node)
    value = with_axis(n, body, Squeeze(), Value(node), axis)
    for use in readers:
        body.connect(value, use)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {"Scan": {8: scan_of_batch, 9: scan}}
