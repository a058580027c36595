"""Metrics: irc's names, those of Triton's and OVMS's dashboards, read by Prometheus's parser."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import tritonclient.http as httpclient
from irc_compiler.serve.settings import Settings
from irc_compiler.serve.statistics import Histogram
from prometheus_client.parser import text_string_to_metric_families
from support.serving import affine, save_model, serving
from tritonclient.utils import InferenceServerException

WANTED: dict[str, dict[str, float]] = {
    "irc": {
        "irc_requests_total": 3,
        "irc_request_failures_total": 2,
        "irc_request_seconds_count": 3,
        "irc_queue_seconds_count": 3,
        "irc_compute_seconds_count": 3,
        "irc_batch_rows_sum": 6,
        "irc_queue_depth": 0,
        "irc_requests_running": 0,
    },
    "triton": {
        "nv_inference_request_success": 3,
        "nv_inference_request_failure": 2,
        "nv_inference_count": 6,
        "nv_inference_exec_count": 3,
        "nv_inference_pending_request_count": 0,
    },
    "ovms": {
        "ovms_requests_success": 3,
        "ovms_requests_fail": 2,
        "ovms_request_time_us_count": 3,
        "ovms_inference_time_us_count": 3,
        "ovms_current_requests": 0,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("names", ["irc", "triton", "ovms"])
def test_names_and_values(tmp_path: Path, names: Literal["irc", "triton", "ovms"]) -> None:
    save_model(tmp_path, "m", affine())
    with serving(tmp_path, Settings(metric_names=names)) as server:
        with httpclient.InferenceServerClient(server.http) as client:
            given = httpclient.InferInput("x", [2, 4], "FP32")
            given.set_data_from_numpy(np.ones((2, 4), np.float32))
            for _ in range(3):
                client.infer("m", [given])
            with pytest.raises(InferenceServerException):
                client.infer("m", [])  # refused by the model
            given.set_data_from_numpy(np.ones((2, 4), np.float32), binary_data=False)
            given._datatype = "FP9"
            with pytest.raises(InferenceServerException):
                client.infer("m", [given])  # refused when it is decoded
        pages = [fetch(f"http://{where}/metrics") for where in (server.http, server.metrics)]
        with pytest.raises(urllib.error.HTTPError):
            fetch(f"http://{server.metrics}/v2")
    for page in pages:
        samples: dict[str, Any] = {
            s.name: s for family in text_string_to_metric_families(page) for s in family.samples
        }
        for name, value in WANTED[names].items():
            assert samples[name].value == value, name
            assert samples[name].labels["name" if names == "ovms" else "model"] == "m"
            assert samples[name].labels["version"] == "1"


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read().decode()


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2), ("2.0", 3), ("+Inf", 4)]
    assert histogram.count == 4 and histogram.sum == 12.0
