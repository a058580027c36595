"""Which control flow the driver walks itself, and how often a loop runs.

Sizes of a native loop hold in every iteration and are known where its region begins; what its
body does is all native. Anything else is steered by Python, with a plan per body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....ir.dims import Dim, Expr, bounds, exact_quotient
from ....ir.dtype import DType
from ....ir.errors import VerificationError
from ....ir.graph import Graph, Value
from ....ir.ops import If, Loop, Parameter, TensorIterator
from ....ir.ops.control_flow.conditional import failure
from ....ir.ops.control_flow.loops import BodyInput, slice_count
from ....ir.types import TensorType, Type, normalize_axis
from ...legality import NATIVE
from ..build.region_builder import fits
from ..schedule.role import NativeControl, Role, Trips

Iterating = Loop | TensorIterator
# Assigns roles to the nodes of a body.
DecideRoles = Callable[[Graph], Mapping[int, Role]]

# More iterations than anybody waits for.
NO_LIMIT = 1 << 61
_COUNTERS = (DType.i32, DType.i64)


def match_control(
    graph: Graph, node: int, op: If | Iterating, known: set[str], decide_roles: DecideRoles
) -> NativeControl | str:
    """Control flow that the driver runs itself, or why it does not."""
    for value in (*graph.inputs(node), *graph.values(node)):
        if value is not None and (found := _refuse_type(graph.type(value))) is not None:
            return found
    bodies: list[Mapping[int, Role] | None] = []
    for body in op.bodies():
        if failure(body) is not None:
            bodies.append(None)
            continue
        results = [body.type(body.input(r, 0)) for r in body.results]
        for type_ in (*(body.type(Value(p)) for p in body.parameters), *results):
            if (found := _refuse_type(type_)) is not None:
                return found
            sizes = [d for d in _tensor(type_).shape or () if isinstance(d, Expr)]
            if any(s.name not in known for d in sizes for s in d.symbols()):
                return "sizes of its body are not known before"
        roles = decide_roles(body)
        for inner, role in roles.items():
            if not role.native:
                return f"in its body: {body.op(inner).kind}, {role.reason}"
        bodies.append(roles)
    if isinstance(op, If):
        return _refuse_if(graph, node, op) or NativeControl(None, tuple(bodies))
    trips = _trips_of(graph, node, op)
    if isinstance(trips, str):
        return trips
    return _refuse_loop(graph, node, op, trips) or NativeControl(trips, tuple(bodies))


def _refuse_type(type_: Type) -> str | None:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return "a value that is not a tensor of known rank"
    return None if type_.dtype in NATIVE else f"values of {type_.dtype}"


def _refuse_if(graph: Graph, node: int, op: If) -> str | None:
    if _tensor(graph.type(graph.input(node, 0))).dtype is not DType.boolean:
        return "a condition that is not a boolean"
    inputs = graph.inputs(node)
    ways = ((op.then_inputs, op.then_outputs), (op.else_inputs, op.else_outputs))
    for body, (fed, given) in zip(op.bodies(), ways, strict=True):
        if failure(body) is not None:
            continue
        for parameter, port in zip(body.parameters, fed, strict=True):
            value = inputs[port]
            if value is None or not _agree(body.type(Value(parameter)), graph.type(value)):
                return "a branch knows other sizes than what it is fed has"
        for k, result in enumerate(given):
            type_ = body.type(body.input(body.results[result], 0))
            if not _agree(type_, graph.type(Value(node, k))):
                return "the branches differ in their sizes"
    return None


def _trips_of(graph: Graph, node: int, op: Iterating) -> Trips | str:
    """How often a loop runs, or why the driver cannot know."""
    inputs = graph.inputs(node)
    counts: list[Dim] = []
    for port in op.ports:
        if port.mode == "sliced":
            count = _count(port, graph, inputs)
            if count is None:
                return "parts of unequal size"
            counts.append(count)
    if isinstance(op, TensorIterator):
        if not counts or not all(fits([c], counts[:1]) for c in counts):
            return "sliced inputs of unequal lengths"
        return Trips(counts[0])
    found = _trips_of_loop(graph, op, inputs)
    if isinstance(found, Trips) and counts:
        if found.count is not None or not all(fits([c], [found.most]) for c in counts):
            return "sliced inputs of other lengths than the number of iterations"
    return found


def _trips_of_loop(graph: Graph, op: Loop, inputs: Sequence[Value | None]) -> Trips | str:
    limit, first = inputs[0], inputs[1]
    assert limit is not None and first is not None
    again = None if op.always() else op.body.input(op.body.results[op.condition], 0)
    if _tensor(graph.type(first)).dtype is not DType.boolean:
        return "a condition that is not a boolean"
    if again is not None and _tensor(op.body.type(again)).dtype is not DType.boolean:
        return "a condition that is not a boolean"
    start = graph.known_value(first)
    if start is not None and start.dtype != object:
        if not bool(np.asarray(start).reshape(-1)[0]):
            return Trips(0)
        first = None
    number = graph.known_value(limit)
    if number is None or number.size != 1:
        if _tensor(graph.type(limit)).dtype not in _COUNTERS:
            return "a number of iterations that is neither i32 nor i64"
        return Trips(NO_LIMIT, limit, first, again)
    most: Dim = number.reshape(-1)[0]
    most = most if isinstance(most, Expr) else int(most)
    least = bounds(most)[0]
    if least is None or (least < 0 and not isinstance(most, int)):
        return "a number of iterations that may be negative"
    endless = isinstance(most, int) and not 0 <= most < NO_LIMIT
    return Trips(NO_LIMIT if endless else most, None, first, again)


def _count(port: BodyInput, graph: Graph, inputs: Sequence[Value | None]) -> Dim | None:
    """How many parts a sliced input has; None where they may not be whole."""
    value = inputs[port.port]
    shape = None if value is None else _tensor(graph.type(value)).shape
    if shape is None or port.part_size > abs(port.stride):
        return None
    size = shape[normalize_axis(port.axis, len(shape))]
    count = slice_count(port, size)
    first, last = slice_bounds(port, size)
    span = last - first if port.stride > 0 else first - last
    return count if exact_quotient(span, abs(port.stride)) is not None else None


def slice_bounds(port: BodyInput, size: Dim) -> tuple[Dim, Dim]:
    """Where the parts of a sliced input begin and end."""
    return tuple(at if at >= 0 else size + at + 1 for at in (port.start, port.end))  # pyright: ignore[reportReturnType]


def _refuse_loop(graph: Graph, node: int, op: Iterating, trips: Trips) -> str | None:
    inputs, body = graph.inputs(node), op.body
    results = [body.type(body.input(r, 0)) for r in body.results]
    for parameter, port in zip(body.parameters, op.ports, strict=True):
        type_ = body.type(Value(parameter))
        if port.mode == "iteration":
            declared = _tensor(type_)
            if declared.dtype not in _COUNTERS or any(d != 1 for d in declared.shape or ()):
                return "an iteration's number that is neither i32 nor i64"
            continue
        value = inputs[port.port]
        outer = _tensor(graph.type(value)) if value is not None else None
        assert outer is not None and outer.shape is not None
        if port.mode == "sliced":
            axis = normalize_axis(port.axis, len(outer.shape))
            sizes = (*outer.shape[:axis], port.part_size, *outer.shape[axis + 1 :])
            outer = TensorType(outer.dtype, sizes)
        if not _agree(type_, outer):
            return "sizes change from one iteration to the next"
        if port.mode == "carried" and not _agree(type_, results[port.back]):
            return "sizes change from one iteration to the next"
    backs = {p.back for p in op.ports if p.mode == "carried"}
    for k, output in enumerate(op.results):
        outer, inner = _tensor(graph.type(Value(node, k))), _tensor(results[output.result])
        assert outer.shape is not None and inner.shape is not None
        if output.mode == "joined":
            axis = normalize_axis(output.axis, len(inner.shape))
            total = trips.most * inner.shape[axis]
            sizes = (*inner.shape[:axis], total, *inner.shape[axis + 1 :])
            if not trips.certain or not _agree(TensorType(inner.dtype, sizes), outer):
                return "how many parts it joins depends on data"
            continue
        least = bounds(trips.most)[0]
        if output.result not in backs and not (trips.certain and least is not None and least > 0):
            return "a result of the last iteration, where there may be none"
        if not _agree(inner, outer):
            return "sizes of a result are not known"
    return None


def _agree(a: Type, b: Type) -> bool:
    x, y = _tensor(a), _tensor(b)
    return x.dtype is y.dtype and fits(x.shape or (), y.shape or ())


def _tensor(type_: Type) -> TensorType:
    if not isinstance(type_, TensorType):
        raise VerificationError("a tensor is needed here", got=str(type_))
    return type_


def index_parameter(op: Iterating) -> int | None:
    """The parameter of the body that is the iteration's number, if it is read."""
    for parameter, port in zip(op.body.parameters, op.ports, strict=True):
        declared = isinstance(op.body.op(parameter), Parameter)
        if port.mode == "iteration" and declared and op.body.has_uses(parameter):
            return parameter
    return None
