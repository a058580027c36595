"""Operations of a model and their outputs, as OpenVINO's Python API shows them.

A node is in a model's graph, or free: made by a function of an opset module, with the free nodes
that it reads. `insert` puts free nodes into a graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ...builder.tensor import Tensor as Built
from ...ir import ops as o
from ...ir.dtype import DType
from ...ir.graph import Graph, Value
from ...ir.graph import Node as Record
from ...ir.infer import infer_node
from ...ir.types import Type
from ..nearest import NamesNearest
from .layout_helpers import read_layout, write_layout
from .ports import ConstOutput
from .types import Layout, PartialShape, Shape
from .types import Type as ElementType


class HasGraph(Protocol):
    """A model whose graph may be replaced: nodes keep their numbers."""

    @property
    def graph(self) -> Graph: ...


class DiscreteTypeInfo(NamesNearest):
    """The name and set of an operation."""

    def __init__(self, name: str, version: int) -> None:
        self.name, self.version_id = name, f"opset{version}"


class Node(NamesNearest):
    """An operation."""

    def __init__(self, owner: HasGraph | None, number: int, built: Sequence[Built] = ()) -> None:
        self._owner, self.number, self.built = owner, number, tuple(built)

    @property
    def record(self) -> Record:
        """irc's record of the node."""
        if self._owner is None:
            return self.built[0]._record
        return self._owner.graph.node(self.number)

    @property
    def owner(self) -> HasGraph | None:
        """The model that the node is in."""
        return self._owner

    def get_friendly_name(self) -> str:
        """The node's name."""
        return self.record.name

    def set_friendly_name(self, name: str) -> None:
        """Give it another name."""
        self.record.name = name

    friendly_name = property(get_friendly_name, set_friendly_name)
    get_name = get_friendly_name
    name = property(get_friendly_name)

    def get_type_name(self) -> str:
        """As "MatMul"."""
        return self.record.op.kind

    def get_type_info(self) -> DiscreteTypeInfo:
        """Name and operation set."""
        return DiscreteTypeInfo(self.record.op.kind, self.record.op.version)

    type_info = property(get_type_info)

    def get_attributes(self) -> dict[str, Any]:
        """The attributes by their names in XML."""
        op = self.record.op
        return {a.xml: _show_attribute(getattr(op, a.name)) for a in op.attributes()}

    def _inputs(self) -> list[Output | None]:
        if self._owner is not None:
            values = self._owner.graph.inputs(self.number)
            return [
                None if v is None else Output(Node(self._owner, v.node), v.port) for v in values
            ]
        read = self.built[0]._inputs
        return [None if t is None else Output(free_node(t), t._port) for t in read]

    def input_values(self) -> list[Output]:
        """The outputs that it reads."""
        return [v for v in self._inputs() if v is not None]

    def input_value(self, index: int) -> Output:
        """The output that an input reads."""
        return self.input_values()[index]

    def get_input_size(self) -> int:
        """The number of inputs."""
        return len(self.input_values())

    def get_output_size(self) -> int:
        """The number of outputs."""
        return self.record.op.output_count()

    def output(self, index: int) -> Output:
        """An output."""
        return Output(self, index)

    def outputs(self) -> list[Output]:
        """All outputs."""
        return [Output(self, n) for n in range(self.get_output_size())]

    def get_output_element_type(self, index: int) -> ElementType:
        """An output's element type."""
        return self.output(index).element_type

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """An output's shape."""
        return self.output(index).partial_shape

    def get_output_shape(self, index: int) -> Shape:
        """An output's shape. ShapeError where a size is unknown."""
        return self.output(index).shape

    def get_element_type(self) -> ElementType:
        """The only output's element type."""
        return self.output(0).element_type

    def get_partial_shape(self) -> PartialShape:
        """The only output's shape."""
        return self.output(0).partial_shape

    element_type = property(get_element_type)
    partial_shape = property(get_partial_shape)
    shape = property(lambda self: self.output(0).shape)

    def get_rt_info(self) -> dict[str, Any]:
        """Its rt_info."""
        return {key: dict(value) for key, value in self.record.rt_info.items()}

    rt_info = property(get_rt_info)

    def get_layout(self) -> Layout:
        """What the axes of a Parameter or Result mean."""
        return read_layout(self.record) or Layout()

    def set_layout(self, layout: Any) -> None:
        """Set what the axes of a Parameter or Result mean."""
        write_layout(self.record, Layout(layout))

    layout = property(get_layout, set_layout)

    @property
    def data(self) -> Any:
        """A Constant's values."""
        op = self.record.op
        if not isinstance(op, o.Constant):
            raise AttributeError(f"{op.kind} has no data: it is not a Constant", name="data")
        return op.evaluate()[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.record is self.record

    def __hash__(self) -> int:
        return id(self.record)

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{p.element_type.get_type_name()}{p.partial_shape}" for p in self.outputs()
        )
        return f"<{self.get_type_name()}: '{self.get_friendly_name()}' ({shapes})>"


def _show_attribute(value: Any) -> Any:
    return value.value if isinstance(value, DType) else value


class Output(ConstOutput):
    """An output of a node."""

    def __init__(self, node: Node, port: int = 0) -> None:
        self._node = node
        super().__init__(node.record.name, (), None, port)

    @property
    def type(self) -> Type:
        """irc's type."""
        return self._node.record.types[self.index]

    def get_names(self) -> set[str]:
        """All tensor names."""
        return set(self._node.record.names[self.index])

    names = property(get_names)

    def set_names(self, names: set[str]) -> None:
        """Other tensor names."""
        self._node.record.names[self.index] = frozenset(names)

    def add_names(self, names: set[str]) -> None:
        """More tensor names."""
        self._node.record.names[self.index] |= names

    def get_node(self) -> Node:
        """The node."""
        return self._node

    node = property(get_node)

    @property
    def tensor(self) -> Output:
        """Its names, shape and type, which OpenVINO keeps in an object of its own."""
        return self

    get_tensor = tensor.fget

    def get_target_inputs(self) -> set[Any]:
        """The nodes that read it, as (node, input) pairs."""
        owner = self._node.owner
        if owner is None:
            return set()
        uses = owner.graph.uses(Value(self._node.number, self.index))
        return {(Node(owner, u.node), u.port) for u in uses}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and (other._node, other.index) == (self._node, self.index)

    def __hash__(self) -> int:
        return hash((self._node, self.index))


def free_node(tensor: Built) -> Node:
    """The free node that a tensor of the builder is an output of."""
    outputs = range(tensor._record.op.output_count())
    return Node(None, -1, [Built(tensor._record, tensor._inputs, port) for port in outputs])


def find_tensor(value: Any) -> Built:
    """The builder's tensor of a free node or its output. TypeError for one in a model."""
    output = value.output(0) if isinstance(value, Node) else value
    if not output.node.built:
        raise TypeError(f"{output!r} is in a model: it cannot be read by new nodes")
    return output.node.built[output.index]


def insert(graph: Graph, tensor: Built, placed: dict[int, Value]) -> Value:
    """Add what a free tensor is computed by to a graph, producers first; its value. `placed`: the
    first output of the graph's node by the `id` of the free record, which this extends."""
    stack = [tensor]
    while stack:
        at = stack[-1]
        if id(at._record) in placed:
            stack.pop()
            continue
        missing = [t for t in at._inputs if t is not None and id(t._record) not in placed]
        if missing:
            stack += missing
            continue
        stack.pop()
        values = [None if t is None else _find_placed(t, placed) for t in at._inputs]
        name = at._record.name or f"{at._record.op.kind}_{len(graph)}"
        node = graph.add(at._record.op, values, name=name, names=at._record.names)
        infer_node(graph, node)
        placed[id(at._record)] = Value(node)
    return _find_placed(tensor, placed)


def _find_placed(tensor: Built, placed: Mapping[int, Value]) -> Value:
    first = placed[id(tensor._record)]
    return Value(first.node, first.port + tensor._port)
