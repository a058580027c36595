"""Elementwise work block by block: the blocks cover an array once, and broadcasting holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.scalar.blocks import BLOCK_ELEMENTS, iterate_blocks, map_blocks

N = BLOCK_ELEMENTS


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (0, N, 3),
        (7,),
        (N,),
        (N + 1,),
        (3, N),
        (2, 3, N - 1),
        (2, N, 3),
        (2 * N + 5,),
        (N, 2, 2),
    ],
)
def test_blocks_cover_an_array_once(shape: tuple[int, ...]) -> None:
    seen = np.zeros(shape, np.int8)
    for block in iterate_blocks(shape):
        assert seen[block].size <= BLOCK_ELEMENTS
        seen[block] += 1
    assert (seen == 1).all()


def test_arrays_broadcast_as_a_whole() -> None:
    a, b = np.arange(3.0)[:, None, None], np.arange(N * 2.0).reshape(N, 2)
    sizes: list[int] = []

    def add(parts: list[Any]) -> list[Any]:
        sizes.append(max(p.size for p in parts))
        return [parts[0] + parts[1], parts[0]]

    total, first = map_blocks(add, [a, b], (3, N, 2))
    assert np.array_equal(total, a + b)
    assert np.array_equal(first, np.broadcast_to(a, (3, N, 2)))
    assert len(sizes) == 6 and max(sizes) <= N
