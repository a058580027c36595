"""A request's life through the whole server: timeouts, overload, clients that go away, drain."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpcaio
import tritonclient.http as httpclient
from irc_compiler.serve.settings import Batching, ServerLimits, Settings
from support.serving import Server, affine, counting, save_model, serving
from support.waiting import wait_until
from tritonclient.utils import InferenceServerException

STEPS = 3  # of the request that the tests hold inside its call


def hold_long_calls(server: Server) -> threading.Event:
    """Hold the request of STEPS inside its call until the event is set."""
    released = threading.Event()
    model = server.running.engine.registry.find("counting")

    def call(inputs: Any) -> Any:
        if inputs[0][0] == STEPS:
            assert released.wait(120)
        return model.net(list(inputs))

    model._call = call
    return released


@pytest.fixture
def small_queue(tmp_path: Path) -> Iterator[tuple[Server, threading.Event]]:
    save_model(tmp_path, "counting", counting())
    with serving(tmp_path, Settings(queue_size=2, drain_seconds=60)) as server:
        released = hold_long_calls(server)
        yield server, released
        released.set()


def steps(module: Any, count: int) -> list[Any]:
    given = module.InferInput("n", [1], "INT64")
    given.set_data_from_numpy(np.array([count]))
    return [given]


def queue_of(server: Server) -> Any:
    return server.running.engine.registry.find("counting").queue


def ask_in_thread(server: Server, count: int, outcomes: list[Any]) -> threading.Thread:
    def ask() -> None:
        try:
            with httpclient.InferenceServerClient(server.http, network_timeout=120) as client:
                result = client.infer("counting", steps(httpclient, count))
                outcomes.append(float(result.as_numpy("total")[0]))
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def fill(server: Server, outcomes: list[Any]) -> list[threading.Thread]:
    """One request that runs, and as many that wait as the queue takes."""
    queue = queue_of(server)
    threads = [ask_in_thread(server, STEPS, outcomes)]
    wait_until(lambda: queue.running == 1)
    for n in range(2):
        threads.append(ask_in_thread(server, 1, outcomes))
        wait_until(lambda wanted=n + 1: queue.depth == wanted)
    return threads


def test_batches_over_the_wire_have_the_bits_of_calls(tmp_path: Path) -> None:
    """Many clients at once; rows are answered in batches, each with the bits of a lone call."""
    save_model(tmp_path, "affine", affine(0.7))
    net = irc.compile_model(affine(0.7))
    rng = np.random.default_rng(0)
    rows = [rng.standard_normal((1 + n % 2, 4)).astype(np.float32) for n in range(64)]
    settings = Settings(batching=Batching(8, max_delay_us=20_000))

    async def ask_all(client: Any) -> list[Any]:
        given = [grpcclient.InferInput("x", list(x.shape), "FP32") for x in rows]
        for tensor, x in zip(given, rows, strict=True):
            tensor.set_data_from_numpy(x)
        return await asyncio.gather(*(client.infer("affine", [t]) for t in given))

    async def main(address: str) -> None:
        async with grpcaio.InferenceServerClient(address) as client:
            for _ in range(2):
                for x, result in zip(rows, await ask_all(client), strict=True):
                    assert result.as_numpy("y").tobytes() == net({"x": x})[0].tobytes()

    with serving(tmp_path, settings) as server:
        asyncio.run(main(server.grpc))
        statistics = server.running.engine.registry.find("affine").statistics
    assert statistics.successes == 128 and statistics.rows == 192
    assert statistics.executions < 96 and max(statistics.batches) > 2


def test_overload_is_answered_at_once(small_queue: tuple[Server, threading.Event]) -> None:
    server, released = small_queue
    outcomes = list[Any]()
    threads = fill(server, outcomes)
    with httpclient.InferenceServerClient(server.http) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer("counting", steps(httpclient, 1))
        assert caught.value.status() == "429"
    with grpcclient.InferenceServerClient(server.grpc) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer("counting", steps(grpcclient, 1))
        assert "RESOURCE_EXHAUSTED" in caught.value.status()
    released.set()
    for thread in threads:
        thread.join(120)
    assert sorted(outcomes) == [1, 1, STEPS]


def test_a_timeout_passes_in_the_queue(small_queue: tuple[Server, threading.Event]) -> None:
    server, released = small_queue
    outcomes = list[Any]()
    thread = ask_in_thread(server, STEPS, outcomes)
    wait_until(lambda: queue_of(server).running == 1)
    with httpclient.InferenceServerClient(server.http) as client:
        with pytest.raises(InferenceServerException) as caught:
            client.infer("counting", steps(httpclient, 1), timeout=1000)
        assert caught.value.status() == "504"
    released.set()
    thread.join(120)
    assert outcomes == [STEPS]


def test_a_client_that_goes_away_frees_its_slot(
    small_queue: tuple[Server, threading.Event],
) -> None:
    server, released = small_queue
    outcomes, queue = list[Any](), queue_of(server)
    thread = ask_in_thread(server, STEPS, outcomes)
    wait_until(lambda: queue.running == 1)
    tensor = {"name": "n", "shape": [1], "datatype": "INT64", "data": [1]}
    body = json.dumps({"inputs": [tensor]}).encode()
    connection = http.client.HTTPConnection(server.http)
    connection.request("POST", "/v2/models/counting/infer", body)
    wait_until(lambda: queue.depth == 1)
    connection.close()
    wait_until(lambda: queue.depth == 0)
    with grpcclient.InferenceServerClient(server.grpc) as client:
        call = client.async_infer("counting", steps(grpcclient, 1), lambda result, error: None)
        wait_until(lambda: queue.depth == 1)
        call.cancel()
        wait_until(lambda: queue.depth == 0)
    assert queue.running == 1 and not outcomes
    released.set()
    thread.join(120)
    assert outcomes == [STEPS]


def test_shutdown_answers_what_it_took(tmp_path: Path) -> None:
    save_model(tmp_path, "counting", counting())
    server = Server(tmp_path, Settings(drain_seconds=120))
    released = hold_long_calls(server)
    outcomes = list[Any]()
    threads = fill(server, outcomes)
    server.begin_stop()
    wait_until(lambda: server.running.engine.draining)
    # A new connection is refused, or closed without an answer.
    with pytest.raises((OSError, http.client.HTTPException, InferenceServerException)):
        with httpclient.InferenceServerClient(server.http) as client:
            client.infer("counting", steps(httpclient, 1))
    released.set()
    for thread in threads:
        thread.join(120)
    server.stop()
    assert sorted(outcomes) == [1, 1, STEPS]


@pytest.mark.slow
def test_shutdown_ends_at_its_limit(tmp_path: Path) -> None:
    """A call that does not return keeps the server no longer than the limit."""
    save_model(tmp_path, "counting", counting())
    server = Server(tmp_path, Settings(drain_seconds=0.2))
    released, outcomes = hold_long_calls(server), list[Any]()
    thread = ask_in_thread(server, STEPS, outcomes)
    try:
        wait_until(lambda: queue_of(server).running == 1)
        server.stop()
        thread.join(120)
        assert isinstance(outcomes[0], Exception)
    finally:
        released.set()


@pytest.mark.slow
def test_sequences_are_bounded_and_dropped_when_idle(tmp_path: Path) -> None:
    from support.models.stateful import growing

    (tmp_path / "growing" / "1").mkdir(parents=True)
    growing(tmp_path / "growing" / "1" / "model.xml")
    settings = Settings(limits=ServerLimits(sequences=2, sequence_seconds=2))
    with (
        serving(tmp_path, settings) as server,
        httpclient.InferenceServerClient(server.http) as client,
    ):
        given = httpclient.InferInput("x", [1, 4], "FP32")
        given.set_data_from_numpy(np.ones((1, 4), np.float32))

        def step(id_: int, start: bool = True) -> None:
            client.infer("growing", [given], sequence_id=id_, sequence_start=start)

        step(1)
        step(2)
        with pytest.raises(InferenceServerException, match="too many live sequences"):
            step(3)
        time.sleep(2.1)
        step(3)
        with pytest.raises(InferenceServerException, match="not known"):
            step(1, start=False)


def test_bodies_share_a_budget(tmp_path: Path) -> None:
    save_model(tmp_path, "counting", counting())
    limits = ServerLimits(buffered_bytes=100_000, body_seconds=60)
    with serving(tmp_path, Settings(limits=limits)) as server:
        host, port = server.http.split(":")
        head = (
            b"POST /v2/models/counting/infer HTTP/1.1\r\nhost: x\r\ncontent-length: 90000\r\n\r\n"
        )

        def post() -> int:
            connection = http.client.HTTPConnection(server.http)
            connection.request("POST", "/v2/models/counting/infer", b" " * 50_000)
            status = connection.getresponse().status
            connection.close()
            return status

        assert post() == 400
        with socket.create_connection((host, int(port))) as client:
            client.sendall(head + b" " * 80_000)
            wait_until(lambda: post() == 429)
