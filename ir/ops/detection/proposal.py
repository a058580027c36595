"""Regions of interest from anchors and a network's scores: Proposal and GenerateProposals."""

from __future__ import annotations

import math
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
from ..shape_inference import (
    count_of,
    fresh_symbol,
    one_dtype,
    require_dtype,
    require_rank,
    same_size,
)
from .box_overlap import intersection_over_union, order_by_score, suppress_overlaps

F32 = np.float32
# GenerateProposals limits the logarithm of a side's growth to this.
MAX_LOG_GROWTH = math.log(1000.0 / 16.0)


def _proposing_bytes(
    inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], deltas: int, most: int
) -> int:
    """Temporaries of proposals from the deltas of input `deltas`, at most `most` of an image."""
    moves = inputs[deltas]
    if moves is None or not moves.shape or not moves.is_static:
        return 0
    images = moves.shape[0]
    assert isinstance(images, int)
    boxes = moves.elements // max(4 * images, 1)
    item = computing_bytes(moves.dtype)
    # Anchors, their sizes and centres; an image's middles, halves and corners, scores and orders;
    # the boxes that are kept.
    selected_bytes = images * min(boxes, most) * (8 * item + 80)
    made = sum(item * t.elements for t in outputs)
    return boxes * (36 * item + 32) + selected_bytes + made + widened_bytes(*inputs)


@dataclass(frozen=True)
class Proposal1(Op):
    """The `post_nms_topn` best boxes of each image as rows (image, x0, y0, x1, y1); the row after
    the last box begins with -1.

    class_probs [N, 2 * anchors, H, W] (the second half are the scores of objects), bbox_deltas
    [N, 4 * anchors, H, W], image_shape [3 or 4]: height, width and scale (of height, of width).
    """

    kind: ClassVar[str] = "Proposal"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("class_probs"),
        Port("bbox_deltas"),
        Port("image_shape"),
    )
    base_size: int
    pre_nms_topn: int
    post_nms_topn: int
    nms_thresh: float
    feat_stride: int
    min_size: int
    ratio: tuple[float, ...]
    scale: tuple[float, ...]
    clip_before_nms: bool = True
    clip_after_nms: bool = False
    normalize: bool = False
    box_size_scale: float = 1.0
    box_coordinate_scale: float = 1.0
    framework: str = ""

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _proposing_bytes(inputs, outputs, 1, self.post_nms_topn)

    def infer(self, class_probs: Fact, bbox_deltas: Fact, image_shape: Fact) -> tuple[Type, ...]:
        dtype = one_dtype(class_probs, bbox_deltas, image_shape)
        require_dtype(class_probs, "class_probs", FLOATS, "a float type")
        require_rank(class_probs, "class_probs", 4)
        require_rank(bbox_deltas, "bbox_deltas", 4)
        if count_of(image_shape) not in (None, 3, 4):
            raise ShapeError("image_shape has 3 or 4 numbers", got=image_shape.type)
        for name in ("base_size", "pre_nms_topn", "post_nms_topn", "feat_stride"):
            if getattr(self, name) < 1:
                raise ShapeError(f"{name} is not positive", got=getattr(self, name))
        if any(r <= 0 for r in self.ratio):
            raise ShapeError("an aspect ratio is not positive", got=list(self.ratio))
        anchors = len(self.ratio) * len(self.scale)
        images: Dim = fresh_symbol(self)
        for fact, name, each in ((class_probs, "class_probs", 2), (bbox_deltas, "bbox_deltas", 4)):
            if fact.tensor.shape is not None:
                images = fact.tensor.shape[0]
                what = f"{name} has {each} channels per anchor (ratios times scales)"
                same_size(fact.tensor.shape[1], each * anchors, what)
        return (TensorType(dtype, (images * self.post_nms_topn, 5)),)

    def evaluate(
        self, class_probs: Array, bbox_deltas: Array, image_shape: Array
    ) -> tuple[Array, ...]:
        rois, _ = self._propose(
            widen_array(class_probs), widen_array(bbox_deltas), widen_array(image_shape)
        )
        return (narrow_array(rois, class_probs.dtype),)

    def _anchors(self) -> Array:
        """Corners [ratios * scales, 4] around the first cell."""
        tensorflow = self.framework.lower() == "tensorflow"
        offset = 0.0 if tensorflow else 1.0
        centre = 0.5 * (self.base_size - offset) - (0.5 * self.base_size if tensorflow else 0.0)
        rows: list[Any] = []
        for ratio in self.ratio:
            width: Any = np.sqrt(F32(self.base_size * self.base_size) / F32(ratio))
            width = width if tensorflow else np.floor(width + F32(0.5))
            height = width * F32(ratio)
            height = height if tensorflow else np.floor(height + F32(0.5))
            for scale in self.scale:
                x, y = (0.5 * (float(s) * scale - offset) for s in (width, height))
                rows.append([centre - x, centre - y, centre + x, centre + y])
        return np.array(rows, F32).reshape(-1, 4)

    def _propose(self, scores: Array, deltas: Array, image: Array) -> tuple[Array, Array]:
        numbers = image.reshape(-1)
        height, width, scale_y = (F32(v) for v in numbers[:3])
        scale_x = F32(numbers[3]) if len(numbers) > 3 else scale_y
        tensorflow = self.framework.lower() == "tensorflow"
        offset = F32(0.0 if tensorflow else 1.0)
        images, channels, rows, columns = deltas.shape
        if channels != 4 * len(self.ratio) * len(self.scale) or 2 * scores.shape[1] != channels:
            raise ShapeError(
                "the channels are not those of the anchors",
                got=f"{scores.shape[1]} and {channels}",
                expected=f"2 and 4 for each of {len(self.ratio) * len(self.scale)} anchors",
            )
        anchors = self._anchors()
        steps = [np.arange(n, dtype=F32) * self.feat_stride for n in (rows, columns)]
        y, x = np.meshgrid(*steps, indexing="ij")
        shift = np.stack([y, x, y, x] if tensorflow else [x, y, x, y], axis=-1)
        start = shift[:, :, None] + anchors
        # TensorFlow's boxes are (y0, x0, y1, x1).
        sides = np.array([height, width] if tensorflow else [width, height], F32)
        if tensorflow:
            start = np.clip(start, 0, np.tile(sides, 2))
        size = start[..., 2:] - start[..., :2] + offset
        centre = start[..., :2] + F32(0.5) * size
        rois = np.zeros((images, self.post_nms_topn, 5), deltas.dtype)
        probs = np.zeros((images, self.post_nms_topn), deltas.dtype)
        least = self.min_size * np.array([scale_x, scale_y], F32)
        overlap = partial(intersection_over_union, offset=float(offset))
        for n in range(images):
            delta = deltas[n].reshape(-1, 4, rows, columns).transpose(2, 3, 0, 1)
            middle = delta[..., :2] / F32(self.box_coordinate_scale) * size + centre
            half = F32(0.5) * np.exp(delta[..., 2:] / F32(self.box_size_scale)) * size
            boxes = np.concatenate([middle - half, middle + half], axis=-1)
            if self.clip_before_nms:
                boxes = np.clip(boxes, 0, np.tile(sides - offset, 2))
            large = np.all(boxes[..., 2:] - boxes[..., :2] + offset >= least, axis=-1)
            own = scores[n].reshape(2, -1, rows, columns)[1].transpose(1, 2, 0)
            flat, score = boxes.reshape(-1, 4), np.where(large, own, 0).reshape(-1)
            order = order_by_score(score, self.pre_nms_topn)
            kept = suppress_overlaps(flat[order], self.nms_thresh, self.post_nms_topn, overlap)
            chosen = order[kept]
            found = flat[chosen]
            if self.clip_after_nms:
                found = np.clip(found, 0, np.tile(sides, 2))
            if self.normalize:
                found = found / np.tile(sides, 2)
            rois[n, : len(kept), 0], rois[n, : len(kept), 1:] = n, found
            probs[n, : len(kept)] = score[chosen]
            if len(kept) < self.post_nms_topn:
                rois[n, len(kept), 0] = -1
        return rois.reshape(-1, 5), probs.reshape(-1)


class Proposal(Proposal1):
    """Proposal with the scores of the boxes as second output."""

    version: ClassVar[int] = 4
    outputs: ClassVar[tuple[Port, ...]] = (Port("rois"), Port("probs"))

    def infer(self, class_probs: Fact, bbox_deltas: Fact, image_shape: Fact) -> tuple[Type, ...]:
        (rois,) = super().infer(class_probs, bbox_deltas, image_shape)
        assert isinstance(rois, TensorType) and rois.shape is not None
        return (rois, TensorType(rois.dtype, rois.shape[:1]))

    def evaluate(
        self, class_probs: Array, bbox_deltas: Array, image_shape: Array
    ) -> tuple[Array, ...]:
        found = self._propose(
            widen_array(class_probs), widen_array(bbox_deltas), widen_array(image_shape)
        )
        return tuple(narrow_array(a, class_probs.dtype) for a in found)


@dataclass(frozen=True)
class GenerateProposals(Op):
    """The best boxes of each image, their scores, and how many each image has.

    im_info [N, 3 or 4]: height, width and scale (of height, of width); anchors [H, W, A, 4];
    deltas [N, 4 * A, H, W]; scores [N, A, H, W]. Outputs: [boxes, 4], [boxes], [N].
    """

    kind: ClassVar[str] = "GenerateProposals"
    version: ClassVar[int] = 9
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("im_info"),
        Port("anchors"),
        Port("deltas"),
        Port("scores"),
    )
    outputs: ClassVar[tuple[Port, ...]] = (Port("rpnrois"), Port("rpnroiprobs"), Port("rpnroisnum"))
    data_dependent: ClassVar[bool] = True
    min_size: float
    nms_threshold: float
    pre_nms_count: int
    post_nms_count: int
    normalized: bool = True
    nms_eta: float = 1.0
    roi_num_type: DType = DType.i64

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _proposing_bytes(inputs, outputs, 2, max(self.post_nms_count, 0))

    def infer(self, im_info: Fact, anchors: Fact, deltas: Fact, scores: Fact) -> tuple[Type, ...]:
        dtype = one_dtype(im_info, anchors, deltas, scores)
        require_dtype(deltas, "deltas", FLOATS, "a float type")
        for name, fact, rank in (
            ("im_info", im_info, 2),
            ("anchors", anchors, 4),
            ("deltas", deltas, 4),
            ("scores", scores, 4),
        ):
            require_rank(fact, name, rank)
        if self.nms_eta != 1:
            raise ShapeError("nms_eta is not 1", got=self.nms_eta, expected="1 (OpenVINO's only)")
        if self.roi_num_type not in (DType.i32, DType.i64):
            raise ShapeError("roi_num_type is not i32 or i64", got=self.roi_num_type)
        images: Dim = fresh_symbol(self)
        for fact in (im_info, deltas, scores):
            images = images if fact.tensor.shape is None else fact.tensor.shape[0]
        most = images * self.post_nms_count if isinstance(images, int) else None
        count = fresh_symbol(self, 0, most)
        return (
            TensorType(dtype, (count, 4)),
            TensorType(dtype, (count,)),
            TensorType(self.roi_num_type, (images,)),
        )

    def evaluate(
        self, im_info: Array, anchors: Array, deltas: Array, scores: Array
    ) -> tuple[Array, ...]:
        info, start, moves, given = (widen_array(a) for a in (im_info, anchors, deltas, scores))
        offset = start.dtype.type(0.0 if self.normalized else 1.0)
        size = start[..., 2:] - start[..., :2] + offset
        centre = start[..., :2] + size / 2
        rois: list[Any] = [np.empty((0, 4), start.dtype)]
        probs: list[Any] = [np.empty(0, start.dtype)]
        counts: list[int] = []
        overlap = partial(intersection_over_union, offset=float(offset))
        for n in range(len(moves)):
            delta = moves[n].reshape(-1, 4, *moves.shape[2:]).transpose(2, 3, 0, 1)
            middle = delta[..., :2] * size + centre
            half = np.exp(np.minimum(delta[..., 2:], MAX_LOG_GROWTH)) * size / 2
            boxes = np.concatenate([middle - half, middle + half - offset], axis=-1)
            sides = info[n, [1, 0]] - offset
            boxes = np.clip(boxes, 0, np.tile(sides, 2)).reshape(-1, 4)
            scales = (info[n, [-1, 2]] if info.shape[1] > 2 else np.ones(2)).astype(start.dtype)
            large = np.all(boxes[:, 2:] - boxes[:, :2] + offset >= self.min_size * scales, axis=1)
            score = given[n].transpose(1, 2, 0).reshape(-1)
            order = order_by_score(score, self.pre_nms_count)
            order = order[large[order]]
            kept = suppress_overlaps(boxes[order], self.nms_threshold, self.post_nms_count, overlap)
            rois.append(boxes[order[kept]])
            probs.append(score[order[kept]])
            counts.append(len(kept))
        return (
            narrow_array(np.concatenate(rois), deltas.dtype),
            narrow_array(np.concatenate(probs), deltas.dtype),
            np.array(counts, self.roi_num_type.numpy),
        )
