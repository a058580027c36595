"""Boxes of several classes chosen per image: MatrixNms and MulticlassNms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import active_budget
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import narrow_array, widen_array, widened_bytes
from ..math.elementwise import FLOATS, INTEGERS
from ..shape_inference import (
    fresh_symbol,
    ints_of,
    one_dtype,
    require_dtype,
    require_index_type,
    require_rank,
    same_size,
)
from .box_overlap import charge_kept, order_by_score


class _Chosen(NamedTuple):
    """One box: its image, class, index within the image, score and corners."""

    image: int
    label: int
    position: int
    score: float
    box: Array


@dataclass(frozen=True)
class _ChoosingBoxes(Op):
    """Rows (class, score, x0, y0, x1, y1) [boxes, 6], indices [boxes, 1] into the flattened boxes,
    and the number of boxes of each image."""

    outputs: ClassVar[tuple[Port, ...]] = (
        Port("selected_outputs"),
        Port("selected_indices"),
        Port("valid_outputs"),
    )
    data_dependent: ClassVar[bool] = True
    sort_result_type: str = "none"
    sort_result_across_batch: bool = False
    output_type: DType = DType.i64
    score_threshold: float = 0.0
    nms_top_k: int = -1
    keep_top_k: int = -1
    background_class: int = -1
    normalized: bool = True

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        boxes = inputs[0]
        # Orders and masks of one class's boxes. Charged where they are found: the boxes that are
        # kept, and what is made of all pairs.
        return widened_bytes(*inputs) + (0 if boxes is None else 24 * boxes.elements)

    def _infer_chosen(self, boxes: Fact, scores: Fact, images: Dim) -> tuple[Type, ...]:
        dtype = one_dtype(boxes, scores)
        require_dtype(boxes, "boxes", FLOATS, "a float type")
        require_rank(boxes, "boxes", 3)
        require_index_type(self.output_type)
        if boxes.tensor.shape is not None:
            same_size(boxes.tensor.shape[2], 4, "a box has four coordinates")
        count = fresh_symbol(self)
        return (
            TensorType(dtype, (count, 6)),
            TensorType(self.output_type, (count, 1)),
            TensorType(self.output_type, (images,)),
        )

    def _candidates(self, scores: Array, *, inclusive: bool) -> Array:
        """Boxes whose score passes the threshold, best first."""
        passed = scores >= self.score_threshold if inclusive else scores > self.score_threshold
        found = np.flatnonzero(passed)
        order = order_by_score(scores[found], self.nms_top_k)
        return found[order]

    def _limit(self, found: list[_Chosen]) -> list[_Chosen]:
        """The best boxes of an image, in the order that the result has within an image."""
        found.sort(key=lambda c: (-c.score, c.label, c.position))
        found = found[: self.keep_top_k] if self.keep_top_k > -1 else found
        if self.sort_result_type.lower() == "classid":
            found.sort(key=lambda c: (c.label, -c.score, c.position))
        return found

    def _result(self, images: Sequence[list[_Chosen]]) -> list[_Chosen]:
        """The boxes of all images in the order of the outputs."""
        rows = [c for found in images for c in found]
        if self.sort_result_across_batch and self.sort_result_type.lower() == "score":
            rows.sort(key=lambda c: (-c.score, c.image, c.label, c.position))
        elif self.sort_result_across_batch and self.sort_result_type.lower() == "classid":
            rows.sort(key=lambda c: (c.label, c.image, -c.score, c.position))
        return rows

    def _outputs(
        self, rows: Sequence[_Chosen], indices: Sequence[int], counts: Sequence[int], dtype: Any
    ) -> tuple[Array, ...]:
        values: Array = np.empty((len(rows), 6), np.float64)
        for n, c in enumerate(rows):
            values[n, 0], values[n, 1], values[n, 2:] = c.label, c.score, c.box
        return (
            narrow_array(values, dtype),
            np.array(indices, self.output_type.numpy).reshape(-1, 1),
            np.array(counts, self.output_type.numpy),
        )


def _pair_overlaps(boxes: Array, *, normalized: bool) -> Array:
    """IoU of every pair of boxes [n, 4]; 0 where they are disjoint."""
    offset = 0 if normalized else 1
    low = np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = np.prod(high - low + offset, axis=-1)
    sides = boxes[:, 2:] - boxes[:, :2]
    areas = np.where(np.any(sides < 0, axis=1), 0, np.prod(sides + offset, axis=1))
    together = areas[:, None] + areas[None] - shared
    return np.where(np.any(low > high, axis=-1), 0, shared / together)


@dataclass(frozen=True)
class MatrixNms(_ChoosingBoxes):
    """Scores lowered by the overlap with better boxes, without dropping a box for it.

    boxes [N, B, 4], scores [N, C, B].
    """

    kind: ClassVar[str] = "MatrixNms"
    version: ClassVar[int] = 8
    inputs: ClassVar[tuple[Port, ...]] = (Port("boxes"), Port("scores"))
    decay_function: str = "linear"
    gaussian_sigma: float = 2.0
    post_threshold: float = 0.0

    def infer(self, boxes: Fact, scores: Fact) -> tuple[Type, ...]:
        require_rank(scores, "scores", 3)
        images: Dim = fresh_symbol(self)
        if scores.tensor.shape is not None:
            images = scores.tensor.shape[0]
            if boxes.tensor.shape is not None and boxes.tensor.rank == 3:
                same_size(boxes.tensor.shape[0], images, "boxes and scores differ in images")
                same_size(
                    boxes.tensor.shape[1],
                    scores.tensor.shape[2],
                    "boxes and scores differ in boxes",
                )
        return self._infer_chosen(boxes, scores, images)

    def evaluate(self, boxes: Array, scores: Array) -> tuple[Array, ...]:
        corners, values = widen_array(boxes), widen_array(scores)
        images: list[list[_Chosen]] = []
        for n in range(len(values)):
            found: list[_Chosen] = []
            for label in range(values.shape[1]):
                if label == self.background_class:
                    continue
                order = self._candidates(values[n, label], inclusive=False)
                lowered = self._decay_scores(corners[n, order], values[n, label, order])
                chosen = np.flatnonzero(lowered > self.post_threshold)
                charge_kept(len(chosen))
                found += [
                    _Chosen(n, label, int(order[i]), float(lowered[i]), corners[n, order[i]])
                    for i in chosen
                ]
            images.append(self._limit(found))
        rows = self._result(images)
        indices = [c.image * boxes.shape[1] + c.position for c in rows]
        return self._outputs(rows, indices, [len(i) for i in images], boxes.dtype)

    def _decay_scores(self, boxes: Array, scores: Array) -> Array:
        """Scores of boxes that are sorted by score, lowered by those before them."""
        if not len(boxes):
            return scores
        # Sides and corners of the overlaps of all pairs, then overlaps and decays.
        pairs = len(boxes) ** 2
        active_budget().require(10 * pairs * boxes.itemsize, f"overlaps of {pairs} pairs of boxes")
        overlaps = np.tril(_pair_overlaps(boxes, normalized=self.normalized), -1)
        most = overlaps.max(axis=1)
        if self.decay_function.lower() == "gaussian":
            decay = np.exp((most[None] ** 2 - overlaps**2) * scores.dtype.type(self.gaussian_sigma))
        else:
            decay = (1 - overlaps) / (1 - most[None] + scores.dtype.type(1e-10))
        before = np.tril(np.ones_like(overlaps, dtype=bool), -1)
        return scores * np.where(before, decay, 1).min(axis=1, initial=1)


@dataclass(frozen=True)
class MulticlassNms8(_ChoosingBoxes):
    """Non-maximum suppression in each class, then the best boxes of each image.

    boxes [N, B, 4], scores [N, C, B]. After each box that is kept a threshold above 0.5 is
    multiplied by `nms_eta`.
    """

    kind: ClassVar[str] = "MulticlassNms"
    version: ClassVar[int] = 8
    inputs: ClassVar[tuple[Port, ...]] = (Port("boxes"), Port("scores"))
    iou_threshold: float = 0.0
    nms_eta: float = 1.0

    def infer(self, boxes: Fact, scores: Fact, roisnum: Fact | None = None) -> tuple[Type, ...]:
        require_rank(scores, "scores", 3 if roisnum is None else 2)
        images: Dim = fresh_symbol(self)
        if roisnum is not None:
            require_rank(roisnum, "roisnum", 1)
            require_dtype(roisnum, "roisnum", INTEGERS, "an integer type")
            images = fresh_symbol(self) if roisnum.tensor.shape is None else roisnum.tensor.shape[0]
        elif scores.tensor.shape is not None:
            images = scores.tensor.shape[0]
        have, want = boxes.tensor.shape, scores.tensor.shape
        if have is not None and want is not None and len(have) == 3:
            same_size(have[0], want[0], "boxes and scores differ in their first axis")
            same_size(have[1], want[-1], "boxes and scores differ in boxes")
        return self._infer_chosen(boxes, scores, images)

    def evaluate(
        self, boxes: Array, scores: Array, roisnum: Array | None = None
    ) -> tuple[Array, ...]:
        corners, values = widen_array(boxes), widen_array(scores)
        starts = [0]
        if roisnum is None:
            parts = [
                (np.broadcast_to(corners[n], (values.shape[1], *corners.shape[1:])), values[n])
                for n in range(len(values))
            ]
        else:
            counts = [max(n, 0) for n in ints_of(roisnum)]
            starts = [sum(counts[:n]) for n in range(len(counts))]
            if sum(counts) > values.shape[1]:
                raise ShapeError(
                    "roisnum counts more boxes than there are",
                    got=sum(counts),
                    expected=f"at most {values.shape[1]}",
                )
            parts = [
                (corners[:, s : s + n], values[:, s : s + n])
                for s, n in zip(starts, counts, strict=True)
            ]
        images = [self._choose(n, *part) for n, part in enumerate(parts)]
        rows = self._result(images)
        if roisnum is None:
            indices = [c.image * boxes.shape[1] + c.position for c in rows]
        else:
            indices = [(starts[c.image] + c.position) * len(boxes) + c.label for c in rows]
        return self._outputs(rows, indices, [len(i) for i in images], boxes.dtype)

    def _choose(self, image: int, boxes: Array, scores: Array) -> list[_Chosen]:
        """Boxes of one image; boxes [C, B, 4], scores [C, B]."""
        found: list[_Chosen] = []
        for label in range(len(scores)):
            if label == self.background_class:
                continue
            order = self._candidates(scores[label], inclusive=True)
            kept = self._suppress(boxes[label, order])
            charge_kept(len(kept))
            found += [
                _Chosen(
                    image,
                    label,
                    int(order[i]),
                    float(scores[label, order[i]]),
                    boxes[label, order[i]],
                )
                for i in kept
            ]
        return self._limit(found)

    def _suppress(self, boxes: Array) -> list[int]:
        threshold, kept = self.iou_threshold, list[int]()
        for i in range(len(boxes)):
            overlaps = _overlaps_with(boxes[i], boxes[kept], 0 if self.normalized else 1)
            if np.any(overlaps >= threshold):
                continue
            kept.append(i)
            if self.nms_eta < 1 and threshold > 0.5:
                threshold *= self.nms_eta
        return kept


def _overlaps_with(box: Array, others: Array, offset: int) -> Array:
    """IoU of a box with others; 0 where one of them is empty."""
    areas = np.prod(others[:, 2:] - others[:, :2] + offset, axis=1)
    own = np.prod(box[2:] - box[:2] + offset)
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.maximum(high - low + offset, 0), axis=1)
    sides = np.minimum(others[:, 2:] - others[:, :2], box[2:] - box[:2]) + offset
    return np.where(np.any(sides <= 0, axis=1), 0, shared / (own + areas - shared))


class MulticlassNms(MulticlassNms8):
    """MulticlassNms that also takes boxes per class: boxes [C, boxes, 4], scores [C, boxes], and
    how many of the boxes belong to each image, `roisnum` [N]."""

    version: ClassVar[int] = 9
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("boxes"),
        Port("scores"),
        Port("roisnum", optional=True),
    )
