"""Hostile requests: each gets the protocol's error, and the server answers the next request.

The tables are the classes; docs/dev/testing.md points here.
"""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from irc_compiler.serve.settings import ServerLimits, Settings
from irc_compiler.serve.stubs import open_inference_pb2 as pb
from support.serving import WEIGHT, Server, affine, identities, save_model, serving

LIMITS = ServerLimits(
    body_bytes=1 << 20,
    tensor_bytes=1 << 19,
    header_bytes=8192,
    header_seconds=1.0,
    body_seconds=1.0,
    keep_alive_seconds=5.0,
    connections=40,
    streams=2,
)
X = np.arange(8, dtype=np.float32).reshape(2, 4)
RAW = X.tobytes()
GOOD: dict[str, Any] = {
    "name": "x",
    "shape": [2, 4],
    "datatype": "FP32",
    "data": X.reshape(-1).tolist(),
}
INFER = "/v2/models/affine/infer"
ANY = "/v2/models/identities/infer"


@pytest.fixture(scope="module")
def hostile_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("models")
    save_model(folder, "affine", affine())
    save_model(folder, "identities", identities())
    with serving(folder, Settings(limits=LIMITS)) as running:
        yield running


@pytest.fixture(autouse=True)
def healthy(hostile_server: Server) -> Iterator[None]:
    """After each case a good request is answered over both protocols."""
    yield
    status, body = post(hostile_server, INFER, json.dumps({"inputs": [GOOD]}).encode())
    assert status == 200, body
    found = np.reshape(json.loads(body)["outputs"][0]["data"], (2, 3))
    np.testing.assert_array_equal(found.astype(np.float32), X @ WEIGHT)
    response = pb.ModelInferResponse.FromString(rpc(hostile_server, "ModelInfer", good_message()))
    assert response.raw_output_contents[0] == (X @ WEIGHT).tobytes()


def post(server: Server, path: str, body: Any, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(server.http, timeout=30)
    try:
        named = {k.replace("_", "-"): v for k, v in headers.items()}
        connection.request("POST", path, body, named)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def send(server: Server, data: bytes) -> bytes:
    """What comes back for raw bytes, until the server closes the connection."""
    host, port = server.http.split(":")
    found = b""
    with socket.create_connection((host, int(port)), timeout=30) as client:
        try:
            client.sendall(data)
            while more := client.recv(65536):
                found += more
        except ConnectionError:
            pass
    return found


def rpc(server: Server, method: str, data: bytes, **how: Any) -> bytes:
    with grpc.insecure_channel(server.grpc) as channel:
        call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        return call(data, timeout=30, wait_for_ready=True, **how)


def good_message(**changes: Any) -> bytes:
    tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=[2, 4])
    how = {"model_name": "affine", "inputs": [tensor], "raw_input_contents": [RAW], **changes}
    return pb.ModelInferRequest(**how).SerializeToString()


def message(**changes: Any) -> bytes:
    return json.dumps({"inputs": [{**GOOD, **changes}]}).encode()


def one(datatype: str, data: Any, shape: tuple[int, ...] = (1, 2)) -> bytes:
    tensor = {"name": datatype, "datatype": datatype, "shape": list(shape), "data": data}
    return json.dumps({"inputs": [tensor]}).encode()


def with_request(**fields: Any) -> bytes:
    return json.dumps({"inputs": [GOOD], **fields}).encode()


def without(field: str) -> bytes:
    return json.dumps({"inputs": [{k: v for k, v in GOOD.items() if k != field}]}).encode()


DEEP = b"[" * 100_000 + b"]" * 100_000
# name: (path, body, status, a part of the message)
JSON_CASES: dict[str, tuple[str, bytes, int, str]] = {
    "empty body": (INFER, b"", 400, "JSON"),
    "not JSON": (INFER, b"hello", 400, "JSON"),
    "truncated JSON": (INFER, with_request()[:-20], 400, "JSON"),
    "bytes behind the JSON": (INFER, with_request() + b"x", 400, "JSON"),
    "an array": (INFER, b"[1, 2]", 400, "object"),
    "null": (INFER, b"null", 400, "object"),
    "broken UTF-8": (INFER, b'{"inputs": [], "id": "\xff\xfe"}', 400, "JSON"),
    "deep unknown field": (INFER, b'{"inputs": [], "x": ' + DEEP + b"}", 400, "deep"),
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
    "an unknown model": ("/v2/models/nobody/infer", with_request(), 404, "unknown model"),
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


def binary(raw: bytes, *, said: Any = None, **changes: Any) -> tuple[bytes, bytes]:
    """The JSON, and the binary data that follows it."""
    entry = {"name": "x", "shape": [2, 4], "datatype": "FP32", **changes}
    entry["parameters"] = {"binary_data_size": len(raw) if said is None else said}
    return json.dumps({"inputs": [entry]}).encode(), raw


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


HEAD = b"POST /v2/models/affine/infer HTTP/1.1\r\nhost: x\r\n"
RAW_CASES: dict[str, tuple[bytes, tuple[bytes, ...]]] = {
    "garbage": (b"\x00\xff\x01hello\r\n\r\n", (b"400",)),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (b"400", b"404", b"405")),
    "a bad chunk": (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", (b"400",)),
    "two lengths": (HEAD + b"content-length: 3\r\ncontent-length: 5\r\n\r\nabc", (b"400",)),
    "length and chunks": (
        HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
        (b"400",),
    ),
    "a bad length": (HEAD + b"content-length: -3\r\n\r\n", (b"400",)),
    "a huge length": (HEAD + b"content-length: 99999999999\r\n\r\n", (b"413",)),
    "a length beyond 64 bits": (HEAD + b"content-length: " + b"9" * 40 + b"\r\n\r\n", (b"400",)),
    "a NUL in a header": (HEAD + b"a: b\x00c\r\n\r\n", (b"400",)),
    "many headers": (HEAD + b"".join(b"a%d: b\r\n" % n for n in range(5000)), (b"431",)),
    "a long header": (HEAD + b"a: " + b"b" * 100_000, (b"431",)),
    "a long path": (b"GET /" + b"a" * 100_000, (b"431",)),
    "a path that is no path": (b"GET http://[::bad HTTP/1.1\r\nhost: x\r\n\r\n", (b"400",)),
    "a path that is not ASCII": (b"GET /\xc3\xbc HTTP/1.1\r\nhost: x\r\n\r\n", (b"400", b"404")),
    "an upgrade": (
        b"GET /v2 HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade, close\r\n\r\n",
        (b"200", b"400"),
    ),
}


@pytest.mark.parametrize("name", RAW_CASES)
def test_raw(hostile_server: Server, name: str) -> None:
    data, statuses = RAW_CASES[name]
    answer = send(hostile_server, data)
    assert answer.split(b" ")[1] in statuses, answer[:200]


def test_slow_headers_are_cut_off(hostile_server: Server) -> None:
    """A connection that says nothing, one that stops, one that sends a byte at a time."""
    for data in (b"", HEAD):
        start = time.monotonic()
        assert send(hostile_server, data) == b""
        assert time.monotonic() - start < 20
    host, port = hostile_server.http.split(":")
    with socket.create_connection((host, int(port)), timeout=30) as client:
        with pytest.raises(OSError):
            for _ in range(300):
                client.sendall(b"a")
                time.sleep(0.05)


def test_slow_bodies_are_cut_off(hostile_server: Server) -> None:
    answer = send(hostile_server, HEAD + b"content-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408")


def test_connections_are_bounded(hostile_server: Server) -> None:
    """Half-open connections above the limit are closed; those below end by their time."""
    host, port = hostile_server.http.split(":")
    clients = [socket.create_connection((host, int(port)), timeout=30) for _ in range(60)]
    try:
        for client in clients:
            try:
                assert client.recv(1) == b""
            except ConnectionError:
                pass
    finally:
        for client in clients:
            client.close()


def test_pipelined_requests_are_bounded(hostile_server: Server) -> None:
    request = b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n"
    answer = send(hostile_server, request * 5000)
    assert b"400 Bad Request" in answer and answer.count(b"200 OK") < 100


def test_a_slow_reader_is_cut_off(hostile_server: Server) -> None:
    """A client that asks for a large answer again and again and does not read."""
    host, port = hostile_server.http.split(":")
    x = np.zeros((20000, 4), np.float32).tobytes()
    head, data = binary(x, shape=[20000, 4])
    parameters = f"inference-header-content-length: {len(head)}\r\n"
    parameters += f"content-length: {len(head) + len(data)}\r\n\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(1)
        client.connect((host, int(port)))
        end = time.monotonic() + 60
        with pytest.raises(ConnectionError):
            while time.monotonic() < end:
                try:
                    client.sendall(HEAD + parameters.encode() + head + data)
                except TimeoutError:
                    continue


def tensor(**changes: Any) -> Any:
    how = {"name": "x", "datatype": "FP32", "shape": [2, 4], **changes}
    return pb.ModelInferRequest.InferInputTensor(**how)


def contents(**values: Any) -> Any:
    return pb.InferTensorContents(**values)


RPC_CASES: dict[str, tuple[bytes, str, str]] = {
    "truncated": (good_message()[:-5], "INVALID_ARGUMENT", "protobuf"),
    "garbage": (b"\xff" * 50, "INVALID_ARGUMENT", "protobuf"),
    "a lying length": (b"\x0a\xff\xff\xff\xff\x07abc", "INVALID_ARGUMENT", "protobuf"),
    "nothing": (b"", "NOT_FOUND", "unknown model"),
    "an unknown model": (good_message(model_name="nobody"), "NOT_FOUND", "unknown model"),
    "a path as a model": (good_message(model_name="../x"), "NOT_FOUND", "unknown model"),
    "an unknown version": (good_message(model_version="9"), "NOT_FOUND", "version"),
    "too many contents": (
        good_message(raw_input_contents=[RAW, RAW]),
        "INVALID_ARGUMENT",
        "raw_input_contents",
    ),
    "no contents": (good_message(raw_input_contents=[]), "INVALID_ARGUMENT", "number of values"),
    "fewer bytes than the shape": (
        good_message(raw_input_contents=[RAW[:-1]]),
        "INVALID_ARGUMENT",
        "does not fit the shape",
    ),
    "a negative shape": (good_message(inputs=[tensor(shape=[-2, 4])]), "INVALID_ARGUMENT", "shape"),
    "a huge shape": (
        good_message(inputs=[tensor(shape=[1 << 40, 1 << 40])]),
        "RESOURCE_EXHAUSTED",
        "too large",
    ),
    "too many axes": (good_message(inputs=[tensor(shape=[1] * 99)]), "INVALID_ARGUMENT", "axes"),
    "an unknown datatype": (
        good_message(inputs=[tensor(datatype="")]),
        "INVALID_ARGUMENT",
        "datatype",
    ),
    "an input twice": (
        good_message(inputs=[tensor(), tensor()], raw_input_contents=[RAW, RAW]),
        "INVALID_ARGUMENT",
        "twice",
    ),
    "both contents": (
        good_message(inputs=[tensor(contents=contents(fp32_contents=[1]))]),
        "INVALID_ARGUMENT",
        "both",
    ),
    "contents of another type": (
        good_message(
            inputs=[tensor(contents=contents(int_contents=[1] * 8))], raw_input_contents=[]
        ),
        "INVALID_ARGUMENT",
        "another datatype",
    ),
    "contents beyond INT8": (
        good_message(
            inputs=[
                tensor(datatype="INT8", shape=[1], contents=contents(int_contents=[300])),
            ],
            raw_input_contents=[],
        ),
        "INVALID_ARGUMENT",
        "out of range",
    ),
    "contents of FP16": (
        good_message(inputs=[tensor(datatype="FP16")], raw_input_contents=[]),
        "INVALID_ARGUMENT",
        "raw_input_contents",
    ),
    "a large message": (b"\x0a" + b"a" * (2 << 20), "RESOURCE_EXHAUSTED", "larger than max"),
}


@pytest.mark.parametrize("name", RPC_CASES)
def test_grpc(hostile_server: Server, name: str) -> None:
    data, code, text = RPC_CASES[name]
    with pytest.raises(grpc.RpcError) as caught:
        rpc(hostile_server, "ModelInfer", data)
    assert caught.value.code().name == code, caught.value
    assert text in caught.value.details()


def test_grpc_bomb(hostile_server: Server) -> None:
    data = good_message(raw_input_contents=[bytes(32 << 20)])
    with pytest.raises(grpc.RpcError) as caught:
        rpc(hostile_server, "ModelInfer", data, compression=grpc.Compression.Gzip)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, caught.value


def test_grpc_metadata_flood(hostile_server: Server) -> None:
    metadata = [(f"x-{n}", "a" * 1000) for n in range(30)]
    with pytest.raises(grpc.RpcError) as caught:
        rpc(hostile_server, "ServerLive", b"", metadata=metadata)
    assert caught.value.code() in (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.INTERNAL,
    )


def test_grpc_unknown_method(hostile_server: Server) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        rpc(hostile_server, "DropTables", b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_grpc_port_takes_no_garbage(hostile_server: Server) -> None:
    host, port = hostile_server.grpc.split(":")
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096):
        with socket.create_connection((host, int(port)), timeout=30) as client:
            try:
                client.sendall(data)
                while client.recv(65536):
                    pass
            except ConnectionError:
                pass


def test_grpc_streams_are_bounded(hostile_server: Server) -> None:
    def endless() -> Iterator[bytes]:
        while not over:
            time.sleep(0.05)
            yield good_message()

    over = list[bool]()
    with grpc.insecure_channel(hostile_server.grpc) as channel:
        call = channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
        streams = [call(endless(), timeout=30) for _ in range(LIMITS.streams)]
        for stream in streams:
            next(stream)
        with pytest.raises(grpc.RpcError) as caught:
            next(call(endless(), timeout=30))
        over.append(True)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for stream in streams:
            stream.cancel()
