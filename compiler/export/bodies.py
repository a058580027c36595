"""Bodies of If, Loop and TensorIterator: port maps, back edges, and bodies rewritten in copies."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ...ir.graph import Graph
from ...ir.op import Op
from ...ir.ops import BodyInput, BodyOutput, If, Loop, TensorIterator

Pairs = dict[str, str]
# What a layer's text needs besides its attributes: (tag, entries as (tag, attributes)).
Section = tuple[str, list[tuple[str, Pairs]]]


def with_bodies(op: Op, function: Callable[[Graph], Graph]) -> Op:
    """The operation with `function` applied to each graph it holds; itself where it has none."""
    if not op.bodies():
        return op
    fields = {a.name: getattr(op, a.name) for a in op.attributes()}
    return dataclasses.replace(
        op, **{name: function(value) for name, value in fields.items() if isinstance(value, Graph)}
    )


def named_bodies(op: Op) -> list[tuple[str, Graph]]:
    """The elements that hold the bodies, in OpenVINO's order."""
    if isinstance(op, If):
        return [("then_body", op.then_body), ("else_body", op.else_body)]
    return [("body", body) for body in op.bodies()]


def port_maps(op: Op, inputs: int, ids: Callable[[Graph], dict[int, int]]) -> list[Section]:
    """Port maps and back edges of an operation with `inputs` inputs; `ids` numbers the layers of
    a body. Outside, outputs are numbered after the inputs."""
    if isinstance(op, If):
        return [
            _branch("else", op.else_body, op.else_inputs, op.else_outputs, inputs, ids),
            _branch("then", op.then_body, op.then_inputs, op.then_outputs, inputs, ids),
        ]
    if isinstance(op, Loop | TensorIterator):
        return _write_iteration(op, inputs, ids(op.body))
    return []


def _branch(
    branch: str,
    body: Graph,
    fed: Sequence[int],
    results: Sequence[int],
    inputs: int,
    ids: Callable[[Graph], dict[int, int]],
) -> Section:
    number = ids(body)
    entries = [
        ("input", _port_pair(port, number[body.parameters[i]])) for i, port in enumerate(fed)
    ]
    entries += [
        ("output", _port_pair(inputs + k, number[body.results[index]]))
        for k, index in enumerate(results)
    ]
    return f"{branch}_port_map", entries


def _port_pair(outside: int, inside: int) -> Pairs:
    return {"external_port_id": str(outside), "internal_layer_id": str(inside)}


def _write_iteration(
    op: Loop | TensorIterator, inputs: int, number: dict[int, int]
) -> list[Section]:
    parameters, results = op.body.parameters, op.body.results
    entries: list[tuple[str, Pairs]] = []
    back: list[tuple[str, Pairs]] = []
    for i, port in enumerate(op.ports):
        inside = number[parameters[i]]
        if port.mode == "iteration":
            entries.append(("input", _port_pair(-1, inside) | {"purpose": "current_iteration"}))
            continue
        slicing = _slice_attributes(port) if port.mode == "sliced" else {}
        entries.append(("input", _port_pair(port.port, inside) | slicing))
        if port.mode == "carried":
            ends = {"from-layer": str(number[results[port.back]]), "to-layer": str(inside)}
            back.append(("edge", ends))
    for k, output in enumerate(op.results):
        slicing = _slice_attributes(output) if output.mode == "joined" else {}
        entries.append(("output", _port_pair(inputs + k, number[results[output.result]]) | slicing))
    if isinstance(op, Loop) and op.condition >= 0:
        ends = _port_pair(-1, number[results[op.condition]])
        entries.append(("output", ends | {"purpose": "execution_condition"}))
    return [("port_map", entries), *([("back_edges", back)] if back else [])]


def _slice_attributes(part: BodyInput | BodyOutput) -> Pairs:
    names = ("axis", "start", "end", "stride", "part_size")
    return {name: str(getattr(part, name)) for name in names}
