"""Nodes that stay as they were read: ONNX's own that irc keeps (OnnxNode), and operations of users
under their own domain."""

from __future__ import annotations

import base64
from typing import Any

from onnx import NodeProto

from .....ir.dtype import DType
from .....ir.extensions import file_type, onnx_domain
from .....ir.ops import OnnxNode
from ..context import NEWEST, ExportContext, Exported, ExportFunction, find_schema
from ..value_types import data_type


def _onnx_node(n: ExportContext) -> Exported:
    op = n.cast_op(OnnxNode)
    versions: dict[str, str] = {}
    for text in op.opsets:
        name, _, version = text.rpartition("=")
        versions[name] = version
    model = n.writer.model
    domain = "" if op.domain in ("", "ai.onnx") else op.domain
    read = int(versions.get(op.domain, versions.get("ai.onnx", "1")))
    if domain:
        model.domains.setdefault(domain, NEWEST.get(domain, read))
    written = model.version_of(domain)
    if read != written and not _same_definition(op.op_type, domain, read, written):
        raise n.error(
            f"{op.op_type} of operator set {read} has another definition in set {written}"
        )
    node = NodeProto()
    node.ParseFromString(base64.b64decode(op.node))
    del node.input[:]
    del node.output[:]
    node.input.extend(name or "" for name in n.names)
    names = [model.unique(f"{n.record.name}/{op.op_type}") for _ in n.record.types]
    node.output.extend(names)
    n.add_proto(node)
    return names


def _same_definition(op_type: str, domain: str, read: int, written: int) -> bool:
    """Whether two operator sets define an operator alike, but for element types."""
    a, b = (find_schema(op_type, domain, version) for version in (read, written))
    if a is None or b is None:
        return False
    ports = [[(i.name, i.option) for i in (*s.inputs, *s.outputs)] for s in (a, b)]
    return a.since_version == b.since_version or (
        ports[0] == ports[1] and a.attributes.keys() == b.attributes.keys()
    )


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
        attributes[attribute.xml] = [*value] if isinstance(value, tuple) else value
    return n.add_all(file_type(cls), n.names, n.op.output_count(), domain, **attributes)


EXPORTERS: dict[str, ExportFunction] = {"OnnxNode": _onnx_node}
