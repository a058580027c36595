"""Sequences and optionals."""

from __future__ import annotations

from ......ir.dtype import DType
from ......ir.ops import (
    ConcatFromSequence,
    Optional,
    SequenceEmpty,
    SplitToSequence,
)
from ...context import ExportContext, Exported, ExportFunction
from ...value_types import data_type, type_proto


def _write_same(op_type: str) -> ExportFunction:
    return lambda n: n.add(op_type, *n.names)


def _write_positioned(op_type: str, port: int) -> ExportFunction:
    """The position as a scalar."""

    def export(n: ExportContext) -> Exported:
        names = list(n.names[:port])
        if n.optional(port) is not None:
            names.append(n.flatten_scalar(port))
        return n.add(op_type, *names)

    return export


def _empty(n: ExportContext) -> Exported:
    dtype = n.cast_op(SequenceEmpty).element_type
    return n.add("SequenceEmpty", dtype=data_type(dtype, n.opset, n.where))


def _split(n: ExportContext) -> Exported:
    op = n.cast_op(SplitToSequence)
    lengths = None if n.optional(1) is None else n.input_as(1, DType.i64)
    return n.add("SplitToSequence", n.input(0), lengths, axis=op.axis, keepdims=int(op.keep_dims))


def _concat(n: ExportContext) -> Exported:
    op = n.cast_op(ConcatFromSequence)
    return n.add("ConcatFromSequence", n.input(0), axis=op.axis, new_axis=int(op.new_axis))


def _optional(n: ExportContext) -> Exported:
    if n.optional(0) is not None:
        return n.add("Optional", n.input(0))
    element = n.cast_op(Optional).element
    return n.add("Optional", type=type_proto(element, n.opset, n.where))


EXPORTERS: dict[str, ExportFunction] = {
    "SequenceConstruct": _write_same("SequenceConstruct"),
    "SequenceEmpty": _empty,
    "SequenceAt": _write_positioned("SequenceAt", 1),
    "SequenceInsert": _write_positioned("SequenceInsert", 2),
    "SequenceErase": _write_positioned("SequenceErase", 1),
    "SequenceLength": _write_same("SequenceLength"),
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _optional,
    "OptionalGetElement": _write_same("OptionalGetElement"),
    "OptionalHasElement": _write_same("OptionalHasElement"),
}
