"""Sequences and optionals: values that are not tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    ConcatFromSequence,
    Identity,
    Optional,
    OptionalGetElement,
    OptionalHasElement,
    SequenceAt,
    SequenceConstruct,
    SequenceEmpty,
    SequenceErase,
    SequenceInsert,
    SequenceLength,
    SplitToSequence,
)
from ......ir.types import OptionalType
from ...files.tensors import element_type
from ...graph_types import type_of_proto

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def sequence_empty(n: ImportContext) -> Value:
    return n.add(SequenceEmpty(element_type(n.integer("dtype", 1), n.origin)))


def split_to_sequence(n: ImportContext) -> Value:
    op = SplitToSequence(n.axis(n.integer("axis", 0), n.rank(n.input(0))), n.flag("keepdims", True))
    return n.add(op, n.input(0), n.optional(1))


def concat_from_sequence(n: ImportContext) -> Value:
    return n.add(ConcatFromSequence(n.integer("axis"), n.flag("new_axis")), n.input(0))


def optional(n: ImportContext) -> Value:
    """With an input its type is the element's; without one the attribute says it."""
    value = n.optional(0)
    element = n.type_proto("type") if value is None or n.has("type") else None
    if value is not None:
        found = n.fact(value).type
        return n.add(Optional(found), value)
    assert element is not None
    found = type_of_proto(element, n.origin)
    if found is None:
        raise n.unsupported_error("an optional of this type")
    return n.add(Optional(found))


def optional_get_element(n: ImportContext) -> Value:
    """Since version 18 the input may be a tensor or a sequence: then the output is it."""
    value = n.input(0)
    if not isinstance(n.fact(value).type, OptionalType):
        return n.add(Identity(), value)
    return n.add(OptionalGetElement(), value)


def optional_has_element(n: ImportContext) -> Value:
    value = n.optional(0)
    if value is None or not isinstance(n.fact(value).type, OptionalType):
        return n.constant(np.array(value is not None), DType.boolean)
    return n.add(OptionalHasElement(), value)


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "SequenceConstruct": {11: lambda n: n.add(SequenceConstruct(), *n.all_inputs())},
    "SequenceEmpty": {11: sequence_empty},
    "SequenceAt": {11: lambda n: n.add(SequenceAt(), n.input(0), n.input(1))},
    "SequenceInsert": {
        11: lambda n: n.add(SequenceInsert(), n.input(0), n.input(1), n.optional(2))
    },
    "SequenceErase": {11: lambda n: n.add(SequenceErase(), n.input(0), n.optional(1))},
    "SequenceLength": {11: lambda n: n.add(SequenceLength(), n.input(0))},
    "SplitToSequence": {11: split_to_sequence},
    "ConcatFromSequence": {11: concat_from_sequence},
    "Optional": {15: optional},
    "OptionalGetElement": {15: optional_get_element},
    "OptionalHasElement": {15: optional_has_element},
}
