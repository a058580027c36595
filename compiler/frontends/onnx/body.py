"""Bodies of control flow: what an importer gets of one, and the names it takes from around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import Parameter, TypedParameter
from ....ir.types import TensorType, Type

if TYPE_CHECKING:
    from onnx import GraphProto

# Bodies within bodies. Types of loops are found by repeated inference, which multiplies.
MAX_DEPTH = 16


@dataclass(frozen=True)
class Body:
    """A body as a graph: parameters are its inputs and then one for each value of `captured`."""

    graph: Graph
    captured: list[Value]


class UnsupportedBody(Exception):
    """A body holds unsupported nodes, which are reported already."""


def add_parameter(graph: Graph, type_: Type, name: str, origin: str) -> Value:
    """A Parameter of a body."""
    tensor = isinstance(type_, TensorType)
    op = Parameter(type_.dtype, type_.shape) if tensor else TypedParameter(type_)
    node = graph.add(op, name=name, origin=origin, names=[frozenset([name])])
    infer_node(graph, node)
    return Value(node)


def captured_names(graph: GraphProto) -> list[str]:
    """Names that a body takes from around it, those of bodies inside it included."""
    found: list[str] = []
    pending: list[tuple[GraphProto, frozenset[str]]] = [(graph, frozenset())]
    while pending:
        body, outer = pending.pop()
        own = {i.name for i in body.input} | {t.name for t in body.initializer}
        own |= {t.values.name for t in body.sparse_initializer}
        own |= {name for node in body.node for name in node.output}
        inside = outer | own
        used = [name for node in body.node for name in node.input]
        used += [o.name for o in body.output]
        found += [name for name in used if name and name not in inside]
        for node in body.node:
            for attribute in node.attribute:
                pending += [(g, inside) for g in attribute.graphs]
                if attribute.HasField("g"):
                    pending.append((attribute.g, inside))
    return list(dict.fromkeys(found))
