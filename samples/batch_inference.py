"""Batch inference over many processes: one irc.Predictor, a model loaded once in each.

    python -m irc_compiler.samples.batch_inference

Classifies held-out handwritten digits in a pool of processes and prints how many are right.
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


def main() -> None:
    """Classify, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    images, labels = load()
    started = time.perf_counter()
    found = with_pool(irc.Predictor(DIGITS / "digits.onnx"), images, args.workers)
    seconds = time.perf_counter() - started
    right = int((found.argmax(axis=1) == labels).sum())
    print(f"{right} of {len(labels)} digits right, {args.workers} processes, {seconds:.1f} s")


if __name__ == "__main__":
    main()
