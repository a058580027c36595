"""Operations of users: nodes of their own domain."""

from __future__ import annotations

from typing import Any

from .....ir.dtype import DType
from .....ir.extensions import file_type, onnx_domain
from ..context import ExportContext, Exported
from ..value_types import data_type


def write_extension(n: ExportContext) -> Exported:
    """A node under the extension's ONNX domain, with its attributes under their names."""
    cls = type(n.op)
    domain = onnx_domain(cls)
    if not domain:
        raise n.error("an extension needs an ONNX domain: `domain` of its class")
    attributes: dict[str, Any] = {}
    for attribute in cls.attributes():
        value = getattr(n.op, attribute.name)
        if isinstance(value, DType):
            value = data_type(value, n.opset, n.where)
        attributes[attribute.xml] = list(value) if isinstance(value, tuple) else value
    return n.add_all(file_type(cls), n.names, n.op.output_count(), domain, **attributes)
