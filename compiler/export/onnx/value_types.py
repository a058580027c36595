"""Types of the graph as ONNX's TypeProto, and the operator set that each element type needs."""

from __future__ import annotations

from typing import Any, cast

from onnx import TypeProto

from ....ir.dims import Dim
from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ....ir.types import MapType, OptionalType, SequenceType, TensorType, Type
from ...frontends.onnx.files.tensors import KINDS

_DATA_TYPES = {kind.dtype: number for number, kind in KINDS.items()}
# The operator set from which on an element type exists, where it is not the first.
_SINCE = {
    DType.f8e4m3: 19,
    DType.f8e4m3fnuz: 19,
    DType.f8e5m2: 19,
    DType.f8e5m2fnuz: 19,
    DType.u4: 21,
    DType.i4: 21,
    DType.f4e2m1: 23,
    DType.f8e8m0: 24,
    DType.u2: 25,
    DType.i2: 25,
}


def data_type(dtype: DType, opset: int, where: str) -> int:
    """The TensorProto.DataType of an element type.

    Raises UnsupportedOperationError where ONNX, or this operator set, does not have the type.
    """
    number = _DATA_TYPES.get(dtype)
    if number is None:
        raise UnsupportedOperationError(
            f"ONNX has no element type {dtype}",
            where=where,
            fix="convert the tensor to another type, or save the model as .xml",
        )
    since = _SINCE.get(dtype, 1)
    if since > opset:
        raise UnsupportedOperationError(
            f"element type {dtype} needs a later operator set",
            where=where,
            got=f"operator set {opset}",
            expected=f"operator set {since} or later",
            fix=f"irc convert --opset {since}, or opset={since}",
        )
    return number


def type_proto(type_: Type, opset: int, where: str, *, sizes: bool = True) -> TypeProto:
    """A type with its fixed and symbolic sizes; without `sizes`, the element type alone."""
    proto = TypeProto()
    fill_type(proto, type_, opset, where, sizes=sizes)
    return proto


def fill_type(proto: TypeProto, type_: Type, opset: int, where: str, *, sizes: bool = True) -> None:
    """Write a type into a TypeProto; arguments and errors as `type_proto`."""
    if isinstance(type_, SequenceType):
        fill_type(proto.sequence_type.elem_type, type_.element, opset, where, sizes=sizes)
    elif isinstance(type_, OptionalType):
        fill_type(proto.optional_type.elem_type, type_.element, opset, where, sizes=sizes)
    elif isinstance(type_, MapType):
        proto.map_type.key_type = data_type(type_.key, opset, where)
        fill_type(proto.map_type.value_type, type_.element, opset, where, sizes=sizes)
    else:
        _fill_tensor(proto.tensor_type, type_, opset, where, sizes=sizes)


def _fill_tensor(
    proto: TypeProto.Tensor, type_: TensorType, opset: int, where: str, *, sizes: bool
) -> None:
    proto.elem_type = data_type(type_.dtype, opset, where)
    if type_.shape is None or not sizes:
        return
    proto.shape.SetInParent()
    for dim in type_.shape:
        _fill_dim(proto.shape.dim.add(), dim)


def _fill_dim(proto: object, dim: Dim) -> None:
    """A fixed size as a number, a symbolic one under its name."""
    if isinstance(dim, int):
        proto.dim_value = dim  # type: ignore[attr-defined]
    else:
        proto.dim_param = str(dim)  # type: ignore[attr-defined]


def add_port(
    ports: object, name: str, type_: Type, opset: int, where: str, *, sizes: bool = True
) -> None:
    """Add a ValueInfoProto to a graph's inputs or outputs."""
    port = cast("Any", ports).add()
    port.name = name
    fill_type(port.type, type_, opset, where, sizes=sizes)
