"""Ranges of groups against a search that NumPy does, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler.quantization.nf4 import NF4_TABLE
from irc_compiler.quantization.range_search import search_ranges

RNG = np.random.default_rng(8)
RATIOS = (0.95, 0.8, 0.6)
Array = np.ndarray[Any, Any]


def cut(values: Array, kind: str, ratio: float) -> tuple[Any, Any]:
    """The scale and the zero point of one group."""
    low, high = values.min() * np.float32(ratio), values.max() * np.float32(ratio)
    if kind == "int4":
        low, high = min(low, np.float32(0)), max(high, np.float32(0))
        step = (high - low) / np.float32(15)
        return step, np.clip(np.rint(-low / step), 0, 15)
    return max(-low, high) / np.float32(127 if kind == "int8" else 1), np.float32(0)


def dequantize(values: Array, kind: str, step: Any, zero: Any) -> Array:
    if kind == "nf4":
        nearest = np.abs(values[:, None] / step - NF4_TABLE).argmin(axis=1)
        return NF4_TABLE[nearest] * step
    low, high = (0, 15) if kind == "int4" else (-127, 127)
    return (np.clip(np.rint(values / step) + zero, low, high) - zero) * step


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("kind", ["int8", "int4", "nf4"])
def test_the_share_with_the_least_error_wins(kind: str, num_threads: int) -> None:
    values = RNG.standard_normal((32, 3, 5)).astype(np.float32)
    values[4, :, ::2] *= 6  # outliers, whose range is worth cutting
    cost = RNG.uniform(0.1, 2, (32, 3, 1)).astype(np.float32)
    cost[4] = 1e-5
    step, zero = search_ranges(values, kind, cost, RATIOS, num_threads)
    chosen = set()
    for group, row in np.ndindex(3, 5):
        own = values[:, group, row]
        tried = [cut(own, kind, ratio) for ratio in (1.0, *RATIOS)]
        errors = [
            float((((dequantize(own, kind, *each) - own) ** 2) * cost[:, group, 0]).sum())
            for each in tried
        ]
        best = int(np.argmin(errors))
        chosen.add(best)
        assert (step[group, row], zero[group, row]) == tried[best]
    assert len(chosen) > 1


@pytest.mark.parametrize("kind", ["int8", "int4", "nf4"])
def test_groups_of_zeros_and_of_values_whose_squares_overflow(kind: str) -> None:
    values = np.zeros((16, 1, 2), np.float32)
    values[:, 0, 1] = np.linspace(-1e30, 1e30, 16)
    step, zero = search_ranges(values, kind, np.ones((16, 1, 1), np.float32), ())
    assert (step[0, 0], zero[0, 0]) == (1, 0)
    assert step[0, 1] == np.float32({"int8": 1e30 / 127, "int4": 2e30 / 15, "nf4": 1e30}[kind])
