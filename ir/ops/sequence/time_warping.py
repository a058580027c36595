"""Dynamic time warping: the cheapest monotonic path through a matrix of costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...op import Array


def warp_time(costs: Any) -> Any:
    """Rows and columns, [2, steps] in i32, of the path from the first to the last element of costs
    [M, N] or [1, M, N] whose sum is least. Where the diagonal step and the one along the column
    lead to equal sums, the step along the row is taken, as onnxruntime does."""
    array: Array = np.asarray(costs, np.float32)
    rows, columns = int(array.shape[-2]), int(array.shape[-1])
    array = array.reshape(rows, columns)
    total = np.full((rows + 1, columns + 1), np.inf, np.float32)
    total[0, 0] = 0
    came = np.full(total.shape, 2, np.int8)
    came[1:, 0] = 1
    # Elements of one antidiagonal depend on the two before it only.
    for diagonal in range(2, rows + columns + 1):
        i = np.arange(max(1, diagonal - columns), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        across, up, left = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        step = np.where((across < up) & (across < left), 0, np.where(
            (up < across) & (up < left), 1, 2))  # fmt: skip
        came[i, j] = step
        total[i, j] = array[i - 1, j - 1] + np.choose(step, (across, up, left))
    return _walk_back(came, rows, columns)


def _walk_back(came: Any, i: int, j: int) -> Any:
    path: list[tuple[int, int]] = []
    while i > 0 or j > 0:
        path.append((i - 1, j - 1))
        step = came[i, j]
        i, j = i - (step != 2), j - (step != 1)
    return np.array(path[::-1], np.int32).T.copy() if path else np.zeros((2, 0), np.int32)
