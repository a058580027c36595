"""Constants and values made from shapes and numbers; operators that return their input."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .....ir.dtype import DType
from .....ir.graph import Value
from .....ir.op import Array
from .....ir.ops import (
    BitCast,
    Broadcast,
    Constant,
    Eye,
    Identity,
    Range,
    ReduceProd,
    ShapeOf,
    Slice,
)
from ..files.tensors import element_type
from .elementary import size_of, sizes_of, unary
from .reference import by_reference

if TYPE_CHECKING:
    from ..import_context import ImportContext, Imported, ImportFunction

_VALUES = (
    "value",
    "sparse_value",
    "value_float",
    "value_floats",
    "value_int",
    "value_ints",
    "value_string",
    "value_strings",
)


def constant(n: ImportContext) -> Value:
    """Exactly one of the attributes holds the value."""
    given = [name for name in _VALUES if n.has(name)]
    if len(given) != 1:
        raise n.error("a Constant has one value", got=", ".join(given) or "none")
    dtype, data = _value(n, given[0])
    return n.add(Constant.of(data, dtype))


def _value(n: ImportContext, name: str) -> tuple[DType, Array]:
    match name:
        case "value":
            return n.tensor(name)
        case "sparse_value":
            return n.sparse(name)
        case "value_float":
            return DType.f32, np.array(n.number(name), np.float32)
        case "value_floats":
            return DType.f32, np.array(n.numbers(name), np.float32)
        case "value_int":
            return DType.i64, np.array(n.integer(name), np.int64)
        case "value_ints":
            return DType.i64, np.array(n.integers(name), np.int64)
        case "value_string":
            return DType.string, np.array(n.text(name), object)
        case _:
            return DType.string, np.array(n.texts(name), object)


def constant_of_shape(n: ImportContext) -> Value:
    """The value has one element; f32 zero by default."""
    dtype, data = n.tensor("value") if n.has("value") else (DType.f32, np.zeros(1, np.float32))
    if data.size != 1:
        raise n.error("the value of ConstantOfShape has one element", got=list(data.shape))
    return n.add(Broadcast(), n.constant(data.reshape(()), dtype), n.input(0))


def range_(n: ImportContext) -> Value:
    values = [n.input(i) for i in range(3)]
    return n.add(Range(n.dtype(values[0])), *values)


def shape(n: ImportContext) -> Value:
    """The sizes of the axes from `start` to `end`, both clamped to the axes there are."""
    sizes = sizes_of(n, n.input(0))
    start, end = n.integer("start", 0), n.integer("end", np.iinfo(np.int64).max)
    if start == 0 and not n.has("end"):
        return sizes
    bounds = (n.ints_value([start]), n.ints_value([end]), n.ints_value([1]))
    return n.add(Slice(), sizes, *bounds)


def size(n: ImportContext) -> Value:
    return n.add(ReduceProd(), sizes_of(n, n.input(0)), n.ints_value([0]))


def eye_like(n: ImportContext) -> Value:
    x = n.input(0)
    dtype = element_type(n.integer("dtype"), n.origin) if n.has("dtype") else n.dtype(x)
    rows, columns = size_of(n, x, 0), size_of(n, x, 1)
    return n.add(Eye(dtype), rows, columns, n.ints_value([n.integer("k", 0)]))


def dropout(n: ImportContext) -> Imported:
    """In inference the input as it is, and a mask that keeps everything. Training draws numbers."""
    x = n.input(0)
    training = n.optional(2)
    if training is not None and n.constant_of(training) is None:
        return by_reference(n)
    for name in ("ratio", "seed", "is_test"):
        n.has(name)
    data = None if training is None else n.constant_of(training)
    if data is not None and bool(data.any()):
        ratio = n.optional(1)
        known = None if ratio is None else n.constant_of(ratio)
        if known is None or bool(known.any()):
            return by_reference(n)
    copy = n.add(Identity(), x)
    if not n.wants(1):
        return copy
    dtype = DType.boolean if n.version >= 10 else n.dtype(x)
    return copy, n.add(Broadcast(), n.constant(np.array(1), dtype), sizes_of(n, x))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "Constant": {1: constant},
    "ConstantOfShape": {9: constant_of_shape},
    "Range": {11: range_},
    "Shape": {1: lambda n: n.add(ShapeOf(DType.i64), n.input(0)), 15: shape},
    "Size": {1: size},
    "EyeLike": {9: eye_like},
    "Identity": {1: unary(Identity)},
    "BitCast": {26: lambda n: n.add(BitCast(element_type(n.integer("to"), n.origin)), n.input(0))},
    "Dropout": {1: dropout},
}
