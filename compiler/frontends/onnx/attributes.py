"""Attributes of an ONNX node: typed, with errors that name node and attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ....ir.errors import ModelFormatError
from ..xml.text import shorten_text

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

# AttributeProto.AttributeType by name.
FLOAT, INT, STRING, TENSOR, GRAPH = 1, 2, 3, 4, 5
FLOATS, INTS, STRINGS, SPARSE_TENSOR, TYPE_PROTO = 6, 7, 8, 11, 13
_NAMES = {
    FLOAT: "a float",
    INT: "an int",
    STRING: "a string",
    TENSOR: "a tensor",
    GRAPH: "a graph",
    FLOATS: "a list of floats",
    INTS: "a list of ints",
    STRINGS: "a list of strings",
    SPARSE_TENSOR: "a sparse tensor",
    TYPE_PROTO: "a type",
}
_FIELDS = {
    FLOAT: "f",
    INT: "i",
    STRING: "s",
    TENSOR: "t",
    GRAPH: "g",
    FLOATS: "floats",
    INTS: "ints",
    STRINGS: "strings",
    SPARSE_TENSOR: "sparse_tensor",
    TYPE_PROTO: "tp",
}


def collect(node: NodeProto, where: str) -> dict[str, AttributeProto]:
    """The attributes of a node by name. ModelFormatError where one is given twice."""
    found: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if attribute.name in found:
            raise ModelFormatError(
                "an attribute is given twice", where=where, got=shorten_text(attribute.name)
            )
        found[attribute.name] = attribute
    return found


def resolve_references(node: NodeProto, bound: Mapping[str, AttributeProto]) -> NodeProto:
    """A node of a function with references to the function's attributes replaced by the values
    `bound` to them, or left out where the caller gave none. Copies only where there are any."""
    if not any(a.ref_attr_name for a in node.attribute):
        return node
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.attribute[:]
    for attribute in node.attribute:
        value = bound.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if value is not None:
            added = copy.attribute.add()
            added.CopyFrom(value)
            added.name = attribute.name
    return copy


def value_of(attribute: AttributeProto, kind: int, name: str, where: str) -> Any:
    """The value of an attribute that has to be of a kind (FLOAT, INTS, ...)."""
    # Files of IR version 1 leave out the type.
    got = attribute.type or _guess_type(attribute)
    if got != kind:
        empty = got in (FLOATS, INTS, STRINGS) and not len(getattr(attribute, _FIELDS[got]))
        if empty and kind in (FLOATS, INTS, STRINGS):
            return []
        if got == INT and kind == FLOAT:
            return float(attribute.i)
        raise ModelFormatError(
            f"attribute {name!r} has the wrong type",
            where=where,
            got=_NAMES.get(got, f"type {got}"),
            expected=_NAMES[kind],
        )
    value: Any = getattr(attribute, _FIELDS[kind])
    if kind == STRING:
        return _text(value, name, where)
    if kind == STRINGS:
        return [_text(v, name, where) for v in value]
    return list(value) if kind in (FLOATS, INTS) else value


def _guess_type(attribute: AttributeProto) -> int:
    for kind in (FLOATS, INTS, STRINGS):
        if len(getattr(attribute, _FIELDS[kind])):
            return kind
    for kind in (FLOAT, INT, STRING, TENSOR, GRAPH, SPARSE_TENSOR):
        if attribute.HasField(_FIELDS[kind]):  # type: ignore[arg-type]
            return kind
    return 0


def _text(value: bytes, name: str, where: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ModelFormatError(
            f"attribute {name!r} is not UTF-8", where=where, got=shorten_text(repr(value))
        ) from None
