"""Names of a model: all of them have to be text.

Protobuf hands out a string field that is not UTF-8 as bytes, which nothing later expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ....ir.errors import ModelFormatError
from ..xml.text import shorten_text

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


def check_names(model: ModelProto, label: str) -> None:
    """ModelFormatError where a name that the reader uses is not UTF-8."""
    for owner, name in _names(model):
        if not isinstance(name, str):
            raise ModelFormatError(
                f"the name of {owner} is not UTF-8", where=label, got=shorten_text(repr(name))
            )


def _names(model: ModelProto) -> Iterator[tuple[str, Any]]:
    """Every name, and what it is the name of. Typed as anything: bytes are what is looked for."""
    yield from (("an operator set", o.domain) for o in model.opset_import)
    nodes: list[Iterable[NodeProto]] = []
    graphs = [model.graph]
    for function in model.functions:
        yield from (("a function", n) for n in (function.name, function.domain, function.overload))
        yield from (("a value", n) for n in (*function.input, *function.output))
        yield from (("an attribute", n) for n in function.attribute)
        yield from (("an operator set", o.domain) for o in function.opset_import)
        yield from _attribute_names(function.attribute_proto, graphs)
        nodes.append(function.node)
    while graphs or nodes:
        if graphs:
            graph = graphs.pop()
            yield from _graph_names(graph)
            nodes.append(graph.node)
            continue
        for node in nodes.pop():
            yield from (("a node", n) for n in (node.name, node.op_type, node.domain))
            yield from (("a value", n) for n in (*node.input, *node.output, node.overload))
            yield from _attribute_names(node.attribute, graphs)


def _graph_names(graph: GraphProto) -> Iterator[tuple[str, Any]]:
    yield "the graph", graph.name
    for port in (*graph.input, *graph.output):
        yield "a value", port.name
        yield from (("a size", d.dim_param) for d in port.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield from _tensor_names(tensor)
    for sparse in graph.sparse_initializer:
        yield from _tensor_names(sparse.values)


def _tensor_names(tensor: TensorProto) -> Iterator[tuple[str, Any]]:
    yield "an initialiser", tensor.name
    for entry in tensor.external_data:
        yield from (("external data", n) for n in (entry.key, entry.value))


def _attribute_names(
    attributes: Iterable[AttributeProto], graphs: list[GraphProto]
) -> Iterator[tuple[str, Any]]:
    for attribute in attributes:
        yield from (("an attribute", n) for n in (attribute.name, attribute.ref_attr_name))
        if attribute.HasField("t"):
            yield from _tensor_names(attribute.t)
        if attribute.HasField("g"):
            graphs.append(attribute.g)
        graphs += attribute.graphs
