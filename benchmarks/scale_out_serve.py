"""The sample of Ray Serve on a local cluster: rows a second of one and of two replicas.

    python -m benchmarks.scale_out_serve --workers 1,2 --rounds 3
    python -m benchmarks.scale_out_serve --workers 2 --kill   # ends a replica in the middle

Needs `pip install "ray[serve]" "tritonclient[http]"`. Two clients for each replica send requests,
and every answer is compared with a lone call. Starting a cluster and loading the model are not in
the rates.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np

from .scale_out import FEATURES, dense_layers

ANSWERS_BEFORE_KILL = 3


def measure(workers: int, rows: int, batch: int, *, kill: bool) -> dict[str, Any]:
    """Run the sample: rows a second, processes, and the largest difference of a row."""
    sample: Any = importlib.import_module("irc_compiler.samples.ray_serve")
    rng = np.random.default_rng(1)
    images = rng.standard_normal((rows, FEATURES)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(dense_layers())
        url = f"localhost:{find_free_port()}"
        sample.deploy(path, workers, int(url.rpartition(":")[2]))
        try:
            # Until every replica has loaded the model and has answered.
            sample.classify(url, "model", images[: 8 * workers], workers, 1)
            replicas = find_replicas()
            if kill:
                end_a_replica_later(sample, replicas[0])
            start = time.perf_counter()
            found = sample.classify(url, "model", images, 2 * workers, batch)
            seconds = time.perf_counter() - start
            killed = kill and not Path(f"/proc/{replicas[0]}").exists()
        finally:
            sample.serve.shutdown()
            sample.ray.shutdown()
        with irc.compile_model(path, num_threads=1) as net:
            wanted = net({"image": images})[0]
    return {
        "engine": "ray_serve",
        "workers": workers,
        "rows_per_second": rows / seconds,
        "processes": len(replicas),
        "killed": killed,
        "rows": len(found),
        "largest_difference": float(np.abs(found - wanted).max()),
    }


def end_a_replica_later(sample: Any, process: int) -> None:
    """End a replica by SIGKILL once a few requests are answered."""
    infer, lock, answered = sample.infer, threading.Lock(), list[int]()

    def infer_and_count(*arguments: Any) -> Any:
        found = infer(*arguments)
        with lock:
            answered.append(1)
            if len(answered) == ANSWERS_BEFORE_KILL:
                os.kill(process, signal.SIGKILL)
        return found

    sample.infer = infer_and_count


def find_replicas() -> list[int]:
    """Processes of replicas that this process started."""
    parents, replicas = dict[int, int](), list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            title = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        if title.startswith(b"ray::ServeReplica"):
            replicas.append(int(folder.name))

    def is_below(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return [process for process in replicas if is_below(process)]


def find_free_port() -> int:
    """A port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main(words: Sequence[str] | None = None) -> int:
    """Print one JSON object a line; exit code 1 if rows are lost or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=1, help="alternate the numbers of workers")
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--kill", action="store_true", help="end a replica by SIGKILL")
    args = parser.parse_args(words)
    good = True
    for workers in (int(w) for w in args.workers.split(",") * args.rounds):
        found = measure(workers, args.rows, args.batch, kill=args.kill)
        print(json.dumps(found), flush=True)
        good &= found["rows"] == args.rows and found["largest_difference"] < 1e-5
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
