"""`irc serve --workers`: a killed worker loses its own requests and is started again."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from irc_compiler.cli.main import main
from support.serving import WEIGHT, affine, command, save_model
from support.waiting import wait_until

X = np.arange(8, dtype=np.float32).reshape(2, 4)
BODY = json.dumps(
    {"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": X.ravel().tolist()}]}
)
START_SECONDS = 300  # for processes that start one after the other on a busy machine
ANSWER = (X @ WEIGHT).ravel().tolist()


class Client:
    """One connection to one of the workers; `run` sends requests until `over` is set."""

    def __init__(self, port: int) -> None:
        self.port, self.answers, self.failures = port, 0, 0
        self.wrong = list[Any]()
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.worker = json.loads(self.ask("GET", "/status"))["worker"]

    def ask(self, method: str, path: str, body: str | None = None) -> bytes:
        self.connection.request(method, path, body)
        return self.connection.getresponse().read()

    def run(self, over: threading.Event) -> None:
        while not over.is_set():
            try:
                found = json.loads(self.ask("POST", "/v2/models/m/infer", BODY))
            except (OSError, http.client.HTTPException):
                self.failures += 1
                self.connection.close()  # the next request opens a new one
                continue
            self.answers += 1
            if found.get("outputs", [{}])[0].get("data") != ANSWER:
                self.wrong.append(found)


def read_status(port: int) -> dict[str, Any]:
    """The status of the worker that a new connection reaches; {} if none answers."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/status", timeout=60) as response:
            return json.load(response)
    return {}


def find_processes(port: int, count: int) -> dict[int, int]:
    """Process ids by worker, once all of them answer."""
    found = dict[int, int]()

    def all_answer() -> bool:
        if status := read_status(port):
            found[status["worker"]] = status["process"]
        return len(found) == count

    wait_until(all_answer, START_SECONDS)
    return found


def connect(port: int, each: int) -> list[Client]:
    """`each` clients of both workers; the kernel chooses the worker of a connection."""
    chosen: dict[int, list[Client]] = {0: [], 1: []}

    def enough() -> bool:
        client = Client(port)
        chosen[client.worker].append(client)
        return all(len(clients) >= each for clients in chosen.values())

    wait_until(enough)
    return [client for clients in chosen.values() for client in clients[:each]]


def serve_two(tmp_path: Path, *words: str) -> Any:
    save_model(tmp_path, "m", affine())
    return command(str(tmp_path), "--http", "0", "--workers", "2", *words)


@pytest.mark.slow
def test_a_killed_worker_loses_only_its_requests_and_is_started_again(tmp_path: Path) -> None:
    with serve_two(tmp_path, "--grpc", "0", "--metrics", "0") as (process, ports):
        before = find_processes(ports["http"], 2)
        clients, over = connect(ports["http"], 4), threading.Event()
        threads = [threading.Thread(target=client.run, args=(over,)) for client in clients]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: all(client.answers >= 20 for client in clients))
            os.kill(before[0], signal.SIGKILL)
            wait_until(lambda: find_processes(ports["http"], 2)[0] != before[0], START_SECONDS)
            answered = [client.answers for client in clients]
            wait_until(lambda: all(c.answers > n for c, n in zip(clients, answered, strict=True)))
        finally:
            over.set()
            for thread in threads:
                thread.join(60)
        assert [client.wrong for client in clients] == [[]] * len(clients)
        # One request was in progress, and one connection may be open to the port as it closes.
        assert all(c.failures == 0 for c in clients if c.worker == 1)
        assert all(c.failures <= 2 for c in clients if c.worker == 0)
        check_grpc(ports["grpc"])
        check_metrics(ports["metrics"])
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0, log
        assert "worker 0 ended with signal 9; it is started again" in log
        assert "Traceback" not in log


def check_grpc(port: int) -> None:
    with grpcclient.InferenceServerClient(f"127.0.0.1:{port}") as client:
        given = grpcclient.InferInput("x", [2, 4], "FP32")
        given.set_data_from_numpy(X)
        np.testing.assert_array_equal(client.infer("m", [given]).as_numpy("y"), X @ WEIGHT)


def check_metrics(port: int) -> None:
    """Any worker gives the figures of both."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        page = response.read().decode()
    counts = re.findall(r'^irc_requests_total\{model="m",version="1",worker="(\d)"\}', page, re.M)
    assert sorted(counts) == ["0", "1"] and re.search(r"^irc_workers 2.0$", page, re.M), page


@pytest.mark.slow
def test_workers_end_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with serve_two(tmp_path) as (process, ports):
        workers = find_processes(ports["http"], 2)
        process.kill()
        wait_until(lambda: not any(is_alive(pid) for pid in workers.values()), START_SECONDS)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie (state Z) does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--allow-load",), "one of the workers only"), (("--host", "192.0.2.1"), "can't listen")],
)
def test_bad_arguments_are_one_clear_error(
    tmp_path: Path, words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(tmp_path, "m", affine())
    assert main(["serve", str(tmp_path), "--http", "0", "--workers", "2", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_taken_port_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the other server shares its port with its own workers."""
    save_model(tmp_path, "m", affine())
    shares: tuple[Callable[[socket.socket], Any], ...] = (
        lambda taken: None,
        lambda taken: taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1),
    )
    for share in shares:
        with socket.socket() as taken:
            share(taken)
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            assert main(["serve", str(tmp_path), "--http", port, "--workers", "2"]) == 2
            assert "can't listen" in capsys.readouterr().err
