"""Batch inference with Spark: mapInPandas or a pandas UDF, on processes that load the model once.

    python -m irc_compiler.samples.spark_frame --workers 2 --form udf

Classifies held-out handwritten digits on a local cluster and prints how many are right. A task
whose Python worker ends is computed again. Needs `pip install pyspark pandas pyarrow` and Java.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any

import irc_compiler as irc
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]
from pyspark.sql.functions import pandas_udf  # pyright: ignore[reportMissingImports]
from pyspark.sql.types import ArrayType, FloatType  # pyright: ignore[reportMissingImports]

from .batch_inference import DIGITS, load


def classify(
    predict: Any, images: Any, workers: int, rows: int = 32, *, form: str = "map"
) -> tuple[Any, Any]:
    """Row numbers, in order, and their probabilities. rows: of a batch; form: map or udf."""

    def map_frames(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            yield predict(batch).assign(row=batch["row"])

    @pandas_udf(ArrayType(FloatType()))
    def compute_probabilities(column: pd.Series) -> pd.Series:
        return pd.Series(list(predict(np.stack(list(column)))))

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    frame = pd.DataFrame({"row": np.arange(len(images)), "image": list(images)})
    # A second number is needed locally: without it a task that fails once ends the job.
    builder = SparkSession.builder.master(f"local[{workers},4]")
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", rows)
    builder = builder.config("spark.ui.enabled", "false")
    with builder.getOrCreate() as spark:
        table = spark.createDataFrame(frame, "row long, image array<float>")
        table = table.repartition(4 * workers)
        if form == "map":
            table = table.mapInPandas(map_frames, "row long, probabilities array<float>")
        else:
            table = table.select("row", compute_probabilities("image").alias("probabilities"))
        found = table.toPandas().sort_values("row")
    return list(found["row"]), np.stack(list(found["probabilities"]))


def main() -> None:
    """Classify, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--form", choices=["map", "udf"], default="map")
    args = parser.parse_args()
    images, labels = load()
    predict = irc.Predictor(DIGITS / "digits.onnx")
    rows, found = classify(predict, images, args.workers, form=args.form)
    right = int((found.argmax(axis=1) == labels[rows]).sum())
    print(f"{right} of {len(labels)} digits right, {args.workers} workers")


if __name__ == "__main__":
    main()
