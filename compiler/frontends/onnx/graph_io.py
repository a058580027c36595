"""What enters and leaves an ONNX graph: initialisers, inputs with their symbolic sizes, outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ....ir.dim import Dim, symbol
from ....ir.dtype import DType
from ....ir.errors import ModelFormatError, ShapeError
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.op import Array
from ....ir.ops import Parameter, Result
from ....ir.types import TensorType, compatible
from ..xml.text import short
from .frames import Frame
from .importer import Importer
from .tensors import element_type
from .unsupported import Unsupported

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

Constants: TypeAlias = dict[str, tuple[DType, Array]]

IGNORE = 'declared_shapes="ignore"'
_MAX_RANK = 64
_MAX_SYMBOL = 200


def add_inputs(
    graph: Graph, proto: GraphProto, constants: Constants, unsupported: Unsupported
) -> dict[str, Value]:
    """A Parameter for each input that is no initialiser, in order; their values by name.

    An input that is no tensor is recorded as unsupported and has no value.
    """
    symbols = _Symbols(proto)
    values: dict[str, Value] = {}
    listed: set[str] = set()
    for position, port in enumerate(proto.input):
        where = f"input {short(port.name) if port.name else position}"
        if not port.name:
            raise ModelFormatError("an input has no name", where=where)
        if port.name in listed:
            raise ModelFormatError("two inputs have one name", where=where)
        listed.add(port.name)
        if port.name in constants:
            continue
        kind = port.type.WhichOneof("value")
        if kind is not None and kind != "tensor_type":
            unsupported.add_input(kind.removesuffix("_type"), where)
            continue
        type_ = _tensor_type(port, symbols, where)
        node = graph.add(
            Parameter(type_.dtype, type_.shape),
            name=port.name,
            origin=where,
            names=[frozenset([port.name])],
        )
        infer_node(graph, node)
        values[port.name] = Value(node)
    return values


class _Symbols:
    """Names of sizes: those of the file, and fresh ones for sizes without a name."""

    def __init__(self, proto: GraphProto) -> None:
        self._taken = {
            dim.dim_param
            for port in proto.input
            for dim in port.type.tensor_type.shape.dim
            if dim.dim_param
        }

    def fresh(self, base: str, axis: int) -> Dim:
        """A size of its own for one axis of an input."""
        clean = "".join(c for c in base if c.isprintable() and c != "`")[:_MAX_SYMBOL] or "input"
        name, n = f"{clean}.{axis}", 1
        while name in self._taken:
            n += 1
            name = f"{clean}.{axis}_{n}"
        self._taken.add(name)
        return symbol(name)


def _tensor_type(port: ValueInfoProto, symbols: _Symbols, where: str) -> TensorType:
    if port.type.WhichOneof("value") is None:
        raise ModelFormatError("an input has no type", where=where, expected="a tensor type")
    tensor = port.type.tensor_type
    dtype = element_type(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    if len(tensor.shape.dim) > _MAX_RANK:
        raise ModelFormatError(
            "an input has too many axes",
            where=where,
            got=len(tensor.shape.dim),
            expected=f"at most {_MAX_RANK}",
        )
    shape: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_param:
            shape.append(symbol(dim.dim_param))
        elif dim.HasField("dim_value") and dim.dim_value != -1:
            if dim.dim_value < 0:
                raise ModelFormatError(
                    f"axis {axis} has a negative size", where=where, got=dim.dim_value
                )
            shape.append(dim.dim_value)
        else:
            shape.append(symbols.fresh(port.name, axis))
    return TensorType(dtype, tuple(shape))


def add_results(
    graph: Graph, proto: GraphProto, importer: Importer, frame: Frame, *, check: bool
) -> None:
    """A Result for each output, in order, with its public name."""
    listed: set[str] = set()
    for port in proto.output:
        where = f"output {short(port.name)}"
        if port.name in listed:
            raise ModelFormatError("two outputs have one name", where=where)
        listed.add(port.name)
        value = importer.value(frame, port.name)
        if value is None:
            raise ModelFormatError("an output has no value", where=where)
        node = graph.add(
            Result(),
            [value],
            name=f"{port.name}/sink_port_0",
            origin=where,
            names=[frozenset([port.name])],
        )
        infer_node(graph, node)
        if check:
            _check_declared(port, graph, value, where)


def _check_declared(port: ValueInfoProto, graph: Graph, value: Value, where: str) -> None:
    """ShapeError where an output's declaration contradicts inference in type or fixed sizes."""
    if port.type.WhichOneof("value") != "tensor_type" or not port.type.tensor_type.elem_type:
        return
    tensor = port.type.tensor_type
    dtype = element_type(tensor.elem_type, where)
    inferred = graph.type(value)
    shape = None
    if tensor.HasField("shape") and isinstance(inferred, TensorType) and inferred.shape is not None:
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim]
        known = [*inferred.shape, *[0] * len(dims)]
        shape = tuple(d if d >= 0 else k for d, k in zip(dims, known, strict=False))
    declared = TensorType(dtype, shape)
    if not compatible(declared, inferred):
        raise ShapeError(
            "an output's declared type contradicts inference",
            where=where,
            got=declared,
            expected=inferred,
            fix=f"{IGNORE} uses the inferred type",
        )
