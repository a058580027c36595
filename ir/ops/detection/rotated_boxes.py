"""Rotated boxes (centre x, centre y, width, height, angle): NMSRotated and ROIAlignRotated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

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
    one_dtype,
    require_dtype,
    require_rank,
    require_single,
    same_size,
)
from .box_overlap import (
    batch_indices_of,
    charge_kept,
    check_boxes_and_scores,
    order_by_score,
)

# Temporaries of the overlap of one box with another: 24 points with angles, in turn, in f64.
_OVERLAP_BYTES = 4096
# The corners of a box in units of its half width and half height, in turn.
_TURN = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], np.float64)


def rotated_corners(boxes: Array) -> Array:
    """Corners [n, 4, 2] of boxes [n, 5]."""
    local = _TURN * (boxes[:, None, 2:4] / 2)
    cosine, sine = np.cos(boxes[:, 4:]), np.sin(boxes[:, 4:])
    x = local[..., 0] * cosine - local[..., 1] * sine
    y = local[..., 0] * sine + local[..., 1] * cosine
    return np.stack([x, y], axis=-1) + boxes[:, None, :2]


def rotated_overlap(box: Array, others: Array) -> Array:
    """IoU of one rotated box [5] with others [n, 5] in f64; 0 where one of them has no area."""
    own = box.astype(np.float64)[None]
    rest = others.astype(np.float64)
    shared = _shared_area(own, rest)
    areas = rest[:, 2] * rest[:, 3]
    area = own[0, 2] * own[0, 3]
    flat = (areas <= 0) | (area <= 0)
    return np.where(flat, 0, shared / np.where(flat, 1, area + areas - shared))


def _shared_area(box: Array, others: Array) -> Array:
    """Areas of the intersections: the polygon around corners of either box in the other one, and
    around the points where sides cross."""
    count = len(others)
    a = np.broadcast_to(rotated_corners(box), (count, 4, 2))
    b = rotated_corners(others)
    crossings, cross = _intersect_sides(a, b)
    points = np.concatenate([a, b, crossings], axis=1)
    valid = np.concatenate([_are_inside(a, others), _are_inside(b, box), cross], axis=1)
    weight = valid[..., None].astype(np.float64)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1)
    shifted = points - np.where(weight > 0, points, 0).sum(axis=1, keepdims=True) / total
    angles = np.where(valid, np.arctan2(shifted[..., 1], shifted[..., 0]), np.inf)
    order = np.argsort(angles, axis=1, kind="stable")
    ring = np.take_along_axis(shifted, order[..., None], axis=1)
    known = np.take_along_axis(valid, order, axis=1)
    # Points that do not count repeat the first one, which adds no area.
    ring = np.where(known[..., None], ring, ring[:, :1])
    after = np.roll(ring, -1, axis=1)
    doubled = (ring[..., 0] * after[..., 1] - ring[..., 1] * after[..., 0]).sum(axis=1)
    return np.where(valid.sum(axis=1) > 2, np.abs(doubled) / 2, 0)


def _are_inside(points: Array, boxes: Array) -> Array:
    """Whether points [n, k, 2] are in boxes [n or 1, 5], within rounding."""
    away = points - boxes[:, None, :2]
    cosine, sine = np.cos(boxes[:, 4:]), np.sin(boxes[:, 4:])
    x = away[..., 0] * cosine + away[..., 1] * sine
    y = away[..., 1] * cosine - away[..., 0] * sine
    half = boxes[:, 2:4] / 2
    room = 1e-9 * (1 + np.abs(half))
    return (np.abs(x) <= half[:, :1] + room[:, :1]) & (np.abs(y) <= half[:, 1:] + room[:, 1:])


def _intersect_sides(a: Array, b: Array) -> tuple[Array, Array]:
    """Where sides of polygons a and b [n, 4, 2] cross: points [n, 16, 2], and which do."""
    p, q = a[:, :, None], b[:, None]
    along_p = (np.roll(a, -1, axis=1) - a)[:, :, None]
    along_q = (np.roll(b, -1, axis=1) - b)[:, None]
    scale = _cross(along_p, along_q)
    parallel = np.abs(scale) < 1e-14
    safe = np.where(parallel, 1, scale)
    t, u = _cross(q - p, along_q) / safe, _cross(q - p, along_p) / safe
    found = ~parallel & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = p + t[..., None] * along_p
    return points.reshape(len(a), 16, 2), found.reshape(len(a), 16)


def _cross(a: Array, b: Array) -> Array:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _suppress_overlaps(boxes: Array, threshold: float, limit: int) -> list[int]:
    """`suppress_overlaps` of rotated boxes, one of those kept after the other."""
    active_budget().require(len(boxes) * (_OVERLAP_BYTES + 40), f"overlaps of {len(boxes)} boxes")
    alive, kept = np.ones(len(boxes), bool), list[int]()
    for i in range(len(boxes)):
        if len(kept) >= limit:
            break
        if alive[i]:
            kept.append(i)
            alive[i + 1 :] &= ~(rotated_overlap(boxes[i], boxes[i + 1 :]) > threshold)
    return kept


@dataclass(frozen=True)
class NMSRotated(Op):
    """NonMaxSuppression of rotated boxes [N, B, 5] with scores [N, C, B]; angles in radians."""

    kind: ClassVar[str] = "NMSRotated"
    version: ClassVar[int] = 13
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("boxes"),
        Port("scores"),
        Port("max_output_boxes_per_class"),
        Port("iou_threshold"),
        Port("score_threshold"),
    )
    outputs: ClassVar[tuple[Port, ...]] = (
        Port("selected_indices"),
        Port("selected_scores"),
        Port("valid_outputs"),
    )
    data_dependent: ClassVar[bool] = True
    sort_result_descending: bool = True
    output_type: DType = DType.i64
    clockwise: bool = True

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        boxes, scores = inputs[:2]
        # Copies of the boxes, and an order of the scores; overlaps are charged where they are made.
        sizes = [0 if t is None else t.elements for t in (boxes, scores)]
        return 12 * sizes[0] + 24 * sizes[1]

    def infer(self, boxes: Fact, scores: Fact, *limits: Fact) -> tuple[Type, ...]:
        check_boxes_and_scores(boxes, scores, 5)
        require_dtype(boxes, "boxes", FLOATS, "a float type")
        for port, fact in zip(self.inputs[2:], limits, strict=True):
            require_single(fact, port.name)
        count = fresh_symbol(self)
        return (
            TensorType(self.output_type, (count, 3)),
            TensorType(DType.f32, (count, 3)),  # as OpenVINO declares it, whatever the scores
            TensorType(self.output_type, (1,)),
        )

    def evaluate(self, boxes: Array, scores: Array, *limits: Array) -> tuple[Array, ...]:
        limit, overlap, least = (a.reshape(-1)[0] for a in limits)
        corners, values = widen_array(boxes).copy(), widen_array(scores)
        if not self.clockwise:
            corners[..., 4] *= -1
        kept: list[tuple[float, int, int, int]] = []
        for n in range(values.shape[0]):
            for c in range(values.shape[1]):
                found = np.flatnonzero(values[n, c] > least)
                order = found[order_by_score(values[n, c, found])]
                chosen = _suppress_overlaps(corners[n, order], float(overlap), max(int(limit), 0))
                charge_kept(len(chosen))
                kept += [(float(values[n, c, order[i]]), n, c, int(order[i])) for i in chosen]
        if self.sort_result_descending:
            kept.sort(key=lambda k: (-k[0], k[1], k[2], k[3]))
        indices = np.array([k[1:] for k in kept], self.output_type.numpy).reshape(-1, 3)
        rows = np.array([(k[1], k[2], k[0]) for k in kept], np.float64).reshape(-1, 3)
        count = np.array([len(kept)], self.output_type.numpy)
        return indices, rows.astype(np.float32), count


@dataclass(frozen=True)
class ROIAlignRotated(Op):
    """Averages of bilinear samples in the bins of rotated regions.

    data [N, C, H, W], rois [R, 5] (centre x, centre y, width, height, angle in radians),
    batch_indices [R]; `sampling_ratio` samples per bin and axis, 0: as many as pixels.
    """

    kind: ClassVar[str] = "ROIAlignRotated"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("rois"), Port("batch_indices"))
    pooled_h: int
    pooled_w: int
    sampling_ratio: int
    spatial_scale: float
    clockwise_mode: bool = False

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        # Samples are charged where their number is known.
        return widened_bytes(*inputs, outputs[0])

    def infer(self, data: Fact, rois: Fact, batch_indices: Fact) -> tuple[Type, ...]:
        dtype = one_dtype(data, rois)
        require_dtype(data, "data", FLOATS, "a float type")
        require_rank(data, "data", 4)
        require_rank(rois, "rois", 2)
        require_dtype(batch_indices, "batch_indices", INTEGERS, "an integer type")
        if self.pooled_h < 1 or self.pooled_w < 1 or self.sampling_ratio < 0:
            raise ShapeError(
                "a size of ROIAlignRotated is out of range",
                got=f"{self.pooled_h} x {self.pooled_w}, {self.sampling_ratio} samples",
            )
        shape, regions = data.tensor.shape, rois.tensor.shape
        if regions is not None:
            same_size(regions[1], 5, "a rotated region has five numbers")
        count: Dim = fresh_symbol(self) if regions is None else regions[0]
        if batch_indices.tensor.shape is not None and regions is not None:
            same_size(batch_indices.tensor.shape[0], count, "rois and batch_indices differ")
        channels: Dim = fresh_symbol(self) if shape is None else shape[1]
        return (TensorType(dtype, (count, channels, self.pooled_h, self.pooled_w)),)

    def evaluate(self, data: Array, rois: Array, batch_indices: Array) -> tuple[Array, ...]:
        wide, regions = widen_array(data), widen_array(rois)
        out = np.zeros((len(rois), data.shape[1], self.pooled_h, self.pooled_w), wide.dtype)
        for n, image in enumerate(batch_indices_of(batch_indices.reshape(-1), len(data))):
            out[n] = self._pool(wide[image], regions[n])
        return (narrow_array(out, data.dtype),)

    def _pool(self, image: Array, roi: Array) -> Array:
        scale = roi.dtype.type(self.spatial_scale)
        centre, sides = roi[:2] * scale - roi.dtype.type(0.5), roi[2:4] * scale
        angle = -roi[4] if self.clockwise_mode else roi[4]
        steps: list[Array] = []
        counts: list[int] = []
        for side, bins in ((sides[1], self.pooled_h), (sides[0], self.pooled_w)):
            size = side / roi.dtype.type(bins)
            samples = self.sampling_ratio or max(math.ceil(size), 0)
            counts.append(samples)
            active_budget().require(32 * bins * samples, "coordinates of samples of a region")
            inner = (np.arange(samples, dtype=roi.dtype) + roi.dtype.type(0.5)) / max(samples, 1)
            coordinates = (np.arange(bins, dtype=roi.dtype)[:, None] + inner) * size - side / 2
            steps.append(coordinates.reshape(-1))
        count = len(steps[0]) * len(steps[1])
        size = count * (6 * len(image) * image.itemsize + 96)
        active_budget().require(size, f"{count} samples of a region")
        y, x = steps[0][:, None], steps[1][None]
        cosine, sine = np.cos(angle), np.sin(angle)
        values = _samples(
            image, y * cosine - x * sine + centre[1], y * sine + x * cosine + centre[0]
        )
        if 0 in counts:
            return np.zeros((len(image), self.pooled_h, self.pooled_w), image.dtype)
        split = values.reshape(-1, self.pooled_h, counts[0], self.pooled_w, counts[1])
        return split.mean(axis=(2, 4))


def _samples(image: Array, y: Array, x: Array) -> Array:
    """Bilinear samples [C, h, w]; 0 where a coordinate is more than a pixel outside."""
    if 0 in image.shape[1:]:
        return np.zeros((len(image), *y.shape), image.dtype)
    height, width = image.shape[1:]
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    parts: list[Any] = []
    for at, size in ((y, height), (x, width)):
        clamped = np.clip(np.where(inside, at, 0), 0, size - 1)
        low = np.floor(clamped).astype(np.int64)
        parts.append((low, np.minimum(low + 1, size - 1), (clamped - low).astype(image.dtype)))
    (top, bottom, dy), (left, right, dx) = parts
    above = image[:, top, left] * (1 - dx) + image[:, top, right] * dx
    below = image[:, bottom, left] * (1 - dx) + image[:, bottom, right] * dx
    return np.where(inside, above * (1 - dy) + below * dy, 0)
