"""What a table's function sees of the node that it writes: inputs, types, known values, and how to
add ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, defs, helper

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....ir.graph import Graph, Node, Value
from ....ir.op import Array, Op
from ....ir.ops import Constant
from ....ir.types import TensorType, Type, normalize_axis
from .scope import GraphScope
from .value_types import data_type

# The names of a node's outputs; None where ONNX cannot express this node by one table's entry, so
# that it is decomposed.
Exported: TypeAlias = "str | Sequence[str] | None"
ExportFunction: TypeAlias = "Callable[[ExportContext], Exported]"
OpT = TypeVar("OpT", bound=Op)

_AI_ONNX = ("", "ai.onnx")


def find_schema(op_type: str, domain: str, opset: int) -> Any:
    """The schema of an operator that an operator set contains; None where there is none."""
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


class ExportContext:
    """One node on its way into an ONNX graph."""

    def __init__(
        self,
        writer: GraphScope,
        graph: Graph,
        node: int,
        inputs: Sequence[str | None],
        *,
        decomposed: bool = False,
    ) -> None:
        # Part of a decomposition: what it does with indices out of range has to hold.
        self.decomposed = decomposed
        self.writer, self.graph, self.node = writer, graph, node
        self.record: Node = graph.node(node)
        self.op: Op = self.record.op
        self.opset: int = writer.model.opset
        self.names = list(inputs)
        self.made: list[NodeProto] = []

    # The node that is written --------------------------------------------------------------

    def cast_op(self, cls: type[OpT]) -> OpT:
        """The operation as its class."""
        assert isinstance(self.op, cls)
        return self.op

    @property
    def where(self) -> str:
        """The node in messages."""
        return self.record.origin or f"{self.op.kind} {self.record.name!r}"

    def input(self, port: int) -> str:
        """The name of an input that is there."""
        name = self.names[port]
        assert name is not None
        return name

    def optional(self, port: int) -> str | None:
        """The name of an input, None where it is absent."""
        return self.names[port] if port < len(self.names) else None

    def value(self, port: int) -> Value | None:
        """What the graph has at an input port."""
        values = self.graph.inputs(self.node)
        return values[port] if port < len(values) else None

    def type(self, port: int) -> Type:
        """The type of an input."""
        return self.graph.type(self.graph.input(self.node, port))

    def tensor(self, port: int) -> TensorType:
        """The type of an input that is a tensor."""
        found = self.type(port)
        assert isinstance(found, TensorType)
        return found

    def dtype(self, port: int) -> DType:
        """The element type of an input."""
        return self.tensor(port).dtype

    def shape(self, port: int) -> tuple[Dim, ...] | None:
        """The shape of an input, None where its rank is not known."""
        return self.tensor(port).shape

    def rank(self, port: int) -> int:
        """The rank of an input. UnsupportedOperationError where it is not known."""
        shape = self.shape(port)
        if shape is None:
            raise self.error("an input of unknown rank")
        return len(shape)

    def fixed_shape(self, port: int) -> list[int] | None:
        """The shape of an input, None where a size is not a number."""
        return fixed_sizes(self.shape(port))

    def out_type(self, port: int = 0) -> TensorType:
        """The type of an output that is a tensor."""
        found = self.record.types[port]
        assert isinstance(found, TensorType)
        return found

    def known(self, port: int) -> Array | None:
        """The numbers of an input, where they are known."""
        value = self.value(port)
        found = None if value is None else self.graph.known_value(value)
        if found is None or found.dtype != object or self.dtype(port) is DType.string:
            return found
        numbers = all(isinstance(v, int | np.integer) for v in found.flat)
        return found.astype(np.int64) if numbers else None

    def known_ints(self, port: int) -> list[int] | None:
        """The integers of an input in order, where they are known."""
        found = self.known(port)
        return None if found is None else [int(v) for v in found.reshape(-1)]

    def ints_of(self, port: int, name: str) -> list[int]:
        """The integers of an input that an attribute holds in ONNX."""
        found = self.known_ints(port)
        if found is None:
            raise self.error(f"{name} that are not constants")
        return found

    def axis_of(self, port: int, rank: int) -> int:
        """An axis from an input, counted from 0."""
        return normalize_axis(self.ints_of(port, "axes")[0], rank)

    def constant_data(self, port: int) -> Array | None:
        """The data of an input that is a Constant."""
        value = self.value(port)
        op = None if value is None else self.graph.op(value.node)
        return op.data if isinstance(op, Constant) else None

    def is_read(self, port: int) -> bool:
        """Whether an output of the node has uses."""
        return self.graph.use_count(Value(self.node, port)) > 0

    def error(self, what: str) -> UnsupportedOperationError:
        """The error of an operation that has no form in ONNX, or not with these attributes."""
        return UnsupportedOperationError(
            f"{self.op.kind} cannot be written as ONNX: {what}",
            where=self.where,
            fix="save the model as .xml, or compile it with irc as it is",
        )

    # Nodes that are added ------------------------------------------------------------------

    def has(self, op_type: str, domain: str = "") -> bool:
        """Whether the operator set that is written has an operator."""
        return self.schema(op_type, domain) is not None

    def schema(self, op_type: str, domain: str = "") -> Any:
        """The schema of an operator in the set that is written; None where there is none."""
        return find_schema(op_type, domain, self.writer.model.version_of(domain))

    def takes(self, op_type: str, dtype: DType, port: int = 0, domain: str = "") -> bool:
        """Whether an operator's input may have an element type."""
        schema = self.schema(op_type, domain)
        if schema is None:
            return False
        allowed = schema.inputs[min(port, len(schema.inputs) - 1)].types
        return f"tensor({_TYPE_NAMES.get(dtype, dtype.value)})" in allowed

    def has_input(self, op_type: str, name: str) -> bool:
        """Whether an operator takes an input of this name (axes were attributes before)."""
        schema = self.schema(op_type)
        return schema is not None and any(i.name == name for i in schema.inputs)

    def has_attribute(self, op_type: str, name: str) -> bool:
        """Whether an operator has an attribute of this name."""
        schema = self.schema(op_type)
        return schema is not None and name in schema.attributes

    def add(self, op_type: str, *inputs: str | None, domain: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its one output."""
        return self.add_all(op_type, inputs, 1, domain, **attributes)[0]

    def add_all(
        self,
        op_type: str,
        inputs: Sequence[str | None],
        outputs: int,
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node with several outputs and return their names. Attributes that are None are
        left out. UnsupportedOperationError where the operator set lacks the operator."""
        self._require(op_type, domain)
        names = [name or "" for name in inputs]
        schema = self.schema(op_type, domain)
        least = 0 if schema is None else schema.min_input
        while len(names) > least and not names[-1]:
            names.pop()
        base = f"{self.record.name or self.op.kind}/{op_type}"
        made = [self.writer.model.unique(base) for _ in range(outputs)]
        node = NodeProto(op_type=op_type, domain=domain, name=self.writer.model.unique_node(base))
        node.input.extend(names)
        node.output.extend(made)
        for key, value in attributes.items():
            if value is not None:
                node.attribute.append(_attribute(key, value))
        self.made.append(node)
        self.writer.nodes.append(node)
        return made

    def add_proto(self, node: NodeProto) -> None:
        """Add a node that is complete but for its names."""
        node.name = self.writer.model.unique_node(self.record.name or self.op.kind)
        self.made.append(node)
        self.writer.nodes.append(node)

    def _require(self, op_type: str, domain: str) -> None:
        if domain not in _AI_ONNX:
            self.writer.model.domains.setdefault(domain, NEWEST.get(domain, 1))
            return
        if self.has(op_type):
            return
        newest = find_schema(op_type, "", defs.onnx_opset_version())
        least = None if newest is None else _first_version(op_type)
        raise UnsupportedOperationError(
            f"{self.op.kind} is ONNX's {op_type}, which a later operator set defines",
            where=self.where,
            got=f"operator set {self.opset}",
            expected=f"operator set {least} or later",
            fix=f"irc convert --opset {least}, or opset={least}",
        )

    def constant(self, array: Any, dtype: DType) -> str:
        """An array as an initializer of the graph that is written."""
        return self.writer.initializer(np.asarray(array, dtype.numpy), dtype, self.where)

    def ints(self, values: Sequence[int]) -> str:
        """A vector of i64."""
        return self.constant(np.array(list(values), np.int64), DType.i64)

    def int_scalar(self, value: int) -> str:
        """A scalar of i64."""
        return self.constant(np.array(value, np.int64), DType.i64)

    def scalar(self, value: float, dtype: DType) -> str:
        """A scalar of an element type."""
        return self.constant(np.array(value).astype(dtype.numpy), dtype)

    def cast(self, name: str, to: DType) -> str:
        """Add a Cast."""
        return self.add("Cast", name, to=data_type(to, self.opset, self.where))

    def input_as(self, port: int, dtype: DType) -> str:
        """An input in an element type; itself where it has it."""
        if self.dtype(port) is dtype:
            return self.input(port)
        known = self.known(port)
        if known is not None and dtype.is_int and known.dtype.kind in "iu" and known.size <= 64:
            return self.constant(known.astype(dtype.numpy), dtype)
        return self.cast(self.input(port), dtype)

    def vector(self, port: int) -> str:
        """An input of sizes or axes as a vector of i64."""
        known = self.known_ints(port)
        if known is not None:
            return self.ints(known)
        name = self.input_as(port, DType.i64)
        return (
            name if len(self.shape(port) or ()) == 1 else self.add("Reshape", name, self.ints([-1]))
        )

    def flatten_scalar(self, port: int, dtype: DType | None = None) -> str:
        """An input of one element as a scalar."""
        name = self.input(port) if dtype is None else self.input_as(port, dtype)
        return name if self.shape(port) == () else self.add("Reshape", name, self.ints([]))

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """Axes in another order; the value itself where they stay."""
        if list(order) == list(range(len(order))):
            return name
        return self.add("Transpose", name, perm=list(order))

    def reduce(self, op_type: str, name: str, axes: Sequence[int], *, keep: bool = True) -> str:
        """A reduction over axes, which are an input or an attribute by the operator set."""
        if self.has_input(op_type, "axes"):
            return self.add(op_type, name, self.ints(axes), keepdims=int(keep))
        return self.add(op_type, name, axes=list(axes), keepdims=int(keep))

    def slice(self, name: str, start: int, stop: int, axis: int, step: int = 1) -> str:
        """A slice of one axis."""
        return self.add("Slice", name, *(self.ints([v]) for v in (start, stop, axis, step)))

    def size(self, name: str, axis: int) -> str:
        """The size of an axis (0 or more) as a vector of one i64."""
        return self.slice(self.add("Shape", name), axis, axis + 1, 0)


def fixed_sizes(shape: Sequence[Dim] | None) -> list[int] | None:
    """A shape as numbers, None where a size is not one."""
    if shape is None:
        return None
    sizes = [d for d in shape if isinstance(d, int)]
    return sizes if len(sizes) == len(shape) else None


# ONNX's names of element types in schemas, where they are not irc's.
_TYPE_NAMES = {
    DType.f16: "float16",
    DType.f32: "float",
    DType.f64: "double",
    DType.bf16: "bfloat16",
    DType.boolean: "bool",
    DType.f8e4m3: "float8e4m3fn",
    DType.f8e5m2: "float8e5m2",
    DType.c64: "complex64",
    DType.c128: "complex128",
    **{t: t.value.replace("u", "uint") for t in DType if t.is_int and not t.is_signed},
    **{t: t.value.replace("i", "int") for t in DType if t.is_int and t.is_signed},
}
# Operator sets of other domains that are written.
NEWEST = {"ai.onnx.ml": 5, "com.microsoft": 1}


def _first_version(op_type: str) -> int:
    """The first operator set that has an operator."""
    versions = range(1, defs.onnx_opset_version() + 1)
    return next(v for v in versions if find_schema(op_type, "", v) is not None)


def _attribute(key: str, value: Any) -> Any:
    if isinstance(value, list | tuple) and not value:
        return helper.make_attribute(key, [], attr_type=AttributeProto.INTS)
    if isinstance(value, GraphProto | TensorProto):
        return helper.make_attribute(key, value)
    return helper.make_attribute(key, value)
