"""Operations of Detectron's models: ExperimentalDetectron... of operation set 6."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import computing_bytes, narrow_array, widen_array, widened_bytes
from ..math.elementwise import FLOATS
from ..nn.grid_sample_roi import ROIAlign
from ..shape_inference import (
    count_of,
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
from .proposal import MAX_LOG_GROWTH

# Boxes of up to this side are read from the third level of the feature pyramid.
_CANONICAL_SIDE, _CANONICAL_LEVEL = 224.0, 2


def _check(*facts: tuple[str, Fact, int]) -> DType:
    """The element type that inputs of the given ranks share."""
    dtype = one_dtype(*(fact for _, fact, _ in facts))
    for name, fact, rank in facts:
        require_dtype(fact, name, FLOATS, "a float type")
        require_rank(fact, name, rank)
    return dtype


def _move(boxes: Array, deltas: Array, limit: float) -> Array:
    """Corners of boxes [..., 4], in whole pixels, moved and scaled by deltas [..., 4]."""
    size = boxes[..., 2:] - boxes[..., :2] + 1
    centre = deltas[..., :2] * size + boxes[..., :2] + size / 2
    half = np.exp(np.minimum(deltas[..., 2:], limit)) * size / 2
    return np.concatenate([centre - half, centre + half - 1], axis=-1)


def _moving_bytes(inputs: Sequence[TensorType | None], deltas: int) -> int:
    """Temporaries of `_move` with deltas of input `deltas`, of clipping, and of ordering scores."""
    moved = inputs[deltas]
    if moved is None:
        return 0
    item = computing_bytes(moved.dtype)
    # Deltas, sizes, centres, halves and corners; scores, masks and orders of an eighth as many.
    return (6 * item + 8) * moved.elements + widened_bytes(*inputs)


def _pad_rows(rows: Array, count: int) -> Array:
    """Rows, and zeros up to `count` of them."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    out[: len(rows)] = rows[:count]
    return out


@dataclass(frozen=True)
class ExperimentalDetectronDetectionOutput(Op):
    """The best boxes [n, 4] of an image, their classes (class 0 is the background) and scores, with
    zeros behind them. rois [R, 4], deltas [R, classes * 4], scores [R, classes], im_info [1, 3]."""

    kind: ClassVar[str] = "ExperimentalDetectronDetectionOutput"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("rois", "deltas", "scores", "im_info")))
    outputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("boxes", "classes", "scores")))
    score_threshold: float
    nms_threshold: float
    num_classes: int
    post_nms_count: int
    max_detections_per_image: int
    class_agnostic_box_regression: bool = False
    max_delta_log_wh: float = MAX_LOG_GROWTH
    deltas_weights: tuple[float, ...] = (10.0, 10.0, 5.0, 5.0)

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _moving_bytes(inputs, 1) + 16 * sum(t.elements for t in outputs)

    def infer(self, rois: Fact, deltas: Fact, scores: Fact, im_info: Fact) -> tuple[Type, ...]:
        dtype = _check(
            ("rois", rois, 2), ("deltas", deltas, 2), ("scores", scores, 2), ("im_info", im_info, 2)
        )
        if len(self.deltas_weights) != 4 or 0 in self.deltas_weights:
            raise ShapeError("deltas_weights has four numbers", got=list(self.deltas_weights))
        if self.num_classes < 1 or self.max_detections_per_image < 1:
            raise ShapeError("a count is not positive", got=self.max_detections_per_image)
        for name, fact, each in (("deltas", deltas, 4), ("scores", scores, 1)):
            if fact.tensor.shape is not None:
                what = f"{name} has {each} columns per class"
                same_size(fact.tensor.shape[1], each * self.num_classes, what)
                if rois.tensor.shape is not None:
                    same_size(fact.tensor.shape[0], rois.tensor.shape[0], "inputs differ in boxes")
        count = self.max_detections_per_image
        return (
            TensorType(dtype, (count, 4)),
            TensorType(DType.i32, (count,)),
            TensorType(dtype, (count,)),
        )

    def evaluate(
        self, rois: Array, deltas: Array, scores: Array, im_info: Array
    ) -> tuple[Array, ...]:
        boxes, given, info = (
            widen_array(rois),
            widen_array(scores),
            widen_array(im_info).reshape(-1),
        )
        factors = np.array(self.deltas_weights, boxes.dtype)
        moves = widen_array(deltas).reshape(len(boxes), self.num_classes, 4) / factors
        moved = _move(boxes[:, None], moves, self.max_delta_log_wh)
        sides = info[[1, 0, 1, 0]] - 1
        moved = np.clip(moved, 0, sides)
        empty = np.any(boxes[:, 2:] <= boxes[:, :2], axis=1)
        given = np.where(empty[:, None], 0, given)
        overlap = partial(intersection_over_union, offset=1.0)
        kept: list[tuple[float, int, int]] = []
        for label in range(1, self.num_classes):
            found = np.flatnonzero(given[:, label] > self.score_threshold)
            order = found[order_by_score(given[found, label])]
            limit = None if self.post_nms_count == -1 else self.post_nms_count
            chosen = suppress_overlaps(moved[order, label], self.nms_threshold, limit, overlap)
            charge_kept(len(chosen))
            kept += [(float(given[order[i], label]), label, int(order[i])) for i in chosen]
        if len(kept) > self.max_detections_per_image:
            kept.sort(key=lambda k: (-k[0], k[2]))
        rows = np.array([moved[box, label] for _, label, box in kept], boxes.dtype).reshape(-1, 4)
        labels = np.array([label for _, label, _ in kept], np.int32)
        values = np.array([score for score, _, _ in kept], boxes.dtype)
        count = self.max_detections_per_image
        return (
            narrow_array(_pad_rows(rows, count), rois.dtype),
            _pad_rows(labels, count),
            narrow_array(_pad_rows(values, count), rois.dtype),
        )


@dataclass(frozen=True)
class ExperimentalDetectronGenerateProposalsSingleImage(Op):
    """The `post_nms_count` best boxes of one image and their scores, with zeros behind them.

    im_info [3], anchors [H * W * A, 4], deltas [A * 4, H, W], scores [A, H, W].
    """

    kind: ClassVar[str] = "ExperimentalDetectronGenerateProposalsSingleImage"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("im_info", "anchors", "deltas", "scores"))
    )
    outputs: ClassVar[tuple[Port, ...]] = (Port("rois"), Port("scores"))
    min_size: float
    nms_threshold: float
    post_nms_count: int
    pre_nms_count: int

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _moving_bytes(inputs, 2) + 16 * sum(t.elements for t in outputs)

    def infer(self, im_info: Fact, anchors: Fact, deltas: Fact, scores: Fact) -> tuple[Type, ...]:
        dtype = _check(
            ("im_info", im_info, 1), ("anchors", anchors, 2), ("deltas", deltas, 3),
            ("scores", scores, 3),
        )  # fmt: skip
        if count_of(im_info) not in (None, 3):
            raise ShapeError("im_info has three numbers", got=im_info.type)
        if self.post_nms_count < 1 or self.pre_nms_count < 1:
            raise ShapeError("a count is not positive", got=self.post_nms_count)
        if deltas.tensor.shape is not None and scores.tensor.shape is not None:
            wanted = (scores.tensor.shape[0] * 4, *scores.tensor.shape[1:])
            for a, b in zip(deltas.tensor.shape, wanted, strict=True):
                same_size(a, b, "deltas has four channels per anchor")
        count = self.post_nms_count
        return (TensorType(dtype, (count, 4)), TensorType(dtype, (count,)))

    def evaluate(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> tuple[Array, ...]:
        info, start, values = (widen_array(a) for a in (im_info, anchors, scores))
        moves = widen_array(deltas).reshape(-1, 4, *deltas.shape[1:]).transpose(2, 3, 0, 1)
        moved = _move(start, moves.reshape(-1, 4), MAX_LOG_GROWTH)
        boxes = np.clip(moved, 0, info[[1, 0, 1, 0]] - 1)
        large = np.all(boxes[:, 2:] - boxes[:, :2] + 1 >= self.min_size, axis=1)
        score = np.where(large, values.transpose(1, 2, 0).reshape(-1), 0)
        order = order_by_score(score, self.pre_nms_count)
        kept = suppress_overlaps(
            boxes[order], self.nms_threshold, self.post_nms_count, intersection_over_union
        )
        chosen, count = order[kept], self.post_nms_count
        return (
            narrow_array(_pad_rows(boxes[chosen], count), deltas.dtype),
            narrow_array(_pad_rows(score[chosen], count), deltas.dtype),
        )


@dataclass(frozen=True)
class ExperimentalDetectronPriorGridGenerator(Op):
    """Priors [P, 4] around the centre of every cell: [H, W, P, 4], flattened to rows of 4 by
    default. The grid is `h` x `w`, or 0: the feature map's; a stride of 0: the image's share."""

    kind: ClassVar[str] = "ExperimentalDetectronPriorGridGenerator"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[Port, ...]] = tuple(map(Port, ("priors", "feature_map", "im_data")))
    flatten: bool = True
    h: int = 0
    w: int = 0
    stride_x: float = 0.0
    stride_y: float = 0.0

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        narrow = outputs[0].dtype is not DType.f32
        return (4 if narrow else 0) * outputs[0].elements + widened_bytes(inputs[0])

    def infer(self, priors: Fact, feature_map: Fact, im_data: Fact) -> tuple[Type, ...]:
        dtype = _check(
            ("priors", priors, 2), ("feature_map", feature_map, 4), ("im_data", im_data, 4)
        )
        if min(self.h, self.w) < 0:
            raise ShapeError("a side of the grid is negative", got=f"{self.h} x {self.w}")
        shape, cells = priors.tensor.shape, feature_map.tensor.shape
        if shape is not None:
            same_size(shape[1], 4, "a prior has four numbers")
        count: Dim = fresh_symbol(self) if shape is None else shape[0]
        sides: list[Dim] = [
            given or (fresh_symbol(self) if cells is None else cells[axis])
            for axis, given in ((2, self.h), (3, self.w))
        ]
        if self.flatten:
            return (TensorType(dtype, (sides[0] * sides[1] * count, 4)),)
        return (TensorType(dtype, (*sides, count, 4)),)

    def evaluate(self, priors: Array, feature_map: Array, im_data: Array) -> tuple[Array, ...]:
        rows, columns = self.h or feature_map.shape[2], self.w or feature_map.shape[3]
        steps = [
            stride or size / max(cells, 1)
            for stride, size, cells in (
                (self.stride_x, im_data.shape[3], columns),
                (self.stride_y, im_data.shape[2], rows),
            )
        ]
        x, y = (
            (np.arange(n, dtype=np.float32) + np.float32(0.5)) * np.float32(step)
            for n, step in zip((columns, rows), steps, strict=True)
        )
        wide: Array = np.empty((rows, columns, len(priors), 4), np.float32)
        wide[...] = widen_array(priors)
        wide[..., 0::2] += x[None, :, None, None]
        wide[..., 1::2] += y[:, None, None, None]
        return (narrow_array(wide.reshape(-1, 4) if self.flatten else wide, priors.dtype),)


@dataclass(frozen=True)
class ExperimentalDetectronROIFeatureExtractor(Op):
    """ROIAlign of each region [R, 4] on the level of a feature pyramid [1, C, H, W] that fits its
    size; and the regions."""

    kind: ClassVar[str] = "ExperimentalDetectronROIFeatureExtractor"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[Port, ...]] = (Port("rois"), Port("features", variadic=True))
    outputs: ClassVar[tuple[Port, ...]] = (Port("roi_features"), Port("rois"))
    output_size: int
    sampling_ratio: int
    pyramid_scales: tuple[int, ...]
    aligned: bool = False

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        # Per level the map in f64, and the features of its regions in f64 and in f32.
        largest = max((12 * t.elements for t in inputs[1:] if t is not None), default=0)
        return largest + 20 * outputs[0].elements + 48 * outputs[1].elements

    def infer(self, rois: Fact, features: tuple[Fact, ...]) -> tuple[Type, ...]:
        dtype = _check(("rois", rois, 2), *(("features", f, 4) for f in features))
        if len(features) != len(self.pyramid_scales) or min(self.pyramid_scales) < 1:
            raise ShapeError(
                "pyramid_scales has a positive number per feature map",
                got=list(self.pyramid_scales),
                expected=len(features),
            )
        if self.output_size < 1 or self.sampling_ratio < 0:
            raise ShapeError("output_size is not positive", got=self.output_size)
        shape = rois.tensor.shape
        if shape is not None:
            same_size(shape[1], 4, "a region has four numbers")
        count: Dim = fresh_symbol(self) if shape is None else shape[0]
        channels: Dim = fresh_symbol(self)
        for fact in features:
            if fact.tensor.shape is not None:
                channels = fact.tensor.shape[1]
        return (
            TensorType(dtype, (count, channels, self.output_size, self.output_size)),
            TensorType(dtype, (count, 4)),
        )

    def evaluate(self, rois: Array, features: tuple[Array, ...]) -> tuple[Array, ...]:
        boxes = widen_array(rois)
        sides = boxes[:, 2:] - boxes[:, :2]
        areas = sides[:, 0] * sides[:, 1]
        levels = np.floor(
            np.log2(np.sqrt(np.maximum(areas, 0)) / _CANONICAL_SIDE + 1e-6) + _CANONICAL_LEVEL
        )
        levels = np.clip(levels, 0, len(features) - 1).astype(np.int64)
        size = self.output_size
        out = np.zeros((len(rois), features[0].shape[1], size, size), boxes.dtype)
        for level, (scale, data) in enumerate(zip(self.pyramid_scales, features, strict=True)):
            own = np.flatnonzero((areas > 0) & (levels == level))
            align = ROIAlign(size, size, self.sampling_ratio, 1.0 / scale, "avg")
            shifted = boxes[own] - (0.5 * scale if self.aligned else 0.0)
            zeros = np.zeros(len(own), np.int32)
            found: Any = align.evaluate(widen_array(data), shifted.astype(boxes.dtype), zeros)[0]
            out[own] = found
        return narrow_array(out, rois.dtype), rois


@dataclass(frozen=True)
class ExperimentalDetectronTopKROIs(Op):
    """The `max_rois` regions [R, 4] of the largest probabilities [R], with zeros behind them."""

    kind: ClassVar[str] = "ExperimentalDetectronTopKROIs"
    version: ClassVar[int] = 6
    inputs: ClassVar[tuple[Port, ...]] = (Port("rois"), Port("probs"))
    max_rois: int

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        probs = inputs[1]
        output_bytes = outputs[0].elements * outputs[0].dtype.numpy.itemsize
        return output_bytes + (0 if probs is None else 20 * probs.elements)

    def infer(self, rois: Fact, probs: Fact) -> tuple[Type, ...]:
        dtype = _check(("rois", rois, 2), ("probs", probs, 1))
        if self.max_rois < 1:
            raise ShapeError("max_rois is not positive", got=self.max_rois)
        if rois.tensor.shape is not None:
            same_size(rois.tensor.shape[1], 4, "a region has four numbers")
            if probs.tensor.shape is not None:
                same_size(rois.tensor.shape[0], probs.tensor.shape[0], "rois and probs differ")
        return (TensorType(dtype, (self.max_rois, 4)),)

    def evaluate(self, rois: Array, probs: Array) -> tuple[Array, ...]:
        order = order_by_score(widen_array(probs), self.max_rois)
        return (_pad_rows(rois[order], self.max_rois),)
