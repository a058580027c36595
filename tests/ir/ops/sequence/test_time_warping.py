"""Warped time against the sum of every path."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.ops.sequence.time_warping import warp_time


def least_sum(costs: np.ndarray, i: int = 0, j: int = 0) -> float:
    rows, columns = costs.shape
    own = float(costs[i, j])
    after = [(i + 1, j), (i, j + 1), (i + 1, j + 1)]
    sums = [least_sum(costs, a, b) for a, b in after if a < rows and b < columns]
    return own + min(sums) if sums else own


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 5), (5, 4)])
def test_the_path_has_the_least_sum(shape: tuple[int, int]) -> None:
    costs = np.random.default_rng(0).random(shape).astype(np.float32)
    path = warp_time(costs[None])
    assert path.dtype == np.int32
    steps = np.diff(path, axis=1)
    assert ((steps >= 0) & (steps <= 1)).all() and steps.any(axis=0).all()
    assert path[:, 0].tolist() == [0, 0]
    assert path[:, -1].tolist() == [shape[0] - 1, shape[1] - 1]
    assert costs[path[0], path[1]].sum() == pytest.approx(least_sum(costs))
