"""Malformed protobuf, lying contents, floods and bombs over gRPC."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from irc_compiler.serve.stubs import open_inference_pb2 as pb
from support.hostile_requests import LIMITS, RAW, good_message, rpc
from support.serving import Server


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
    "an unknown model": (good_message(model_name="missing"), "NOT_FOUND", "unknown model"),
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


@pytest.mark.slow
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
