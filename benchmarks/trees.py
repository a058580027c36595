"""Tree ensembles against onnxruntime: `python -m benchmarks.trees`.

    python -m benchmarks.trees --rows 1,1000 --threads 1 --results

100 trees of depth 8 over 20 columns: a random forest's regressor and classifier, and gradient
boosting with missing values (workloads/trees.py). Labels are equal and scores within 1e-5 of
onnxruntime's before anything is timed; the engines alternate. The bar is three times onnxruntime's
speed at 1000 rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from statistics import geometric_mean

import numpy as np

from .measurement.result_files import Row as Result
from .measurement.result_files import add_option, add_rows, engine_rows
from .measurement.timing import alternate
from .peers import onnxruntime_peer
from .workloads.trees import COLUMNS, FORESTS

TREES, DEPTH = 100, 8
TOLERANCE = 1e-5
BAR, BAR_ROWS = 3.0, 1000


def measure(name: str, rows: int, threads: int, seconds: float) -> list[Result]:
    """The rows of both engines for one forest. RuntimeError where the answers differ."""
    import irc_compiler as irc

    model = FORESTS[name](TREES, DEPTH)
    rng = np.random.default_rng(rows)
    x = rng.standard_normal((rows, COLUMNS)).astype(np.float32)
    if name == "boosting":
        x[rng.random(x.shape) < 0.05] = np.nan
    peer = onnxruntime_peer(model.SerializeToString(), {"x": x}, threads)
    call = irc.compile_model(model, num_threads=threads).bind({"x": x})
    peer.run()
    got = [np.asarray(v) for v in call()]
    *labels, scores = peer.outputs()
    scale = float(np.abs(scores).max())
    error = float(np.abs(got[-1].reshape(scores.shape) - scores).max()) / scale
    agree = all((a == b).all() for a, b in zip(got[:-1], labels, strict=True))
    if not agree or not error <= TOLERANCE:
        raise RuntimeError(f"{name}: labels agree: {agree}; error {error:.2g}")
    times = alternate({"irc": call, peer.name: peer.run}, seconds=seconds)
    return engine_rows(
        "trees", f"{name}, {rows} rows", threads, "f32",
        medians={k: t.median for k, t in times.items()},
        minima={k: t.best for k, t in times.items()},
        error=error,
    )  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, and compare with the bar."""
    parser = argparse.ArgumentParser(prog="benchmarks.trees", description=(__doc__ or "")[:60])
    parser.add_argument("--rows", default="1,1000,10000", help="rows per call, comma separated")
    parser.add_argument("--threads", default="1,2", help="thread counts, comma separated")
    parser.add_argument("--seconds", type=float, default=1.0, help="per forest and size")
    add_option(parser)
    options = parser.parse_args(words)
    found: list[Result] = []
    for threads in map(int, options.threads.split(",")):
        for rows in map(int, options.rows.split(",")):
            for name in FORESTS:
                mine, other = measure(name, rows, threads, options.seconds)
                found += [mine, other]
                assert mine.median and other.median and other.ratio
                print(
                    f"{mine.name:32} {threads} threads  irc {mine.median * 1e6:9.1f} us"
                    f"  onnxruntime {other.median * 1e6:9.1f} us  {other.ratio:5.2f} times",
                    flush=True,
                )
    if options.results:
        add_rows(options.results, found)
    bar = [r.ratio for r in found if r.ratio and r.name.endswith(f", {BAR_ROWS} rows")]
    if not bar:
        return 0
    print(f"{BAR_ROWS} rows: {geometric_mean(bar):.2f} times, least {min(bar):.2f}; bar {BAR}")
    return int(min(bar) < BAR)


if __name__ == "__main__":
    sys.exit(main())
