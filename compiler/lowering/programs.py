"""The scalar programs of graph nodes, as lowering composes them."""

from __future__ import annotations

from ...ir.dtype import DType
from ...ir.graph import Graph
from ...ir.ops import Group
from ...ir.ops.elementwise import Elementwise, program_of
from ...ir.specs import Program
from ...ir.types import TensorType

# Element types that kernels load and store. Values of any other type stay on the host.
NATIVE = frozenset(
    {
        *(DType.boolean, DType.f16, DType.bf16, DType.f32, DType.f64),
        *(DType.i8, DType.i16, DType.i32, DType.i64),
        *(DType.u8, DType.u16, DType.u32, DType.u64),
    }
)


def node_program(graph: Graph, node: int) -> Program:
    """The program of an elementwise node; operand i is its i-th input that is present."""
    op = graph.op(node)
    if isinstance(op, Group):
        return op.program
    assert isinstance(op, Elementwise)
    types = [None if v is None else graph.type(v) for v in graph.inputs(node)]
    return program_of(op, [t.dtype if isinstance(t, TensorType) else None for t in types])


def is_elementwise(graph: Graph, node: int) -> bool:
    """Whether the node is an elementwise operation with one output and plain broadcasting."""
    op = graph.op(node)
    if isinstance(op, Group):
        return op.output_count() == 1
    if not isinstance(op, Elementwise):
        return False
    shapes = tuple(
        t.shape if isinstance(t := graph.type(v), TensorType) else None
        for v in graph.inputs(node)
        if v is not None
    )
    return op.operand_shapes(*shapes) == shapes
