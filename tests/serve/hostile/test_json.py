"""Requests whose JSON is malformed, contradicts the model, or exceeds a limit."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support.hostile_requests import ANY, GOOD, INFER, message, post, with_request
from support.serving import Server


def one(datatype: str, data: Any, shape: tuple[int, ...] = (1, 2)) -> bytes:
    tensor = {"name": datatype, "datatype": datatype, "shape": list(shape), "data": data}
    return json.dumps({"inputs": [tensor]}).encode()


def without(field: str) -> bytes:
    return json.dumps({"inputs": [{k: v for k, v in GOOD.items() if k != field}]}).encode()


DEEP = b"[" * 100_000 + b"]" * 100_000
# Python 3.14 bounds recursion by the stack, so what the server skips may be so deep; then the
# missing input is what is wrong.
UNKNOWN = "deep" if sys.version_info < (3, 14) else "missing"
# name: (path, body, status, a part of the message)
JSON_CASES: dict[str, tuple[str, bytes, int, str]] = {
    "empty body": (INFER, b"", 400, "JSON"),
    "not JSON": (INFER, b"hello", 400, "JSON"),
    "truncated JSON": (INFER, with_request()[:-20], 400, "JSON"),
    "bytes behind the JSON": (INFER, with_request() + b"x", 400, "JSON"),
    "an array": (INFER, b"[1, 2]", 400, "object"),
    "null": (INFER, b"null", 400, "object"),
    "broken UTF-8": (INFER, b'{"inputs": [], "id": "\xff\xfe"}', 400, "JSON"),
    "deep unknown field": (INFER, b'{"inputs": [], "x": ' + DEEP + b"}", 400, UNKNOWN),
    "deep parameters": (INFER, b'{"inputs": [], "parameters": {"a": ' + DEEP + b"}}", 400, "JSON"),
    "deep data": (INFER, message(data=0).replace(b"0}", DEEP + b"}"), 400, "deep"),
    "deep in the middle of data": (
        INFER,
        message(data=0).replace(b'"data": 0', b'"data": [1, ' + DEEP + b"]"),
        400,
        "",
    ),
    "nothing": (INFER, b"{}", 400, "inputs"),
    "inputs are a number": (INFER, b'{"inputs": 3}', 400, "inputs"),
    "no inputs": (INFER, b'{"inputs": []}', 400, "missing"),
    "no name": (INFER, without("name"), 400, "name"),
    "no shape": (INFER, without("shape"), 400, "shape"),
    "no datatype": (INFER, without("datatype"), 400, "datatype"),
    "no data": (INFER, without("data"), 400, "no data"),
    "shape is a text": (INFER, message(shape="2,4"), 400, "shape"),
    "shape has a fraction": (INFER, message(shape=[2.5, 4]), 400, "shape"),
    "negative shape": (INFER, message(shape=[-2, 4]), 400, "shape"),
    "huge shape": (INFER, message(shape=[1 << 62, 4]), 400, "shape"),
    "shape beyond 64 bits": (INFER, message(shape=[1 << 70]), 400, ""),
    "shape whose product wraps": (INFER, message(shape=[1 << 32, 1 << 32]), 413, "too large"),
    "shape above the limit": (INFER, message(shape=[1 << 18, 4]), 413, "too large"),
    "too many axes": (INFER, message(shape=[1] * 33), 400, "axes"),
    "unknown datatype": (INFER, message(datatype="FP8"), 400, "datatype"),
    "another datatype": (INFER, message(datatype="FP64"), 400, "datatype"),
    "another shape": (INFER, message(shape=[4, 2]), 400, "shape"),
    "another rank": (INFER, message(shape=[8]), 400, "shape"),
    "too few values": (INFER, message(data=[1, 2]), 400, "number of values"),
    "too many values": (INFER, message(data=[1] * 9), 400, "number of values"),
    "ragged data": (INFER, message(data=[[1, 2, 3, 4], [1, 2]]), 400, "ragged"),
    "data of another nesting": (INFER, message(data=[[[1, 2]]]), 400, "nesting"),
    "data of another shape": (INFER, message(data=[[1, 2]] * 4), 400, "number of values"),
    "texts for numbers": (INFER, message(data=["1"] * 8), 400, "bad data"),
    "booleans for numbers": (INFER, message(data=[True] * 8), 400, "bad data"),
    "null in data": (INFER, message(data=[None] * 8), 400, "bad data"),
    "an object as data": (INFER, message(data={"a": 1}), 400, "nesting"),
    "NaN in data": (INFER, message(data=[float("nan")] * 8), 400, "JSON"),
    "a number beyond FP64": (INFER, message(data=[0]).replace(b"[0]", b"[1e999]"), 400, ""),
    "a number beyond FP32": (INFER, message(data=[1e39] * 8), 400, "out of range"),
    "a number beyond INT8": (ANY, one("INT8", [1, 128]), 400, "out of range"),
    "a number beyond INT64": (ANY, one("INT64", [1, 1 << 63]), 400, ""),
    "a negative UINT8": (ANY, one("UINT8", [1, -1]), 400, "out of range"),
    "a negative UINT64": (ANY, one("UINT64", [1, -1]), 400, "out of range"),
    "a fraction as INT32": (ANY, one("INT32", [1, 2.5]), 400, "bad data"),
    "a number as BOOL": (ANY, one("BOOL", [1, 0]), 400, "bad data"),
    "a number as BYTES": (ANY, one("BYTES", [1, 2]), 400, "bad data"),
    "FP16 as JSON": (ANY, one("FP16", [1, 2]), 400, "binary"),
    "an input twice": (INFER, json.dumps({"inputs": [GOOD, GOOD]}).encode(), 400, "twice"),
    "an unknown input": (INFER, message(name="z"), 400, "unknown input"),
    "an unknown output": (INFER, with_request(outputs=[{"name": "z"}]), 400, "unknown output"),
    "an output twice": (INFER, with_request(outputs=[{"name": "y"}] * 2), 400, "twice"),
    "bad timeout": (INFER, with_request(parameters={"timeout": "soon"}), 400, "timeout"),
    "negative timeout": (INFER, with_request(parameters={"timeout": -5}), 400, "timeout"),
    "shared memory": (INFER, message(parameters={"shared_memory_region": "r"}), 400, "shared"),
    "classification": (
        INFER,
        with_request(outputs=[{"name": "y", "parameters": {"classification": 3}}]),
        400,
        "classification",
    ),
    "an unknown model": ("/v2/models/missing/infer", with_request(), 404, "unknown model"),
    "a path as a model": ("/v2/models/..%2F..%2Fetc/infer", with_request(), 404, ""),
    "an encoded NUL": ("/v2/models/affine%00/infer", with_request(), 404, "unknown model"),
    "a long name": (f"/v2/models/{'a' * 4000}/infer", with_request(), 404, "unknown model"),
    "a path as a version": ("/v2/models/affine/versions/..%2F1/infer", with_request(), 404, ""),
    "a huge version": (f"/v2/models/affine/versions/{9**99}/infer", with_request(), 404, "version"),
    "no method": ("/v2/models/affine", b"", 405, "method"),
    "an unknown path": ("/v3/models", b"", 404, "unknown path"),
    "load": ("/v2/repository/models/affine/load", b"", 403, "--allow-load"),
    "load of a path": ("/v2/repository/models/..%2Fx/load", b"", 404, ""),
}


@pytest.mark.parametrize("name", JSON_CASES)
def test_json(hostile_server: Server, name: str) -> None:
    path, body, status, text = JSON_CASES[name]
    found, answer = post(hostile_server, path, body)
    assert (found, list(json.loads(answer))) == (status, ["error"]), answer
    assert text in json.loads(answer)["error"] and len(answer) < 2000
