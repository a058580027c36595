"""Samples of batch inference on a local cluster: rows a second of one and of two workers.

    python -m benchmarks.scale_out --engine ray_data --workers 1,2
    python -m benchmarks.scale_out --engine dask --kill   # ends a worker in the middle by SIGKILL

Workers write each load of the model and each batch to files. A rate counts the rows between the
start of the first batch and the end of the last, so starting a cluster and loading the model are
not in it. Every answer is compared with a lone call, and the row numbers must be complete. The
docstrings of the samples name the packages that an engine needs.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
from irc_compiler.api import predictor
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH, FEATURES = 8, 768, 64
KILLED_BATCH = 3  # of the process that ends
ENGINES: dict[str, tuple[str, dict[str, Any]]] = {
    "dask": ("dask_frame", {}),
    "ray_data": ("ray_data", {}),
    "spark_map": ("spark_frame", {"form": "map"}),
    "spark_udf": ("spark_frame", {"form": "udf"}),
}


class RecordingPredictor(irc.Predictor):
    """A Predictor that writes loads and batches to files of its process, and that ends one process
    of all in the middle if `kill` is set."""

    def __init__(self, path: Path, folder: str, *, kill: bool) -> None:
        super().__init__(path)
        self.folder, self.kill = folder, kill

    def __call__(self, *batch: Any) -> Any:
        """Run one batch."""
        count_loads(self.folder)
        _ = self.net
        start = time.monotonic()
        found = super().__call__(*batch)
        lines = append(self.folder, "batches", f"{start} {time.monotonic()}")
        if self.kill and lines == KILLED_BATCH and be_first(self.folder):
            os.kill(os.getpid(), signal.SIGKILL)
        return found


def count_loads(folder: str) -> None:
    """Write a line for each model that this process loads from now on."""
    compile_model: Any = predictor.compile_model
    if compile_model is irc.compile_model:

        def compile_and_count(*args: Any, **options: Any) -> Any:
            append(folder, "loads", "")
            return compile_model(*args, **options)

        predictor.compile_model = compile_and_count


def append(folder: str, kind: str, line: str) -> int:
    """Add a line to this process's file of a kind; the number of its lines."""
    path = Path(folder) / f"{os.getpid()}.{kind}"
    with path.open("a") as file:
        file.write(line + "\n")
    return len(path.read_text().splitlines())


def be_first(folder: str) -> bool:
    """Whether no other process has called this."""
    try:
        (Path(folder) / "killed").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def dense_layers() -> bytes:
    """image [N, 64] -> probabilities [N, 10] through dense layers that a thread is busy with."""
    rng, nodes, constants, x = np.random.default_rng(0), list[Any](), list[Any](), "image"
    sizes = [FEATURES, *[WIDTH] * LAYERS, 10]
    for n, (before, after) in enumerate(zip(sizes, sizes[1:], strict=False)):
        weight = rng.standard_normal((before, after)).astype(np.float32) * (2 / before) ** 0.5
        constants.append(numpy_helper.from_array(weight, f"w{n}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{n}"], [f"p{n}"]))
        x = f"x{n}"
        nodes.append(helper.make_node("Relu", [f"p{n}"], [x]))
    nodes.append(helper.make_node("Softmax", [x], ["probabilities"], axis=-1))
    ports = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", s])]
        for n, s in (("image", FEATURES), ("probabilities", 10))
    ]
    graph = helper.make_graph(nodes, "g", *ports, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()


def measure(engine: str, workers: int, rows: int, batch: int, *, kill: bool) -> dict[str, Any]:
    """Run one sample: rows a second, processes, loads, and whether all rows are right."""
    module, options = ENGINES[engine]
    sample = importlib.import_module(f"irc_compiler.samples.{module}")
    rng = np.random.default_rng(1)
    images = rng.standard_normal((rows, FEATURES)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(dense_layers())
        predict = RecordingPredictor(path, folder, kill=kill)
        numbers, found = sample.classify(predict, images, workers, batch, **options)
        loads = [len(p.read_text().splitlines()) for p in Path(folder).glob("*.loads")]
        lines = [p.read_text().split() for p in Path(folder).glob("*.batches")]
        killed = (Path(folder) / "killed").exists()
        with irc.compile_model(path, num_threads=1) as net:
            wanted = net({"image": images})[0]
    spans = [float(t) for words in lines for t in words]
    return {
        "engine": engine,
        "workers": workers,
        "rows_per_second": rows / (max(spans) - min(spans)),
        "processes": len(loads),
        "most_loads_of_a_process": max(loads),
        "killed": killed,
        "rows_once_in_order": [int(n) for n in numbers] == list(range(rows)),
        "largest_difference": float(np.abs(np.asarray(found) - wanted).max()),
    }


def main(words: Sequence[str] | None = None) -> int:
    """Print one JSON object a line; exit code 1 if rows are lost, doubled or wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--engine", default=",".join(ENGINES))
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=1, help="alternate the numbers of workers")
    parser.add_argument("--rows", type=int, default=32768)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--kill", action="store_true", help="end a worker in its third batch")
    args = parser.parse_args(words)
    good = True
    for engine in args.engine.split(","):
        for workers in (int(w) for w in args.workers.split(",") * args.rounds):
            found = measure(engine, workers, args.rows, args.batch, kill=args.kill)
            print(json.dumps(found), flush=True)
            good &= found["rows_once_in_order"] and found["largest_difference"] < 1e-5
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
