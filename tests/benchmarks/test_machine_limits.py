"""benchmarks.measurement.machine_limits: what bounds a call, from operations and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.models.small import mlp

ROOT = Path(__file__).parents[2]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.measurement import machine_limits

    monkeypatch.setattr(machine_limits, "measured_bandwidth", lambda size, threads: 1e6)
    return machine_limits


def test_shares_are_of_operations_and_of_weights(limits: Any) -> None:
    net = irc.compile_model(mlp((64, 512, 32), batch=10), num_threads=1)
    limit = limits.MachineLimits(net, [np.ones((10, 64), np.float32)], threads=2)
    (peak,) = limit.peaks.values()
    peak.run()
    found = limit.find_shares(0.1, {"f32": peak.flops / 2e9})
    weights = 64 * 512 + 512 * 32
    assert limits.count_weight_bytes(net.plan) == 4 * (weights + 512 + 32)
    assert found["peak_share"] == pytest.approx(2 * 10 * weights / 2e9 / 0.1, rel=0.02)
    assert found["bandwidth_share"] == pytest.approx(4 * (weights + 512 + 32) / 1e6 / 0.1)
