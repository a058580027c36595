"""Control flow: If, Loop (scan.py has Scan).

A body is imported with the types that its inputs have outside. What a loop carries may change its
shape from one iteration to the next; such sizes become symbols and the body is imported again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ......ir.dims import Dim, eq, symbol
from ......ir.dtype import DType
from ......ir.graph import Graph, Use, Value
from ......ir.infer import infer_node
from ......ir.ops import (
    Constant,
    Identity,
    If,
    Loop,
    Squeeze,
    Unsqueeze,
)
from ......ir.ops.control_flow.loops import BodyInput, BodyOutput
from ......ir.ops.control_flow.sequences import common_type
from ......ir.types import TensorType, Type

if TYPE_CHECKING:
    from onnx import GraphProto

    from ...body import Body
    from ...import_context import ImportContext, Imported, ImportFunction

_MAX_ROUNDS = 4
_NO_LIMIT = -1


def if_(n: ImportContext) -> Imported:
    """A condition that is known when compiling leaves only its branch."""
    condition = n.input(0)
    then_branch, else_branch = n.graph("then_branch"), n.graph("else_branch")
    for branch in (then_branch, else_branch):
        if len(branch.output) != len(n.proto.output) or branch.input:
            raise n.error(
                "a branch's outputs are those of the If, and it has no inputs",
                got=f"{len(branch.input)} inputs, {len(branch.output)} outputs",
                expected=f"0 inputs, {len(n.proto.output)} outputs",
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


def loop(n: ImportContext) -> Imported:
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
    body = steady_body(n, proto, scalars, [n.fact(v).type for v in carried])
    stacked = range(1 + len(carried), len(proto.output))
    for result in stacked:
        stack(n, body.graph, result, 0)
    ports = [BodyInput("iteration"), BodyInput("carried", 1, 0)]
    ports += [BodyInput("carried", 2 + i, 1 + i) for i in range(len(carried))]
    ports += [BodyInput("invariant", 2 + len(carried) + i) for i in range(len(body.captured))]
    outputs = [BodyOutput("last", 1 + i) for i in range(len(carried))]
    outputs += [BodyOutput("joined", result) for result in stacked]
    op = Loop(body.graph, tuple(ports), tuple(outputs), 0)
    return n.add_all(op, limit, condition, *carried, *body.captured)


def steady_body(
    n: ImportContext,
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
        joined = [
            _join_types(n, i, a, b) for i, (a, b) in enumerate(zip(carried, found, strict=True))
        ]
        if joined == carried:
            return body
        carried = joined
    raise n.unsupported_error("a loop whose carried values keep changing their type")


def _join_types(n: ImportContext, number: int, before: Type, after: Type) -> Type:
    if not isinstance(before, TensorType) or not isinstance(after, TensorType):
        return common_type(Identity(), before, after)
    if before.dtype is not after.dtype:
        raise n.type_error("a carried value changes its element type", got=f"{before} to {after}")
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return TensorType(before.dtype, None)
    sizes: list[Dim] = []
    for axis, (a, b) in enumerate(zip(before.shape, after.shape, strict=True)):
        sizes.append(a if eq(a, b) else symbol(f"{n.name}.{number}.{axis}"))
    return TensorType(before.dtype, tuple(sizes))


def stack(n: ImportContext, body: Graph, result: int, axis: int) -> int:
    """Give a result of a body the axis along which all iterations are joined."""
    node = body.results[result]
    source = body.input(node, 0)
    type_ = body.type(source)
    rank = type_.rank if isinstance(type_, TensorType) else None
    if rank is None:
        raise n.unsupported_error("a stacked value of unknown rank")
    axis = n.axis(axis, rank + 1)
    value = with_axis(n, body, Unsqueeze(), source, axis)
    body.connect(value, Use(node, 0))
    infer_node(body, node)
    return axis


def with_axis(
    n: ImportContext, body: Graph, op: Squeeze | Unsqueeze, value: Value, axis: int
) -> Value:
    listed = body.add(Constant.of(np.array([axis]), DType.i64), origin=n.origin)
    node = body.add(op, [value, Value(listed)], name=f"{n.name}/{op.kind}", origin=n.origin)
    for made in (listed, node):
        infer_node(body, made)
    return Value(node)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "If": {1: if_},
    "Loop": {1: loop},
}
