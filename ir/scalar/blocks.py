"""Elementwise work on large arrays block by block: temporaries are as small as a block, and Python
sees signals between blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
# Elements of a block: its temporaries in f64 stay within a second-level cache.
BLOCK_ELEMENTS = 1 << 16


def iterate_blocks(shape: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Slices of at most BLOCK_ELEMENTS elements that together cover an array of a shape."""
    axis, inner = len(shape), 1
    while axis and inner * shape[axis - 1] <= BLOCK_ELEMENTS:
        axis -= 1
        inner *= shape[axis]
    if not axis or 0 in shape:
        yield tuple(map(slice, shape))
        return
    rest, size, step = shape[axis:], shape[axis - 1], max(BLOCK_ELEMENTS // inner, 1)
    for index in np.ndindex(*shape[: axis - 1]):
        for start in range(0, size, step):
            yield (
                *(slice(i, i + 1) for i in index),
                slice(start, min(start + step, size)),
                *map(slice, rest),
            )


def map_blocks(
    function: Callable[[list[Array]], Sequence[Array]],
    arrays: Sequence[Array],
    shape: tuple[int, ...],
) -> list[Array]:
    """What an elementwise function of arrays that broadcast to `shape` returns, computed block by
    block; `function` gives arrays that broadcast to the block."""
    if prod(shape) <= BLOCK_ELEMENTS:
        found = function(list(arrays))
        return [v if v.shape == shape else np.broadcast_to(v, shape).copy() for v in found]
    operands = [a.reshape((1,) * (len(shape) - a.ndim) + a.shape) for a in arrays]
    outputs: list[Array] = []
    for block in iterate_blocks(shape):
        found = function([a[_restrict(block, a.shape)] for a in operands])
        outputs = outputs or [np.empty(shape, v.dtype) for v in found]
        for out, value in zip(outputs, found, strict=True):
            out[block] = value
    return outputs


def _restrict(block: tuple[slice, ...], shape: tuple[int, ...]) -> tuple[slice, ...]:
    """The block of an array that broadcasts: all of its axes of size 1."""
    return tuple(slice(None) if n == 1 else s for s, n in zip(block, shape, strict=True))
