"""Boxes of SSD detectors, decoded from priors and freed of overlaps: DetectionOutput."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim, exact_quotient
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import computing_bytes, narrow_array, widen_array, widened_bytes
from ..math.elementwise import FLOATS
from ..shape_inference import (
    fresh_symbol,
    one_dtype,
    require_dtype,
    require_rank,
    same_size,
)
from .box_overlap import (
    charge_kept,
    intersection_over_union,
    order_by_score,
    suppress_overlaps,
)

# One detection: class, prior.
_Kept = list[tuple[int, int]]


@dataclass(frozen=True)
class DetectionOutput(Op):
    """Detections [1, 1, rows, 7] of (image, class, score, x0, y0, x1, y1), the row after the last
    one beginning with -1.

    box_logits [N, priors * 4] (or classes * priors * 4 unless `share_location`), class_preds
    [N, priors * classes], proposals [1 or N, 1 or 2, priors * 4]: corners and variances (5 numbers
    per prior unless `normalized`). The two optional inputs refine priors and drop objects.
    """

    kind: ClassVar[str] = "DetectionOutput"
    version: ClassVar[int] = 8
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("box_logits"),
        Port("class_preds"),
        Port("proposals"),
        Port("aux_class_preds", optional=True),
        Port("aux_box_preds", optional=True),
    )
    keep_top_k: tuple[int, ...]
    nms_threshold: float
    background_label_id: int = 0
    top_k: int = -1
    variance_encoded_in_target: bool = False
    code_type: str = "caffe.PriorBoxParameter.CORNER"
    share_location: bool = True
    confidence_threshold: float = 0.0
    clip_after_nms: bool = False
    clip_before_nms: bool = False
    decrease_label_id: bool = False
    normalized: bool = False
    input_height: int = 1
    input_width: int = 1
    objectness_score: float = 0.0

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        sizes = [0 if t is None else t.elements for t in inputs]
        item = computing_bytes(outputs[0].dtype)
        # Deltas, sizes, centres, halves and corners of all boxes, of refined priors before; scores
        # without background; priors. Charged where they are found: the boxes that are kept.
        return (
            item * (6 * (sizes[0] + sum(sizes[4:])) + 2 * sizes[1] + 2 * sizes[2])
            + item * outputs[0].elements
            + widened_bytes(*inputs)
        )

    @property
    def _prior_size(self) -> int:
        return 4 if self.normalized else 5

    def _class_count(self, class_preds: Dim, priors: Dim) -> Dim:
        """Classes, from the sizes of the inputs."""
        return _divide(class_preds, priors, self)

    def infer(
        self, box_logits: Fact, class_preds: Fact, proposals: Fact, *aux: Fact | None
    ) -> tuple[Type, ...]:
        dtype = one_dtype(box_logits, class_preds, proposals, *aux)
        for name, fact, rank in (
            ("box_logits", box_logits, 2),
            ("class_preds", class_preds, 2),
            ("proposals", proposals, 3),
        ):
            require_dtype(fact, name, FLOATS, "a float type")
            require_rank(fact, name, rank)
        if sum(f is not None for f in aux) == 1:
            raise ShapeError("the auxiliary inputs come together", expected="both or neither")
        if not self.keep_top_k:
            raise ShapeError("keep_top_k is empty", expected="one number")
        boxes, scores, priors = (f.tensor.shape for f in (box_logits, class_preds, proposals))
        images: Dim = boxes[0] if boxes else scores[0] if scores else fresh_symbol(self)
        if boxes and scores:
            images = same_size(boxes[0], scores[0], "box_logits and class_preds differ in images")
        count: Dim = _divide(priors[2], self._prior_size, self) if priors else fresh_symbol(self)
        classes = self._class_count(scores[1] if scores else fresh_symbol(self), count)
        if self.keep_top_k[0] > 0:
            rows = images * self.keep_top_k[0]
        elif self.top_k > 0:
            rows = images * self.top_k * classes
        else:
            rows = images * count * classes
        if boxes:
            wanted = count * 4 if self.share_location else count * classes * 4
            same_size(boxes[1], wanted, "box_logits have four numbers per prior (and class)")
        return (TensorType(dtype, (1, 1, rows, 7)),)

    def evaluate(
        self, box_logits: Array, class_preds: Array, proposals: Array, *aux: Array | None
    ) -> tuple[Array, ...]:
        boxes, scores, priors = (widen_array(a) for a in (box_logits, class_preds, proposals))
        count, images = priors.shape[2] // self._prior_size, len(boxes)
        classes = self._class_count(scores.shape[1], count)
        assert isinstance(classes, int)
        locations = 1 if self.share_location else classes
        scores = scores.reshape(images, count, classes)
        logits = boxes.reshape(images, count, locations, 4)
        corners, variances = self._split_priors(priors, count, images)
        start = corners[:, :, None]
        if len(aux) == 2 and aux[0] is not None and aux[1] is not None:
            scores = self._drop_background(scores, widen_array(aux[0]))
            refined = widen_array(aux[1]).reshape(images, count, -1, 4)
            start = self._decode(start, variances, refined)
        decoded = self._decode(start, variances, logits)
        rows: list[Any] = []
        for image in range(images):
            for label, prior in self._select(decoded[image], scores[image]):
                box = decoded[image, prior, 0 if self.share_location else label]
                box = np.clip(box, 0, 1) if self.clip_after_nms else box
                shown = label - 1 if self.decrease_label_id else label
                rows.append([image, shown, scores[image, prior, label], *box])
        total = self._row_limit(images, count, classes)
        out = np.zeros((total, 7), boxes.dtype)
        if rows:
            out[: len(rows)] = rows[:total]
        if len(rows) < total:
            out[len(rows), 0] = -1
        return (narrow_array(out[None, None], box_logits.dtype),)

    def _row_limit(self, images: int, priors: int, classes: int) -> int:
        if self.keep_top_k[0] > 0:
            return images * self.keep_top_k[0]
        return images * classes * (self.top_k if self.top_k > 0 else priors)

    def _split_priors(self, priors: Array, count: int, images: int) -> tuple[Array, Array]:
        """Corners and variances [images or 1, count, 4]."""
        first = priors[:, 0].reshape(len(priors), count, self._prior_size)[..., -4:]
        if not self.normalized:
            sides = (self.input_width, self.input_height) * 2
            first = first / np.array(sides, priors.dtype)
        if self.variance_encoded_in_target:
            return first, np.ones_like(first)
        if priors.shape[1] != 2:
            raise ShapeError("proposals lack variances", got=priors.shape, expected="[N, 2, ...]")
        # Variances follow each other by fours, whatever the numbers per prior.
        return first, priors[:, 1, : 4 * count].reshape(len(priors), count, 4)

    def _drop_background(self, scores: Array, objectness: Array) -> Array:
        """Priors without an object have score 1 as background and 0 otherwise."""
        is_object = objectness.reshape(*scores.shape[:2], 2)[..., 1] >= self.objectness_score
        background = np.zeros(scores.shape[2], scores.dtype)
        if 0 <= self.background_label_id < len(background):
            background[self.background_label_id] = 1
        return np.where(is_object[..., None], scores, background)

    def _decode(self, priors: Array, variances: Array, logits: Array) -> Array:
        """Corners [images, count, locations, 4] from priors and what the network says."""
        delta = logits * variances[:, :, None]
        if self.code_type.upper().endswith("CENTER_SIZE"):
            low, high = priors[..., :2], priors[..., 2:]
            size = high - low
            centre = delta[..., :2] * size + (low + high) / 2
            half = np.exp(delta[..., 2:]) * size / 2
            out = np.concatenate([centre - half, centre + half], axis=-1)
        elif self.code_type.upper().endswith("CORNER"):
            out = priors + delta
        else:
            raise UnsupportedOperationError(
                "DetectionOutput with this code_type", got=self.code_type
            )
        return np.clip(out, 0, 1) if self.clip_before_nms else out

    def _select(self, boxes: Array, scores: Array) -> _Kept:
        """Detections of an image by class; boxes [count, locations, 4], scores [count, classes]."""
        kept = (
            self._best_class(boxes, scores)
            if self.decrease_label_id
            else self._suppress_per_class(boxes, scores)
        )
        limit = self.keep_top_k[0]
        if -1 < limit < len(kept):
            kept.sort(key=lambda k: (-scores[k[1], k[0]], k[1]))
            kept = kept[:limit]
            kept.sort(key=lambda k: k[0])
        return kept

    def _suppress_per_class(self, boxes: Array, scores: Array) -> _Kept:
        """Every class on its own (Caffe)."""
        kept: _Kept = []
        for label in range(scores.shape[1]):
            if label == self.background_label_id:
                continue
            column = scores[:, label]
            found = np.flatnonzero(column > self.confidence_threshold)
            order = found[order_by_score(column[found], self.top_k)]
            own = boxes[order, 0 if self.share_location else label]
            chosen = suppress_overlaps(own, self.nms_threshold, None, intersection_over_union)
            charge_kept(len(chosen))
            kept += [(label, int(order[i])) for i in chosen]
        return kept

    def _best_class(self, boxes: Array, scores: Array) -> _Kept:
        """Every prior with its best class only (MXNet)."""
        allowed = scores.copy()
        hidden = {0, self.background_label_id} & set(range(scores.shape[1]))
        allowed[:, sorted(hidden)] = -1
        labels = allowed.argmax(axis=1)
        best = np.take_along_axis(allowed, labels[:, None], axis=1)[:, 0]
        found = np.flatnonzero((labels > 0) & (best > -1) & (best >= self.confidence_threshold))
        order = found[order_by_score(best[found], self.top_k)]
        kept: _Kept = []
        for label in sorted(set(labels[order].tolist())):
            own = order[labels[order] == label]
            corners = boxes[own, 0 if self.share_location else label]
            chosen = suppress_overlaps(corners, self.nms_threshold, None, intersection_over_union)
            charge_kept(len(chosen))
            kept += [(label, int(own[i])) for i in chosen]
        return kept


@dataclass(frozen=True)
class DetectionOutput1(DetectionOutput):
    """DetectionOutput whose number of classes is an attribute."""

    version: ClassVar[int] = 1
    num_classes: int = 0

    def _class_count(self, class_preds: Dim, priors: Dim) -> Dim:
        if self.num_classes < 1:
            raise ShapeError("num_classes is missing", got=self.num_classes, expected="1 or more")
        same_size(class_preds, priors * self.num_classes, "class_preds has priors * num_classes")
        return self.num_classes


def _divide(size: Dim, by: Dim, op: Op) -> Dim:
    """size / by, which leaves no rest. ShapeError where it does."""
    if isinstance(size, int) and isinstance(by, int):
        if by == 0 or size % by:
            raise ShapeError("an axis is not a multiple", got=size, expected=f"a multiple of {by}")
        return size // by
    found = exact_quotient(size, by)
    return fresh_symbol(op) if found is None else found
