"""Features of regions of interest: ROIPooling, PSROIPooling and DeformablePSROIPooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import computing_bytes, narrow_array, widen_array, widened_bytes
from ..math.elementwise import FLOATS, sizes_of
from ..shape_inference import fresh_symbol, one_dtype, require_dtype, require_rank, same_size
from .box_overlap import batch_indices_of

F32 = np.float32


def _infer_pooled(
    op: Op,
    data: Fact,
    rois: Fact,
    channels: Dim | None,
    height: int,
    width: int,
    *more: Fact | None,
) -> tuple[Type, ...]:
    """The type of one [channels or the data's, height, width] per row of rois [R, 5]."""
    dtype = one_dtype(data, rois, *more)
    require_dtype(data, "data", FLOATS, "a float type")
    require_rank(data, "data", 4)
    require_rank(rois, "rois", 2)
    if height < 1 or width < 1:
        raise ShapeError("the pooled size is not positive", got=f"{height} x {width}")
    shape, regions = data.tensor.shape, rois.tensor.shape
    if regions is not None:
        same_size(regions[1], 5, "rois has five columns: image, x0, y0, x1, y1")
    count: Dim = fresh_symbol(op) if regions is None else regions[0]
    if channels is None:
        channels = fresh_symbol(op) if shape is None else shape[1]
    return (TensorType(dtype, (count, channels, height, width)),)


def _pooling_bytes(
    inputs: Sequence[TensorType | None], outputs: Sequence[TensorType], samples: int
) -> int:
    """Temporaries of pooling regions one by one, with so many samples in each bin of a region."""
    out = outputs[0]
    if not out.is_static:
        return 0
    each = math.prod(sizes_of(out.shape)[1:]) * samples
    # Samples in eight arrays, and their coordinates in six.
    item = computing_bytes(out.dtype)
    return widened_bytes(*inputs, out) + (8 * item + 48) * each


def round_half_away(x: Array) -> Array:
    """C's round: halves go away from zero."""
    return np.where(x < 0, np.ceil(x - 0.5), np.floor(x + 0.5)).astype(x.dtype)


def blend(image: Array, y: Array, x: Array) -> Array:
    """Bilinear samples of image [..., H, W] at coordinates y and x (inside), broadcast together."""
    bottom, right = image.shape[-2] - 1, image.shape[-1] - 1
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    low = np.minimum(np.ceil(y).astype(np.int64), bottom)
    far = np.minimum(np.ceil(x).astype(np.int64), right)
    dy, dx = (y - top).astype(image.dtype), (x - left).astype(image.dtype)
    above = image[..., top, left] + (image[..., top, far] - image[..., top, left]) * dx
    below = image[..., low, left] + (image[..., low, far] - image[..., low, left]) * dx
    return above + (below - above) * dy


@dataclass(frozen=True)
class ROIPooling(Op):
    """The maximum of each bin of a region, or (method bilinear) one sample per bin.

    data [N, C, H, W]; rois [R, 5] of (image, x0, y0, x1, y1): for `max` in pixels that are
    multiplied by `spatial_scale`, for `bilinear` relative to the data's sides.
    """

    kind: ClassVar[str] = "ROIPooling"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("rois"))
    pooled_h: int
    pooled_w: int
    spatial_scale: float
    method: str = "max"

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _pooling_bytes(inputs, outputs, 1)

    def infer(self, data: Fact, rois: Fact) -> tuple[Type, ...]:
        return _infer_pooled(self, data, rois, None, self.pooled_h, self.pooled_w)

    def evaluate(self, data: Array, rois: Array) -> tuple[Array, ...]:
        wide, regions = widen_array(data), widen_array(rois)
        out = np.zeros((len(rois), data.shape[1], self.pooled_h, self.pooled_w), wide.dtype)
        pool = self._sample if self.method.lower() == "bilinear" else self._take_max
        images = batch_indices_of(regions[:, 0], len(data))
        for n, image in enumerate(images):
            pool(wide[image], regions[n, 1:], out[n])
        return (narrow_array(out, data.dtype),)

    def _take_max(self, image: Array, roi: Array, out: Array) -> None:
        corners = round_half_away(roi * F32(self.spatial_scale)).astype(np.int64)
        spans = [
            _bins(int(corners[a]), int(corners[a + 2]), n, size)
            for a, n, size in (
                (1, self.pooled_h, image.shape[1]),
                (0, self.pooled_w, image.shape[2]),
            )
        ]
        for i, (top, bottom) in enumerate(spans[0]):
            for j, (left, right) in enumerate(spans[1]):
                if bottom > top and right > left:
                    out[:, i, j] = image[:, top:bottom, left:right].max(axis=(1, 2))

    def _sample(self, image: Array, roi: Array, out: Array) -> None:
        coordinates: list[Array] = []
        for a, n in ((1, self.pooled_h), (0, self.pooled_w)):
            last = image.shape[2 - a] - 1
            low, high = roi[a], roi[a + 2]
            if n == 1:
                coordinates.append(np.array([(low + high) * last / 2], roi.dtype))
                continue
            step = (high - low) * last / (n - 1)
            at = np.arange(n, dtype=roi.dtype) * step + low * last
            at[-1] = high * last  # rounding must not move the last sample out of the region
            coordinates.append(at)
        y, x = coordinates[0][:, None], coordinates[1][None]
        inside = (y >= 0) & (y <= image.shape[1] - 1) & (x >= 0) & (x <= image.shape[2] - 1)
        y, x = (np.where(inside, v, 0) for v in (y, x))
        if 0 not in image.shape[1:]:
            out[...] = np.where(inside, blend(image, y, x), 0)


def _bins(first: int, last: int, count: int, size: int) -> list[tuple[int, int]]:
    """Begin and end of `count` bins of the pixels first..last, clipped to [0, size]."""
    width = F32(max(last - first + 1, 1)) / F32(count)
    begins = np.floor(np.arange(count, dtype=F32) * width).astype(np.int64) + first
    ends = np.ceil(np.arange(1, count + 1, dtype=F32) * width).astype(np.int64) + first
    pairs = zip(np.clip(begins, 0, size).tolist(), np.clip(ends, 0, size).tolist(), strict=True)
    return list(pairs)


@dataclass(frozen=True)
class PSROIPooling(Op):
    """Bins of a region, each from channels of its own: averages, or (mode bilinear) the mean of
    spatial_bins_y x spatial_bins_x samples.

    data [N, C, H, W] with C = output_dim * group_size^2 (bilinear: output_dim * bins); rois [R, 5].
    """

    kind: ClassVar[str] = "PSROIPooling"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("rois"))
    output_dim: int
    spatial_scale: float
    group_size: int = 1
    spatial_bins_x: int = 1
    spatial_bins_y: int = 1
    mode: str = "average"

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _pooling_bytes(inputs, outputs, 1)

    def infer(self, data: Fact, rois: Fact) -> tuple[Type, ...]:
        if min(self.output_dim, self.spatial_bins_x, self.spatial_bins_y) < 1:
            raise ShapeError("output_dim or a number of bins is not positive", got=self.output_dim)
        found = _infer_pooled(self, data, rois, self.output_dim, self.group_size, self.group_size)
        if data.tensor.shape is not None:
            average = self.mode.lower() == "average"
            bins = self.group_size**2 if average else self.spatial_bins_x * self.spatial_bins_y
            same_size(
                data.tensor.shape[1],
                self.output_dim * bins,
                "data has output_dim channels for each bin",
            )
        return found

    def evaluate(self, data: Array, rois: Array) -> tuple[Array, ...]:
        mode = self.mode.lower()
        if mode not in ("average", "bilinear"):
            raise UnsupportedOperationError("PSROIPooling with this mode", got=self.mode)
        wide, regions = widen_array(data), widen_array(rois)
        group = self.group_size
        out = np.zeros((len(rois), self.output_dim, group, group), wide.dtype)
        pool = self._average if mode == "average" else self._sample
        for n, image in enumerate(batch_indices_of(regions[:, 0], len(data))):
            pool(wide[image], regions[n, 1:], out[n])
        return (narrow_array(out, data.dtype),)

    def _average(self, image: Array, roi: Array, out: Array) -> None:
        group, scale = self.group_size, F32(self.spatial_scale)
        rounded = round_half_away(roi.astype(F32))
        low, high = rounded[:2] * scale, (rounded[2:] + 1) * scale
        step = (high - low) / F32(group)
        spans: list[list[tuple[int, int]]] = []
        for a, size in ((1, image.shape[1]), (0, image.shape[2])):
            at = np.arange(group + 1, dtype=F32) * step[a] + low[a]
            begins = np.clip(np.floor(at[:-1]).astype(np.int64), 0, max(size - 1, 0))
            ends = np.clip(np.ceil(at[1:]).astype(np.int64), 0, size)
            spans.append(list(zip(begins.tolist(), ends.tolist(), strict=True)))
        planes = image.reshape(self.output_dim, group, group, *image.shape[1:])
        for i, (top, bottom) in enumerate(spans[0]):
            for j, (left, right) in enumerate(spans[1]):
                if bottom > top and right > left:
                    part = planes[:, i, j, top:bottom, left:right]
                    out[:, i, j] = part.mean(axis=(1, 2))

    def _sample(self, image: Array, roi: Array, out: Array) -> None:
        bins = (self.spatial_bins_y, self.spatial_bins_x)
        scaled = roi.astype(F32) * F32(self.spatial_scale)
        coordinates = [
            self._sample_positions(scaled[a], scaled[a + 2], bins[1 - a], image.shape[2 - a])
            for a in (1, 0)
        ]
        planes = image.reshape(*bins, self.output_dim, *image.shape[1:])
        height, width = image.shape[1:]
        for i in range(bins[0]):
            for j in range(bins[1]):
                y, x = coordinates[0][i][:, None], coordinates[1][j][None]
                inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
                y, x = (np.where(inside, v, 0) for v in (y, x))
                out += np.where(inside, blend(planes[i, j], y, x), 0)
        out /= bins[0] * bins[1]

    def _sample_positions(self, low: Any, high: Any, bins: int, size: int) -> Array:
        """Coordinates of the samples [bins, group_size] along one axis."""
        width = F32(high - low) / F32(bins)
        start = F32(low) + np.arange(bins, dtype=F32)[:, None] * width
        if self.group_size == 1:
            return (start + start + width) * F32(size - 1) / 2
        step = width * F32(size - 1) / F32(self.group_size - 1)
        return np.arange(self.group_size, dtype=F32) * step + start * F32(size - 1)


@dataclass(frozen=True)
class DeformablePSROIPooling(Op):
    """PSROIPooling whose bins are moved by `offsets` [R, 2 * classes, part_size, part_size]."""

    kind: ClassVar[str] = "DeformablePSROIPooling"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("rois"),
        Port("offsets", optional=True),
    )
    output_dim: int
    spatial_scale: float
    group_size: int = 1
    mode: str = "bilinear_deformable"
    spatial_bins_x: int = 1
    spatial_bins_y: int = 1
    trans_std: float = 1.0
    part_size: int = 1

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return _pooling_bytes(inputs, outputs, self.spatial_bins_y * self.spatial_bins_x)

    def infer(self, data: Fact, rois: Fact, offsets: Fact | None = None) -> tuple[Type, ...]:
        counts = (self.output_dim, self.spatial_bins_x, self.spatial_bins_y, self.part_size)
        if min(counts) < 1:
            raise ShapeError("a size of DeformablePSROIPooling is not positive", got=list(counts))
        group = self.group_size
        found = _infer_pooled(self, data, rois, self.output_dim, group, group, offsets)
        if data.tensor.shape is not None:
            wanted = self.output_dim * group * group
            same_size(data.tensor.shape[1], wanted, "data has output_dim channels for each bin")
        if offsets is not None:
            require_rank(offsets, "offsets", 4)
            for axis in (2, 3) if offsets.tensor.shape is not None else ():
                assert offsets.tensor.shape is not None
                same_size(offsets.tensor.shape[axis], self.part_size, "offsets has part_size rows")
        return found

    def evaluate(self, data: Array, rois: Array, offsets: Array | None = None) -> tuple[Array, ...]:
        wide, regions, group = widen_array(data), widen_array(rois), self.group_size
        out = np.zeros((len(rois), self.output_dim, group, group), wide.dtype)
        moves = np.zeros((len(rois), 2, 1, 1), F32) if offsets is None else widen_array(offsets)
        found = [int(v) for v in regions[:, 0]]
        batch_indices_of(regions[regions[:, 0] >= 0, 0], len(data))
        for n, image in enumerate(found):
            if image >= 0:
                out[n] = self._pool(wide[image], regions[n, 1:].astype(F32), moves[n])
        return (narrow_array(out, data.dtype),)

    def _pool(self, image: Array, roi: Array, moves: Array) -> Array:
        group, scale = self.group_size, F32(self.spatial_scale)
        rounded = round_half_away(roi)
        low = rounded[:2] * scale - F32(0.5)
        high = (rounded[2:] + 1) * scale - F32(0.5)
        sides = np.maximum(high - low, F32(0.1))
        shifts = self._shifts(moves)
        at: list[Array] = []
        counts = (self.spatial_bins_x, self.spatial_bins_y)
        for a in (0, 1):
            step = sides[a] / F32(group)
            start = low[a] + np.arange(group, dtype=F32) * step
            start = start[None, None, :] if a == 0 else start[None, :, None]
            inner = np.arange(counts[a], dtype=F32) * (step / F32(counts[a]))
            inner = inner[None, :] if a == 0 else inner[:, None]
            moved = start + shifts[:, a] * sides[a]
            at.append(moved[..., None, None] + inner)
        x, y = np.broadcast_arrays(*at)
        bottom, right = image.shape[1:]
        inside = (y >= -0.5) & (y <= bottom - 0.5) & (x >= -0.5) & (x <= right - 0.5)
        y, x = np.clip(y, 0, bottom - 1), np.clip(x, 0, right - 1)
        planes = image.reshape(self.output_dim, group, group, bottom, right)
        values = _blend_planes(planes, y, x)
        count = inside.sum(axis=(-1, -2))
        total = np.where(inside, values, 0).sum(axis=(-1, -2))
        return np.where(count > 0, total / np.maximum(count, 1), 0)

    def _shifts(self, moves: Array) -> Array:
        """How far each bin moves, relative to the region: [output_dim, 2, group, group]."""
        parts = np.arange(self.group_size) * self.part_size // self.group_size
        classes = moves.shape[0] // 2
        if not classes or self.output_dim % classes:
            raise ShapeError(
                "offsets has a wrong number of channels", got=moves.shape[0], expected="2 per class"
            )
        if moves.shape[-1] == 1:
            parts = np.zeros_like(parts)
        split = moves.reshape(classes, 2, *moves.shape[1:])[:, :, parts[:, None], parts[None]]
        return np.repeat(split, self.output_dim // classes, axis=0) * F32(self.trans_std)


def _blend_planes(planes: Array, y: Array, x: Array) -> Array:
    """Bilinear samples of planes [C, G, G, H, W] at coordinates [C, G, G, ...] of their own."""
    sides = planes.shape[:3]
    c, i, j = np.meshgrid(*map(np.arange, sides), indexing="ij", sparse=True)
    c, i, j = (np.asarray(a)[..., None, None] for a in (c, i, j))
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    low, far = np.ceil(y).astype(np.int64), np.ceil(x).astype(np.int64)
    dy, dx = (y - top).astype(planes.dtype), (x - left).astype(planes.dtype)

    def read(rows: Array, columns: Array) -> Array:
        return planes[c, i, j, rows, columns]

    above = read(top, left) + (read(top, far) - read(top, left)) * dx
    below = read(low, left) + (read(low, far) - read(low, left)) * dx
    return above + (below - above) * dy
