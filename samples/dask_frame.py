"""Batch inference with Dask: a DataFrame's partitions, on processes that load the model once.

    python -m irc_compiler.samples.dask_frame --workers 2

Classifies held-out handwritten digits on a local cluster and prints how many are right. A partition
whose worker ends is computed again by another one.
"""

from __future__ import annotations

import argparse
from typing import Any

import dask.dataframe as dd
import irc_compiler as irc
import numpy as np
import pandas as pd
from distributed import Client, LocalCluster

from .batch_inference import DIGITS, load


def classify(predict: Any, images: Any, workers: int, rows: int = 32) -> tuple[Any, Any]:
    """Row numbers, in order, and their probabilities. rows: of a partition."""
    frame = dd.from_pandas(pd.DataFrame(images), chunksize=rows)
    meta = pd.DataFrame({"probabilities": pd.Series(dtype=object)})
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        found = frame.map_partitions(predict, meta=meta).compute()
    return list(found.index), np.stack(list(found["probabilities"]))


def main() -> None:
    """Classify, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    images, labels = load()
    rows, found = classify(irc.Predictor(DIGITS / "digits.onnx"), images, args.workers)
    right = int((found.argmax(axis=1) == labels[rows]).sum())
    print(f"{right} of {len(labels)} digits right, {args.workers} workers")


if __name__ == "__main__":
    main()
