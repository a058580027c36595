"""Nodes without an ONNX operator, as graphs of operations that have one.

A node is put into a graph of its own with its inputs as parameters (or as the constants that they
are) and decomposed there: by the table of the dialect that the XML writer uses, by the pipeline's
rules, by its scalar program, or to a constant where all of its inputs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.errors import Error
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.input_check import evaluate_bounded
from ....ir.lazy_dataclass import dataclass
from ....ir.limits.memory_budget import active_budget
from ....ir.op import Array, Effects
from ....ir.ops import (
    Constant,
    Parameter,
    Result,
    ScaledDotProductAttention,
    TypedParameter,
)
from ....ir.ops.math.elementwise import Elementwise, program_of
from ....ir.types import TensorType
from ...options import Options
from ...passes.attention.fuse import take_operation
from ...passes.decompose.data_movement import decompose_data_movement
from ...passes.decompose.deformable_convolution import decompose_deformable_convolution
from ...passes.decompose.einsum_onehot import decompose_einsum_onehot
from ...passes.decompose.embedding_bags import decompose_embedding_bags
from ...passes.decompose.grid_sample import decompose_grid_sample
from ...passes.decompose.image_ops import decompose_image_ops
from ...passes.decompose.norms import decompose_norms
from ...passes.decompose.older_versions import upgrade_older_versions
from ...passes.decompose.range_eye import decompose_range_eye
from ...passes.decompose.rnn_cell_to_sequence import convert_cells_to_sequences
from ...passes.decompose.search_sorted import decompose_search_sorted
from ...passes.decompose.slice_scatter import decompose_slice_scatter_promotion
from ...passes.decompose.yolo_layers import decompose_yolo_layers
from ...rewrite.engine import Pass, op_rule, run_pass
from ...rewrite.trace import Trace
from ..decompose import EXPANSIONS
from ..graph_builder import Build
from ..scalar_programs import expand_program
from .context import ExportContext

_ATTENTION = op_rule("take_operation", (ScaledDotProductAttention,), take_operation)
_PASSES: tuple[Pass, ...] = (
    Pass("take_attention", lambda options: (_ATTENTION,)),
    upgrade_older_versions,
    decompose_data_movement,
    decompose_deformable_convolution,
    decompose_einsum_onehot,
    decompose_embedding_bags,
    decompose_grid_sample(lambda graph, node: False),
    decompose_image_ops,
    decompose_norms,
    decompose_range_eye,
    convert_cells_to_sequences,
    decompose_search_sorted,
    decompose_slice_scatter_promotion,
    decompose_yolo_layers,
)
_MAX_FOLDED_BYTES = 1 << 20


@dataclass(frozen=True)
class Decomposed:
    """A graph that computes a node's outputs as its results; its parameters are the node's inputs
    by port."""

    graph: Graph
    parameters: dict[int, int]


def decompose_node(n: ExportContext) -> Decomposed | None:
    """The decomposition of a node; None where there is none."""
    for decompose in (_fold, _expand, _apply_rules, _expand_scalar_program):
        graph = Graph()
        parameters: dict[int, int] = {}
        inputs = [
            None if name is None else _add_input(n, graph, port, parameters)
            for port, name in enumerate(n.names)
        ]
        found = decompose(n, graph, inputs)
        if found is None:
            continue
        for value in found:
            infer_node(graph, graph.add(Result(), [value]))
        return Decomposed(graph, parameters)
    return None


def _add_input(n: ExportContext, graph: Graph, port: int, parameters: dict[int, int]) -> Value:
    value = n.graph.input(n.node, port)
    op, type_ = n.graph.op(value.node), n.graph.type(value)
    if isinstance(op, Constant) and op.nbytes <= _MAX_FOLDED_BYTES:
        node = graph.add(op)
    elif isinstance(type_, TensorType):
        node = graph.add(Parameter(type_.dtype, type_.shape))
        parameters[node] = port
    else:
        node = graph.add(TypedParameter(type_))
        parameters[node] = port
    infer_node(graph, node)
    known = n.graph.known_value(value)
    if known is not None and not isinstance(op, Constant):
        graph.node(node).known = [known]
    return Value(node)


def _build(n: ExportContext, graph: Graph) -> Build:
    return Build(graph, n.record.name, n.record.origin)


def _fold(n: ExportContext, graph: Graph, inputs: Sequence[Value | None]) -> list[Value] | None:
    """Constants, where an operation without an operator computes from known numbers only."""
    known = [n.known(port) for port in range(len(inputs))]
    if n.op.effects is not Effects.NONE or n.op.bodies() or not known:
        return None
    if any(a is None and v is not None for a, v in zip(known, inputs, strict=True)):
        return None
    types = [t for t in n.record.types if isinstance(t, TensorType) and t.is_static]
    if len(types) != len(n.record.types) or sum(_bytes(t) for t in types) > _MAX_FOLDED_BYTES:
        return None
    try:
        with np.errstate(all="ignore"), active_budget().charge_temporarily():
            found: Sequence[Any] = evaluate_bounded(n.op, list(known), n.where)
    except (Error, ValueError):
        return None
    build = _build(n, graph)
    arrays: list[Array] = [np.asarray(a) for a in found]
    return [build.constant(a, t.dtype) for a, t in zip(arrays, types, strict=True)]


def _bytes(type_: TensorType) -> int:
    return type_.elements * type_.dtype.numpy.itemsize


def _expand(n: ExportContext, graph: Graph, inputs: Sequence[Value | None]) -> list[Value] | None:
    """The XML writer's expansions of the dialect."""
    expansion = EXPANSIONS.get(n.op.kind) if n.op.version == 0 else None
    return None if expansion is None else expansion(_build(n, graph), n.record, inputs)


def _apply_rules(
    n: ExportContext, graph: Graph, inputs: Sequence[Value | None]
) -> list[Value] | None:
    """The pipeline's decompositions."""
    node = graph.add(n.op, inputs, name=n.record.name, origin=n.record.origin)
    infer_node(graph, node)
    results = [graph.add(Result(), [value]) for value in graph.values(node)]
    for result in results:
        infer_node(graph, result)
    trace = Trace(aloud=False)
    for each in _PASSES:
        run_pass(graph, each, Options(), trace)
        if node not in graph:
            break
    else:
        return None
    found = [graph.input(result, 0) for result in results]
    for result in results:
        graph.remove(result)
    return found


def _expand_scalar_program(
    n: ExportContext, graph: Graph, inputs: Sequence[Value | None]
) -> list[Value] | None:
    """An elementwise operation by its scalar program."""
    if not isinstance(n.op, Elementwise):
        return None
    given = [v for v in inputs if v is not None]
    dtypes = [None if v is None else n.dtype(port) for port, v in enumerate(inputs)]
    return expand_program(_build(n, graph), program_of(n.op, dtypes), given)
