"""Elementwise operations and groups of them."""

from __future__ import annotations

from dataclasses import replace

from ....ir.graph import Value
from ....ir.ops import Group
from ....ir.ops.math.elementwise import Elementwise
from ....ir.scalar.builder import Builder, Ref
from ...strided_view import View, reshape
from ..build.region_lowering import Operands, RegionLowering
from ..build.scalar_programs import node_program


def lower_elementwise(lowering: RegionLowering, node: int, op: Elementwise | Group) -> None:
    """One step for the node; constants of one element become part of the program."""
    values = [v for v in lowering.graph.inputs(node) if v is not None]
    outputs = [Value(node, i) for i in range(op.output_count())]
    operands = Operands(lowering.shape(outputs[0]))
    builder = Builder()
    if not isinstance(op, Group):
        shapes = op.operand_shapes(*(lowering.shape(v) for v in values))
    else:
        shapes = tuple(lowering.shape(v) for v in values)
    args: list[Ref] = []
    for value, shape in zip(values, shapes, strict=True):
        if shape is not None and shape != lowering.shape(value):
            view = broadcast_operand(lowering, lowering.view(value), shape)
            args.append(builder.input(operands.add(view), view.dtype))
        else:
            args.append(lowering.expression(builder, value, operands))
    refs = builder.inline(node_program(lowering.graph, node), *args)
    outs = [lowering.result(v) for v in outputs]
    nodes = dict.fromkeys((*operands.nodes, node))
    program = builder.finish(
        *(builder.cast_stored(r, o.dtype) for r, o in zip(refs, outs, strict=True))
    )
    lowering.elementwise(
        program, operands.views, outs, lowering.name(node), lowering.sources(*nodes)
    )


def broadcast_operand(lowering: RegionLowering, view: View, shape: tuple[object, ...]) -> View:
    """The operand under the shape that broadcasting sees (a slope that is aligned to axis 1)."""
    found = reshape(view, shape)  # type: ignore[arg-type]
    if found is None:
        found = reshape(lowering.contiguous(view, "operand"), shape)  # type: ignore[arg-type]
    assert found is not None
    return replace(found)
