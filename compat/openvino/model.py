"""OpenVINO's Model on irc's graph: reading it, and editing its inputs, outputs and shapes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from ... import api
from ...api.model_cache import record_read, was_read
from ...compiler.shape_analysis.infeasible_branches import specialize_branches
from ...ir.dims import Dim, plain_symbol
from ...ir.errors import InputError, ModelFormatError, UsageError
from ...ir.graph import Graph, Value
from ...ir.infer import infer_graph, infer_node
from ...ir.interpret import interpret
from ...ir.ops import Parameter, Result
from ...ir.types import TensorType
from .nodes import Node, Output, find_tensor, insert
from .ports import HasPorts, find_port
from .rt_info import get_info, has_info, with_info
from .tensors import Tensor
from .types import Dimension, PartialShape, Shape, Type


class BoundaryPort(Output):
    """An input or output of a model, with its position."""

    def __init__(self, node: Node, position: int) -> None:
        super().__init__(node, 0)
        self.position = position

    def get_index(self) -> int:
        """The port of the node, which is 0."""
        return 0


class Model(HasPorts):
    """A model; `model` is the irc.Model behind it.

    Model(results, parameters, name) and Model(results, sinks, parameters, name) make one of nodes
    of opset modules.
    """

    _path: str | None = None

    def __init__(self, first: Any, *others: Any, name: str = "", **named: Any) -> None:
        if isinstance(first, Model):
            self.model = api.Model(first.graph.copy())
        elif isinstance(first, api.Model):
            self.model = api.Model(first.graph.copy())
        else:
            listed = [first, *others]
            if listed and isinstance(listed[-1], str):
                name = listed.pop()
            parameters = named.get("parameters") or listed[-1]
            sinks = listed[1] if len(listed) == 3 else named.get("sinks", ())
            # Free nodes by their records, which are kept so that no other has their `id`.
            self._placed: dict[int, Value] = {}
            self._sources = (first, sinks, parameters)
            graph = _make_graph(first, sinks, parameters, name or "Model0", self._placed)
            self.model = api.Model(graph)

    @classmethod
    def of(cls, model: api.Model) -> Model:
        """Of a model of the caller alone, whose graph need not be copied."""
        made = cls.__new__(cls)
        made.model = model
        return made

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Model:
        """Of a file. One that was read before is read again when its graph is asked for: what only
        compiles it finds it in the code cache."""
        if not was_read(path):
            model = api.read_model(path)
            assert model.origin is not None
            record_read(path, model.origin.files)
            return cls.of(model)
        made = cls.__new__(cls)
        made._path = os.path.abspath(path)
        return made

    @cached_property
    def model(self) -> api.Model:
        """irc's model; that of a file is read at first."""
        path = self.unread_path
        assert path is not None
        self._path = None
        return api.read_model(path)

    @property
    def unread_path(self) -> str | None:
        """The file of a model that was not needed yet. ModelFormatError where it was changed."""
        if self._path is not None and not was_read(self._path):
            raise ModelFormatError(
                "the model's file is needed again, and it is not what it was",
                where=repr(self._path),
                expected="the file that read_model was called with",
                fix="call read_model again",
            )
        return self._path

    @property
    def graph(self) -> Graph:
        """irc's graph of the model."""
        return self.model.graph

    def replace_graph(self, graph: Graph) -> None:
        """Take an edited copy of the graph; nodes keep their numbers."""
        graph.rt_info = self.graph.rt_info
        self.model = api.Model(graph)

    @property
    def inputs(self) -> list[BoundaryPort]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The inputs."""
        return [BoundaryPort(Node(self, p), n) for n, p in enumerate(self.graph.parameters)]

    @property
    def outputs(self) -> list[BoundaryPort]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The outputs."""
        return [BoundaryPort(Node(self, r), n) for n, r in enumerate(self.graph.results)]

    # Nodes ------------------------------------------------------------------------------------

    def get_ops(self) -> list[Node]:
        """All operations."""
        return [Node(self, n) for n in self.graph.order()]

    get_ordered_ops = get_ops

    def get_parameters(self) -> list[Node]:
        """The Parameters."""
        return [Node(self, n) for n in self.graph.parameters]

    def get_results(self) -> list[Node]:
        """The Results."""
        return [Node(self, n) for n in self.graph.results]

    def get_sinks(self) -> list[Node]:
        """The Assigns."""
        return [Node(self, n) for n in self.graph.sinks]

    parameters = property(get_parameters)
    results = property(get_results)
    sinks = property(get_sinks)

    def get_result(self) -> Node:
        """The only Result."""
        (found,) = self.get_results()
        return found

    result = property(get_result)

    def get_parameter_index(self, node: Node) -> int:
        """The position of a Parameter; -1 for another node."""
        found = self.get_parameters()
        return found.index(node) if node in found else -1

    def get_result_index(self, value: Any) -> int:
        """The position of a Result, or of the one that reads an output; -1 for others."""
        for at, node in enumerate(self.get_results()):
            if value == node or value in (node.output(0), node.input_value(0)):
                return at
        return -1

    def find_parameter(self, given: Any) -> int:
        """The position of a Parameter: a node of the model, or the free node it was made of."""
        value = self._find_own(given)
        if value is None or value.node not in self.graph.parameters:
            raise UsageError(
                "no such parameter of this model",
                got=repr(given),
                expected="a Parameter that the model was made with",
            )
        return self.graph.parameters.index(value.node)

    def find_result(self, given: Any) -> int:
        """The position of a Result, or of the one that reads an output; of the model or free."""
        value = self._find_own(given)
        for position, node in enumerate(self.graph.results):
            if value is not None and value in (Value(node), self.graph.input(node, 0)):
                return position
        raise UsageError(
            "no such result of this model",
            got=repr(given),
            expected="a Result that the model was made with, or what it reads",
        )

    def _find_own(self, given: Any) -> Value | None:
        output = given.output(0) if isinstance(given, Node) else given
        if output.node.owner is self:
            return Value(output.node.number, output.index)
        if not output.node.built:
            return None
        tensor = find_tensor(output)
        first = getattr(self, "_placed", {}).get(id(tensor._record))
        return None if first is None else Value(first.node, first.port + tensor._port)

    def evaluate(
        self,
        output_tensors: Sequence[Tensor],
        input_tensors: Sequence[Tensor],
        evaluation_context: Any = None,
    ) -> bool:
        """Compute the outputs by NumPy, without compiling; tensors take their shapes."""
        counts = (len(output_tensors), len(input_tensors))
        expected = (len(self.graph.results), len(self.graph.parameters))
        if counts != expected:
            raise InputError(
                "evaluate takes one tensor per output and one per input", got=counts,
                expected=expected,
            )  # fmt: skip
        found = interpret(self.graph, [tensor.data for tensor in input_tensors])
        for tensor, array in zip(output_tensors, found, strict=True):
            tensor.copy_from(array)
        return True

    def get_output_size(self) -> int:
        """The number of outputs."""
        return len(self.graph.results)

    def get_output_op(self, index: int) -> Node:
        """A Result by its position."""
        return self.get_results()[index]

    def get_output_shape(self, index: int) -> Shape:
        """An output's shape."""
        return self.outputs[index].shape

    def get_output_partial_shape(self, index: int) -> PartialShape:
        """An output's shape."""
        return self.outputs[index].partial_shape

    def get_output_element_type(self, index: int) -> Type:
        """An output's element type."""
        return self.outputs[index].element_type

    # Editing ----------------------------------------------------------------------------------

    def clone(self) -> Model:
        """A copy, which shares constants."""
        return Model(self)

    def add_outputs(self, outputs: Any) -> list[BoundaryPort]:
        """Further outputs: of a tensor's name, an (operation's name, port) pair or an Output."""
        listed = outputs if isinstance(outputs, list) else [outputs]
        values = [self._find_value(value) for value in listed]
        made: list[int] = []
        for value in values:
            record = self.graph.node(value.node)
            names = record.names[value.port] or frozenset([f"{record.name}.{value.port}"])
            label = f"{record.name}/sink_port_{value.port}"
            made.append(self.graph.add(Result(), [value], name=label, names=[names]))
            infer_node(self.graph, made[-1])
        return [p for p in self.outputs if p.node.number in made]

    def add_results(self, results: Sequence[Node]) -> None:
        """Further Results, made by an opset module's `result`."""
        for node in results:
            insert(self.graph, find_tensor(node), {})

    def remove_result(self, node: Node) -> None:
        """Remove an output."""
        self.graph.remove(node.number)

    def _find_value(self, wanted: Any) -> Value:
        if isinstance(wanted, Output):
            return Value(wanted.node.number, wanted.index)
        if isinstance(wanted, tuple):
            name, port = wanted
            found = [n for n in self.graph.order() if self.graph.node(n).name == name]
            if found:
                return Value(found[0], port)
            raise UsageError("no such operation", got=name, expected="an operation's name")
        for node in self.graph.order():
            record = self.graph.node(node)
            for port, names in enumerate(record.names):
                if wanted in names and not isinstance(record.op, Result):
                    return Value(node, port)
        raise UsageError("no such tensor", got=wanted, expected="a tensor's name")

    def reshape(self, partial_shape: Any, variables_shapes: Any = None) -> None:
        """Other input shapes: of the only input, or by name, position or port."""
        shapes: Mapping[Any, Any]
        shapes = partial_shape if isinstance(partial_shape, Mapping) else {None: partial_shape}
        graph = self.graph.copy()
        for key, shape in shapes.items():
            port = find_port(self.inputs, key)
            assert isinstance(port, BoundaryPort)
            _set_shape(graph, port, PartialShape(shape))
        infer_graph(graph)
        self.replace_graph(specialize_branches(graph))

    def validate_nodes_and_infer_types(self) -> None:
        """Infer all types again."""
        infer_graph(self.graph)

    # Names and metadata -----------------------------------------------------------------------

    @property
    def rt_info(self) -> dict[str, Any]:
        """Metadata as a tree; `metadata_props` of ONNX are its section "framework"."""
        return get_info(self.model.rt_info, None)

    def get_rt_info(self, path: str | Sequence[str] | None = None) -> Any:
        """All of it, or the entry at a path of keys."""
        return get_info(self.model.rt_info, path)

    def has_rt_info(self, path: str | Sequence[str]) -> bool:
        """Whether there is an entry at a path of keys."""
        return has_info(self.model.rt_info, path)

    def set_rt_info(self, value: Any, path: str | Sequence[str]) -> None:
        """Store text at a path of keys; `save_model` writes it."""
        self.model.graph.rt_info = self.model.rt_info = with_info(self.model.rt_info, value, path)

    def is_dynamic(self) -> bool:
        """Whether any operation's output has an unknown size."""
        return any(not _is_static(self.graph, n) for n in self.graph.ids())

    dynamic = property(is_dynamic)

    def get_friendly_name(self) -> str:
        """The model's name."""
        return self.model.name

    def set_friendly_name(self, name: str) -> None:
        """Give it another name."""
        self.graph.name = name

    friendly_name = property(get_friendly_name, set_friendly_name)
    name = property(get_friendly_name)
    get_name = get_friendly_name

    def __repr__(self) -> str:
        lines = [f"<Model: '{self.get_friendly_name()}'", "inputs["]
        lines += [f"{p}" for p in self.inputs] + ["]", "outputs["]
        return "\n".join([*lines, *[f"{p}" for p in self.outputs], "]>"])


def _is_static(graph: Graph, node: int) -> bool:
    types = [t for t in graph.node(node).types if isinstance(t, TensorType)]
    return all(t.shape is not None and all(isinstance(d, int) for d in t.shape) for t in types)


def _set_shape(graph: Graph, port: BoundaryPort, shape: PartialShape) -> None:
    node = graph.parameters[port.position]
    op = graph.op(node)
    if not isinstance(op, Parameter):
        raise UsageError("this input has no shape", got=port.describe(), expected="a tensor")
    if shape.rank.is_dynamic:
        graph.node(node).op = Parameter(op.element_type, None)
        return
    name = graph.node(node).name or f"input_{port.position}"
    before: Sequence[Dim | None] = op.shape or ()
    if len(before) != len(shape):
        before = [None] * len(shape)
    sizes = [
        _find_dim(d, old, f"{name}.{n}")
        for n, (d, old) in enumerate(zip(shape, before, strict=True))
    ]
    graph.node(node).op = Parameter(op.element_type, tuple(sizes))


def _find_dim(wanted: Dimension, before: Dim | None, name: str) -> Dim:
    """The size; the symbol that was there, where it has the same bounds."""
    if before is not None and plain_symbol(before) is not None and Dimension.of(before) == wanted:
        return before
    return wanted.to_dim(name)


def _make_graph(
    results: Any, sinks: Any, parameters: Any, name: str, placed: dict[int, Value]
) -> Graph:
    graph = Graph(name)
    for node in parameters:
        insert(graph, find_tensor(node), placed)
    before = list(graph.parameters)
    for given in results if isinstance(results, list | tuple) else [results]:
        tensor = find_tensor(given)
        value = insert(graph, tensor, placed)
        if not isinstance(tensor._record.op, Result):
            label = f"{graph.node(value.node).name}/sink_port_{value.port}"
            value = Value(graph.add(Result(), [value], name=label))
            infer_node(graph, value.node)
        _share_names(graph, value.node)
    for node in sinks:
        insert(graph, find_tensor(node), placed)
    if graph.parameters != before:
        raise UsageError(
            "the list of parameters lacks one that the results need",
            got=[graph.node(n).name for n in graph.parameters[len(before) :]],
            expected="all Parameters",
        )
    return graph


def _share_names(graph: Graph, result: int) -> None:
    """A Result and the output that it reads are one tensor in OpenVINO, with one set of names."""
    value = graph.input(result, 0)
    names = graph.node(result).names[0] | graph.node(value.node).names[value.port]
    graph.node(result).names[0] = graph.node(value.node).names[value.port] = names
