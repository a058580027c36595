"""`irc serve` under closed-loop load, next to a FastAPI application with onnxruntime.

    python -m benchmarks.serve --model encoder,copy64k --clients 1,8,32,128 --results

Each client sends the next request when the last one is answered, over one connection, with binary
tensors. Answers are checked before anything is timed: irc's must have the bits of a call in this
process. Printed per server and number of clients: requests a second, the median and the 99th
percentile of their latency, CPU time of the server for each. `bare` is the median of a call alone.
All servers run at once and take turns under load, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import http.client
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.runtime.machine.cpus import usable_cores

from .measurement.result_files import Row, add_option, add_rows
from .measurement.timing import wait_until_idle
from .workloads.serve_models import MODELS


@dataclass(frozen=True)
class Load:
    """One measurement. Times are milliseconds."""

    model: str
    server: str
    clients: int
    requests_per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    bare_ms: float
    failures: int


# The application that people write: one endpoint, one session, calls in FastAPI's thread pool.
APPLICATION = """
import json, sys
import numpy as np, onnxruntime, uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
shapes = {i.name: [-1 if isinstance(d, str) else d for d in i.shape] for i in session.get_inputs()}
app = FastAPI()


@app.post("/infer")
async def infer(request: Request) -> Response:
    body = await request.body()
    x = np.frombuffer(body, np.float32).reshape(shapes["x"])
    (y,) = await run_in_threadpool(session.run, None, {"x": x})
    return Response(y.tobytes(), media_type="application/octet-stream")


uvicorn.run(app, port=0, log_level="info", access_log=False)
"""


# Servers, as result files name them.
ENGINES = {
    "irc": "irc",
    "irc-single": "irc, one call at a time",
    "irc-batched": "irc with batching",
    "fastapi": "FastAPI and onnxruntime",
}


@dataclass(frozen=True)
class Target:
    """A running server: process, port, and a request and the array in its answer."""

    name: str
    pid: int
    port: int
    path: str
    make: Callable[[Any], tuple[bytes, dict[str, str]]]
    read: Callable[[bytes, dict[str, str]], Any]


def irc_request(x: Any) -> tuple[bytes, dict[str, str]]:
    """A request with the binary extension."""
    tensor = {"name": "x", "shape": list(x.shape), "datatype": "FP32"}
    tensor["parameters"] = {"binary_data_size": x.nbytes}
    parameters = {"binary_data_output": True}
    head = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def irc_answer(body: bytes, headers: dict[str, str]) -> Any:
    """The array behind the JSON."""
    return np.frombuffer(body[int(headers["inference-header-content-length"]) :], np.float32)


@contextlib.contextmanager
def running(name: str, words: Sequence[str], pattern: str) -> Iterator[tuple[int, int]]:
    """A server process: its id and its port, once it prints the port."""
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(pattern, line):
                break
        else:
            raise SystemExit(f"{name} did not start")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process.pid, int(found[1])
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def serving(name: str, path: Path, precision: str = "f32") -> Iterator[Target]:
    """One of the servers: irc, irc-single, irc-batched, fastapi. precision: irc's."""
    if name == "fastapi":
        words = [sys.executable, "-c", APPLICATION, str(path)]
        with running(name, words, r"running on http://127.0.0.1:(\d+)") as (pid, port):
            yield Target(
                name, pid, port, "/infer",
                lambda x: (x.tobytes(), {}), lambda body, _: np.frombuffer(body, np.float32),
            )  # fmt: skip
        return
    words = [sys.executable, "-m", "irc_compiler", "serve", str(path), "--http", "0"]
    words += ["--precision", precision]
    words += ["--max-batch-size", "32"] if name == "irc-batched" else []
    words += ["--threads", str(usable_cores())] if name == "irc-single" else []
    with running(name, words, r"http on port (\d+)") as (pid, port):
        infer = f"/v2/models/{path.stem}/infer"
        target = Target(name, pid, port, infer, irc_request, irc_answer)
        end = time.monotonic() + 300
        while _status(port) != 200:
            assert time.monotonic() < end, "the model did not load"
            time.sleep(0.05)
        yield target


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/v2/health/ready")
    status = connection.getresponse().status
    connection.close()
    return status


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(target: Target, net: irc.CompiledModel, shape: Sequence[int]) -> None:
    """Answers before times: irc's bits, others' values."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = rng.standard_normal(shape).astype(np.float32)
        wanted = net({"x": x})[0].reshape(-1)
        found = ask(target, http.client.HTTPConnection("127.0.0.1", target.port), x)
        if target.name.startswith("irc"):
            assert found.tobytes() == wanted.tobytes(), "the answer has other bits than a call"
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def ask(target: Target, connection: http.client.HTTPConnection, x: Any) -> Any:
    """One request; the array of its answer."""
    body, headers = target.make(x)
    connection.request("POST", target.path, body, headers)
    response = connection.getresponse()
    data = response.read()
    if response.status != 200:
        raise OSError(data[:200])
    return target.read(data, {k.lower(): v for k, v in response.getheaders()})


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes
) -> tuple[bytes, dict[str, str]]:
    """One request over an open connection: the body and the headers of the answer."""
    writer.write(message)
    status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers["content-length"]))
    if " 200 " not in status:
        raise OSError(body[:200])
    return body, headers


def messages_of(target: Target, xs: Sequence[Any]) -> list[bytes]:
    """The whole requests, headers included."""
    found = list[bytes]()
    for x in xs:
        body, headers = target.make(x)
        headers = {"Host": "127.0.0.1", "Content-Length": str(len(body)), **headers}
        lines = [f"POST {target.path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        found.append("\r\n".join([*lines, "", ""]).encode() + body)
    return found


async def load(
    target: Target, clients: int, seconds: float, xs: Sequence[Any], wanted: Sequence[bytes]
) -> tuple[list[float], int, float]:
    """Latencies of all requests, the number of wrong or lost answers, and the time it took."""
    messages, latencies, wrong = messages_of(target, xs), list[float](), 0
    exact, start = target.name.startswith("irc"), time.perf_counter()
    end = start + seconds

    async def run(turn: int) -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
        while (begun := time.perf_counter()) < end:
            turn = (turn + 1) % len(xs)
            try:
                answer = await exchange(reader, writer, messages[turn])
                latencies.append(time.perf_counter() - begun)
                wrong += exact and target.read(*answer).tobytes() != wanted[turn]
            except OSError:
                wrong += 1
        writer.close()

    await asyncio.gather(*(run(n) for n in range(clients)))
    return latencies, wrong, time.perf_counter() - start


def measure(model: str, path: Path, args: argparse.Namespace) -> list[Load]:
    """All servers and numbers of clients for one model. Servers alternate in each round."""
    rows = list[Load]()
    with contextlib.ExitStack() as stack:
        net = stack.enter_context(irc.compile_model(path, precision=args.precision))
        exact = stack.enter_context(irc.compile_model(path))
        shape = [1 if isinstance(d, str) else d for d in net.inputs[0].shape or ()]
        rng = np.random.default_rng(0)
        xs = [rng.standard_normal(shape).astype(np.float32) for _ in range(16)]
        wanted = [net({"x": x})[0].tobytes() for x in xs]
        targets = list[Target]()
        for name in args.server.split(","):
            if name == "fastapi" and importlib.util.find_spec("fastapi") is None:
                print("not run: fastapi is not installed")
                continue
            targets.append(stack.enter_context(serving(name, path, args.precision)))
            check(targets[-1], exact if name == "fastapi" else net, shape)
        for clients in (int(c) for c in args.clients.split(",")):
            rounds = {target.name: list[Load]() for target in targets}
            for target in targets:
                # Not counted: sizes of batches are compared, caches are filled.
                asyncio.run(load(target, clients, args.seconds / 2, xs, wanted))
            for _ in range(args.rounds):
                bare = time_bare_calls(net, xs, min(1.0, args.seconds))
                for target in targets:
                    found = measure_round(model, target, clients, args.seconds, xs, wanted)
                    rounds[target.name].append(dataclasses.replace(found, bare_ms=bare))
            best = [choose_best_round(found) for found in rounds.values()]
            for row in best:
                print(format_load(row), flush=True)
            rows += best
    return rows


def time_bare_calls(net: irc.CompiledModel, xs: Sequence[Any], seconds: float) -> float:
    """The median of a call in this process, in milliseconds."""
    wait_until_idle()
    times = list[float]()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not times:
        start = time.perf_counter()
        net({"x": xs[len(times) % len(xs)]})
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def measure_round(
    model: str,
    target: Target,
    clients: int,
    seconds: float,
    xs: Sequence[Any],
    wanted: Sequence[bytes],
) -> Load:
    """One server under load for `seconds`, without the time of a bare call."""
    wait_until_idle()
    before = cpu_seconds(target.pid)
    found, wrong, took = asyncio.run(load(target, clients, seconds, xs, wanted))
    cpu = cpu_seconds(target.pid) - before
    if not found:
        raise SystemExit(f"{target.name} answered no request of {clients} clients")
    found.sort()
    return Load(
        model,
        target.name,
        clients,
        len(found) / took,
        statistics.median(found) * 1000,
        found[int(len(found) * 0.99)] * 1000,
        cpu / len(found) * 1000,
        0.0,
        wrong,
    )


def choose_best_round(rounds: Sequence[Load]) -> Load:
    """The round with the most requests a second; failures and bare times are those of all."""
    best = max(rounds, key=lambda r: r.requests_per_second)
    bare, failures = min(r.bare_ms for r in rounds), sum(r.failures for r in rounds)
    return dataclasses.replace(best, bare_ms=bare, failures=failures)


def format_load(row: Load) -> str:
    """A printed line."""
    return (
        f"{row.model:<9} {row.server:<11} {row.clients:>3} clients"
        f"  {row.requests_per_second:8.1f}/s  p50 {row.p50_ms:8.3f} ms  p99 {row.p99_ms:8.3f} ms"
        f"  cpu {row.cpu_ms:7.3f} ms  bare {row.bare_ms:7.3f} ms  {row.failures} wrong or lost"
    )


def result_rows(loads: Sequence[Load], precision: str = "f32") -> list[Row]:
    """Rows of a result file. precision: irc's. A ratio compares median latencies; only a reference
    engine has one."""
    irc_p50 = {(r.model, r.clients): r.p50_ms for r in loads if r.server == "irc"}
    found = list[Row]()
    for r in loads:
        base = irc_p50.get((r.model, r.clients)) if r.server == "fastapi" else None
        measures = {"requests_per_second": r.requests_per_second, "p99_s": r.p99_ms / 1000}
        measures |= {"cpu_s": r.cpu_ms / 1000, "bare_s": r.bare_ms / 1000}
        found.append(
            Row(
                "serve",
                f"{r.model}, {r.clients} clients",
                ENGINES[r.server],
                usable_cores(),
                "f32" if r.server == "fastapi" else precision,
                median=r.p50_ms / 1000,
                ratio=r.p50_ms / base if base else None,
                measures=measures,
            )
        )
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Measure; exit code 1 if an answer was wrong or lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--model", default=",".join(MODELS), help="names, or paths of .onnx files")
    parser.add_argument("--server", default="irc,irc-batched,fastapi")
    parser.add_argument("--clients", default="1,8,32,128")
    parser.add_argument("--seconds", type=float, default=10.0, help="per server and round")
    parser.add_argument("--rounds", type=int, default=1, help="servers alternate; the best counts")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"], help="of irc")
    add_option(parser)
    args = parser.parse_args(words)
    rows = list[Load]()
    with tempfile.TemporaryDirectory() as folder:
        for model in args.model.split(","):
            path = Path(model)
            if model in MODELS:
                path = Path(folder) / f"{model}.onnx"
                path.write_bytes(MODELS[model]())
            rows += measure(path.stem, path, args)
    if args.results:
        add_rows(args.results, result_rows(rows, args.precision))
    return int(any(r.failures for r in rows))


if __name__ == "__main__":
    sys.exit(main())
