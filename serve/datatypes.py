"""Data types of the Open Inference Protocol: names, and tensors as raw bytes or JSON values.

Raw tensors are row-major and little-endian; an element of BYTES is four bytes of length and its
content. FP16 and BF16 exist in raw form only.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from ..ir.dtype import DType
from .errors import RequestError, TooLargeError

Array = npt.NDArray[Any]

# Names of the protocol -> element types of irc. Other element types cannot be served.
DATATYPES: dict[str, DType] = {
    "BOOL": DType.boolean,
    "UINT8": DType.u8,
    "UINT16": DType.u16,
    "UINT32": DType.u32,
    "UINT64": DType.u64,
    "INT8": DType.i8,
    "INT16": DType.i16,
    "INT32": DType.i32,
    "INT64": DType.i64,
    "FP16": DType.f16,
    "BF16": DType.bf16,
    "FP32": DType.f32,
    "FP64": DType.f64,
    "BYTES": DType.string,
}
NAMES = {dtype.value: name for name, dtype in DATATYPES.items()}
NUMPY = {name: dtype.numpy for name, dtype in DATATYPES.items()}
RAW_ONLY = ("FP16", "BF16")
MAX_RANK = 32
MAX_ELEMENTS = 1 << 62
_LENGTH = struct.Struct("<I")
# JSON's scalars, by the kind of the NumPy dtype.
_SCALARS: dict[str, Any] = {"b": bool, "i": int, "u": int, "f": float, "O": str}


def count_elements(name: str, datatype: str, shape: Sequence[int], limit: int) -> int:
    """Elements of a tensor of this shape. RequestError for a bad shape or an unknown datatype,
    TooLargeError above `limit` bytes."""
    if datatype not in DATATYPES:
        known = ", ".join(DATATYPES)
        raise RequestError(f"input {name!r}: unknown datatype", got=datatype[:40], expected=known)
    if len(shape) > MAX_RANK:
        raise RequestError(f"input {name!r}: too many axes", got=len(shape), expected=MAX_RANK)
    if any(not 0 <= size < MAX_ELEMENTS for size in shape):
        expected = "sizes from 0 up"
        raise RequestError(f"input {name!r}: bad shape", got=list(shape), expected=expected)
    count = math.prod(shape)
    least = 4 if datatype == "BYTES" else NUMPY[datatype].itemsize
    if count * least > limit:
        raise TooLargeError(
            f"input {name!r} is too large",
            got=f"{datatype}{list(shape)}",
            expected=f"at most {limit} bytes",
        )
    return count


def decode_raw(name: str, datatype: str, shape: Sequence[int], data: Any, limit: int) -> Array:
    """The tensor in raw bytes, without a copy where the type has a fixed size and the bytes are
    aligned to it."""
    count = count_elements(name, datatype, shape, limit)
    if datatype == "BYTES":
        return np.array(_split_bytes(name, data, count), object).reshape(shape)
    dtype = NUMPY[datatype]
    if len(data) != count * dtype.itemsize:
        raise RequestError(
            f"input {name!r}: the number of bytes does not fit the shape",
            got=f"{len(data)} bytes",
            expected=f"{count * dtype.itemsize} bytes of {datatype}{list(shape)}",
        )
    array = np.frombuffer(data, dtype)
    if not array.flags.aligned:  # the JSON before it has any length; kernels read aligned arrays
        array = np.frombuffer(bytes(data), dtype)
    array = array.reshape(shape)
    if datatype == "BOOL" and count and np.frombuffer(data, np.uint8).max() > 1:
        raise RequestError(f"input {name!r}: a BOOL is neither 0 nor 1", expected="bytes 0 and 1")
    return array


def _split_bytes(name: str, data: Any, count: int) -> list[str]:
    found, at, view = list[str](), 0, memoryview(data)
    while at < len(view) and len(found) < count:
        if at + 4 > len(view):
            break
        (length,) = _LENGTH.unpack_from(view, at)
        at += 4
        if at + length > len(view):
            break
        found.append(decode_text(name, bytes(view[at : at + length])))
        at += length
    else:
        if at == len(view) and len(found) == count:
            return found
    raise RequestError(
        f"input {name!r}: the elements of BYTES do not fit the shape",
        got=f"{len(view)} bytes, {len(found)} whole elements in the first {at}",
        expected=f"{count} elements, each a 4-byte length and its bytes",
    )


def decode_text(name: str, data: bytes) -> str:
    """An element of BYTES as text, which is what models compute with."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(f"input {name!r}: BYTES are not UTF-8", got=data[:40]) from None


def encode_raw(array: Array) -> bytes:
    """The raw bytes of a tensor."""
    if array.dtype.kind in "OUST":
        parts = list[bytes]()
        for text in array.reshape(-1):
            data = str(text).encode("utf-8", "surrogateescape")
            parts += (_LENGTH.pack(len(data)), data)
        return b"".join(parts)
    return array.tobytes()


def view_raw(array: Array) -> memoryview | bytes:
    """The raw bytes of a tensor; without a copy where they are contiguous and no text."""
    if array.dtype.kind in "OUST":
        return encode_raw(array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@functools.cache
def _decoder(scalar: Any, depth: int) -> msgspec.json.Decoder[Any]:
    type_ = scalar
    for _ in range(depth):
        type_ = list[type_]
    return msgspec.json.Decoder(type_)


def decode_json(name: str, datatype: str, shape: Sequence[int], data: Any, limit: int) -> Array:
    """The tensor in the JSON value `data` (its text): a flat list, or lists nested like the
    shape. Numbers that the type cannot hold are refused."""
    count = count_elements(name, datatype, shape, limit)
    if datatype in RAW_ONLY:
        fix = "send it as binary data"
        raise RequestError(f"input {name!r}: JSON has no {datatype}", fix=fix)
    dtype, text = NUMPY[datatype], bytes(data)
    depth = _leading_depth(text)
    if depth not in (1, max(1, len(shape))):
        expected = f"a flat list, or lists nested {max(1, len(shape))} deep"
        raise RequestError(f"input {name!r}: bad nesting of data", got=depth, expected=expected)
    try:
        values = _decoder(_SCALARS[dtype.kind], depth).decode(text)
        with np.errstate(over="raise"):
            array = np.array(values, dtype)
    except msgspec.DecodeError as error:
        text = str(error)[:200]
        raise RequestError(f"input {name!r}: bad data", got=text, expected=datatype) from None
    except (OverflowError, FloatingPointError):
        raise RequestError(f"input {name!r}: a value is out of range", expected=datatype) from None
    except ValueError:  # NumPy refuses lists of unequal lengths
        raise RequestError(f"input {name!r}: data is ragged", expected=list(shape)) from None
    if array.size != count or (array.ndim > 1 and array.shape != tuple(shape)):
        raise RequestError(
            f"input {name!r}: the number of values does not fit the shape",
            got=f"values of shape {list(array.shape)}",
            expected=f"{datatype}{list(shape)}, {count} values",
        )
    return array.reshape(shape)


def _leading_depth(text: bytes) -> int:
    depth = 0
    for byte in text[: 8 * MAX_RANK]:
        if byte == 0x5B:  # [
            depth += 1
        elif byte not in b" \t\r\n":
            break
    return depth
