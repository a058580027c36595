"""Names while a model is imported: one frame for each graph, function body or branch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ....ir.graph import Graph, Value
from ....ir.op import Array, Op
from ....ir.ops import Constant
from ..xml.text import shorten_text
from .body import add_parameter
from .import_context import GraphBuilder, ImportContext

if TYPE_CHECKING:
    from onnx import AttributeProto, NodeProto

    from ....ir.dtype import DType


@dataclass
class ImportScope:
    """Names of one graph, function or body: `values` by name (None: an absent optional), constants
    that become nodes when first read, and names that `lost` their value to an unsupported node.

    A body also sees the names of the frame `outer` around it. Where it has a graph of its own,
    what it takes from there becomes a Parameter and is listed in `captured`.
    """

    builder: GraphBuilder
    nodes: Sequence[NodeProto]
    order: list[int]
    opsets: dict[str, int]
    values: dict[str, Value | None]
    constants: dict[str, tuple[DType, Array]] = field(
        default_factory=dict[str, "tuple[DType, Array]"]
    )
    lost: set[str] = field(default_factory=set[str])
    bound: dict[str, AttributeProto] = field(default_factory=dict[str, "AttributeProto"])
    prefix: str = ""
    # Of a function: the node that calls it, and its outputs' names inside.
    call: ImportContext | None = None
    outputs: Sequence[str] = ()
    outer: ImportScope | None = None
    captured: list[Value] | None = None
    depth: int = 0
    at: int = 0

    @property
    def graph(self) -> Graph:
        return self.builder.graph

    def is_lost(self, name: str) -> bool:
        """Whether a name has no value because of an unsupported node."""
        frame: ImportScope | None = self
        while frame is not None:
            if name in frame.lost or name in frame.values or name in frame.constants:
                return name in frame.lost
            frame = frame.outer
        return False


def add_constant(graph: Graph, op: Op, name: str, origin: str) -> Value:
    """A Constant, typed without a copy of its data."""
    node = graph.add(op, name=name, origin=origin)
    record = graph.node(node)
    record.types, record.known = list(op.infer()), list(op.evaluate())
    return Value(node)


def captured_value(frame: ImportScope, value: Value | None, name: str) -> Value | None:
    """A value of the frame around a body, as the body sees it."""
    if value is None or frame.captured is None:
        return value
    assert frame.outer is not None
    record = frame.outer.graph.node(value.node)
    if isinstance(record.op, Constant):
        return add_constant(frame.graph, record.op, record.name, record.origin)
    frame.captured.append(value)
    return add_parameter(frame.graph, record.types[value.port], name, f"value {shorten_text(name)}")
