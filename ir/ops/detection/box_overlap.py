"""Overlap of axis-aligned boxes, and greedy suppression of boxes that overlap a better one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...limits.memory_budget import active_budget, charge_bytes
from ...op import Array, Fact
from ..shape_inference import one_dtype, require_rank, same_size

# Of two arrays of coordinates [4, ...] that broadcast.
Overlap = Callable[[Array, Array], Array]
# Python's objects for one box that is kept: its score, class and position in a tuple or a list.
KEPT_BOX_BYTES = 360
# Boxes that are compared at a time: candidates with one another, and with boxes that are kept.
# Their overlaps fit a core's cache.
_CANDIDATES, _KEPT = 128, 512
_BEHIND = np.triu(np.ones((_CANDIDATES, _CANDIDATES), bool), 1)
_NUMBERS_PER_PAIR = 20  # temporaries of an overlap, and indices


def check_boxes_and_scores(boxes: Fact, scores: Fact, numbers: int) -> None:
    """ShapeError where boxes [N, B, numbers] and scores [N, C, B] do not belong together."""
    one_dtype(boxes, scores)
    require_rank(boxes, "boxes", 3)
    require_rank(scores, "scores", 3)
    have, want = boxes.tensor.shape, scores.tensor.shape
    if have is not None:
        same_size(have[2], numbers, f"a box has {numbers} numbers")
    if have is not None and want is not None:
        same_size(have[0], want[0], "boxes and scores differ in images")
        same_size(have[1], want[2], "boxes and scores differ in boxes")


def charge_kept(count: int) -> None:
    """Charge this thread's budget with Python's objects for boxes that are kept."""
    charge_bytes(KEPT_BOX_BYTES * count, f"{count} boxes")


def intersection_over_union(first: Array, second: Array, offset: float = 0.0) -> Array:
    """IoU of boxes [4, ...] of (x0, y0, x1, y1), which broadcast; 0 where they are disjoint.

    `offset` is added to every side: 1 where the corners are the first and the last pixel.
    """
    low = [np.maximum(first[i], second[i]) for i in (0, 1)]
    high = [np.minimum(first[i], second[i]) for i in (2, 3)]
    shared = multiply_sides(low, high, offset)
    areas = [multiply_sides(box[:2], box[2:], offset, limit=False) for box in (first, second)]
    apart = (low[0] > high[0]) | (low[1] > high[1])
    return np.where(apart, 0, shared / (areas[0] + areas[1] - shared))


def multiply_sides(low: Any, high: Any, offset: float = 0.0, *, limit: bool = True) -> Array:
    """Areas of boxes by two corners of two coordinates. limit: a negative side is 0."""
    sides = [h - lo + offset for lo, h in zip(low, high, strict=True)]
    if limit:
        sides = [np.maximum(side, 0) for side in sides]
    return sides[0] * sides[1]


def suppress_overlaps(
    boxes: Array, threshold: float, limit: int | None, overlap: Overlap
) -> list[int]:
    """Positions of the boxes kept, at most `limit`: a box is dropped if its overlap with a kept one
    before it exceeds `threshold`. `boxes` [n, 4] are in the order of preference. overlap: 0 for
    disjoint boxes."""
    total = len(boxes)
    pairs = min(total, _CANDIDATES) * min(total, max(_KEPT, _CANDIDATES))
    size = pairs * _NUMBERS_PER_PAIR * boxes.itemsize + total * (8 * boxes.itemsize + 80)
    active_budget().require(size, f"overlaps of {total} boxes")
    kept, limit = list[int](), None if limit is None else max(limit, 0)
    # A few boxes are found sooner than groups.
    splits = threshold >= 0 and (limit is None or limit > _KEPT)
    for group in _split_disjoint(boxes) if splits else [np.arange(total)]:
        coordinates = np.ascontiguousarray(boxes[group].T)
        chosen = _suppress_in_blocks(coordinates, threshold, limit, overlap)
        kept += group[chosen].tolist()
    return sorted(kept)[:limit]


def _split_disjoint(boxes: Array) -> list[Array]:
    """Positions of boxes in groups, ascending: boxes of two groups are disjoint in the first
    coordinate. Boxes of several classes become such groups where exporters add a distance to the
    boxes of each class."""
    positions = np.arange(len(boxes))
    if len(boxes) <= _CANDIDATES:
        return [positions]
    low, high = np.minimum(boxes[:, 0], boxes[:, 2]), np.maximum(boxes[:, 0], boxes[:, 2])
    order = np.argsort(low)
    farthest = np.maximum.accumulate(high[order])
    groups = np.zeros(len(boxes), np.int64)
    groups[order[1:]] = np.cumsum(low[order[1:]] > farthest[:-1])
    ascending = np.argsort(groups, kind="stable")
    return np.split(ascending, np.flatnonzero(np.diff(groups[ascending])) + 1)


def _suppress_in_blocks(
    coordinates: Array, threshold: float, limit: int | None, overlap: Overlap
) -> list[int]:
    """`suppress_overlaps` of boxes by their coordinates [4, n]."""
    total, kept = coordinates.shape[1], list[int]()
    rounded = coordinates.astype(np.float32)

    def find_pairs(before: Any, behind: Array) -> tuple[Array, Array]:
        """Positions in both lists of the pairs whose overlap exceeds the threshold, by the first;
        of one list with itself those of a box and one behind it."""
        if threshold >= 0:
            touching = _may_touch(rounded[:, before, None], rounded[:, None, behind])
        else:
            touching = np.ones((len(before), len(behind)), bool)
        if before is behind:
            touching &= _BEHIND[: len(before), : len(behind)]
        i, j = np.divmod(np.flatnonzero(touching), len(behind))
        exceeds = overlap(coordinates[:, before][:, i], coordinates[:, behind[j]]) > threshold
        return i[exceeds], j[exceeds]

    for start in range(0, total, _CANDIDATES):
        candidates = np.arange(start, min(start + _CANDIDATES, total))
        for at in range(0, len(kept), _KEPT):
            _, dropped = find_pairs(kept[at : at + _KEPT], candidates)
            candidates = np.delete(candidates, dropped)
        first, second = find_pairs(candidates, candidates)
        alive = [True] * len(candidates)
        # Whether a box is kept is known when its pairs begin.
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            if alive[i]:
                alive[j] = False
        kept += candidates[alive].tolist()
        if limit is not None and len(kept) >= limit:
            return kept[:limit]
    return kept


def _may_touch(first: Array, second: Array) -> Array:
    """Whether boxes [4, ...] that broadcast may have a point in common: rounding to f32 keeps the
    order of coordinates, so that none that do is missed."""
    found = first[0] <= second[2]
    found &= second[0] <= first[2]
    found &= first[1] <= second[3]
    found &= second[1] <= first[3]
    return found


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
