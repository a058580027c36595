"""The .bin file: bytes of constants, each different content once.

No alignment and no header, in the order in which layers appear, as OpenVINO 2026.4 writes it.
"""

from __future__ import annotations

import hashlib
from typing import BinaryIO

import numpy as np

from ...ir.dtype import DType
from ...ir.int4 import is_four_bit
from ...ir.op import Array
from ..frontends.xml.subbyte import is_packed, pack


class WeightsWriter:
    """Writes constants to a stream and records the offset of each content."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._end = 0
        self._offsets: dict[tuple[int, bytes], int] = {}
        # By identity, for `find`: the arrays are held so that no id is used twice.
        self._arrays: dict[tuple[int, DType], tuple[Array, int]] = {}

    def add_constant(self, array: Array, dtype: DType) -> tuple[int, int]:
        """Offset and size in bytes of an array's content; written unless it is there already."""
        data = constant_bytes(array, dtype)
        key = size, _ = _key(data)
        offset = self._offsets.get(key)
        if offset is None:
            offset = self._offsets[key] = self._end
            self._stream.write(data)
            self._end += size
        self._arrays[id(array), dtype] = array, offset
        return offset, size

    def find(self, array: Array, dtype: DType) -> int | None:
        """The offset of the array's bytes, None where they were not written.

        The same array is found at once, an equal one by its content. Types that a .bin packs or
        formats differently from a plan's weights are never found.
        """
        if (is_packed(dtype) and not is_four_bit(dtype)) or dtype is DType.string:
            return None
        known = self._arrays.get((id(array), dtype))
        if known is not None:
            return known[1]
        return self._offsets.get(_key(constant_bytes(array, dtype)))


def _key(data: bytes | memoryview) -> tuple[int, bytes]:
    return memoryview(data).nbytes, hashlib.blake2b(data, digest_size=32).digest()


def constant_bytes(array: Array, dtype: DType) -> bytes | memoryview:
    """The bytes of an array in a .bin: little-endian, dense, small types packed."""
    if dtype is DType.string:
        return _string_bytes(array)
    if is_packed(dtype):
        return pack(dtype, np.asarray(array))
    dense = np.ascontiguousarray(array)
    if dense.dtype.byteorder == ">":
        dense = dense.astype(dense.dtype.newbyteorder("<"))
    return dense.reshape(-1).view(np.uint8).data if dense.size else b""


def _string_bytes(array: Array) -> bytes:
    """int32 count, count + 1 int32 offsets, UTF-8 text."""
    texts = [s if isinstance(s, bytes) else str(s).encode() for s in array.reshape(-1).tolist()]
    ends = np.cumsum([0, *(len(t) for t in texts)], dtype=np.int64)
    if ends[-1] >= 2**31:
        raise ValueError("more than 2 GiB of text in one constant")
    head = np.array([len(texts), *ends], dtype="<i4")
    return head.tobytes() + b"".join(texts)
