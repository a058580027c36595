"""Boxes chosen among candidates: NonMaxSuppression."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ...dims import minimum
from ...dtype import DType
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..detection.box_overlap import (
    check_boxes_and_scores,
    multiply_sides,
    order_by_score,
    suppress_overlaps,
)
from ..shape_inference import fresh_symbol


@dataclass(frozen=True)
class NonMaxSuppression(Op):
    """The best boxes per batch and class that do not overlap a better one.

    boxes [N, B, 4] as two corners (y, x, y, x), or centre and size (x, y, w, h) where box_encoding
    is center; scores [N, C, B]. Outputs: [n, 3] of (batch, class, box), [n, 3] of (batch, class,
    score), and n. A soft_nms_sigma > 0 lowers the scores of overlapping boxes instead.
    """

    kind: ClassVar[str] = "NonMaxSuppression"
    version: ClassVar[int] = 9
    scratch_width: ClassVar[int] = 64
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("boxes"),
        Port("scores"),
        Port("max_output_boxes_per_class", optional=True),
        Port("iou_threshold", optional=True),
        Port("score_threshold", optional=True),
        Port("soft_nms_sigma", optional=True),
    )
    outputs: ClassVar[tuple[Port, ...]] = (
        Port("selected_indices"),
        Port("selected_scores"),
        Port("valid_outputs"),
    )
    data_dependent: ClassVar[bool] = True
    box_encoding: str = "corner"
    sort_result_descending: bool = True
    output_type: DType = DType.i64

    def infer(self, boxes: Fact, scores: Fact, *limits: Fact | None) -> tuple[Type, ...]:
        check_boxes_and_scores(boxes, scores, 4)
        return _list_types(self, scores)

    def evaluate(self, boxes: Array, scores: Array, *limits: Array | None) -> tuple[Array, ...]:
        given = [None if a is None or not a.size else float(a.reshape(-1)[0]) for a in limits]
        top, overlap, least, sigma = [*given, *[None] * (4 - len(given))]
        corners = _corners(boxes.astype(np.float64), self.box_encoding.lower())
        wide = scores.astype(np.float64)
        least = -math.inf if least is None else least
        chosen = {
            (n, c): _choose(corners[n], wide[n, c], int(top or 0), overlap or 0.0, least, sigma)
            for n, c in np.ndindex(*scores.shape[:2])
        }
        rows = [np.empty((0, 3), np.int64)]
        rows += [_list_rows(n, c, found) for (n, c), (_, found) in chosen.items()]
        values = np.concatenate([np.empty(0), *(values for values, _ in chosen.values())])
        return _list_boxes(self, np.concatenate(rows), values, scores.dtype)


@dataclass(frozen=True)
class SuppressBoxes(Op):
    """NonMaxSuppression whose limits are known, class by class; `ListBoxes` makes one list of them.

    boxes [N, B, 4], scores [N, C, B]. Outputs, where K is the least of B and `limit`: indices
    [N, C, K] of the boxes kept, best first, -1 behind the last; counts [N, C]; and memory of a
    kernel, whose content is not defined: keys [N, C, B], corners and bounds [N, C, 4, K].
    """

    kind: ClassVar[str] = "SuppressBoxes"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 64
    inputs: ClassVar[tuple[Port, ...]] = (Port("boxes"), Port("scores"))
    outputs: ClassVar[tuple[Port, ...]] = (
        Port("indices"),
        Port("counts"),
        Port("keys"),
        Port("corners"),
        Port("bounds"),
    )
    box_encoding: str
    limit: int
    iou_threshold: float
    score_threshold: float

    def infer(self, boxes: Fact, scores: Fact) -> tuple[Type, ...]:
        check_boxes_and_scores(boxes, scores, 4)
        n, c, count = scores.tensor.shape or (fresh_symbol(self) for _ in range(3))
        kept = minimum(count, self.limit)
        return (
            TensorType(DType.i64, (n, c, kept)),
            TensorType(DType.i64, (n, c)),
            TensorType(DType.i64, (n, c, count)),
            TensorType(DType.f64, (n, c, 4, kept)),
            TensorType(DType.f32, (n, c, 4, kept)),
        )

    def evaluate(self, boxes: Array, scores: Array) -> tuple[Array, ...]:
        corners = _corners(boxes.astype(np.float64), self.box_encoding.lower())
        wide, rows, kept = scores.astype(np.float64), scores.shape[:2], scores.shape[2]
        kept = min(kept, self.limit)
        indices, counts = np.full((*rows, kept), -1, np.int64), np.zeros(rows, np.int64)
        for n, c in np.ndindex(*rows):
            _, found = _choose(
                corners[n], wide[n, c], kept, self.iou_threshold, self.score_threshold, None
            )
            indices[n, c, : len(found)], counts[n, c] = found, len(found)
        keys, memory = np.zeros(scores.shape, np.int64), np.zeros((*rows, 4, kept))
        return indices, counts, keys, memory, memory.astype(np.float32)


@dataclass(frozen=True)
class ListBoxes(Op):
    """The outputs of NonMaxSuppression from those of `SuppressBoxes`: indices [N, C, K], counts
    [N, C], and the scores [N, C, B]."""

    kind: ClassVar[str] = "ListBoxes"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 136
    inputs: ClassVar[tuple[Port, ...]] = (Port("indices"), Port("counts"), Port("scores"))
    outputs: ClassVar[tuple[Port, ...]] = NonMaxSuppression.outputs
    data_dependent: ClassVar[bool] = True
    sort_result_descending: bool
    output_type: DType

    def infer(self, indices: Fact, counts: Fact, scores: Fact) -> tuple[Type, ...]:
        return _list_types(self, scores)

    def evaluate(self, indices: Array, counts: Array, scores: Array) -> tuple[Array, ...]:
        positions: Array = np.arange(int(indices.shape[2]))
        images, classes, kept = np.nonzero(positions < counts[..., None])
        boxes = indices[images, classes, kept]
        values = scores[images, classes, boxes].astype(np.float64)
        return _list_boxes(self, np.column_stack([images, classes, boxes]), values, scores.dtype)


def _list_types(op: NonMaxSuppression | ListBoxes, scores: Fact) -> tuple[Type, ...]:
    """Of the outputs of `_list_boxes`."""
    count = fresh_symbol(op)
    return (
        TensorType(op.output_type, (count, 3)),
        TensorType(scores.tensor.dtype, (count, 3)),
        TensorType(op.output_type, (1,)),
    )


def _list_boxes(
    op: NonMaxSuppression | ListBoxes, indices: Array, values: Array, dtype: Any
) -> tuple[Array, ...]:
    """The outputs of the operation: (image, class, box) of each box, with its score, sorted where
    the operation sorts them; and how many they are."""
    if op.sort_result_descending:
        order = np.lexsort((*indices.T[::-1], -values))
        indices, values = indices[order], values[order]
    listed, count = np.column_stack([indices[:, :2], values]), [len(values)]
    index_type = op.output_type.numpy
    return indices.astype(index_type), listed.astype(dtype), np.array(count, index_type)


def _list_rows(image: int, label: int, boxes: Array) -> Array:
    """(image, label, box) of each box."""
    return np.column_stack([np.full((len(boxes), 2), (image, label)), boxes])


def _corners(boxes: Array, encoding: str) -> Array:
    """Boxes as (low y, low x, high y, high x)."""
    if encoding == "center":
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        return np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], axis=-1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=-1)


def _overlaps(first: Array, second: Array) -> Array:
    """Intersection over union of boxes [4, ...], which broadcast; 0 where both are empty."""
    low = [np.maximum(first[i], second[i]) for i in (0, 1)]
    high = [np.minimum(first[i], second[i]) for i in (2, 3)]
    shared = multiply_sides(low, high)
    areas = [multiply_sides(box[:2], box[2:], limit=False) for box in (first, second)]
    union = areas[0] + areas[1] - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)


def _choose(
    boxes: Array, scores: Array, top: int, overlap: float, least: float, sigma: float | None
) -> tuple[Array, Array]:
    """Scores and indices of the boxes of one class, best first; among equal scores the first box
    comes first."""
    open_ = (scores > least) & np.isfinite(scores)
    if sigma is not None and sigma > 0:
        return _choose_softly(boxes, scores, open_, top, overlap, least, sigma)
    found = np.flatnonzero(open_)
    order = found[order_by_score(scores[found])]
    chosen = order[suppress_overlaps(boxes[order], overlap, top, _overlaps)]
    return scores[chosen], chosen


def _choose_softly(
    boxes: Array, scores: Array, open_: Array, top: int, overlap: float, least: float, sigma: float
) -> tuple[Array, Array]:
    """`_choose` where overlaps lower scores. open_: the boxes that may be chosen."""
    left, values, chosen = scores, list[float](), list[int]()
    while len(chosen) < top and open_.any():
        best = int(np.argmax(np.where(open_, left, -math.inf)))
        values.append(float(left[best]))
        chosen.append(best)
        open_[best] = False
        shared = _overlaps(boxes[best], boxes.T)
        weight = np.where(shared <= overlap, np.exp(-shared * shared * 0.5 / sigma), 0)
        left = np.where(open_, left * weight, left)
        open_ &= left > least
    return np.array(values, np.float64), np.array(chosen, np.int64)
