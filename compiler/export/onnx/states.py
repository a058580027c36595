"""Variables (ReadValue, Assign) as inputs `past.NAME` and outputs `present.NAME`.

ONNX has no state: the caller passes the present value of one run as the past value of the next. A
variable whose initial value is constant has it as the default of its input (an initializer of that
name), so that the first run needs none.
"""

from __future__ import annotations

import numpy as np
from onnx import GraphProto

from ....ir.graph import Graph, Value
from ....ir.ops import Assign, Constant, ReadValue
from ....ir.types import TensorType
from .context import fixed_sizes
from .scope import GraphScope
from .value_types import add_port

PAST, PRESENT = "past.", "present."


def write_variable(scope: GraphScope, graph: Graph, node: int, names: dict[Value, str]) -> None:
    """Write a ReadValue or an Assign."""
    record = graph.node(node)
    op, type_, model = record.op, record.types[0], scope.model
    if isinstance(op, Assign):
        value = graph.input(node, 0)
        model.present[op.variable_id] = names[value], graph.type(value), record.origin
        names[Value(node)] = names[value]
        return
    assert isinstance(op, ReadValue)
    if op.variable_id not in model.past:
        name = model.reserve(PAST + op.variable_id)
        model.past[op.variable_id] = name, type_, record.origin
        _write_default(scope, graph, node, name)
    names[Value(node)] = model.past[op.variable_id][0]


def _write_default(scope: GraphScope, graph: Graph, node: int, name: str) -> None:
    """The initial value as the default of the input, where it is constant."""
    record, given = graph.node(node), graph.inputs(node)
    type_ = record.types[0]
    assert isinstance(type_, TensorType)
    data = None
    if given and given[0] is not None:
        op = graph.op(given[0].node)
        data = op.data if isinstance(op, Constant) else None
    elif (sizes := fixed_sizes(type_.shape)) is not None:
        data = np.zeros(sizes, type_.dtype.numpy)
    if data is not None:
        tensor = scope.model.tensors.tensor(name, data, type_.dtype, record.origin)
        scope.initializers.append(tensor)


def add_variable_ports(scope: GraphScope, proto: GraphProto) -> None:
    """Declare the inputs and outputs of variables behind the model's own."""
    model = scope.model
    for name, type_, where in model.past.values():
        add_port(proto.input, name, type_, model.opset, where)
    for variable, (value, type_, where) in model.present.items():
        name = model.reserve(PRESENT + variable)
        scope.copy(value, name)
        add_port(proto.output, name, type_, model.opset, where)
