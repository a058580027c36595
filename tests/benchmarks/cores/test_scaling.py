"""The prediction of times on more cores: its limits, and what it takes from a model."""

from __future__ import annotations

from dataclasses import replace

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops

from benchmarks.cores.scaling import (
    FAR_CLAIM_FACTOR,
    Machine,
    Step,
    best_cores,
    measure_claim,
    measure_steps,
    predict_rate,
    predict_seconds,
)

IDEAL = Machine(64, 1e10, 1e11, 1 << 25, share_seconds=0.0, claim_seconds=0.0)


def test_one_core_takes_the_measured_time() -> None:
    steps = [Step(1e-3, 100, 0), Step(1e-7, 1, 0), Step(1e-4, 1, 0, native=False)]
    assert predict_seconds(steps, 1, IDEAL) == pytest.approx(1e-3 + 1e-7 + 1e-4)


def test_work_without_limits_is_divided() -> None:
    assert predict_seconds([Step(1.0, 1 << 20, 0)], 64, IDEAL) == pytest.approx(1 / 64)


@pytest.mark.parametrize("step", [Step(8e-7, 100, 0), Step(1.0, 100, 0, native=False)])
def test_short_steps_and_steps_in_python_are_not_shared(step: Step) -> None:
    assert predict_seconds([step], 64, IDEAL) == step.seconds


def test_parts_are_whole_units() -> None:
    # 10 units on 8 cores: one core has two of them.
    assert predict_seconds([Step(1.0, 10, 0)], 8, IDEAL) == pytest.approx(0.2)
    assert predict_seconds([Step(1.0, 10, 0)], 64, IDEAL) == pytest.approx(0.1)


def test_weights_beyond_the_caches_are_read_from_memory() -> None:
    step = Step(1e-3, 1 << 20, 1 << 30)
    assert predict_seconds([step], 2, IDEAL) == pytest.approx((1 << 30) / 2e10)
    # 64 cores: the socket's bandwidth; two sockets: twice as much.
    assert predict_seconds([step], 64, IDEAL) == pytest.approx((1 << 30) / 1e11)
    assert predict_seconds([step], 128, IDEAL) == pytest.approx((1 << 30) / 2e11)
    cached = replace(IDEAL, cache_bytes=1 << 30)
    assert predict_seconds([step], 2, cached) == pytest.approx(5e-4)


def test_claims_end_the_scaling() -> None:
    machine = replace(IDEAL, cores_per_socket=128, share_seconds=1e-7, claim_seconds=5e-8)
    steps = [Step(1e-4, 1 << 20, 0)] * 10
    best = best_cores(steps, machine)
    assert 40 <= best <= 50  # the least of 1e-4 / n + n * 5e-8 is at sqrt(2000)
    assert predict_seconds(steps, 128, machine) > predict_seconds(steps, best, machine)
    far = replace(machine, cores_per_socket=16)
    near_claims, far_claims = (predict_seconds(steps, 32, m) for m in (machine, far))
    assert far_claims - near_claims == pytest.approx(10 * 32 * 5e-8 * (FAR_CLAIM_FACTOR - 1))


def test_calls_of_one_core_each_scale_until_memory_is_busy() -> None:
    small, large = [Step(1e-3, 1, 1 << 20)], [Step(1e-2, 1, 1 << 30)]
    assert predict_rate(small, 128, IDEAL) == pytest.approx(128_000)
    assert predict_rate(large, 64, IDEAL) == pytest.approx(1e11 / (1 << 30))
    assert predict_rate(large, 128, IDEAL) == pytest.approx(2e11 / (1 << 30))


def test_steps_of_a_model() -> None:
    x, w = ops.parameter("x", (64, 256)), np.ones((256, 512), np.float32)
    net = irc.compile_model(ops.model({"y": x @ w}), num_threads=1)
    (step,) = measure_steps(net, [np.ones((64, 256), np.float32)], rounds=1)
    assert step.native and step.seconds > 0
    assert step.constant_bytes >= w.nbytes
    assert 100 < step.units < 512  # 64 x 512 elements in tiles of 96


def test_no_addition_is_lost() -> None:
    assert 0 < measure_claim(1000) < 1
