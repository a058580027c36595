"""The two rules of MatMul-1 for inputs of rank 1.

Until OpenVINO 2020.4 the specification put a 1 on the LEFT of a rank-1 input, on either side,
applied the transposes, and kept the axis in the output; since then it follows NumPy. Files of both
kinds carry the same operation set, so the declared sizes of the output decide: the rule whose
shape equals them is taken, and NumPy's where nothing is declared. The old rule becomes an explicit
Unsqueeze besides a MatMul of NumPy's rule, which is then the only rule irc knows.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ....ir.dtype import DType
from ....ir.errors import Error, ShapeError
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.op import Fact, Op
from ....ir.ops import Constant, Unsqueeze
from ....ir.types import TensorType
from .declared import IGNORE, dims_agree, format_dims
from .schema_records import XmlLayer


def matmul_inputs(
    graph: Graph, layer: XmlLayer, op: Op, inputs: list[Value | None], *, check: bool
) -> list[Value | None]:
    """The inputs of a MatMul, unsqueezed where the layer's declared output follows the old rule.

    Raises ShapeError naming both candidates where the declared sizes follow neither; with `check`
    false such a layer gets NumPy's rule.
    """
    facts = [graph.fact(value) for value in inputs]
    if len(facts) != 2 or not layer.outputs or not layer.outputs[0].dims:
        return inputs
    a, b = facts
    if a is None or b is None or not any(_is_vector(f) for f in (a, b)):
        return inputs
    declared = layer.outputs[0].dims
    numpy_type = _try_infer(op, a, b)
    if numpy_type is not None and dims_agree(declared, numpy_type):
        return inputs
    old_type = _try_infer(op, _as_row(a), _as_row(b))
    if old_type is not None and dims_agree(declared, old_type):
        return [_unsqueeze_vector(graph, layer, value) for value in inputs]
    if not check or (numpy_type is None and old_type is None):
        return inputs  # inference says what is wrong with the operands
    raise ShapeError(
        "the declared output of a MatMul with a rank-1 input follows neither rule",
        where=layer.location,
        got=f"{format_dims(declared)} for {a.type} x {b.type}",
        expected=f"{numpy_type or 'nothing'} (NumPy's rule) or {old_type or 'nothing'} (2020.4's)",
        fix=f"{IGNORE} uses NumPy's rule",
    )


def _is_vector(fact: Fact) -> bool:
    return isinstance(fact.type, TensorType) and fact.type.rank == 1


def _as_row(fact: Fact) -> Fact:
    if not _is_vector(fact) or fact.tensor.shape is None:
        return fact
    return Fact(dataclasses.replace(fact.tensor, shape=(1, *fact.tensor.shape)))


def _try_infer(op: Op, a: Fact, b: Fact) -> TensorType | None:
    try:
        (type_,) = op.infer(a, b)
    except Error:
        return None
    return type_ if isinstance(type_, TensorType) else None


def _unsqueeze_vector(graph: Graph, layer: XmlLayer, value: Value | None) -> Value | None:
    fact = graph.fact(value)
    if fact is None or not _is_vector(fact):
        return value
    axis = graph.add(Constant.of(np.zeros(1, dtype=np.int64), DType.i64), origin=layer.origin)
    name = f"{layer.name}/row"
    row = graph.add(Unsqueeze(), [value, Value(axis)], name=name, origin=layer.origin)
    infer_node(graph, axis)
    infer_node(graph, row)
    return Value(row)
