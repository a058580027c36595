"""Tensors as raw bytes and JSON values. tests/serve/hostile/ has the refused ones."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.serve.datatypes import (
    DATATYPES,
    NUMPY,
    decode_json,
    decode_raw,
    encode_raw,
    view_raw,
)
from irc_compiler.serve.errors import RequestError, TooLargeError

LIMIT = 1 << 20


@pytest.mark.parametrize("datatype", DATATYPES)
def test_raw_there_and_back(datatype: str) -> None:
    if datatype == "BYTES":
        array: Any = np.array([["a", ""], ["ü", "\n"]], object)
    else:
        array = np.array([[0, 1], [1, 0]]).astype(NUMPY[datatype])
    data = encode_raw(array)
    found = decode_raw("x", datatype, (2, 2), data, LIMIT)
    assert found.dtype == array.dtype and found.shape == (2, 2)
    np.testing.assert_array_equal(found, array)
    assert encode_raw(found) == data
    for form in (found, found.T, found[:0], found[0, 0, ...]):
        assert bytes(view_raw(form)) == encode_raw(form)


def test_views_of_raw_bytes_are_no_copies() -> None:
    array = np.zeros((2, 3), np.float32)
    view = memoryview(view_raw(array))
    array[1, 2] = 1
    assert bytes(view) == array.tobytes()


def test_raw_tensors_are_not_copied() -> None:
    data = np.arange(6, dtype=np.float32).tobytes()
    found = decode_raw("x", "FP32", (2, 3), memoryview(data), LIMIT)
    assert not found.flags.owndata and not found.flags.writeable


@pytest.mark.parametrize("start", range(1, 9))
def test_raw_tensors_are_aligned(start: int) -> None:
    values = np.arange(5, dtype=np.float64)
    data = memoryview(bytes(start) + values.tobytes())[start:]
    found = decode_raw("x", "FP64", [5], data, 1 << 20)
    assert found.flags.aligned
    np.testing.assert_array_equal(found, values)


def test_empty_tensors() -> None:
    assert decode_raw("x", "FP32", (0, 3), b"", LIMIT).shape == (0, 3)
    assert decode_raw("x", "BYTES", (0,), b"", LIMIT).shape == (0,)
    assert decode_raw("x", "FP32", (), b"\0\0\0\0", LIMIT).shape == ()
    assert decode_json("x", "FP32", (0, 3), b"[]", LIMIT).shape == (0, 3)


@pytest.mark.parametrize("nested", [True, False])
def test_json_flat_and_nested(nested: bool) -> None:
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)
    text = json.dumps((array if nested else array.reshape(-1)).tolist()).encode()
    np.testing.assert_array_equal(decode_json("x", "INT16", (2, 3, 4), text, LIMIT), array)


def test_json_of_f32_is_exact() -> None:
    rng = np.random.default_rng(0)
    array = rng.standard_normal(500).astype(np.float32)
    text = json.dumps([float(str(v)) for v in array]).encode()
    assert decode_json("x", "FP32", (500,), text, LIMIT).tobytes() == array.tobytes()


def test_bf16_is_two_bytes() -> None:
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    assert encode_raw(array) == b"\xc0\x3f\x00\xc0"
    with pytest.raises(RequestError, match="JSON has no BF16"):
        decode_json("x", "BF16", (2,), b"[1, 2]", LIMIT)


def test_the_limit_holds_before_memory_is_taken() -> None:
    for datatype in ("INT8", "BYTES", "FP64"):
        with pytest.raises(TooLargeError):
            decode_raw("x", datatype, (LIMIT + 1,), b"", LIMIT)
