"""Boxes that are compared in blocks are those that are kept one after the other."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from irc_compiler.ir.errors import MemoryLimitError
from irc_compiler.ir.limits.memory_budget import Budget, use_budget
from irc_compiler.ir.op import Array
from irc_compiler.ir.ops import NonMaxSuppression
from irc_compiler.ir.ops.detection.box_overlap import intersection_over_union, suppress_overlaps


def random_boxes(count: int, side: float, dtype: type = np.float64) -> Array:
    """Boxes [count, 4] in a square of 100 x 100."""
    rng = np.random.default_rng(count)
    low = rng.uniform(0, 100, (count, 2))
    return np.concatenate([low, low + rng.uniform(0, side, (count, 2))], axis=1).astype(dtype)


def keep_one_by_one(boxes: Array, threshold: float, limit: int | None) -> list[int]:
    """The definition: each box is compared with all that are kept."""
    kept: list[int] = []
    for i, box in enumerate(boxes):
        if limit is not None and len(kept) >= limit:
            break
        if not (intersection_over_union(boxes[kept].T, box[:, None]) > threshold).any():
            kept.append(i)
    return kept


@pytest.mark.parametrize("limit", [None, -3, 0, 1, 40, 700])
@pytest.mark.parametrize("count", [0, 1, 128, 129, 1500])
@pytest.mark.parametrize("side", [1.0, 12.0, 90.0], ids=["apart", "some overlap", "crowded"])
def test_blocks_keep_what_single_boxes_keep(side: float, count: int, limit: int | None) -> None:
    """Few, some and nearly all boxes are dropped; more are kept than a block holds."""
    boxes = random_boxes(count, side)
    found = suppress_overlaps(boxes, 0.3, limit, intersection_over_union)
    assert found == keep_one_by_one(boxes, 0.3, limit)


@pytest.mark.parametrize("limit", [None, 300])
def test_groups_of_disjoint_boxes_are_compared_apart(limit: int | None) -> None:
    """Boxes of 90 classes, each moved by its class, as exporters of several classes write them."""
    rng = np.random.default_rng(0)
    moved = random_boxes(900, 30) + 200 * rng.integers(0, 90, (900, 1))
    wanted = keep_one_by_one(moved, 0.3, limit)
    assert suppress_overlaps(moved, 0.3, limit, intersection_over_union) == wanted
    moved[5, 0] = np.nan  # it overlaps nothing
    wanted = keep_one_by_one(moved, 0.3, limit)
    assert suppress_overlaps(moved, 0.3, limit, intersection_over_union) == wanted
    assert 5 in wanted


def test_a_negative_threshold_drops_disjoint_boxes() -> None:
    """Each overlap exceeds it."""
    assert suppress_overlaps(random_boxes(400, 1), -1.0, None, intersection_over_union) == [0]


def test_offsets_widen_boxes() -> None:
    """Boxes of one pixel, which have an area only where corners are pixels."""
    boxes = np.float32([[1, 1, 1, 1], [1, 1, 1, 1], [2, 2, 2, 2]])
    with np.errstate(invalid="ignore"):
        assert suppress_overlaps(boxes, 0.5, None, intersection_over_union) == [0, 1, 2]
    widened = partial(intersection_over_union, offset=1.0)
    assert suppress_overlaps(boxes, 0.5, None, widened) == [0, 2]


def test_memory_is_required_before_boxes_are_compared() -> None:
    with (
        use_budget(Budget(100_000)),
        pytest.raises(MemoryLimitError, match="overlaps of 1500 boxes"),
    ):
        suppress_overlaps(random_boxes(1500, 10), 0.5, None, intersection_over_union)


def test_classes_are_suppressed_apart_and_equal_scores_in_order() -> None:
    """Boxes of two classes; every second box repeats the one before it, with the same score."""
    boxes = np.repeat(random_boxes(300, 8, np.float32), 2, axis=0)[None]
    scores = np.repeat(np.random.default_rng(0).random((1, 2, 300), np.float32), 2, axis=2)
    limits = np.array(10**9), np.float32(0.5), np.float32(0.2)
    indices, values, count = NonMaxSuppression().evaluate(boxes, scores, *limits)
    want: list[tuple[float, int, int]] = []
    for label in range(2):
        order = np.argsort(-scores[0, label], kind="stable")
        order = order[scores[0, label, order] > 0.2]
        kept = order[keep_one_by_one(boxes[0, order].astype(np.float64), 0.5, None)]
        want += [(float(scores[0, label, box]), label, int(box)) for box in kept]
    want.sort(key=lambda row: (-row[0], *row[1:]))
    assert count.tolist() == [len(want)] and all(box % 2 == 0 for _, _, box in want)
    assert indices.tolist() == [[0, label, box] for _, label, box in want]
    np.testing.assert_array_equal(values[:, 2], np.float32([score for score, _, _ in want]))
