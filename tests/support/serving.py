"""A server in this process and small models for it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from irc_compiler.serve.repository import Repository
from irc_compiler.serve.server import Running, running_servers
from irc_compiler.serve.settings import Endpoints, Settings
from onnx import TensorProto, helper, numpy_helper

from support.waiting import SECONDS, wait_until

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
ANY_PORT = Endpoints(http=0, grpc=0, metrics=0)


class Server:
    """A server on a thread of its own, with its own event loop."""

    def __init__(
        self, repository: Path, settings: Settings | None = None, endpoints: Endpoints = ANY_PORT
    ) -> None:
        self._opened = threading.Event()
        self._failure: BaseException | None = None
        self.running: Running
        self.loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(
            target=self._run, args=(repository, settings or Settings(), endpoints), daemon=True
        )
        self._thread.start()
        assert self._opened.wait(SECONDS)
        if self._failure is not None:
            raise self._failure
        wait_until(lambda: self.running.engine.ready)

    def _run(self, repository: Path, settings: Settings, endpoints: Endpoints) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            async with running_servers(Repository(repository), settings, endpoints) as running:
                self.running = running
                self._opened.set()
                await running.stop.wait()

        try:
            asyncio.run(main())
        except BaseException as error:
            self._failure = error
            self._opened.set()

    @property
    def http(self) -> str:
        """host:port of REST."""
        return f"127.0.0.1:{self.running.ports.http}"

    @property
    def grpc(self) -> str:
        """host:port of gRPC."""
        return f"127.0.0.1:{self.running.ports.grpc}"

    @property
    def metrics(self) -> str:
        """host:port of the metrics."""
        return f"127.0.0.1:{self.running.ports.metrics}"

    def call(self, make: Callable[[], Any]) -> Any:
        """Run a coroutine of the server's on its loop."""
        return asyncio.run_coroutine_threadsafe(make(), self.loop).result(SECONDS)

    def begin_stop(self) -> None:
        """What SIGTERM does."""
        self.loop.call_soon_threadsafe(self.running.stop.set)

    def stop(self) -> None:
        """Stop, and wait for the end."""
        if self._thread.is_alive():
            self.begin_stop()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure


@contextmanager
def serving(repository: Path, settings: Settings | None = None) -> Iterator[Server]:
    """A server of a repository."""
    server = Server(repository, settings)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def command(*words: str, **environment: str) -> Iterator[tuple[Any, dict[str, int]]]:
    """`irc serve` as a process, and its ports by protocol."""
    arguments = [sys.executable, "-m", "irc_compiler", "serve", *words]
    process = subprocess.Popen(
        arguments, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        line = process.stderr.readline() if process.stderr else ""
        while line and not line.startswith("serving"):
            line = process.stderr.readline() if process.stderr else ""
        yield process, {n: int(p) for n, p in re.findall(r"(\w+) on port (\d+)", line)}
    finally:
        process.kill()
        process.communicate(timeout=60)


def save_model(repository: Path, name: str, content: bytes, version: int = 1) -> Path:
    """Put a model into a repository, whole or not at all; returns its file."""
    folder = repository / name / str(version)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / "incoming"
    temporary.write_bytes(content)
    return temporary.rename(folder / "model.onnx")


def make_model(
    nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **constants: Any
) -> bytes:
    """An ONNX model: ports as name -> (element type, shape), constants as arrays."""

    def ports(given: dict[str, Any]) -> list[Any]:
        return [helper.make_tensor_value_info(n, t, s) for n, (t, s) in given.items()]

    stored = [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def affine(bias: float = 0.0) -> bytes:
    """y = x @ WEIGHT + bias, for any number of rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["y"]),
    ]
    f32 = TensorProto.FLOAT
    ports = {"x": (f32, ["N", 4])}, {"y": (f32, ["N", 3])}
    return make_model(nodes, *ports, w=WEIGHT, b=np.float32([bias]))


ELEMENT_TYPES = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "BF16": TensorProto.BFLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
}


def identities() -> bytes:
    """An input and an output of every datatype, of shape [N, 2]: BOOL -> out_BOOL and so on."""
    nodes = [helper.make_node("Identity", [n], [f"out_{n}"]) for n in ELEMENT_TYPES]
    ports = {n: (e, ["N", 2]) for n, e in ELEMENT_TYPES.items()}
    return make_model(nodes, ports, {f"out_{n}": p for n, p in ports.items()})


def counting() -> bytes:
    """total = the number of times that the loop ran: n steps, so the caller says how long it
    takes."""
    f32, i64, boolean = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Add", ["held", "one"], ["next"]),
            helper.make_node("Identity", ["go"], ["go_on"]),
        ],
        "body",
        [info("i", i64, []), info("go", boolean, []), info("held", f32, [64])],
        [info("go_on", boolean, []), info("next", f32, [64])],
        [numpy_helper.from_array(np.ones(64, np.float32), "one")],
    )
    nodes = [
        helper.make_node("Squeeze", ["n"], ["trip"]),
        helper.make_node("Loop", ["trip", "yes", "zero"], ["total"], body=body),
    ]
    ports = {"n": (i64, [1])}, {"total": (f32, [64])}
    return make_model(nodes, *ports, yes=np.array(True), zero=np.zeros(64, np.float32))
