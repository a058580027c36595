"""Samples for Ray, Spark and Dask on a local cluster: right answers, one load for each process, and
no row lost or doubled by a killed worker.

Ray and Spark are in none of irc's extras: IRC_SCALE_OUT_PYTHON names an interpreter that has them
(`scripts/extended.sh scale-out` makes one).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("IRC_SCALE_OUT_PYTHON", sys.executable)


def is_installed(package: str) -> bool:
    if PYTHON == sys.executable:
        return importlib.util.find_spec(package) is not None
    code = f"import importlib.util; print(importlib.util.find_spec({package!r}) is not None)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip() == "True"


def require_packages(engine: str) -> None:
    """Skip the test where the packages of an engine are missing."""
    if engine == "dask" and not is_installed("distributed"):
        pytest.skip('not run: distributed is not installed, pip install "irc-compiler[batch]"')
    if engine.startswith("ray") and not is_installed("ray"):
        pytest.skip("not run: ray is not installed")
    if engine.startswith("spark"):
        if not is_installed("pyspark"):
            pytest.skip("not run: pyspark is not installed")
        if shutil.which("java") is None:
            pytest.skip("not run: Java is not installed")


def run(*words: str) -> str:
    done = subprocess.run(
        [PYTHON, "-m", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


SAMPLES = {
    "dask": ["dask_frame", "--workers", "2"],
    "ray_data": ["ray_data", "--workers", "2"],
    "spark_map": ["spark_frame", "--workers", "2", "--form", "map"],
    "spark_udf": ["spark_frame", "--workers", "2", "--form", "udf"],
}


@pytest.mark.slow
@pytest.mark.parametrize("engine", SAMPLES)
def test_the_sample_on_a_local_cluster(engine: str) -> None:
    require_packages(engine)
    module, *words = SAMPLES[engine]
    printed = run(f"irc_compiler.samples.{module}", *words)
    assert re.search(r"^352 of 360 digits right, 2 workers$", printed, re.M), printed


@pytest.mark.slow
@pytest.mark.parametrize("engine", SAMPLES)
def test_a_killed_worker_loses_and_doubles_no_row(engine: str) -> None:
    """Each process loads the model once."""
    require_packages(engine)
    words = ["--workers", "2", "--rows", "512", "--batch", "32", "--kill"]
    found = json.loads(run("benchmarks.scale_out", "--engine", engine, *words).splitlines()[-1])
    assert found["killed"] and found["rows_once_in_order"], found
    assert found["most_loads_of_a_process"] == 1 and found["largest_difference"] < 1e-5, found


@pytest.mark.slow
@pytest.mark.parametrize("engine", SAMPLES)
def test_one_worker_is_one_process(engine: str) -> None:
    require_packages(engine)
    words = ["--workers", "1", "--rows", "256", "--batch", "32"]
    found = json.loads(run("benchmarks.scale_out", "--engine", engine, *words).splitlines()[-1])
    assert (found["processes"], found["rows_once_in_order"]) == (1, True), found


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_the_sample_of_ray_serve() -> None:
    require_packages("ray_serve")
    printed = run("irc_compiler.samples.ray_serve", "--port", str(find_free_port()))
    assert re.search(r"^352 of 360 digits right, 2 replicas$", printed, re.M), printed


@pytest.mark.slow
def test_requests_of_a_killed_replica_are_sent_again() -> None:
    require_packages("ray_serve")
    words = ["--workers", "2", "--rows", "512", "--batch", "32", "--kill"]
    found = json.loads(run("benchmarks.scale_out_serve", *words).splitlines()[-1])
    assert found["killed"] and found["processes"] == 2, found
    assert found["rows"] == 512 and found["largest_difference"] < 1e-5, found
