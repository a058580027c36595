"""How the axes of convolutions are cut into tiles."""

from __future__ import annotations

import itertools

import pytest
from irc_compiler.runtime.kernels.conv.tile_partition import cut_axis


def tiles_one_by_one(
    out: int, data: int, kernel: int, stride: int, dilation: int, pad: int, most: int
) -> list[tuple[int, object]]:
    """(size, taps) of every tile, from the definition."""
    tiles = max(1, -(-out // most))
    low, longer = divmod(out, tiles)
    found: list[tuple[int, object]] = []
    start = 0
    for size in [low + (tile < longer) for tile in range(tiles)]:
        taps = tuple(
            tuple(0 <= (start + i) * stride - pad + k * dilation < data for i in range(size))
            for k in range(kernel)
        )
        if size:
            found.append((size, None if all(map(all, taps)) else taps))
        start += size
    return found


@pytest.mark.parametrize("kernel", [0, 1, 2, 5])
@pytest.mark.parametrize("stride", [1, 3])
def test_cut_axis_finds_the_tiles_and_merges_equal_neighbours(kernel: int, stride: int) -> None:
    sizes = itertools.product((0, 1, 7, 30, 47), (0, 1, 8, 40), (1, 4), (-3, 0, 2, 25), (1, 4, 14))
    for out, data, dilation, pad, most in sizes:
        runs = cut_axis(out, data, kernel, stride, dilation, pad, most)
        each = [(run.size, run.taps) for run in runs for _ in range(run.count)]
        assert each == tiles_one_by_one(out, data, kernel, stride, dilation, pad, most)
        assert [r.start for r in runs] == list(
            itertools.accumulate((r.count * r.size for r in runs[:-1]), initial=0)
        )[: len(runs)]
        forms = [(run.size, run.taps) for run in runs]
        assert all(a != b for a, b in itertools.pairwise(forms))


def test_cut_axis_of_any_length_looks_at_few_tiles() -> None:
    """One by one, the tiles of this axis would take years."""
    long = 10**17
    runs = cut_axis(long, long, 3, 1, 1, 1, 14)
    assert [run.taps is None for run in runs] == [False, True, True, False]
    assert sum(run.count * run.size for run in runs) == long
