"""Version 10's inputs and outputs as OpenVINO shows them: only f32, i32 and a few small types.

OpenVINO rewrites the element types at a version 10 model's border: f16 inputs become f32, i64, u64
and u32 outputs become i32, all other outputs f32. It changes what a model returns, so irc does it
only on request (`legacy_io=True`).
"""

from __future__ import annotations

import dataclasses

from ....ir.dtype import DType
from ....ir.graph import Graph, Use, Value
from ....ir.infer import infer_graph, infer_node
from ....ir.ops import Convert, Parameter
from ....ir.types import TensorType

_INTEGERS = frozenset([DType.i64, DType.u64, DType.i32, DType.u32])


def convert_io(graph: Graph) -> None:
    """Rewrite parameters and results in place and infer the graph again."""
    for parameter in graph.parameters:
        record = graph.node(parameter)
        if isinstance(record.op, Parameter) and record.op.element_type is DType.f16:
            uses = graph.uses(Value(parameter))
            convert = graph.add(
                Convert(DType.f16),
                [Value(parameter)],
                name=f"{record.name}/f16",
                origin=record.origin,
            )
            record.op = dataclasses.replace(record.op, element_type=DType.f32)
            infer_node(graph, parameter)
            infer_node(graph, convert)
            for use in uses:
                graph.connect(Value(convert), use)
    for result in graph.results:
        source = graph.input(result, 0)
        type_ = graph.type(source)
        if not isinstance(type_, TensorType):
            continue
        wanted = DType.i32 if type_.dtype in _INTEGERS else DType.f32
        if type_.dtype is not wanted:
            record = graph.node(result)
            convert = graph.add(
                Convert(wanted), [source], name=f"{record.name}/{wanted}", origin=record.origin
            )
            graph.connect(Value(convert), Use(result, 0))
    infer_graph(graph)
