"""What goes into and out of control flow, cut down to what its bodies need.

Exporters feed a body everything that surrounds it. A constant belongs inside, where the other
passes see it and weights get packed; a carried value that no iteration changes is not a state; what
without uses need not be passed. An If whose condition is known is the branch taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....ir.graph import Graph, Value
from ....ir.infer import infer_graph
from ....ir.op import Op
from ....ir.ops import Constant, If, Loop, TensorIterator
from ....ir.ops.control_flow.loops import BodyInput
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import Patch

Iterating = Loop | TensorIterator
_INTERFACE = frozenset({"Parameter", "TypedParameter", "Result"})


@dataclass
class _Wiring:
    """Inputs of the new node: those it keeps by position, then each other value once."""

    inputs: list[Value | None]
    port_of: dict[Value, int] = field(default_factory=dict[Value, int])

    def port(self, value: Value) -> int:
        """The input port that feeds this value."""
        if value not in self.port_of:
            self.inputs.append(value)
            self.port_of[value] = len(self.inputs) - 1
        return self.port_of[value]


def take_branch(graph: Graph, node: int, op: If) -> Patch | None:
    """An If whose condition is known: its branch replaces it."""
    known = graph.known_value(graph.input(node, 0))
    if known is None or known.size != 1 or known.dtype == object:
        return None
    taken = bool(np.asarray(known).reshape(-1)[0])
    body = op.then_body if taken else op.else_body
    if any(graph_op.effects.value != "none" for graph_op in map(body.op, body.ids())):
        return None
    outside = graph.inputs(node)
    mapped: dict[Value, Value] = {}
    for parameter, port in zip(
        body.parameters, op.then_inputs if taken else op.else_inputs, strict=True
    ):
        source = outside[port]
        if source is None:
            return None
        mapped[Value(parameter)] = source
    patch = Patch()
    for inner_node in body.order():
        record = body.node(inner_node)
        if record.op.kind in _INTERFACE:
            continue
        inputs = [None if v is None else mapped[v] for v in body.inputs(inner_node)]
        made = patch.add(record.op, *inputs, name=record.name)
        for value in body.values(inner_node):
            mapped[value] = Value(made.node, value.port)
    outputs = op.then_outputs if taken else op.else_outputs
    for port, result in enumerate(outputs):
        patch.replace(Value(node, port), mapped[body.input(body.results[result], 0)])
    return patch


def narrow_branches(graph: Graph, node: int, op: If) -> Patch | None:
    """Constants and unread parameters leave the interface of an If's bodies."""
    outside = graph.inputs(node)
    wiring = _Wiring([outside[0]])
    bodies: list[Graph] = []
    ports: list[tuple[int, ...]] = []
    changed = False
    for body, inputs in ((op.then_body, op.then_inputs), (op.else_body, op.else_inputs)):
        feeds = [outside[port] for port in inputs]
        retained, narrowed = _drop_parameters(graph, body, feeds, [True] * len(feeds))
        changed = changed or narrowed is not body
        bodies.append(narrowed)
        ports.append(tuple(wiring.port(v) for i in retained if (v := feeds[i]) is not None))
    if not changed:
        return None
    new = replace(
        op,
        then_body=bodies[0],
        else_body=bodies[1],
        then_inputs=ports[0],
        else_inputs=ports[1],
    )
    return _replace_node(graph, node, new, wiring.inputs, {k: k for k in range(op.output_count())})


def narrow_loop(graph: Graph, node: int, op: Iterating) -> Patch | None:
    """The same for a loop; a carried value that no iteration changes is no longer carried, and
    unused outputs are removed."""
    outside = graph.inputs(node)
    body = op.body
    ports = [_resolve_port(body, i, port) for i, port in enumerate(op.ports)]
    passed = {p.back: p.port for p, new in zip(op.ports, ports, strict=True) if new is not p}
    outputs = [
        k
        for k, output in enumerate(op.results)
        if graph.use_count(Value(node, k))
        and not (output.mode == "last" and output.result in passed)
    ]
    if not outputs and not passed:
        return None
    feeds = [outside[p.port] if p.port >= 0 else None for p in ports]
    free = [p.mode in ("invariant", "iteration") for p in ports]
    retained, narrowed = _drop_parameters(graph, body, feeds, free)
    if narrowed is body and not passed and len(outputs) == len(op.results):
        return None
    wiring = _Wiring(outside[:2] if isinstance(op, Loop) else [])
    wired: list[BodyInput] = []
    for i in retained:
        value = feeds[i]
        wired.append(ports[i] if value is None else replace(ports[i], port=wiring.port(value)))
    results = tuple(op.results[k] for k in outputs)
    new = replace(op, body=narrowed, ports=tuple(wired), results=results)
    patch = _replace_node(graph, node, new, wiring.inputs, {k: n for n, k in enumerate(outputs)})
    for k, output in enumerate(op.results):
        source = outside[passed[output.result]] if output.result in passed else None
        if output.mode == "last" and source is not None:
            patch.replace(Value(node, k), source)
    return patch


def _resolve_port(body: Graph, i: int, port: BodyInput) -> BodyInput:
    """A carried port whose body returns its value unchanged becomes an invariant one."""
    if port.mode != "carried":
        return port
    returned = body.input(body.results[port.back], 0)
    while body.op(returned.node).kind == "Identity":
        returned = body.input(returned.node, 0)
    same = returned == Value(body.parameters[i])
    return BodyInput("invariant", port.port) if same else port


def _drop_parameters(
    graph: Graph, body: Graph, feeds: Sequence[Value | None], free: Sequence[bool]
) -> tuple[list[int], Graph]:
    """(parameters that stay, the body without the others). A parameter may go where it is `free`:
    it has no uses, or a constant feeds it."""
    retained: list[int] = []
    constants: dict[int, Constant] = {}
    for i, (node, value) in enumerate(zip(body.parameters, feeds, strict=True)):
        op = None if value is None else graph.op(value.node)
        if free[i] and isinstance(op, Constant):
            constants[node] = op
        elif not free[i] or body.has_uses(node):
            retained.append(i)
    if len(retained) == len(body.parameters):
        return retained, body
    narrowed = body.copy()
    for i, node in enumerate(body.parameters):
        if i in retained:
            continue
        if node in constants:
            value = Value(narrowed.add(constants[node], name=narrowed.node(node).name))
            for use in narrowed.uses(Value(node)):
                narrowed.connect(value, use)
        narrowed.remove(node)
    infer_graph(narrowed)
    return retained, narrowed


def _replace_node(
    graph: Graph, node: int, op: Op, inputs: Sequence[Value | None], outputs: dict[int, int]
) -> Patch:
    """A patch that replaces the node by `op`; `outputs`: old to new ports."""
    patch = Patch()
    made = patch.add(op, *inputs, name=graph.node(node).name)
    for old, new in outputs.items():
        patch.replace(Value(node, old), Value(made.node, new))
    return patch


_RULES = (
    op_rule("take_branch", (If,), take_branch),
    op_rule("narrow_branches", (If,), narrow_branches),
    op_rule("narrow_loop", (Loop, TensorIterator), narrow_loop),
)

simplify_subgraphs = Pass("simplify_subgraphs", lambda options: _RULES)
