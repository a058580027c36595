"""Nodes that a user's operation defines: inputs as they are, attributes by their fields' names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....ir.dtype import DType
from ....ir.extensions import find_in_onnx
from ....ir.op import Attribute, Op
from .files.tensors import element_type

if TYPE_CHECKING:
    from .import_context import ImportContext, Imported, ImportFunction


def find_extension(op_type: str, domain: str) -> ImportFunction | None:
    """The importer of a node that a registered extension defines, or None."""
    cls = find_in_onnx(op_type, domain)
    return None if cls is None else lambda n: _import(n, cls)


def _import(n: ImportContext, cls: type[Op]) -> Imported:
    given = {a.xml: a for a in cls.attributes()}
    unknown = sorted(n.attributes.keys() - given.keys())
    if unknown:
        raise n.error(
            f"the extension {cls.__name__} has no such attribute",
            got=unknown[0],
            expected=", ".join(given) or "no attributes",
        )
    values = {a.name: _read(n, a) for a in given.values() if a.required or n.has(a.xml)}
    return n.add_all(cls(**values), *n.inputs)


def _read(n: ImportContext, attribute: Attribute) -> Any:
    """The value of an attribute as its annotation says."""
    name, kind = attribute.xml, attribute.annotation
    if kind is DType:
        return element_type(n.integer(name), n.origin)
    readers: dict[Any, Any] = {
        bool: n.flag,
        int: n.integer,
        float: n.number,
        str: n.text,
        tuple[int, ...]: n.integers,
        tuple[float, ...]: n.numbers,
        tuple[str, ...]: n.texts,
    }
    found: Any = readers[kind](name)
    return (*found,) if isinstance(found, list) else found
