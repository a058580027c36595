"""Rewrites loops that compare a counter with a bound to loops of a known number of iterations, and
arrays that they fill element by element to scan outputs.

Pattern: the condition of a Loop is a conjunction of `counter < bound`, where each counter grows by
one constant and each bound is known or a size; a carried array of as many elements as there are
iterations is written by ScatterUpdate at the number of the iteration, or one of one element in each
iteration.
Exporter: tf2onnx 1.17 and OpenVINO 2026.4's converter of TensorFlow models, of recurrent layers of
Keras 3.15 (a tf.while_loop that writes a TensorArray).
Gain: a native loop that writes its outputs part by part; such loops were run by Python
(docs/dev/tuning/exporter-patterns.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ....ir.dims import Dim, bounds, eq
from ....ir.dtype import DType
from ....ir.graph import Graph, Use, Value
from ....ir.infer import infer_graph
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import Add, Constant, Convert, Loop, ScatterUpdate, Unsqueeze
from ....ir.ops.control_flow.loops import BodyOutput
from ....ir.types import TensorType
from ...legality import RESHAPES
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import Patch
from ..match.values import known_axes, shape_of, single_integer

_MOVING = RESHAPES | {"Identity"}
# Numbers of iterations from this one on, and negative ones, are written for no limit.
_NO_LIMIT = np.iinfo(np.int64).max
# The last integer up to which f32 has all, and the types that have them.
_MAX_EXACT = 1 << 24
_COUNTING = frozenset((DType.i32, DType.i64, DType.f32, DType.f64))


@dataclass(frozen=True)
class _Counter:
    """A number that is `start` in the first iteration and grows by `step`."""

    start: int
    step: int


@dataclass(frozen=True)
class _Count:
    """A number of iterations, and the value outside the loop that is it but for `offset`."""

    trips: Dim
    bound: Value | None = None
    offset: int = 0


def count_iterations(graph: Graph, node: int, op: Loop) -> Patch | None:
    """A Loop without a limit whose condition compares counters with bounds."""
    if op.condition < 0 or op.always():
        return None
    limit = single_integer(graph, graph.input(node, 0))
    if limit is None:
        return None
    endless = isinstance(limit, int) and not 0 <= limit < _NO_LIMIT
    counts = [] if endless else [_Count(limit, graph.input(node, 0))]
    for term in _split_conjunction(op.body, op.body.input(op.body.results[op.condition], 0)):
        found = _count_of_term(graph, node, op, term)
        if found is None:
            return None
        counts.append(found)
    shortest = _choose_shortest(counts)
    if shortest is None:
        return None
    first = graph.input(node, 1)
    starts = single_integer(graph, first)
    if not isinstance(shortest.trips, int):
        if starts is None and not _starts_with_one(graph, first, shortest.trips):
            return None
        if starts is not None and not (bounds(shortest.trips)[0] or 0) > 0:
            return None
    return _build_counted_loop(graph, node, op, shortest)


def _build_counted_loop(graph: Graph, node: int, op: Loop, count: _Count) -> Patch:
    body = op.body.copy()
    again = Value(body.add(Constant.of(np.array(True), DType.boolean)))
    body.connect(again, Use(body.results[op.condition], 0))
    infer_graph(body)
    patch = Patch()
    inputs = graph.inputs(node)
    if isinstance(count.trips, int):
        inputs[0] = patch.integers(count.trips)
    else:
        assert count.bound is not None
        number = patch.add(Convert(DType.i64), count.bound)
        offset = patch.integers(count.offset)
        inputs[0] = patch.add(Add(), number, offset) if count.offset else number
        # It is the number of iterations, also where that is none.
        inputs[1] = patch.constant(True, DType.boolean)
    made = patch.add(replace(op, body=body), *inputs, name=graph.node(node).name)
    for port in range(op.output_count()):
        patch.replace(Value(node, port), Value(made.node, port))
    return patch


def _split_conjunction(graph: Graph, value: Value) -> list[Value]:
    """The terms of LogicalAnd, each of them once."""
    terms, seen, pending = list[Value](), set[Value](), [value]
    while pending:
        value = pending.pop()
        while graph.op(value.node).kind in _MOVING:
            value = graph.input(value.node, 0)
        if value in seen:
            continue
        seen.add(value)
        if graph.op(value.node).kind == "LogicalAnd":
            pending += [graph.input(value.node, port) for port in (0, 1)]
        else:
            terms.append(value)
    return terms


def _count_of_term(graph: Graph, node: int, op: Loop, term: Value) -> _Count | None:
    """How often a loop runs that goes on while this comparison of its body is true."""
    body = op.body
    if body.op(term.node).kind != "Less":
        return None
    counter = _match_counter(graph, node, op, body.input(term.node, 0))
    if counter is None or counter.step < 1:
        return None
    bound, outside = _match_bound(graph, node, op, body.input(term.node, 1))
    if isinstance(bound, int):
        return _Count(1 + max(0, -((counter.start - bound) // counter.step)))
    if bound is None or counter.step > 1:
        return None
    offset = 1 - counter.start
    return _Count(bound + offset, outside, offset)


def _match_counter(graph: Graph, node: int, op: Loop, value: Value) -> _Counter | None:
    """The value of the body as a number that grows by a constant."""
    body, more = op.body, 0
    value = _skip_conversions(body, value)
    while value.node not in body.parameters:
        added = _match_addition(body, value)
        if added is None:
            return None
        more += added[1]
        value = _skip_conversions(body, added[0])
    found = _match_carried_counter(graph, node, op, body.parameters.index(value.node))
    if found is None or abs(found.start + more) > _MAX_EXACT:
        return None
    return _Counter(found.start + more, found.step)


def _match_addition(body: Graph, value: Value) -> tuple[Value, int] | None:
    """x and n where the value is x + n, n a known number."""
    if body.op(value.node).kind != "Add":
        return None
    for own, other in ((0, 1), (1, 0)):
        more = single_integer(body, body.input(value.node, other))
        if isinstance(more, int):
            return body.input(value.node, own), more
    return None


def _match_carried_counter(graph: Graph, node: int, op: Loop, i: int) -> _Counter | None:
    body, port = op.body, op.ports[i]
    if port.mode == "iteration":
        return _Counter(0, 1)
    start = graph.inputs(node)[port.port]
    if port.mode != "carried" or start is None:
        return None
    first = single_integer(graph, start)
    added = _match_addition(body, _skip_conversions(body, body.input(body.results[port.back], 0)))
    if not isinstance(first, int) or added is None:
        return None
    source, step = added
    same = _skip_conversions(body, source) == Value(body.parameters[i])
    return _Counter(first, step) if same else None


def _skip_conversions(graph: Graph, value: Value) -> Value:
    """The value before shapes and types change; what a type may not hold exactly stays."""
    while (op := graph.op(value.node)).kind in _MOVING or isinstance(op, Convert):
        if isinstance(op, Convert) and op.destination_type not in _COUNTING:
            return value
        value = graph.input(value.node, 0)
    return value


def _match_bound(
    graph: Graph, node: int, op: Loop, value: Value
) -> tuple[Dim | None, Value | None]:
    """A number that is the same in all iterations: an integer, or a size and the value outside."""
    body = op.body
    source = _skip_conversions(body, value)
    known = [single_integer(body, v) for v in (value, source)]
    exact = [k for k in known if isinstance(k, int) and abs(k) <= _MAX_EXACT]
    if exact or source.node not in body.parameters:
        return (exact[0] if exact else None), None
    port = op.ports[body.parameters.index(source.node)]
    unchanged = port.mode == "carried" and body.input(body.results[port.back], 0) == source
    if port.mode != "invariant" and not unchanged:
        return None, None
    outside = graph.inputs(node)[port.port]
    bound = None if outside is None else single_integer(graph, outside)
    return (None, None) if isinstance(bound, int) and abs(bound) > _MAX_EXACT else (bound, outside)


def _choose_shortest(counts: list[_Count]) -> _Count | None:
    """The least number of iterations; None where it is not known which one that is."""
    for count in counts:
        gaps = [bounds(other.trips - count.trips)[0] for other in counts]
        if all(gap is not None and gap >= 0 for gap in gaps):
            return count
    return None


def _starts_with_one(graph: Graph, first: Value, trips: Dim) -> bool:
    """Whether the first condition is true just where there is an iteration."""
    least = bounds(trips)[0]
    if least is None or least < 0:
        return False
    for term in _split_conjunction(graph, first):
        if graph.op(term.node).kind != "Less":
            return False
        low, high = (
            single_integer(graph, _skip_conversions(graph, graph.input(term.node, port)))
            for port in (0, 1)
        )
        if not isinstance(low, int) or high is None or not eq(high - low, trips):
            return False
    return True


@dataclass(frozen=True)
class _Array:
    """A carried array: its port, what an iteration writes, and whether each writes an element of
    its own; otherwise all write the only one."""

    port: int
    written: Value
    each: bool


def join_array(graph: Graph, node: int, op: Loop) -> Patch | None:
    """One carried array of a counted loop."""
    trips = _known_trips(graph, node, op)
    if trips is None:
        return None
    for i, port in enumerate(op.ports):
        found = _match_array(graph, node, op, i, trips) if port.mode == "carried" else None
        patch = found and _build_scan_output(graph, node, op, found)
        if patch is not None:
            return patch
    return None


def _known_trips(graph: Graph, node: int, op: Loop) -> Dim | None:
    """How often the loop runs, where nothing else decides about it."""
    trips, first = (single_integer(graph, graph.input(node, port)) for port in (0, 1))
    if trips is None or first != 1 or not op.always():
        return None
    least = bounds(trips)[0]
    return trips if least is not None and least >= 0 else None


def _match_array(graph: Graph, node: int, op: Loop, i: int, trips: Dim) -> _Array | None:
    body, port = op.body, op.ports[i]
    handed = body.input(body.results[port.back], 0)
    scatter = body.op(handed.node)
    start = shape_of(graph, graph.inputs(node)[port.port])
    if not isinstance(scatter, ScatterUpdate) or body.use_count(handed) != 1 or not start:
        return None
    target, index, written, axis = (body.input(handed.node, port) for port in range(4))
    while body.op(target.node).kind in ("Broadcast", "Identity"):
        target = body.input(target.node, 0)
    outputs = [o for o in op.results if o.result == port.back]
    shape = shape_of(body, written)
    if target != Value(body.parameters[i]) or any(o.mode != "last" for o in outputs):
        return None
    if known_axes(body, axis, len(start)) != [0] or not shape or shape[0] != 1:
        return None
    if start[0] == 1 and single_integer(body, index) == 0:
        return _Array(i, written, each=False)
    counter = _match_counter(graph, node, op, index)
    if counter == _Counter(0, 1) and eq(start[0], trips):
        return _Array(i, written, each=True)
    return None


def _build_scan_output(graph: Graph, node: int, op: Loop, found: _Array) -> Patch | None:
    """The loop without the carried array; None where its body reads that for something else."""
    inner = op.body.copy()
    back = op.ports[found.port].back
    state = None if found.each else _find_carried(op, found.written)
    inner.connect(found.written, Use(inner.results[back], 0))
    needed = inner.needed_nodes()
    parameter = inner.parameters[found.port]
    if parameter in needed:
        return None
    for n in reversed(inner.order()):
        if n == parameter or (n not in needed and n not in inner.parameters):
            inner.remove(n)
    infer_graph(inner)
    ports = tuple(p for i, p in enumerate(op.ports) if i != found.port)
    mode = "joined" if found.each else "last"
    results = list(op.results)
    for k, o in enumerate(op.results):
        if o.result == back:
            results[k] = BodyOutput(mode, back if state is None else state)
    patch = Patch()
    new = replace(op, body=inner, ports=ports, results=tuple(results))
    made = patch.add(new, *graph.inputs(node), name=graph.node(node).name)
    for k, o in enumerate(op.results):
        value = Value(made.node, k)
        if o.result == back and state is not None:
            value = patch.add(Unsqueeze(), value, patch.integers([0]))
        patch.replace(Value(node, k), value)
    return patch


def _find_carried(op: Loop, written: Value) -> int | None:
    """The result of the body that is a carried value of which `written` is the only element: such
    a value is there, too, where no iteration runs."""
    body = op.body
    if not isinstance(body.op(written.node), Unsqueeze):
        return None
    element = body.input(written.node, 0)
    rank = body.type(written)
    if not isinstance(rank, TensorType) or rank.shape is None:
        return None
    if known_axes(body, body.input(written.node, 1), len(rank.shape)) != [0]:
        return None
    for port in op.ports:
        if port.mode == "carried" and body.input(body.results[port.back], 0) == element:
            return port.back
    return None


_RULES = (
    op_rule("count_iterations", (Loop,), count_iterations),
    op_rule("join_array", (Loop,), join_array),
)

raise_while_loops = Pass("raise_while_loops", lambda options: _RULES)
