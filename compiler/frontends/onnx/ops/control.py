"""Control flow: If, Loop, Scan.

A body is imported with the types that its inputs have outside. What a loop carries may change its
shape from one iteration to the next; such sizes become symbols and the body is imported again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .....ir.dim import Dim, eq, symbol
from .....ir.dtype import DType
from .....ir.graph import Graph, Use, Value
from .....ir.infer import infer_node
from .....ir.ops import (
    Constant,
    Identity,
    If,
    Loop,
    Parameter,
    Result,
    Squeeze,
    TensorIterator,
    Unsqueeze,
)
from .....ir.ops.loops import BodyInput, BodyOutput
from .....ir.ops.sequences import common_type
from .....ir.types import TensorType, Type

if TYPE_CHECKING:
    from onnx import GraphProto

    from ..body import Body
    from ..node import Imported, ImportFunction, OnnxNode

_MAX_ROUNDS = 4
_NO_LIMIT = -1


def if_(n: OnnxNode) -> Imported:
    """A condition that is known when compiling leaves only its branch."""
    condition = n.input(0)
    then_branch, else_branch = n.graph("then_branch"), n.graph("else_branch")
    for branch in (then_branch, else_branch):
        if len(branch.output) < len(n.proto.output) or branch.input:
            raise n.error(
                "a branch's outputs are those of the If, and it has no inputs",
                got=f"{len(branch.input)} inputs, {len(branch.output)} outputs",
                expected=f"{len(n.proto.output)} outputs",
            )
    known = n.constant_of(condition)
    if known is not None and known.size == 1:
        return n.inline_body(then_branch if bool(known.reshape(-1)[0]) else else_branch)
    then_body, else_body = n.make_body(then_branch, ()), n.make_body(else_branch, ())
    first = 1 + len(then_body.captured)
    count = range(len(n.proto.output))
    op = If(
        then_body.graph,
        else_body.graph,
        tuple(range(1, first)),
        tuple(range(first, first + len(else_body.captured))),
        tuple(count),
        tuple(count),
    )
    return n.add_all(op, condition, *then_body.captured, *else_body.captured)


def loop(n: OnnxNode) -> Imported:
    """Body inputs: iteration, condition, carried values; outputs: condition, carried values, and
    values that are stacked over all iterations."""
    proto = n.graph("body")
    carried = [n.input(i) for i in range(2, len(n.inputs))]
    if len(proto.input) != 2 + len(carried) or len(proto.output) < 1 + len(carried):
        raise n.error(
            "the body of a Loop has the wrong number of inputs or outputs",
            got=f"{len(proto.input)} inputs, {len(proto.output)} outputs",
            expected=f"{2 + len(carried)} inputs, {1 + len(carried)} outputs or more",
        )
    limit = n.optional(0) or n.int_value(_NO_LIMIT)
    condition = n.optional(1) or n.constant(np.array(True), DType.boolean)
    scalars: list[Type] = [TensorType(DType.i64, ()), TensorType(DType.boolean, ())]
    body = _steady_body(n, proto, scalars, [n.fact(v).type for v in carried])
    stacked = range(1 + len(carried), len(proto.output))
    for result in stacked:
        _stack(n, body.graph, result, 0)
    ports = [BodyInput("iteration"), BodyInput("carried", 1, 0)]
    ports += [BodyInput("carried", 2 + i, 1 + i) for i in range(len(carried))]
    ports += [BodyInput("invariant", 2 + len(carried) + i) for i in range(len(body.captured))]
    outputs = [BodyOutput("last", 1 + i) for i in range(len(carried))]
    outputs += [BodyOutput("joined", result) for result in stacked]
    op = Loop(body.graph, tuple(ports), tuple(outputs), 0)
    return n.add_all(op, limit, condition, *carried, *body.captured)


def scan(n: OnnxNode) -> Imported:
    """States are carried; parts of the other inputs, without their axis, go in one by one."""
    proto, count = n.graph("body"), n.integer("num_scan_inputs")
    values = n.given()
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
        raise n.unsupported("a Scan of values that are no tensors")
    ways = axes, backwards, out_axes, out_backwards
    op, captured = _scan(n, proto, tensors[: len(states)], tensors[len(states) :], ways)
    return n.add_all(op, *values, *captured)


def scan_of_batch(n: OnnxNode) -> Imported:
    """Scan of operation set 8: every input and output has the batch first, time second, and the
    elements of the batch go through the body apart from one another."""
    proto, count = n.graph("body"), n.integer("num_scan_inputs")
    if n.optional(0) is not None:
        raise n.unsupported("a Scan with lengths of its sequences")
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
    elements = [_part(n.fact(v).tensor, 0) for v in values]
    inner, captured = _scan(n, proto, elements[:states], elements[states:], ways)
    graph = Graph()
    given = [
        _with_axis(n, graph, Squeeze(), _parameter(n, graph, TensorType(t.dtype, (1, *t.shape))), 0)
        for t in elements
        if t.shape is not None
    ]
    given += [_parameter(n, graph, n.fact(v).tensor) for v in captured]
    made = graph.add(inner, given, name=n.name, origin=n.origin)
    infer_node(graph, made)
    for value in graph.values(made):
        end = graph.add(Result(), [_with_axis(n, graph, Unsqueeze(), value, 0)], origin=n.origin)
        infer_node(graph, end)
    ports = [BodyInput("sliced", i) for i in range(len(values))]
    ports += [BodyInput("invariant", len(values) + i) for i in range(len(captured))]
    outputs = [BodyOutput("joined", i) for i in range(states + results)]
    op = TensorIterator(graph, tuple(ports), tuple(outputs))
    return n.add_all(op, *values, *captured)


def _parameter(n: OnnxNode, body: Graph, type_: TensorType) -> Value:
    node = body.add(Parameter(type_.dtype, type_.shape), origin=n.origin)
    infer_node(body, node)
    return Value(node)


def _scan(
    n: OnnxNode,
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
    body = _steady_body(n, proto, [], [*states], parts, back=0)
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
        axis = _stack(n, body.graph, result, axis)
        start, end, stride = (-1, 0, -1) if back else (0, -1, 1)
        outputs.append(BodyOutput("joined", result, axis, start, end, stride))
    return TensorIterator(body.graph, tuple(ports), tuple(outputs)), body.captured


def _steady_body(
    n: OnnxNode,
    proto: GraphProto,
    first: list[Type],
    carried: list[Type],
    rest: Sequence[Type] = (),
    *,
    back: int = 1,
) -> Body:
    """The body with types of its carried inputs that hold in every iteration."""
    for _ in range(_MAX_ROUNDS):
        body = n.make_body(proto, [*first, *carried, *rest])
        graph = body.graph
        found = [graph.node(r).types[0] for r in graph.results[back : back + len(carried)]]
        joined = [_joined(n, i, a, b) for i, (a, b) in enumerate(zip(carried, found, strict=True))]
        if joined == carried:
            return body
        carried = joined
    raise n.unsupported("a loop whose carried values keep changing their type")


def _joined(n: OnnxNode, number: int, before: Type, after: Type) -> Type:
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return common_type(Identity(), before, after)
    if before.dtype is not after.dtype:
        raise n.misfit("a carried value changes its element type", got=f"{before} to {after}")
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return TensorType(before.dtype, None)
    sizes: list[Dim] = []
    for axis, (a, b) in enumerate(zip(before.shape, after.shape, strict=True)):
        sizes.append(a if eq(a, b) else symbol(f"{n.name}.{number}.{axis}"))
    return TensorType(before.dtype, tuple(sizes))


def _part(type_: TensorType, axis: int) -> TensorType:
    """The type of one part of a scanned input, whose axis is gone."""
    shape = type_.shape
    assert shape is not None  # its rank is known
    return TensorType(type_.dtype, (*shape[:axis], *shape[axis + 1 :]))


def _stack(n: OnnxNode, body: Graph, result: int, axis: int) -> int:
    """Give a result of a body the axis along which all iterations are joined."""
    node = body.results[result]
    source = body.input(node, 0)
    type_ = body.type(source)
    rank = type_.rank if isinstance(type_, TensorType) else None
    if rank is None:
        raise n.unsupported("a stacked value of unknown rank")
    axis = n.axis(axis, rank + 1)
    value = _with_axis(n, body, Unsqueeze(), source, axis)
    body.connect(value, Use(node, 0))
    infer_node(body, node)
    return axis


def _unstack(n: OnnxNode, body: Graph, parameter: int, axis: int) -> None:
    """Let a parameter take a part with its axis of size 1, and remove the axis inside."""
    node = body.parameters[parameter]
    record = body.node(node)
    readers = body.uses(Value(node))
    assert isinstance(record.op, Parameter) and record.op.shape is not None
    shape = record.op.shape
    record.op = Parameter(record.op.element_type, (*shape[:axis], 1, *shape[axis:]))
    infer_node(body, node)
    value = _with_axis(n, body, Squeeze(), Value(node), axis)
    for use in readers:
        body.connect(value, use)


def _with_axis(n: OnnxNode, body: Graph, op: Squeeze | Unsqueeze, value: Value, axis: int) -> Value:
    listed = body.add(Constant.of(np.array([axis]), DType.i64), origin=n.origin)
    node = body.add(op, [value, Value(listed)], name=f"{n.name}/{op.kind}", origin=n.origin)
    for made in (listed, node):
        infer_node(body, made)
    return Value(node)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "If": {1: if_},
    "Loop": {1: loop},
    "Scan": {8: scan_of_batch, 9: scan},
}
