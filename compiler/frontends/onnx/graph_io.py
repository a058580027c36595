"""What enters and leaves an ONNX graph: initialisers, inputs with their symbolic sizes, outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ....ir.dtype import DType
from ....ir.errors import ModelFormatError, ShapeError
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.op import Array
from ....ir.ops import Constant, Parameter, Result, TypedParameter
from ....ir.types import TensorType, Type, compatible
from ..xml.text import shorten_text
from .files.tensors import element_type
from .graph_types import OnnxSymbols, value_type
from .importer import Importer
from .scopes import ImportScope
from .unsupported import Unsupported

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

Constants: TypeAlias = dict[str, tuple[DType, Array]]

IGNORE = 'declared_shapes="ignore"'


def add_inputs(
    graph: Graph, proto: GraphProto, constants: Constants, unsupported: Unsupported
) -> dict[str, Value]:
    """A Parameter for each input that is not an initialiser, in order; their values by name.

    An input of another kind (a sparse tensor) is recorded as unsupported, without a value.
    """
    symbols = OnnxSymbols(proto)
    values: dict[str, Value] = {}
    listed: set[str] = set()
    for position, port in enumerate(proto.input):
        where = f"input {shorten_text(port.name) if port.name else position}"
        if not port.name:
            raise ModelFormatError(
                "an input has no name", where=where, got="an empty name", expected="a name"
            )
        if port.name in listed:
            raise _duplicate_error("two inputs have one name", port.name, where)
        listed.add(port.name)
        if port.name in constants:
            continue
        type_ = value_type(port.type, port.name, symbols, where)
        if type_ is None:
            kind = port.type.WhichOneof("value") or "unknown"
            unsupported.add_input(kind.removesuffix("_type"), where)
            continue
        tensor = isinstance(type_, TensorType)
        node = graph.add(
            Parameter(type_.dtype, type_.shape) if tensor else TypedParameter(type_),
            name=port.name,
            origin=where,
            names=[frozenset([port.name])],
        )
        infer_node(graph, node)
        values[port.name] = Value(node)
    return values


def _duplicate_error(what: str, name: str, where: str) -> ModelFormatError:
    return ModelFormatError(
        what, where=where, got=f"{shorten_text(name)} again", expected="each name once"
    )


def add_results(
    graph: Graph, proto: GraphProto, importer: Importer, frame: ImportScope, *, check: bool
) -> None:
    """A Result for each output, in order, with its public name."""
    listed: set[str] = set()
    for port in proto.output:
        where = f"output {shorten_text(port.name)}"
        if port.name in listed:
            raise _duplicate_error("two outputs have one name", port.name, where)
        listed.add(port.name)
        value = importer.value(frame, port.name)
        if value is None:
            raise ModelFormatError(
                "an output has no value",
                where=where,
                got="an optional input that is left out",
                expected="a value",
            )
        node = graph.add(
            Result(),
            [value],
            name=f"{port.name}/sink_port_0",
            origin=where,
            names=[frozenset([port.name])],
        )
        infer_node(graph, node)
        if check:
            _check_declared(port, graph.type(value), "an output", where)


def check_values(proto: GraphProto, frame: ImportScope) -> None:
    """ShapeError where what a graph says of a value inside it contradicts inference. Names that
    nothing computes, and values that no output needs, say nothing; the shape of a constant is that
    of its data."""
    for port in proto.value_info:
        value = frame.values.get(port.name)
        if value is not None:
            where = f"value_info {shorten_text(port.name)}"
            # onnxruntime-genai's builder declares the lists that Constant nodes hold as scalars.
            has_data = isinstance(frame.graph.op(value.node), Constant)
            inferred = frame.graph.type(value)
            _check_declared(port, inferred, "a value", where, with_shape=not has_data)


def _check_declared(
    port: ValueInfoProto, inferred: Type, what: str, where: str, *, with_shape: bool = True
) -> None:
    """ShapeError where a declaration contradicts inference in element type, rank or fixed sizes."""
    if port.type.WhichOneof("value") != "tensor_type" or not port.type.tensor_type.elem_type:
        return
    tensor = port.type.tensor_type
    dtype = element_type(tensor.elem_type, where)
    shape = None
    known_shape = inferred.shape if with_shape and isinstance(inferred, TensorType) else None
    if known_shape is not None and tensor.HasField("shape"):
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        known = [*known_shape, *[0] * len(dims)]
        shape = tuple(d if d >= 0 else k for d, k in zip(dims, known, strict=False))
    declared = TensorType(dtype, shape)
    if not compatible(declared, inferred):
        raise ShapeError(
            f"{what}'s declared type contradicts inference",
            where=where,
            got=declared,
            expected=inferred,
            fix=f"{IGNORE} uses the inferred type",
        )
