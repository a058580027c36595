"""Compute logits at the positions that a request names, instead of all.

The last product of a decoder multiplies each position by the whole vocabulary. The graph gets an
input `logits_positions` i64 [L], and what precedes that product is gathered there: logits are
[B, L, V]. A second output `hidden_states` f32 [B, S, K] is what the product reads.
"""

from __future__ import annotations

import numpy as np

from ..compiler.model import Model
from ..ir.dims import symbol
from ..ir.dtype import DType
from ..ir.errors import ModelFormatError
from ..ir.graph import Graph, Use, Value
from ..ir.infer import infer_graph, infer_node
from ..ir.ops import Constant, Gather, Parameter, Result
from ..ir.types import TensorType
from .language_model import HIDDEN, POSITIONS

# Operations that treat each position alone, between the last product and the logits, where their
# other inputs are constants.
_BY_POSITION = frozenset(
    "Add Multiply Divide Subtract Convert Tanh Clamp Minimum Maximum FakeConvert".split()
)
_PRODUCTS = frozenset({"MatMul", "Gemm"})


def cut_logits(model: Model) -> Model:
    """A model of the same weights whose logits are those of the positions in `logits_positions`.

    ModelFormatError where no output is called logits or it has not three axes.
    """
    graph = model.graph.copy()
    result = next((n for n in graph.results if "logits" in _names(graph, n)), None)
    value = None if result is None else graph.input(result, 0)
    type_ = None if value is None else graph.type(value)
    if result is None or value is None or not isinstance(type_, TensorType) or type_.rank != 3:
        found = [str(graph.type(graph.input(n, 0))) for n in graph.results]
        raise ModelFormatError(
            "the model is not a decoder",
            got=f"outputs {', '.join(found)}",
            expected="an output `logits` of shape [batch, positions, vocabulary]",
        )
    use = _find_position_use(graph, Use(result, 0))
    hidden = graph.input(use.node, use.port)
    given = graph.add(
        Parameter(DType.i64, (symbol(POSITIONS),)), name=POSITIONS, names=[frozenset([POSITIONS])]
    )
    infer_node(graph, given)
    axis = graph.add(Constant.of(np.array(1, np.int64), DType.i64))
    infer_node(graph, axis)
    picked = graph.add(Gather(), [hidden, Value(given), Value(axis)], name="logits rows")
    infer_node(graph, picked)
    graph.connect(Value(picked), use)
    output = graph.add(Result(), [hidden], name=HIDDEN, names=[frozenset([HIDDEN])])
    infer_node(graph, output)
    infer_graph(graph)
    return Model(graph)


def _names(graph: Graph, result: int) -> set[str]:
    record, value = graph.node(result), graph.input(result, 0)
    source = graph.node(value.node)
    listed = [*record.names, *source.names[value.port : value.port + 1]]
    return {record.name, *(n for names in listed for n in names)}


def _find_position_use(graph: Graph, use: Use) -> Use:
    """The input of the last product, or, where there is none, of the first operation behind which
    each position is treated alone."""
    start = use
    while True:
        value = graph.input(use.node, use.port)
        kind, inputs = graph.op(value.node).kind, graph.inputs(value.node)
        if graph.use_count(value) != 1:
            return start
        if kind in _PRODUCTS:
            left = graph.type(graph.input(value.node, 0))
            is_rows = isinstance(left, TensorType) and left.rank == 3 and value.port == 0
            turned = getattr(graph.op(value.node), "transpose_a", False)
            return Use(value.node, 0) if is_rows and not turned else start
        if kind not in _BY_POSITION or not all(_is_number(graph, v) for v in inputs[1:]):
            return start
        use = Use(value.node, 0)


def _is_number(graph: Graph, value: Value | None) -> bool:
    """Whether an input is the same for all positions: a constant whose sizes are 1 but for the
    last."""
    if value is None or not _is_constant(graph, value):
        return False
    type_ = graph.type(value)
    shape = type_.shape if isinstance(type_, TensorType) else None
    return shape is not None and all(d == 1 for d in shape[:-1])


def _is_constant(graph: Graph, value: Value) -> bool:
    op = graph.op(value.node)
    if op.kind == "Convert":
        return _is_constant(graph, graph.input(value.node, 0))
    return isinstance(op, Constant)
