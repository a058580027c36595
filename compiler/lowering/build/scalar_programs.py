"""The scalar programs of graph nodes, as lowering composes them."""

from __future__ import annotations

from ....ir.graph import Graph
from ....ir.ops import Group
from ....ir.ops.math.elementwise import Elementwise, program_of
from ....ir.scalar.program import Program
from ....ir.types import TensorType


def node_program(graph: Graph, node: int) -> Program:
    """The program of an elementwise node; operand i is its i-th input that is present."""
    op = graph.op(node)
    if isinstance(op, Group):
        return op.program
    assert isinstance(op, Elementwise)
    types = [None if v is None else graph.type(v) for v in graph.inputs(node)]
    return program_of(op, [t.dtype if isinstance(t, TensorType) else None for t in types])
