"""Ray Serve: the ASGI application of irc in replicas, behind the proxy of a local cluster.

    python -m irc_compiler.samples.ray_serve --replicas 2

Sends held-out handwritten digits with Triton's client and prints how many are right. Requests of a
replica that ends are sent again. Needs `pip install "ray[serve]" "tritonclient[http]"`.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import irc_compiler.serve
import numpy as np
import ray  # pyright: ignore[reportMissingImports]
import tritonclient.http as client
from irc_compiler.serve.settings import Settings
from ray import serve  # pyright: ignore[reportMissingImports]
from tritonclient.utils import InferenceServerException

from .batch_inference import DIGITS, load


def deploy(path: Path, replicas: int, port: int) -> None:
    """Start replicas of a model, each a process with one thread for a call."""

    @serve.deployment(num_replicas=replicas, ray_actor_options={"num_cpus": 1})
    @serve.ingress(irc_compiler.serve.app(path, Settings(threads=1)))
    class Model:
        """A replica; the application loads the model when the replica starts."""

    ray.init(num_cpus=replicas, include_dashboard=False)
    serve.start(http_options={"port": port})
    serve.run(Model.bind())


def infer(url: str, model: str, images: Any, attempts: int = 200) -> Any:
    """One request; sent again while a replica loads the model or is replaced."""
    image = client.InferInput("image", list(images.shape), "FP32")
    image.set_data_from_numpy(images)
    for attempt in range(attempts):
        try:
            with client.InferenceServerClient(url, network_timeout=300) as connection:
                return connection.infer(model, [image]).as_numpy("probabilities")
        except (InferenceServerException, OSError):
            if attempt == attempts - 1:
                raise
            time.sleep(0.1)


def classify(url: str, model: str, images: Any, clients: int, rows: int = 32) -> Any:
    """Probabilities, in the order of the images. rows: of a request."""
    parts = [images[start : start + rows] for start in range(0, len(images), rows)]
    with ThreadPoolExecutor(clients) as pool:
        return np.concatenate(list(pool.map(lambda part: infer(url, model, part), parts)))


def main() -> None:
    """Classify, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    images, labels = load()
    deploy(DIGITS / "digits.onnx", args.replicas, args.port)
    found = classify(f"localhost:{args.port}", "digits", images, 2 * args.replicas)
    right = int((found.argmax(axis=1) == labels).sum())
    print(f"{right} of {len(labels)} digits right, {args.replicas} replicas")
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
