"""Types as ONNX writes them: tensors with symbolic sizes; sequences, optionals, maps of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ....ir.dims import Dim, symbol
from ....ir.dtype import DType
from ....ir.errors import ModelFormatError
from ....ir.types import MAP_KEYS, MapType, OptionalType, SequenceType, TensorType, Type
from ..xml.text import MAX_RANK
from .files.tensors import element_type

if TYPE_CHECKING:
    from onnx import GraphProto, TypeProto

_MAX_NESTING = 16
# What exporters write for a size that they do not know (unk__12: tf2onnx). The same word on two
# axes does not mean that the axes are equal.
_UNKNOWN_SIZE = re.compile(r"\s*(\?|-1|none|null|unk(__\d+)?|unknown)?\s*", re.IGNORECASE)
_MAX_SYMBOL = 200


class OnnxSymbols:
    """Names of sizes: those of the file, and fresh ones for sizes without a name."""

    def __init__(self, proto: GraphProto | None = None) -> None:
        self._taken = {
            dim.dim_param
            for port in (proto.input if proto is not None else ())
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


def value_type(proto: TypeProto, name: str, symbols: OnnxSymbols, where: str) -> Type | None:
    """The type of a value, or None for kinds that irc does not have (sparse tensors)."""
    wrappers: list[Callable[[Type], Type]] = []
    while (kind := proto.WhichOneof("value")) in ("sequence_type", "optional_type", "map_type"):
        if kind == "map_type":
            wrappers.append(_map_of(proto.map_type.key_type, where))
            proto = proto.map_type.value_type
        elif kind == "sequence_type":
            wrappers.append(SequenceType)
            proto = proto.sequence_type.elem_type
        else:
            wrappers.append(OptionalType)
            proto = proto.optional_type.elem_type
    if kind is None:
        raise ModelFormatError("a value has no type", where=where, expected="a tensor type")
    if kind != "tensor_type" or len(wrappers) > _MAX_NESTING:
        return None
    found: Type = _tensor_type(proto.tensor_type, name, symbols, where)
    for wrapper in reversed(wrappers):
        found = wrapper(found)
    return found


def _map_of(number: int, where: str) -> Callable[[Type], Type]:
    key = element_type(number, where)
    if key not in MAP_KEYS:
        raise ModelFormatError(
            "a map has keys of a type that ONNX does not allow",
            where=where,
            got=key,
            expected=", ".join(map(str, MAP_KEYS)),
        )
    return partial(_map_type, key)


def _map_type(key: DType, element: Type) -> Type:
    """A map holds single numbers, whatever shape is declared: converters write [1], or none, and
    onnxruntime reads neither."""
    if isinstance(element, TensorType):
        element = TensorType(element.dtype, ())
    return MapType(key, element)


def _tensor_type(
    tensor: TypeProto.Tensor, name: str, symbols: OnnxSymbols, where: str
) -> TensorType:
    dtype = element_type(tensor.elem_type, where)
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    if len(tensor.shape.dim) > MAX_RANK:
        raise ModelFormatError(
            "a value has too many axes",
            where=where,
            got=len(tensor.shape.dim),
            expected=f"at most {MAX_RANK}",
        )
    shape: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_param and not _UNKNOWN_SIZE.fullmatch(dim.dim_param):
            shape.append(symbol(dim.dim_param))
        elif dim.HasField("dim_value") and dim.dim_value != -1:
            if dim.dim_value < 0:
                raise ModelFormatError(
                    f"axis {axis} has a negative size",
                    where=where,
                    got=dim.dim_value,
                    expected="0 or more, or -1 for any size",
                )
            shape.append(dim.dim_value)
        else:
            shape.append(symbols.fresh(name, axis))
    return TensorType(dtype, tuple(shape))


def type_of_proto(proto: TypeProto, where: str) -> Type | None:
    """The type that an attribute holds; sizes that are not numbers get symbols of their own."""
    return value_type(proto, "value", OnnxSymbols(), where)
