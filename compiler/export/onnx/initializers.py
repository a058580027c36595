"""Constants as initializers: raw bytes in the model, or in a file next to it.

Source: onnx.proto's comments on TensorProto; docs/ExternalData.md of ONNX.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO

import numpy as np
from onnx import TensorProto

from ....ir.dtype import DType
from ....ir.op import Array
from ..constants import constant_bytes
from .value_types import data_type

# Smaller constants stay in the model: readers look at shapes and axes without the data file.
_MIN_EXTERNAL_BYTES = 1024
# Readers map the file: data starts at a multiple of a page.
_ALIGNMENT_BYTES = 4096


class TensorWriter:
    """Writes arrays as TensorProtos. With `stream`, the bytes of large ones go there, equal ones
    once, under the file name `location`."""

    def __init__(self, opset: int, stream: BinaryIO | None = None, location: str = "") -> None:
        self._opset, self._stream, self._location = opset, stream, location
        self._end = 0
        self._offsets: dict[tuple[int, bytes], int] = {}

    def tensor(self, name: str, array: Array, dtype: DType, where: str) -> TensorProto:
        """The tensor of an array. UnsupportedOperationError for a type that ONNX lacks."""
        proto = TensorProto()
        proto.name = name
        proto.data_type = data_type(dtype, self._opset, where)
        proto.dims.extend(array.shape)
        if dtype is DType.string:
            texts = array.reshape(-1).tolist()
            proto.string_data.extend(s if isinstance(s, bytes) else str(s).encode() for s in texts)
            return proto
        data = constant_bytes(array, dtype)
        size = memoryview(data).nbytes
        if self._stream is None or size < _MIN_EXTERNAL_BYTES:
            proto.raw_data = bytes(data)
            return proto
        proto.data_location = TensorProto.EXTERNAL
        pairs = {
            "location": self._location,
            "offset": self._store_bytes(data, size),
            "length": size,
        }
        for key, value in pairs.items():
            proto.external_data.add(key=key, value=str(value))
        return proto

    def _store_bytes(self, data: bytes | memoryview, size: int) -> int:
        """The offset of these bytes; they are written unless they are there already."""
        key = size, hashlib.blake2b(data, digest_size=32).digest()
        found = self._offsets.get(key)
        if found is None:
            assert self._stream is not None
            padding = -self._end % _ALIGNMENT_BYTES
            self._stream.write(bytes(padding))
            self._stream.write(data)
            found = self._offsets[key] = self._end + padding
            self._end = found + size
        return found


def is_integer_array(array: Array) -> bool:
    """Whether an array holds numbers, not symbolic sizes."""
    return array.dtype != object or all(isinstance(v, int | np.integer) for v in array.flat)
