"""Values read at computed coordinates: GridSample, ROIAlign; and Col2Im, which adds patches up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import active_budget
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..accumulate import narrow_array, widen_array
from ..math.elementwise import FLOATS, INTEGERS
from ..shape_inference import (
    fresh_symbol,
    ints_of,
    known_dims,
    require_dtype,
    require_rank,
    same_size,
    unknown_shape,
)


def _reflect(x: Array, low: float, high: float) -> Array:
    """Coordinates mirrored at `low` and `high` until they are between."""
    span = high - low
    if span <= 0:
        return np.zeros_like(x)
    away = np.abs(x - low) % (2 * span)
    return low + np.where(away > span, 2 * span - away, away)


@dataclass(frozen=True)
class GridSample(Op):
    """data [N, C, H, W] at coordinates grid [N, h, w, 2] of (x, y) in -1..1.

    mode: bilinear, nearest, bicubic; padding_mode (coordinates outside): zeros, border, reflection.
    """

    kind: ClassVar[str] = "GridSample"
    version: ClassVar[int] = 9
    scratch_width: ClassVar[int] = 40
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("grid"))
    align_corners: bool = False
    mode: str = "bilinear"
    padding_mode: str = "zeros"

    def infer(self, data: Fact, grid: Fact) -> tuple[Type, ...]:
        require_dtype(grid, "grid", FLOATS, "a float type")
        require_rank(data, "data", 4)
        require_rank(grid, "grid", 4)
        shape, grid_shape = data.tensor.shape, grid.tensor.shape
        if shape is None or grid_shape is None:
            return (TensorType(data.tensor.dtype, unknown_shape(self, 4)),)
        same_size(grid_shape[3], 2, "a grid holds two coordinates")
        batch = same_size(shape[0], grid_shape[0], "data and grid differ in batch")
        return (TensorType(data.tensor.dtype, (batch, shape[1], grid_shape[1], grid_shape[2])),)

    def evaluate(self, data: Array, grid: Array) -> tuple[Array, ...]:
        if grid.shape[-1] != 2:
            raise ShapeError("a grid holds two coordinates", got=grid.shape)
        same_size(data.shape[0], grid.shape[0], "data and grid differ in batch")
        wide, g = data.astype(np.float64), grid.astype(np.float64)
        x, y = (self._unnormalize(g[..., i], data.shape[3 - i]) for i in (0, 1))
        mode = self.mode.lower()
        if mode == "nearest":
            out = self._sample(wide, np.rint(y), np.rint(x))
        elif mode in ("bilinear", "bicubic"):
            out = self._blend(wide, y, x, cubic=mode == "bicubic")
        else:
            raise UnsupportedOperationError("GridSample with this mode", got=self.mode)
        return (cast_array(out, DType.from_numpy(data.dtype)),)

    def _unnormalize(self, x: Array, size: int) -> Array:
        if self.align_corners:
            return (x + 1) / 2 * (size - 1)
        return ((x + 1) * size - 1) / 2

    def _sample(self, data: Array, y: Array, x: Array) -> Array:
        """Elements [N, C, h, w] at integer coordinates; those outside follow the padding mode."""
        sizes, keep = data.shape[2:], np.ones(x.shape, bool)
        indices: list[Array] = []
        for at, size in zip((y, x), sizes, strict=True):
            if self.padding_mode.lower() == "reflection":
                edge = 0.0 if self.align_corners else -0.5
                at = np.rint(_reflect(at, edge, size - 1 - edge))
            keep &= (at >= 0) & (at <= size - 1)
            indices.append(np.clip(np.nan_to_num(at), 0, size - 1).astype(np.int64))
        rows: Array = np.arange(int(data.shape[0])).reshape(-1, 1, 1)
        found = np.moveaxis(data[rows, :, indices[0], indices[1]], -1, 1)
        return np.where(keep[:, None], found, 0) if self.padding_mode.lower() == "zeros" else found

    def _blend(self, data: Array, y: Array, x: Array, *, cubic: bool) -> Array:
        if self.padding_mode.lower() == "border" and not cubic:
            y, x = (np.clip(v, 0, n - 1) for v, n in zip((y, x), data.shape[2:], strict=True))
        if self.padding_mode.lower() == "reflection" and not cubic:
            edge = 0.0 if self.align_corners else -0.5
            y, x = (
                np.clip(_reflect(v, edge, n - 1 - edge), 0, n - 1)
                for v, n in zip((y, x), data.shape[2:], strict=True)
            )
        taps = range(-1, 3) if cubic else range(2)
        y0, x0 = np.floor(y), np.floor(x)
        weigh = _cubic if cubic else _linear_weight
        out: Any = 0.0
        for i in taps:
            for j in taps:
                weight = weigh(y - y0 - i) * weigh(x - x0 - j)
                out = out + weight[:, None] * self._sample(data, y0 + i, x0 + j)
        return np.asarray(out)


def _linear_weight(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Array) -> Array:
    a, x = -0.75, np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x >= 2, 0, outer))  # NaN of NaN


@dataclass(frozen=True)
class ROIAlign(Op):
    """Regions of feature maps, pooled to pooled_h x pooled_w from bilinear samples.

    aligned_mode: asymmetric (regions are at least 1 wide), half_pixel_for_nn (half a pixel is
    subtracted after scaling), half_pixel (and half a pixel added before).
    """

    kind: ClassVar[str] = "ROIAlign"
    version: ClassVar[int] = 9
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("rois"), Port("batch_indices"))
    pooled_h: int
    pooled_w: int
    sampling_ratio: int
    spatial_scale: float
    mode: str
    aligned_mode: str = "asymmetric"

    def infer(self, data: Fact, rois: Fact, batch_indices: Fact) -> tuple[Type, ...]:
        require_rank(data, "data", 4)
        require_rank(rois, "rois", 2)
        require_dtype(batch_indices, "batch_indices", INTEGERS, "an integer type")
        shape, regions = data.tensor.shape, rois.tensor.shape
        channels: Dim = fresh_symbol(self) if shape is None else shape[1]
        count: Dim = fresh_symbol(self) if regions is None else regions[0]
        if regions is not None:
            same_size(regions[1], 4, "a region has four coordinates")
        out = (count, channels, self.pooled_h, self.pooled_w)
        return (TensorType(data.tensor.dtype, out),)

    def evaluate(self, data: Array, rois: Array, batch_indices: Array) -> tuple[Array, ...]:
        wide = data.astype(np.float64)
        out = np.zeros((len(rois), data.shape[1], self.pooled_h, self.pooled_w))
        pick: Callable[..., Any] = np.max if self.mode.lower() == "max" else np.mean
        mode = self.aligned_mode.lower()
        before, after = (
            (0.5 if mode == "half_pixel" else 0.0),
            (0.0 if mode == "asymmetric" else 0.5),
        )
        # Coordinates are in f32 (f64 of regions in f64): whether one falls on an element, so that
        # its neighbour weighs nothing, is a matter of the last bit, and infinity times 0 is NaN.
        exact = np.float64 if rois.dtype == np.float64 else np.float32
        boxes = (rois.astype(exact) + exact(before)) * exact(self.spatial_scale) - exact(after)
        pooled = self.pooled_h, self.pooled_w
        for r, (roi, batch) in enumerate(zip(boxes, ints_of(batch_indices), strict=True)):
            starts, sides = roi[1::-1], roi[:1:-1] - roi[1::-1]
            if mode == "asymmetric":
                sides = np.maximum(sides, exact(1))
            bins = sides / np.array(pooled, exact)
            counts = [self.sampling_ratio or max(int(np.ceil(b)), 1) for b in bins]
            samples = data.shape[1] * math.prod(pooled) * math.prod(counts)
            active_budget().require(80 * samples, "the samples of a region")
            ys, xs = (
                start
                + np.arange(n, dtype=exact)[:, None] * size
                + (np.arange(k, dtype=exact) + exact(0.5)) / exact(k) * size
                for start, n, k, size in zip(starts, pooled, counts, bins, strict=True)
            )
            corners = _corners(wide[batch], ys.reshape(-1), xs.reshape(-1))
            # The largest of the weighted corners, not of their sums, as ONNX has it.
            samples = corners.max(axis=0) if pick is np.max else corners.sum(axis=0)
            split = samples.reshape(-1, self.pooled_h, counts[0], self.pooled_w, counts[1])
            out[r] = pick(split, axis=(2, 4))
        return (cast_array(out, DType.from_numpy(data.dtype)),)


def _corners(image: Array, ys: Array, xs: Array) -> Array:
    """The four weighted neighbours [4, C, y, x] in image [C, H, W] of all pairs of ys and xs;
    0 where a coordinate is more than 1 outside, or there is nothing inside."""
    if 0 in image.shape[1:]:
        return np.zeros((4, image.shape[0], ys.size, xs.size))
    parts: list[tuple[tuple[Array, Array], tuple[Array, Array], Array]] = []
    for at, size in zip((ys, xs), image.shape[1:], strict=True):
        inside = (at >= -1) & (at <= size)
        clamped = np.clip(at, 0, size - 1)
        low = np.floor(clamped).astype(np.int64)
        part = clamped - low
        parts.append(((low, np.minimum(low + 1, size - 1)), (1 - part, part), inside))
    (rows, row_weights, in_rows), (columns, column_weights, in_columns) = parts
    inside = in_rows[:, None] & in_columns
    found = [
        np.where(inside, image[:, y[:, None], x] * (wy[:, None] * wx), 0.0)
        for y, wy in zip(rows, row_weights, strict=True)
        for x, wx in zip(columns, column_weights, strict=True)
    ]
    return np.stack(found)


@dataclass(frozen=True)
class Col2Im(Op):
    """Columns [N, C * kernel, L] back to an image [N, C, H, W]; what overlaps is summed."""

    kind: ClassVar[str] = "Col2Im"
    version: ClassVar[int] = 15
    scratch_copies: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("output_size"), Port("kernel_size"))
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    pads_begin: tuple[int, ...] = (0, 0)
    pads_end: tuple[int, ...] = (0, 0)

    def infer(self, data: Fact, output_size: Fact, kernel_size: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", INTEGERS | FLOATS, "a numeric type")
        require_rank(data, "data", 2, 3)
        for name, least in (("strides", 1), ("dilations", 1), ("pads_begin", 0), ("pads_end", 0)):
            numbers = getattr(self, name)
            if len(numbers) != 2 or min(numbers) < least:
                raise ShapeError(f"{name} are two numbers of {least} or more", got=list(numbers))
        shape, kernel, sizes = data.tensor.shape, known_dims(kernel_size), known_dims(output_size)
        for dims in (kernel, sizes):
            if dims is not None and len(dims) != 2:
                raise ShapeError("an image and its windows have two sizes", got=len(dims))
        if shape is None:
            return (TensorType(data.tensor.dtype, None),)
        spatial: tuple[Dim, ...] = unknown_shape(self, 2) if sizes is None else tuple(sizes)
        depth, channels = shape[-2], fresh_symbol(self)
        if kernel is not None:
            area = kernel[0] * kernel[1]
            if isinstance(depth, int) and isinstance(area, int) and (not area or depth % area):
                raise ShapeError(
                    "columns are not a multiple of the kernel", got=f"{depth} by {area}"
                )
            channels = depth // area
        return (TensorType(data.tensor.dtype, (*shape[:-2], channels, *spatial)),)

    def count_windows(self, size: Sequence[int], kernel: Sequence[int]) -> list[int]:
        """The windows along each axis of an image of this size."""
        return [
            (n + b + e - (k - 1) * d - 1) // s + 1
            for n, b, e, k, d, s in zip(
                size, self.pads_begin, self.pads_end, kernel, self.dilations, self.strides,
                strict=True,
            )
        ]  # fmt: skip

    def evaluate(self, data: Array, output_size: Array, kernel_size: Array) -> tuple[Array, ...]:
        (height, width), (kh, kw) = ints_of(output_size), ints_of(kernel_size)
        wide = widen_array(data if data.ndim == 3 else data[None])
        steps = self.count_windows((height, width), (kh, kw))
        split = wide.reshape(len(wide), -1, kh, kw, *steps)
        (top, left), (bottom, right) = self.pads_begin, self.pads_end
        full = np.zeros((*split.shape[:2], height + top + bottom, width + left + right), wide.dtype)
        for i in range(kh):
            for j in range(kw):
                spans = [
                    slice(a * d, a * d + n * s, s)
                    for a, d, n, s in zip((i, j), self.dilations, steps, self.strides, strict=True)
                ]
                full[:, :, spans[0], spans[1]] += split[:, :, i, j]
        out = full[:, :, top : top + height, left : left + width]
        return (narrow_array(np.array(out if data.ndim == 3 else out[0]), data.dtype),)
