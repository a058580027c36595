"""Malformed HTTP, and clients that send or read slowly, often, or not at all."""

from __future__ import annotations

import socket
import time

import numpy as np
import pytest
from support.hostile_requests import HEAD, binary, send
from support.serving import Server

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


@pytest.mark.slow
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


@pytest.mark.slow
def test_slow_bodies_are_cut_off(hostile_server: Server) -> None:
    answer = send(hostile_server, HEAD + b"content-length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408")


@pytest.mark.slow
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


@pytest.mark.slow
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
