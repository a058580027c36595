"""split_work: the grid of workers with the least cost, and every element to one worker."""

from __future__ import annotations

import ctypes
from itertools import product
from typing import Any

import pytest
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.host_features import host_arch
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.shared_functions import (
    SHARED_FUNCTIONS,
    SPLIT_WORK,
    shared_functions_text,
)

Counts = tuple[int, int, int]
Box = tuple[tuple[int, int], ...]
ROWS, PANEL_WORK, STRIP_WORK = 6, 12, 20


@pytest.fixture(scope="module")
def split_work() -> Any:
    target = generic_target("plain" if host_arch() == "x86_64" else "neon")
    image = emit_object(shared_functions_text(target), target)
    assert set(image.exports) == set(SHARED_FUNCTIONS)
    library = load_objects([image], SHARED_FUNCTIONS, target)
    return library.function(SPLIT_WORK, ctypes.c_void_p, *[ctypes.c_int64] * 8)


def share_of(split_work: Any, counts: Counts, worker: int, workers: int) -> Box | None:
    """[lo, hi) of matrices, tiles and panels; None for a worker without a share."""
    bounds = (ctypes.c_int64 * 8)(*[-7] * 8)
    done = split_work(bounds, worker, workers, *counts, ROWS, PANEL_WORK, STRIP_WORK)
    assert list(bounds)[6:] == [-7, -7], "a store beyond the bounds"
    if not done:
        return None
    return tuple((bounds[i], bounds[i + 1]) for i in (0, 2, 4))


def best_grid(counts: Counts, workers: int) -> Counts:
    """The first of the grids with the least cost of the largest share."""

    def cost(grid: Counts) -> int:
        b, t, p = (-(-count // parts) for count, parts in zip(counts, grid, strict=True))
        far = STRIP_WORK * t * (grid[2] - 1) // grid[2]  # written by the other workers
        return b * (2 * ROWS * t * p + ROWS * t + far + PANEL_WORK * p)

    grids: list[Counts] = []
    for x in range(1, min(workers, max(counts[0], 1)) + 1):
        for y in range(1, min(workers // x, max(counts[1], 1)) + 1):
            grids.append((x, y, max(1, min(workers // x // y, counts[2]))))
    return min(grids, key=cost)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7, 16])
def test_split_work_takes_the_grid_of_least_cost_and_gives_all_work_once(
    split_work: Any, workers: int
) -> None:
    for counts in product((1, 2, 5), (1, 3, 33), (1, 4, 64)):
        found = [share_of(split_work, counts, worker, workers) for worker in range(workers)]
        boxes = [box for box in found if box is not None]
        x, y, z = best_grid(counts, workers)
        assert len(boxes) == x * y * z and found[: len(boxes)] == boxes
        cells = [cell for box in boxes for cell in product(*(range(lo, hi) for lo, hi in box))]
        assert sorted(cells) == list(product(*map(range, counts)))


def test_sizes_of_zero_give_empty_shares(split_work: Any) -> None:
    for counts in ((0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)):
        for workers in (1, 2, 5):
            for worker in range(workers):
                box = share_of(split_work, counts, worker, workers)
                assert box is None or any(lo >= hi for lo, hi in box)


def test_counts_of_more_than_32_bits(split_work: Any) -> None:
    counts = (1, 1 << 36, 1)
    assert share_of(split_work, counts, 1, 2) == ((0, 1), (1 << 35, 1 << 36), (0, 1))
