"""What the graphs of one ONNX model share (names, constants, operator sets), and one graph's nodes
and initializers.

A body reads values of the graphs around it by their names, so names are unique in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from onnx import GraphProto, NodeProto, TensorProto

from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.types import Type
from .initializers import TensorWriter

# Writes a graph's nodes: the scope, the graph, the names of values (which it adds to), and names
# that values have to get.
WriteGraph: TypeAlias = "Callable[[GraphScope, Graph, dict[Value, str], Mapping[Value, str]], None]"


class ModelScope:
    """Names, constants and operator sets that the graphs of one model share."""

    def __init__(self, opset: int, tensors: TensorWriter, write_graph: WriteGraph) -> None:
        self.opset, self.tensors, self.write_graph = opset, tensors, write_graph
        # Operator sets of other domains that the nodes need.
        self.domains: dict[str, int] = {}
        # Variables: name, type and origin of each one's input, and of the value assigned to it.
        self.past: dict[str, tuple[str, Type, str]] = {}
        self.present: dict[str, tuple[str, Type, str]] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._nodes: set[str] = set()

    def version_of(self, domain: str) -> int:
        """The version of an operator set."""
        return self.opset if domain in ("", "ai.onnx") else self.domains.get(domain, 1 << 30)

    def reserve(self, name: str) -> str:
        """Take a name that has to be this one: of an input or an output."""
        self._taken.add(name)
        return name

    def unique(self, base: str) -> str:
        """A name of a value that no other has."""
        return self._unique(base or "value", self._taken)

    def unique_node(self, base: str) -> str:
        """A name of a node that no other has."""
        return self._unique(base, self._nodes)

    def _unique(self, base: str, taken: set[str]) -> str:
        name = base
        while name in taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        taken.add(name)
        return name


class GraphScope:
    """The nodes and initializers of one GraphProto."""

    def __init__(self, model: ModelScope) -> None:
        self.model = model
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self._shared: dict[tuple[DType, tuple[int, ...], bytes], str] = {}

    def initializer(self, array: Array, dtype: DType, where: str, name: str = "") -> str:
        """Add an initializer and return its name; small ones without a name are shared."""
        key = None
        if not name and array.nbytes <= 256 and array.dtype != object:
            key = dtype, array.shape, array.tobytes()
            if key in self._shared:
                return self._shared[key]
        made = self.model.unique(name or "constant")
        self.initializers.append(self.model.tensors.tensor(made, array, dtype, where))
        if key is not None:
            self._shared[key] = made
        return made

    def copy(self, name: str, target: str) -> None:
        """Add an Identity that gives a value another name."""
        node = self.add_node("Identity")
        node.input.append(name)
        node.output.append(target)

    def add_node(self, op_type: str) -> NodeProto:
        """Add a node without inputs and outputs."""
        node = NodeProto(op_type=op_type, name=self.model.unique_node(op_type))
        self.nodes.append(node)
        return node

    def finish(self, proto: GraphProto) -> None:
        """Move nodes, and the initializers that anything reads, into a GraphProto that has its
        inputs and outputs. (Attributes may hold what inputs of the graph's operations were.)"""
        proto.node.extend(self.nodes)
        used = {port.name for port in (*proto.input, *proto.output)} | _find_read_names(proto)
        proto.initializer.extend(t for t in self.initializers if t.name in used)


def _find_read_names(proto: GraphProto) -> set[str]:
    """The names that nodes of a graph and of its bodies read, and those that bodies return."""
    pending, found = [proto], set[str]()
    while pending:
        for node in pending.pop().node:
            found.update(node.input)
            bodies = [a.g for a in node.attribute if a.HasField("g")]
            found.update(port.name for body in bodies for port in body.output)
            pending += bodies
    return found
