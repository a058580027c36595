"""Hostile requests to a server: its limits, a good request, and functions that send."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

import grpc
import numpy as np
from irc_compiler.serve.settings import ServerLimits
from irc_compiler.serve.stubs import open_inference_pb2 as pb

from .serving import Server

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


def with_request(**fields: Any) -> bytes:
    return json.dumps({"inputs": [GOOD], **fields}).encode()


def binary(raw: bytes, *, said: Any = None, **changes: Any) -> tuple[bytes, bytes]:
    """The JSON, and the binary data that follows it."""
    entry = {"name": "x", "shape": [2, 4], "datatype": "FP32", **changes}
    entry["parameters"] = {"binary_data_size": len(raw) if said is None else said}
    return json.dumps({"inputs": [entry]}).encode(), raw


HEAD = b"POST /v2/models/affine/infer HTTP/1.1\r\nhost: x\r\n"
