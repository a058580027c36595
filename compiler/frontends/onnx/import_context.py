"""One ONNX node on its way into the graph: what an importer reads from it, and how it adds nodes.

An importer is a function of an OnnxNode. It reads inputs and attributes, adds operations (each is
inferred at once, so shapes are at hand), and returns the value of each output:

    def leaky_relu(n: OnnxNode) -> Value:
        return n.add(PRelu(), n.input(0), n.like(n.input(0), n.number("alpha", 0.01)))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.errors import ModelFormatError, ShapeError, UnsupportedOperationError
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.op import Array, Fact, Op
from ....ir.ops import Constant, Reshape
from ....ir.ops.shape_inference import known_ints
from ....ir.scalar.builder import cast_array
from ....ir.types import Type, normalize_axis
from ..xml.text import shorten_text
from . import attributes as kinds
from .body import Body
from .files.external_data import ExternalData
from .files.tensors import read_sparse, read_tensor

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, TypeProto

Imported: TypeAlias = "Value | Sequence[Value | None]"
ImportFunction: TypeAlias = "Callable[[ImportContext], Imported]"
# Equal constants of up to so many bytes are one node of the graph.
_MAX_SHARED_BYTES: Final = 64 << 10
_MISSING: Any = object()


class UseFunctionBody(Exception):
    """An importer leaves the node to the function that its operator is defined by."""


@dataclass
class GraphBuilder:
    """The graph that grows, and small constants that importers share."""

    graph: Graph
    _constants: dict[tuple[DType, tuple[int, ...], bytes], Value] = field(
        default_factory=dict[tuple[DType, tuple[int, ...], bytes], Value]
    )

    def add(self, op: Op, inputs: Sequence[Value | None], name: str, origin: str) -> int:
        """Add a node and infer it."""
        node = self.graph.add(op, inputs, name=name, origin=origin)
        infer_node(self.graph, node)
        return node

    def constant(self, dtype: DType, data: Array, origin: str) -> Value:
        """A constant; equal small ones are one. The array is not written to any more."""
        data.flags.writeable = False
        if data.nbytes > _MAX_SHARED_BYTES:
            return Value(self.add(Constant.of(data, dtype), (), "", origin))
        key = dtype, data.shape, data.tobytes()
        value = self._constants.get(key)
        if value is None:
            value = Value(self.add(Constant.of(data, dtype), (), "", origin))
            self._constants[key] = value
        return value


@dataclass
class ImportContext:
    """A node with its inputs as values of the graph. `version` is that of its operator set."""

    builder: GraphBuilder
    proto: NodeProto
    op_type: str
    domain: str
    version: int
    name: str
    origin: str
    inputs: list[Value | None]
    attributes: dict[str, AttributeProto]
    external: ExternalData
    # How the importer makes a body a graph (see `body`), or imports it in place.
    make_body: Callable[[GraphProto, Sequence[Type]], Body]
    inline_body: Callable[[GraphProto], list[Value]]
    # How the importer imports a function of values in place.
    inline_function: Callable[[FunctionProto, Sequence[Value | None]], list[Value]]
    seen: set[str] = field(default_factory=set[str])

    # Inputs -----------------------------------------------------------------------------------

    def input(self, i: int) -> Value:
        """Input i, which the operator requires."""
        value = self.optional(i)
        if value is None:
            raise self.error(
                f"input {i} is missing", got=f"inputs {self._list_present()}", expected="a value"
            )
        return value

    def _list_present(self) -> str:
        return ", ".join(str(i) for i, v in enumerate(self.inputs[:20]) if v is not None) or "none"

    def optional(self, i: int) -> Value | None:
        """Input i, or None where it is absent."""
        return self.inputs[i] if i < len(self.inputs) else None

    def all_inputs(self) -> list[Value]:
        """All inputs of a variadic operator."""
        return [self.input(i) for i in range(len(self.inputs))]

    def fact(self, value: Value) -> Fact:
        """What is known of a value, which has to be a tensor."""
        fact = self.builder.graph.fact(value)
        assert fact is not None
        return fact

    def dtype(self, value: Value) -> DType:
        return self.fact(value).tensor.dtype

    def shape(self, value: Value) -> tuple[Dim, ...] | None:
        return self.fact(value).tensor.shape

    def rank(self, value: Value) -> int:
        """The rank of a value. UnsupportedOperationError where it is not known."""
        shape = self.shape(value)
        if shape is None:
            raise self.unsupported_error("an input of unknown rank")
        return len(shape)

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from 0; ShapeError where it is out of range."""
        return normalize_axis(axis, rank)

    def known_integers(self, value: Value | None) -> list[int] | None:
        """The integers of a value that is known when compiling, flattened."""
        return None if value is None else known_ints(self.fact(value))

    def constant_of(self, value: Value) -> Array | None:
        """The array of a value that is known when compiling (without symbolic sizes), or of a
        constant of any size that is only reshaped."""
        graph, source = self.builder.graph, value
        data: Array | None = self.fact(source).value
        while data is None and graph.op(source.node).kind == Reshape.kind:
            source = graph.input(source.node, 0)
            data = self.fact(source).value
        if data is None or data.dtype == object:
            return None
        if source == value:
            return data
        known = self.fact(value).tensor
        sizes = [d for d in known.shape or () if isinstance(d, int)]
        return data.reshape(sizes) if known.is_static else None

    # Attributes -------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        self.seen.add(name)
        return name in self.attributes

    def _attribute(self, name: str, kind: int, default: Any) -> Any:
        self.seen.add(name)
        attribute = self.attributes.get(name)
        if attribute is not None:
            return kinds.value_of(attribute, kind, name, self.origin)
        if default is _MISSING:
            raise self.error(
                f"attribute {name!r} is missing",
                got=shorten_text(", ".join(self.attributes))
                if self.attributes
                else "no attributes",
                expected=f"an attribute {name!r}",
            )
        return default

    def integer(self, name: str, default: int = _MISSING) -> int:
        return self._attribute(name, kinds.INT, default)

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self._attribute(name, kinds.INT, int(default)))

    def number(self, name: str, default: float = _MISSING) -> float:
        return self._attribute(name, kinds.FLOAT, default)

    def text(self, name: str, default: str = _MISSING) -> str:
        return self._attribute(name, kinds.STRING, default)

    def integers(self, name: str, default: Sequence[int] = _MISSING) -> list[int]:
        return list(self._attribute(name, kinds.INTS, default))

    def optional_integers(self, name: str) -> list[int] | None:
        return self._attribute(name, kinds.INTS, None)

    def numbers(self, name: str, default: Sequence[float] = _MISSING) -> list[float]:
        return list(self._attribute(name, kinds.FLOATS, default))

    def texts(self, name: str, default: Sequence[str] = _MISSING) -> list[str]:
        return list(self._attribute(name, kinds.STRINGS, default))

    def tensor(self, name: str) -> tuple[DType, Array]:
        """Element type and array of a tensor attribute."""
        proto = self._attribute(name, kinds.TENSOR, _MISSING)
        return read_tensor(proto, f"{self.origin}, attribute {name!r}", external=self.external)

    def sparse(self, name: str) -> tuple[DType, Array]:
        """Element type and dense array of a sparse tensor attribute."""
        proto = self._attribute(name, kinds.SPARSE_TENSOR, _MISSING)
        return read_sparse(proto, f"{self.origin}, attribute {name!r}", external=self.external)

    def graph(self, name: str) -> GraphProto:
        """A graph attribute: the body of control flow."""
        return self._attribute(name, kinds.GRAPH, _MISSING)

    def type_proto(self, name: str) -> TypeProto:
        """A type attribute."""
        return self._attribute(name, kinds.TYPE_PROTO, _MISSING)

    # Outputs ----------------------------------------------------------------------------------

    def wants(self, i: int) -> bool:
        """Whether output i has a name."""
        return i < len(self.proto.output) and bool(self.proto.output[i])

    def add(self, op: Op, *inputs: Value | None) -> Value:
        """Add an operation; its first output."""
        return Value(self._add(op, inputs))

    def add_all(self, op: Op, *inputs: Value | None) -> list[Value]:
        """Add an operation; all its outputs."""
        node = self._add(op, inputs)
        return [Value(node, port) for port in range(op.output_count())]

    def _add(self, op: Op, inputs: Sequence[Value | None]) -> int:
        return self.builder.add(op, inputs, f"{self.name}/{op.kind}", self.origin)

    def constant(self, data: Any, dtype: DType) -> Value:
        """A constant of an element type, from numbers (cast as Convert does). A large array is
        not copied: it belongs to the graph from now on."""
        array = np.asarray(data)
        if array.dtype != dtype.numpy:
            array = cast_array(array, dtype)
        copied = True if array.nbytes <= _MAX_SHARED_BYTES else None
        return self.builder.constant(dtype, np.array(array, order="C", copy=copied), self.origin)

    def ints_value(self, values: Iterable[int]) -> Value:
        """A list of integers (axes, sizes) as an i64 vector."""
        return self.constant(np.array(list(values), dtype=np.int64), DType.i64)

    def int_value(self, value: int) -> Value:
        """An integer as an i64 scalar."""
        return self.constant(np.array(value, dtype=np.int64), DType.i64)

    def like(self, value: Value, number: float) -> Value:
        """A scalar constant of the element type of `value`."""
        return self.constant(np.array(number), self.dtype(value))

    # Errors -----------------------------------------------------------------------------------

    def error(self, what: str, *, got: object = None, expected: object = None) -> ModelFormatError:
        return ModelFormatError(what, where=self.origin, got=got, expected=expected)

    def type_error(self, what: str, *, got: object = None, expected: object = None) -> ShapeError:
        """A shape or element type that the operator does not take."""
        return ShapeError(what, where=self.origin, got=got, expected=expected)

    def unsupported_error(self, what: str) -> UnsupportedOperationError:
        """What of this node irc does not have; the reader lists all of a model together."""
        return UnsupportedOperationError(what, where=self.origin)
