"""Binary tensors that do not fit, compressed bodies that grow, bodies above the limit."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from support.hostile_requests import ANY, INFER, RAW, binary, post, with_request
from support.serving import Server


def text_elements(*elements: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(e)) + e for e in elements)


ALL = {"name": "BYTES", "shape": [1, 2], "datatype": "BYTES"}
BINARY_CASES: dict[str, tuple[str, Any, str]] = {
    "more bytes than there are": (INFER, binary(RAW, said=1 << 40), "exceeds the body"),
    "a negative number of bytes": (INFER, binary(RAW, said=-4), "binary_data_size"),
    "bytes counted in text": (INFER, binary(RAW, said="32"), "binary_data_size"),
    "bytes counted by true": (INFER, binary(RAW, said=True), "binary_data_size"),
    "fewer bytes than the shape": (INFER, binary(RAW[:-1]), "does not fit the shape"),
    "more bytes than the shape": (INFER, binary(RAW + b"1234"), "does not fit the shape"),
    "bytes that no input takes": (INFER, binary(RAW + b"1234", said=32), "no input takes"),
    "data and binary data": (INFER, binary(RAW, data=[1]), "both"),
    "a BYTES length beyond the end": (
        ANY,
        binary(struct.pack("<I", 1 << 31) + b"ab", **ALL),
        "BYTES do not fit",
    ),
    "a cut BYTES length": (ANY, binary(b"\x01\x00", **ALL), "BYTES do not fit"),
    "too few BYTES": (ANY, binary(text_elements(b"a"), **ALL), "BYTES do not fit"),
    "too many BYTES": (ANY, binary(text_elements(b"a", b"b", b"c"), **ALL), "BYTES do not fit"),
    "BYTES that are not UTF-8": (ANY, binary(text_elements(b"a", b"\xff"), **ALL), "UTF-8"),
    "BOOL of seven": (
        ANY,
        binary(b"\x01\x07", name="BOOL", datatype="BOOL", shape=[1, 2]),
        "neither 0 nor 1",
    ),
}


@pytest.mark.parametrize("name", BINARY_CASES)
def test_binary(hostile_server: Server, name: str) -> None:
    path, (head, data), text = BINARY_CASES[name]
    length = {"Inference_Header_Content_Length": str(len(head))}
    status, answer = post(hostile_server, path, head + data, **length)
    assert status == 400 and text in json.loads(answer)["error"], answer


@pytest.mark.parametrize("length", ["99999999", "-1", "x", "1e3", "", "9" * 4000])
def test_json_length(hostile_server: Server, length: str) -> None:
    head, data = binary(RAW)
    status, answer = post(
        hostile_server, INFER, head + data, Inference_Header_Content_Length=length
    )
    assert status == 400 and "error" in json.loads(answer)


BOMB = gzip.compress(bytes(64 << 20), 9)
ENCODED_CASES: dict[str, tuple[bytes, str, int, str]] = {
    "a bomb": (BOMB, "gzip", 413, "too large"),
    "a bomb of bombs": (gzip.compress(BOMB, 9), "gzip", 400, "JSON"),
    "not gzip": (b"hello", "gzip", 400, "compressed"),
    "truncated gzip": (gzip.compress(with_request())[:-9], "gzip", 400, "compressed"),
    "two streams": (gzip.compress(b"{}") * 2, "gzip", 400, "compressed"),
    "not deflate": (b"hello", "deflate", 400, "compressed"),
    "an unknown encoding": (b"hello", "br", 400, "Content-Encoding"),
    "two encodings": (b"hello", "gzip, gzip", 400, "Content-Encoding"),
}


@pytest.mark.parametrize("name", ENCODED_CASES)
def test_encoded(hostile_server: Server, name: str) -> None:
    body, encoding, status, text = ENCODED_CASES[name]
    found, answer = post(hostile_server, INFER, body, Content_Encoding=encoding)
    assert found == status and text in json.loads(answer)["error"], answer


def test_large_bodies(hostile_server: Server) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(32):
            yield b" " * (1 << 16)

    for body in (b" " * (2 << 20), chunks()):
        try:
            status, answer = post(hostile_server, INFER, body)
        except ConnectionError:
            continue  # the server closed it before all was sent
        assert status == 413 and "too large" in answer
