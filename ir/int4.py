"""Integers of 4 bits: in files two to a byte, the first in the low half; in arrays one to a byte,
the upper half of which is 0."""

from __future__ import annotations

import math

import numpy as np

from .dtype import DType
from .lazy_dataclass import dataclass
from .op import Array


def is_four_bit(dtype: DType) -> bool:
    """Whether files hold two elements of this type in a byte, as integers of 4 bits."""
    return dtype in (DType.u4, DType.i4)


def pack_int4(array: Array) -> Array:
    """The bytes of an array's elements in order; the last half byte left over is 0."""
    codes = np.zeros(array.size + array.size % 2, np.uint8)
    np.bitwise_and(
        np.ascontiguousarray(array).reshape(-1).view(np.uint8), 15, out=codes[: array.size]
    )
    return codes[0::2] | codes[1::2] << 4


def unpack_int4(dtype: DType, data: Array, count: int, out: Array | None = None) -> Array:
    """`count` elements from bytes, of which there are enough. out: `count` bytes for them."""
    codes = np.empty(count, np.uint8) if out is None else out
    np.bitwise_and(data[: (count + 1) // 2], 15, out=codes[0::2])
    np.right_shift(data[: count // 2], 4, out=codes[1::2])
    return codes.view(dtype.numpy)


@dataclass(frozen=True, eq=False)
class Int4Bytes:
    """An array of 4-bit integers as it is in files. data: its bytes, two elements in each."""

    dtype: DType
    shape: tuple[int, ...]
    data: Array

    def unpack(self, out: Array | None = None) -> Array:
        """The array, one element to a byte. out: memory for it, of that many bytes."""
        return unpack_int4(self.dtype, self.data, math.prod(self.shape), out).reshape(self.shape)
