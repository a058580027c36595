"""Rewrites a loop that appends to a sequence, concatenated after it, to one with a scan output.

Pattern: a Loop carries a sequence from SequenceEmpty, each iteration inserts one value at its end,
and ConcatFromSequence is its only use.
Exporter: torch 2.13, `torch.onnx.export(dynamo=False)` of scripted modules that append to a list,
as recurrent networks with their own cells do.
Gain: a native loop that writes its outputs part by part; sequences are values of Python
(docs/dev/tuning/exporter-patterns.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....ir.dtype import DType
from ....ir.graph import Graph, Use, Value
from ....ir.infer import infer_graph
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import Constant, Loop, Unsqueeze
from ....ir.ops.control_flow.loops import BodyOutput
from ....ir.ops.control_flow.sequences import ConcatFromSequence
from ....ir.types import TensorType, normalize_axis
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import Patch


@dataclass(frozen=True)
class _List:
    """A carried list: its port, the node that appends to it, the outputs of the loop that are it,
    and how they are joined."""

    port: int
    insert: int
    outputs: tuple[int, ...]
    readers: tuple[int, ...]
    how: ConcatFromSequence


def join_list(graph: Graph, node: int, op: Loop) -> Patch | None:
    """One carried list of a loop."""
    for i, port in enumerate(op.ports):
        found = _match_list(graph, node, op, i) if port.mode == "carried" else None
        if found is not None:
            return _build_scan_output(graph, node, op, found)
    return None


def _match_list(graph: Graph, node: int, op: Loop, i: int) -> _List | None:
    body, port, outside = op.body, op.ports[i], graph.inputs(node)
    start = outside[port.port]
    parameter = body.parameters[i]
    if start is None or graph.op(start.node).kind != "SequenceEmpty":
        return None
    use = body.only_use(Value(parameter))
    if use is None:
        return None
    given = body.inputs(use.node)
    appends = body.op(use.node).kind == "SequenceInsert" and use.port == 0
    if not appends or any(v is not None for v in given[2:]):
        return None
    handed = body.input(body.results[port.back], 0)
    if handed != Value(use.node) or body.use_count(handed) != 1:
        return None
    outputs = [k for k, o in enumerate(op.results) if o.result == port.back]
    readers = [u.node for k in outputs for u in graph.uses(Value(node, k))]
    hows = [graph.op(n) for n in readers]
    element = body.type(body.input(use.node, 1))
    if not hows or not isinstance(element, TensorType) or element.shape is None:
        return None
    how = hows[0]
    if not isinstance(how, ConcatFromSequence) or any(h != how for h in hows):
        return None
    return _List(i, use.node, tuple(outputs), tuple(readers), how)


def _build_scan_output(graph: Graph, node: int, op: Loop, found: _List) -> Patch:
    inner = op.body.copy()
    element = inner.input(found.insert, 1)
    type_ = inner.type(element)
    assert isinstance(type_, TensorType) and type_.shape is not None
    axis = normalize_axis(found.how.axis, len(type_.shape) + found.how.new_axis)
    if found.how.new_axis:
        axes = Value(inner.add(Constant.of(np.array([axis], np.int64), DType.i64)))
        element = Value(inner.add(Unsqueeze(), (element, axes)))
    back = op.ports[found.port].back
    inner.connect(element, Use(inner.results[back], 0))
    parameter = inner.parameters[found.port]
    inner.remove(found.insert)
    inner.remove(parameter)
    infer_graph(inner)

    outside = graph.inputs(node)
    inputs: list[Value | None] = list(outside[:2])
    ports = [p for i, p in enumerate(op.ports) if i != found.port]
    for i, port in enumerate(ports):
        if port.port >= 0:
            ports[i] = replace(port, port=_position_in_inputs(inputs, outside[port.port]))
    results = tuple(
        BodyOutput("joined", back, axis) if k in found.outputs else o
        for k, o in enumerate(op.results)
    )
    patch = Patch()
    new = replace(op, body=inner, ports=tuple(ports), results=results)
    made = patch.add(new, *inputs, name=graph.node(node).name)
    for k in range(len(results)):
        if k not in found.outputs:
            patch.replace(Value(node, k), Value(made.node, k))
    for reader in found.readers:
        patch.replace(Value(reader), Value(made.node, found.outputs[0]))
    return patch


def _position_in_inputs(inputs: list[Value | None], value: Value | None) -> int:
    """Where the value is among the inputs from the third on, at their end if it is not."""
    known: Sequence[Value | None] = inputs[2:]
    if value in known:
        return 2 + known.index(value)
    inputs.append(value)
    return len(inputs) - 1


_RULES = (op_rule("join_list", (Loop,), join_list),)

raise_sequence_to_scan_output = Pass("raise_sequence_to_scan_output", lambda options: _RULES)
