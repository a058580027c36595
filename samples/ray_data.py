"""Batch inference with Ray Data: blocks of a dataset, on processes that load the model once.

    python -m irc_compiler.samples.ray_data --workers 2

Classifies held-out handwritten digits on a local cluster and prints how many are right. A block
whose worker ends is computed again by another one. Needs `pip install "ray[data]"`.
"""

from __future__ import annotations

import argparse
from typing import Any

import irc_compiler as irc
import numpy as np
import pandas as pd
import ray  # pyright: ignore[reportMissingImports]

from .batch_inference import DIGITS, load


def classify(predict: Any, images: Any, workers: int, rows: int = 32) -> tuple[Any, Any]:
    """Row numbers, in order, and their probabilities. rows: of a block."""
    frame = pd.DataFrame({"row": np.arange(len(images)), "image": list(images)})

    class Classifier:
        """What an actor of Ray runs."""

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            return {"row": batch["row"], **predict(batch)}

    ray.init(num_cpus=workers, include_dashboard=False)
    # An actor has its next blocks at hand; with two workers, a task of a function waits 0.2 s.
    actors = ray.data.ActorPoolStrategy(size=workers)
    try:
        blocks = [frame[start : start + rows] for start in range(0, len(frame), rows)]
        dataset = ray.data.from_pandas(blocks).map_batches(
            Classifier, batch_size=rows, compute=actors
        )
        found = dataset.to_pandas().sort_values("row")
    finally:
        ray.shutdown()
    return list(found["row"]), np.stack(list(found["probabilities"]))


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
