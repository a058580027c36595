"""Batch inference over many processes: one irc.Predictor, a model loaded once in each.

    python -m irc_compiler.samples.batch_inference                    # a pool of processes
    python -m irc_compiler.samples.batch_inference --engine dask      # with the extra `batch`

Classifies held-out handwritten digits in partitions and prints how many are right.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np

DIGITS = Path(__file__).resolve().parent / "digits"


def load() -> tuple[Any, Any]:
    """Images as rows of 64 features, and their labels."""
    held_out = np.load(DIGITS / "held_out.npz", allow_pickle=False)
    images = held_out["images"]
    return (images.reshape(len(images), -1) / 16).astype(np.float32), held_out["labels"]


def with_pool(predict: irc.Predictor, images: Any, workers: int) -> Any:
    """Probabilities through a pool of fresh processes, as Ray's actors are."""
    parts = [{"image": part} for part in np.array_split(images, 4 * workers)]
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        return np.concatenate([y["probabilities"] for y in pool.map(predict, parts)])


def with_dask(predict: irc.Predictor, images: Any, workers: int) -> Any:
    """Probabilities through a Dask DataFrame on a local cluster of processes."""
    import dask.dataframe as dd
    import pandas as pd
    from distributed import Client, LocalCluster

    frame = dd.from_pandas(pd.DataFrame(images), npartitions=4 * workers, sort=False)
    meta = pd.DataFrame({"probabilities": pd.Series(dtype=object)})
    with (
        LocalCluster(workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        rows = frame.map_partitions(predict, meta=meta).compute()["probabilities"]
    return np.stack(list(rows))


ENGINES = {"pool": with_pool, "dask": with_dask}


def main() -> None:
    """Classify, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=tuple(ENGINES), default="pool")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    images, labels = load()
    started = time.perf_counter()
    found = ENGINES[args.engine](irc.Predictor(DIGITS / "digits.onnx"), images, args.workers)
    seconds = time.perf_counter() - started
    right = int((found.argmax(axis=1) == labels).sum())
    print(f"{right} of {len(labels)} digits right, {args.workers} processes, {seconds:.1f} s")


if __name__ == "__main__":
    main()
