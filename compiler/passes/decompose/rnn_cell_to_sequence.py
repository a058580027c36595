"""A recurrent cell is a sequence of one step, for which there is a kernel."""

from __future__ import annotations

import dataclasses

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.ops import (
    Broadcast,
    Constant,
    Gather,
    GRUCell,
    GRUSequence,
    LSTMCell,
    LSTMSequence,
    RNNCell,
    RNNSequence,
    ShapeOf,
    Squeeze,
    Unsqueeze,
)
from ....ir.types import TensorType
from ...rewrite.engine import Pass, op_rule
from ...rewrite.patch import MatchFailure, Patch

Cell = RNNCell | GRUCell | LSTMCell
_SEQUENCES = {RNNCell: RNNSequence, GRUCell: GRUSequence, LSTMCell: LSTMSequence}


def cell_to_sequence(graph: Graph, node: int, op: Cell) -> Patch | MatchFailure | None:
    """A cell with constant weights, in f32: X [N, I] becomes [N, 1, I], and so on."""
    inputs = graph.inputs(node)
    x = inputs[0]
    type_ = None if x is None else graph.type(x)
    if x is None or not isinstance(type_, TensorType) or type_.dtype is not DType.f32:
        return MatchFailure("no recurrent kernel for this type")
    if op.unknown_activation() is not None:
        return MatchFailure("no recurrent kernel with these activations")
    states, weights = inputs[1 : 1 + op.states], inputs[1 + op.states :]
    if not all(v is None or isinstance(graph.op(v.node), Constant) for v in weights):
        return MatchFailure("the weights are known at run time only")
    if any(v is None for v in states):
        return MatchFailure("a state is missing")
    patch = Patch()

    def number(*values: int) -> Value:
        return patch.integers(values)

    def unsqueeze(value: Value | None, axis: int) -> Value | None:
        return None if value is None else patch.add(Unsqueeze(), value, number(axis))

    sizes = patch.add(ShapeOf(DType.i64), x)
    zero = patch.integers(0)
    batch = patch.add(Gather(), sizes, number(0), zero)
    lengths = patch.add(Broadcast(), number(1), batch)
    fields = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
    made = patch.add(
        _SEQUENCES[type(op)](**fields),
        unsqueeze(x, 1),
        *(unsqueeze(s, 1) for s in states),
        lengths,
        *(unsqueeze(w, 0) for w in weights),
        name=graph.node(node).name,
    )
    for port in range(op.output_count()):
        # Port 0 is Y, the states of all steps.
        last = patch.add(Squeeze(), Value(made.node, port + 1), number(1))
        patch.replace(Value(node, port), last)
    return patch


_RULES = (op_rule("cell_to_sequence", (RNNCell, GRUCell, LSTMCell), cell_to_sequence),)

convert_cells_to_sequences = Pass("convert_cells_to_sequences", lambda options: _RULES)
