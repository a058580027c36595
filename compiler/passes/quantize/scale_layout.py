"""Scales (and zero points) of a constant after the constant is reshaped or transposed.

All functions take arrays that broadcast to the constant and return what goes with the moved one:
(arrays, axis, group) as Dequantize has them, or None where no such arrays exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ....ir.op import Array

Layout = tuple[list[Array], int, int]


def _expand_rank(array: Array, rank: int) -> Array:
    """With an axis for each of the constant's."""
    return array.reshape((1,) * (rank - array.ndim) + array.shape)


def transpose_scales(
    arrays: Sequence[Array], order: Sequence[int], axis: int, group: int
) -> Layout:
    """After a transpose."""
    moved = [_expand_rank(a, len(order)).transpose(order) for a in arrays]
    return moved, order.index(axis % len(order)) if group else axis, group


def reshape_scales(
    arrays: Sequence[Array], source: Sequence[int], target: Sequence[int]
) -> Layout | None:
    """After a reshape that keeps apart the axes along which scales differ and the others."""
    made = [_reshape_array(_expand_rank(a, len(source)), source, target) for a in arrays]
    found = [a for a in made if a is not None]
    return (found, -1, 0) if len(found) == len(made) else None


def _reshape_array(array: Array, source: Sequence[int], target: Sequence[int]) -> Array | None:
    varied = [i for i, n in enumerate(array.shape) if n != 1]
    if not varied:
        return array.reshape((1,) * len(target))
    # The first axes up to the last along which scales differ, or the last ones from the first.
    for cut, first in ((varied[-1] + 1, True), (varied[0], False)):
        sizes, own = (x[:cut] if first else x[cut:] for x in (tuple(source), array.shape))
        if sizes != own:  # each scale would have to be written several times
            continue
        for at in range(len(target) + 1):
            wanted = tuple(target[:at] if first else target[at:])
            ones = (1,) * (len(target) - len(wanted))
            if prod(wanted) == prod(sizes):
                return array.reshape((*wanted, *ones) if first else (*ones, *wanted))
    return None


def joined_groups(
    arrays: Sequence[Array], source: Sequence[int], target: Sequence[int]
) -> Layout | None:
    """After [..., G, g, ...] became [..., G * g, ...]: one element per g of the axis."""
    if len(source) != len(target) + 1:
        return None
    for axis in range(len(target)):
        if [*source[:axis], source[axis] * source[axis + 1], *source[axis + 2 :]] == list(target):
            break
    else:
        return None
    made: list[Array] = []
    for array in arrays:
        full = _expand_rank(array, len(source))
        if full.shape[axis + 1] != 1:
            return None
        sizes = [*full.shape[:axis], source[axis], *full.shape[axis + 2 :]]
        made.append(np.broadcast_to(full.squeeze(axis + 1), sizes))
    return made, axis, source[axis + 1]
