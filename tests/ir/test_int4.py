"""Integers of 4 bits: one to a byte in arrays, two in files."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.int4 import Int4Bytes, pack_int4, unpack_int4


@pytest.mark.parametrize("dtype", [DType.u4, DType.i4])
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (3, 5), (2, 2, 8)])
def test_the_first_element_is_in_the_low_half(dtype: DType, shape: tuple[int, ...]) -> None:
    low = 0 if dtype is DType.u4 else -8
    array = np.random.default_rng(2).integers(low, low + 16, shape).astype(dtype.numpy)
    data = pack_int4(array)
    codes = array.reshape(-1).view(np.uint8) & 15
    assert data.size == (array.size + 1) // 2
    assert [int(b) & 15 for b in data] == codes[0::2].tolist()
    assert [int(b) >> 4 for b in data[: array.size // 2]] == codes[1::2].tolist()
    np.testing.assert_array_equal(unpack_int4(dtype, data, array.size), array.reshape(-1))
    np.testing.assert_array_equal(Int4Bytes(dtype, shape, data).unpack(), array)


def test_int4_bytes_are_unpacked_into_the_memory_given() -> None:
    array = np.arange(10, dtype=np.uint8).astype(DType.u4.numpy)
    memory = np.full(10, 255, np.uint8)
    made = Int4Bytes(DType.u4, (10,), pack_int4(array)).unpack(memory)
    assert made.base is not None
    np.testing.assert_array_equal(memory, np.arange(10))
