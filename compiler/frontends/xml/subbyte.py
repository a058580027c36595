"""Element types smaller than a byte: how a .bin file packs them, and back.

Arrays hold one element per item (NumPy's or ml_dtypes' type for the element type; u1, u3 and u6
in uint8, nf4 as records of its code). In a file, four-bit types and u2 fill a byte from its low
bits, u1 from its highest bit. u3 and u6 come in groups of three bytes whose low and high bits lie
apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.dtype import DType
from ....ir.int4 import is_four_bit, pack_int4, unpack_int4
from ....ir.lazy_dataclass import dataclass
from ....ir.op import Array


@dataclass(frozen=True)
class _Group:
    """`size` bytes hold one element per entry of `bit_offsets`: of its bits (8 * byte + bit,
    bit 0 lowest), lowest bit first."""

    size: int
    bit_offsets: tuple[tuple[int, ...], ...]


def _u3_bit_offsets(i: int) -> tuple[int, ...]:
    low = 8 * (i // 4) + 6 - 2 * (i % 4)
    return low, low + 1, 23 - i


def _u6_bit_offsets(i: int) -> tuple[int, ...]:
    low = 8 * (i // 2) + 4 - 4 * (i % 2)
    high = 22 - 2 * i
    return low, low + 1, low + 2, low + 3, high, high + 1


_PAIRS = _Group(1, tuple((2 * i, 2 * i + 1) for i in range(4)))
_NIBBLES = _Group(1, ((0, 1, 2, 3), (4, 5, 6, 7)))
# Observed with openvino 2026.4, one bit at a time (tests/compiler/frontends/xml/test_weights.py).
_GROUPS: dict[DType, _Group] = {
    DType.u1: _Group(1, tuple((7 - i,) for i in range(8))),
    DType.u2: _PAIRS,
    DType.i2: _PAIRS,  # irc's own
    DType.u3: _Group(3, tuple(_u3_bit_offsets(i) for i in range(8))),
    DType.u6: _Group(3, tuple(_u6_bit_offsets(i) for i in range(4))),
    DType.u4: _NIBBLES,
    DType.i4: _NIBBLES,
    DType.nf4: _NIBBLES,
    DType.f4e2m1: _NIBBLES,
}


def is_packed(dtype: DType) -> bool:
    """Whether several elements share bytes in a file."""
    return dtype in _GROUPS


def packed_bytes(dtype: DType, count: int) -> int:
    """Bytes of `count` elements in a file: whole groups for u3 and u6."""
    group = _GROUPS.get(dtype)
    if group is None:
        return dtype.nbytes(count)
    return -(-count // len(group.bit_offsets)) * group.size


def unpack(dtype: DType, data: Array, count: int) -> Array:
    """`count` elements from packed bytes (uint8, at least `packed_bytes` of them)."""
    group = _GROUPS[dtype]
    data = data[: packed_bytes(dtype, count)]
    if is_four_bit(dtype):
        return unpack_int4(dtype, data, count)
    bits = np.unpackbits(data, bitorder="little").reshape(-1, 8 * group.size)
    codes = np.zeros((bits.shape[0], len(group.bit_offsets)), dtype=np.uint8)
    for element, bit_offsets in enumerate(group.bit_offsets):
        for power, bit_offset in enumerate(bit_offsets):
            codes[:, element] |= bits[:, bit_offset] << power
    return _from_codes(dtype, codes.reshape(-1)[:count])


def pack(dtype: DType, array: Array) -> bytes:
    """The packed bytes of an array with one element per item; unused bits are 0."""
    if is_four_bit(dtype):
        return pack_int4(array).tobytes()
    group = _GROUPS[dtype]
    codes = _to_codes(dtype, array.reshape(-1))
    groups = -(-codes.size // len(group.bit_offsets))
    padded = np.zeros(groups * len(group.bit_offsets), dtype=np.uint8)
    padded[: codes.size] = codes
    padded = padded.reshape(groups, len(group.bit_offsets))
    bits: np.ndarray[Any, np.dtype[np.uint8]] = np.zeros((groups, 8 * group.size), dtype=np.uint8)
    for element, bit_offsets in enumerate(group.bit_offsets):
        for power, bit_offset in enumerate(bit_offsets):
            bits[:, bit_offset] = (padded[:, element] >> power) & 1
    return np.packbits(bits, axis=1, bitorder="little").tobytes()


def _from_codes(dtype: DType, codes: Array) -> Array:
    if dtype is DType.i2:
        sign = 1 << (dtype.bits - 1)
        return ((codes ^ sign).astype(np.int8) - sign).astype(dtype.numpy)
    if dtype in (DType.f4e2m1, DType.nf4):
        return codes.view(dtype.numpy)
    return codes.astype(dtype.numpy, copy=False)


def _to_codes(dtype: DType, array: Array) -> Array:
    if dtype is DType.i2:
        return array.astype(np.int8).view(np.uint8) & ((1 << dtype.bits) - 1)
    if dtype in (DType.f4e2m1, DType.nf4):
        return np.ascontiguousarray(array).view(np.uint8) & 15
    return array.astype(np.uint8)
