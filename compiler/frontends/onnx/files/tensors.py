"""TensorProto to an array: sizes checked before anything is allocated, no needless copies.

Arrays hold one element per item (ml_dtypes' types for bf16, float8, 4-bit and 2-bit elements) and
are read-only. Source: onnx.proto's comments on TensorProto.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from .....ir.dtype import DType
from .....ir.errors import MemoryLimitError, ModelFormatError
from .....ir.lazy_dataclass import dataclass
from .....ir.op import Array
from ...xml.text import MAX_PRODUCT, MAX_RANK, shorten_text
from .external_data import ExternalData

if TYPE_CHECKING:
    from onnx import SparseTensorProto, TensorProto


@dataclass(frozen=True)
class _Kind:
    """The element type of a data_type, and the field that holds its values when raw_data does
    not. Types whose bits are held in wider integers have `bits` as the type of their bits."""

    dtype: DType
    field: str
    bits: type[np.unsignedinteger[Any]] | None = None


_INT32 = "int32_data"
KINDS: dict[int, _Kind] = {
    1: _Kind(DType.f32, "float_data"),
    2: _Kind(DType.u8, _INT32),
    3: _Kind(DType.i8, _INT32),
    4: _Kind(DType.u16, _INT32),
    5: _Kind(DType.i16, _INT32),
    6: _Kind(DType.i32, _INT32),
    7: _Kind(DType.i64, "int64_data"),
    8: _Kind(DType.string, "string_data"),
    9: _Kind(DType.boolean, _INT32),
    10: _Kind(DType.f16, _INT32, np.uint16),
    11: _Kind(DType.f64, "double_data"),
    12: _Kind(DType.u32, "uint64_data"),
    13: _Kind(DType.u64, "uint64_data"),
    14: _Kind(DType.c64, "float_data"),
    15: _Kind(DType.c128, "double_data"),
    16: _Kind(DType.bf16, _INT32, np.uint16),
    17: _Kind(DType.f8e4m3, _INT32, np.uint8),
    18: _Kind(DType.f8e4m3fnuz, _INT32, np.uint8),
    19: _Kind(DType.f8e5m2, _INT32, np.uint8),
    20: _Kind(DType.f8e5m2fnuz, _INT32, np.uint8),
    21: _Kind(DType.u4, _INT32, np.uint8),
    22: _Kind(DType.i4, _INT32, np.uint8),
    23: _Kind(DType.f4e2m1, _INT32, np.uint8),
    24: _Kind(DType.f8e8m0, _INT32, np.uint8),
    25: _Kind(DType.u2, _INT32, np.uint8),
    26: _Kind(DType.i2, _INT32, np.uint8),
}
_FIELDS = ("float_data", _INT32, "int64_data", "double_data", "uint64_data", "string_data")
_EXTERNAL = 1
# A sparse tensor may claim any size, so it has a limit where the caller sets none.
_MAX_DENSE = 1 << 30


def element_type(data_type: int, where: str) -> DType:
    """The element type of a TensorProto.DataType."""
    kind = KINDS.get(data_type)
    if kind is None:
        raise ModelFormatError(
            "unknown element type", where=where, got=data_type, expected=f"1 to {max(KINDS)}"
        )
    return kind.dtype


def read_tensor(
    tensor: TensorProto,
    where: str,
    *,
    external: ExternalData,
    payload: Array | None = None,
) -> tuple[DType, Array]:
    """Element type and array of a tensor; `payload` are its raw bytes if they were lifted out."""
    dtype = element_type(tensor.data_type, where)
    shape = _shape(tensor, where)
    count = math.prod(shape)
    if tensor.HasField("segment"):
        raise ModelFormatError(
            "tensors in segments are not supported",
            where=where,
            got="a segment",
            expected="a tensor in one piece",
        )
    limit = external.max_memory
    if limit is not None and count * dtype.numpy.itemsize > limit:
        raise MemoryLimitError(
            "a tensor is larger than max_memory allows",
            where=where,
            got=f"{dtype}{list(shape)}",
            expected=f"at most {limit} bytes",
        )
    stored = [name for name in _FIELDS if len(getattr(tensor, name))]
    if payload is None:
        payload = np.frombuffer(tensor.raw_data, np.uint8)
    if payload.size:
        stored.append("raw_data")
    if tensor.data_location == _EXTERNAL:
        stored.append("external_data")
    if len(stored) > 1:
        raise ModelFormatError(
            "a tensor holds its values twice",
            where=where,
            got=" and ".join(stored),
            expected="one of them",
        )
    if not stored:
        return dtype, _frozen(_read_empty(dtype, shape, count, where))
    if stored[0] in ("raw_data", "external_data"):
        if dtype is DType.string:
            raise ModelFormatError(
                "strings are in string_data",
                where=where,
                got=stored[0],
                expected="string_data",
            )
        needed = dtype.nbytes(count)
        data = payload
        if stored[0] == "external_data":
            data = external.read(tensor, needed, where)
        _require(data.size == needed, where, f"{data.size} bytes", f"{needed} bytes", shape)
        array = _from_bytes(dtype, data, count)
    else:
        array = _from_field(tensor, KINDS[tensor.data_type], stored[0], count, shape, where)
    return dtype, _frozen(array.reshape(shape))


def _shape(tensor: TensorProto | SparseTensorProto, where: str) -> tuple[int, ...]:
    shape = tuple(tensor.dims)
    if any(d < 0 for d in shape):
        raise ModelFormatError(
            "a tensor has a negative size",
            where=where,
            got=list(shape),
            expected="sizes of 0 or more",
        )
    if len(shape) > MAX_RANK:
        raise ModelFormatError(
            "a tensor has too many axes",
            where=where,
            got=len(shape),
            expected=f"at most {MAX_RANK}",
        )
    if math.prod(max(d, 1) for d in shape) >= MAX_PRODUCT:
        raise ModelFormatError(
            "a tensor's size overflows",
            where=where,
            got=list(shape),
            expected="sizes whose product is below 2^59, those that are 0 left out",
        )
    return shape


def _require(good: bool, where: str, got: str, expected: str, shape: tuple[int, ...]) -> None:
    if not good:
        raise ModelFormatError(
            "a tensor's data does not fit its shape and type",
            where=where,
            got=got,
            expected=f"{expected} for shape {list(shape)}",
        )


def _read_empty(dtype: DType, shape: tuple[int, ...], count: int, where: str) -> Array:
    _require(count == 0, where, "no data", f"{count} elements of {dtype}", shape)
    return np.empty(0, dtype.numpy).reshape(shape)


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _from_bytes(dtype: DType, data: Array, count: int) -> Array:
    if dtype.bits < 8:
        return _unpack(dtype, data, count)
    if dtype is DType.boolean:
        return data != 0  # any byte but 0 means true; NumPy knows only 0 and 1
    array = data.view(dtype.numpy.newbyteorder("<"))
    if not array.flags.aligned:
        array = array.copy()
    return array.astype(dtype.numpy, copy=False)


def _unpack(dtype: DType, data: Array, count: int) -> Array:
    """Elements of less than a byte, from the low bits up."""
    per_byte = 8 // dtype.bits
    codes: np.ndarray[Any, np.dtype[np.uint8]] = np.empty((data.size, per_byte), dtype=np.uint8)
    for i in range(per_byte):
        codes[:, i] = (data >> (dtype.bits * i)) & ((1 << dtype.bits) - 1)
    flat = codes.reshape(-1)[:count]
    if dtype in (DType.i4, DType.i2):
        sign = 1 << (dtype.bits - 1)
        return ((flat ^ sign).astype(np.int8) - sign).astype(dtype.numpy)
    return flat.view(dtype.numpy) if dtype is DType.f4e2m1 else flat.astype(dtype.numpy)


def _from_field(
    tensor: TensorProto, kind: _Kind, name: str, count: int, shape: tuple[int, ...], where: str
) -> Array:
    if name != kind.field:
        raise ModelFormatError(
            "a tensor's values are in the field of another type",
            where=where,
            got=f"{name} for {kind.dtype}",
            expected=f"{kind.field} or raw_data",
        )
    values: Any = getattr(tensor, name)
    dtype = kind.dtype
    needed = dtype.nbytes(count) if 0 < dtype.bits < 8 else count * (2 if dtype.is_complex else 1)
    _require(len(values) == needed, where, f"{len(values)} values", f"{needed} values", shape)
    if dtype is DType.string:
        return _strings(values, where)
    if dtype.is_complex:
        half = np.float32 if dtype is DType.c64 else np.float64
        return np.array(values, dtype=half).view(dtype.numpy)
    if kind.bits is not None:
        codes = _check_range(np.array(values, dtype=np.int64), kind.bits, dtype, where)
        return _unpack(dtype, codes, count) if dtype.bits < 8 else codes.view(dtype.numpy)
    if dtype.is_float:
        return np.array(values, dtype=dtype.numpy)
    wide = np.array(values, dtype=np.uint64 if name == "uint64_data" else np.int64)
    if dtype is DType.boolean:
        return wide != 0
    return _check_range(wide, dtype.numpy.type, dtype, where)


def _check_range(values: Array, kind: type[Any], dtype: DType, where: str) -> Array:
    """Integers in the integers of NumPy that hold a dtype. ModelFormatError where one does
    not fit."""
    narrow = values.astype(kind)
    wrong = values[narrow != values]
    if wrong.size:
        bounds = np.iinfo(kind)
        raise ModelFormatError(
            "a tensor's value is out of range",
            where=where,
            got=int(wrong[0]),
            expected=f"{bounds.min}..{bounds.max} for {dtype}",
        )
    return narrow


def _strings(values: Any, where: str) -> Array:
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        try:
            out[i] = bytes(value).decode()
        except UnicodeDecodeError:
            raise ModelFormatError(
                f"string {i} of a tensor is not UTF-8", where=where, got=shorten_text(repr(value))
            ) from None
    return out


def read_sparse(
    sparse: SparseTensorProto, where: str, *, external: ExternalData
) -> tuple[DType, Array]:
    """A sparse tensor as a dense array: indices are [count] positions or [count, rank]."""
    dtype, values = read_tensor(sparse.values, where, external=external)
    _, indices = read_tensor(sparse.indices, where, external=external)
    shape = _shape(sparse, where)
    size = math.prod(shape)
    limit = _MAX_DENSE if external.max_memory is None else external.max_memory
    if size * dtype.numpy.itemsize > limit:
        raise MemoryLimitError(
            "a sparse tensor is larger than max_memory allows", where=where, got=list(shape)
        )
    if values.ndim != 1 or indices.shape not in ((values.size,), (values.size, len(shape))):
        raise ModelFormatError(
            "a sparse tensor's indices do not fit its values",
            where=where,
            got=f"{list(indices.shape)} for {list(values.shape)}",
            expected="one index, or one number for each axis, per value",
        )
    flat = indices if indices.ndim == 1 else _positions(indices, shape)
    if flat.size and not (0 <= int(flat.min()) and int(flat.max()) < size):
        raise ModelFormatError(
            "a sparse tensor's index is out of range",
            where=where,
            got=f"{int(flat.min())}..{int(flat.max())} (-1: outside on some axis)",
            expected=f"0..{size - 1} for {list(shape)}",
        )
    dense = np.zeros(size, dtype.numpy)
    dense[flat] = values
    return dtype, _frozen(dense.reshape(shape))


def _positions(indices: Array, shape: tuple[int, ...]) -> Array:
    inside = (indices >= 0) & (indices < np.array(shape, dtype=np.int64))
    strides = np.array([math.prod(shape[i + 1 :]) for i in range(len(shape))], dtype=np.int64)
    return np.where(inside.all(axis=1), indices @ strides, -1)
