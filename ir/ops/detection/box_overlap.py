"""Overlap of axis-aligned boxes, and greedy suppression of boxes that overlap a better one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...errors import ShapeError
from ...limits.memory_budget import active_budget, charge_bytes
from ...op import Array

Overlap = Callable[[Array, Array], Array]
# Python's objects for one box that is kept: its score, class and position in a tuple or a list.
KEPT_BOX_BYTES = 360


def charge_kept(count: int) -> None:
    """Charge this thread's budget with Python's objects for boxes that are kept."""
    charge_bytes(KEPT_BOX_BYTES * count, f"{count} boxes")


def intersection_over_union(box: Array, others: Array, offset: float = 0.0) -> Array:
    """IoU of `box` [4] with each of `others` [n, 4] as (x0, y0, x1, y1); 0 where they are disjoint.

    `offset` is added to every side: 1 where the corners are the first and the last pixel.
    """
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low + offset, 0), axis=1, dtype=others.dtype)
    own = np.prod(box[2:] - box[:2] + offset, dtype=others.dtype)
    areas = np.prod(others[:, 2:] - others[:, :2] + offset, axis=1, dtype=others.dtype)
    apart = np.any(low > high, axis=1)
    return np.where(apart, 0, shared / (own + areas - shared))


def suppress_overlaps(
    boxes: Array,
    threshold: float,
    limit: int | None,
    overlap: Overlap,
    scratch_width: int = 16,
) -> list[int]:
    """Positions of the boxes kept, at most `limit`: a box is dropped if its overlap with a kept one
    before it exceeds `threshold`. `boxes` [n, ...] are in the order of preference. `overlap` has
    `scratch_width` numbers of the boxes' type per box as temporaries."""
    size = len(boxes) * (scratch_width * boxes.itemsize + 40)
    active_budget().require(size, f"overlaps of {len(boxes)} boxes")
    alive, kept = np.ones(len(boxes), bool), list[int]()
    for i in range(len(boxes)):
        if limit is not None and len(kept) >= limit:
            break
        if alive[i]:
            kept.append(i)
            alive[i + 1 :] &= ~(overlap(boxes[i], boxes[i + 1 :]) > threshold)
    return kept


def order_by_score(scores: Array, limit: int | None = None) -> Array:
    """Indices of `scores` [n] from the largest to the smallest, the first among equals first."""
    order: Array = np.argsort(-scores, kind="stable")
    return order if limit is None or limit < 0 else order[:limit]


def batch_indices_of(column: Array, batch: int) -> list[int]:
    """The images of regions of interest, as integers. ShapeError for an index out of range."""
    found: list[int] = []
    for index in column:
        if not np.isfinite(index) or not 0 <= int(index) < batch:
            raise ShapeError(
                "a region of interest names an image that the batch does not have",
                got=index,
                expected=f"0..{batch - 1}",
            )
        found.append(int(index))
    return found
