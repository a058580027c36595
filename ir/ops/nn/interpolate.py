"""Interpolate: axes resized in turn. Every mode picks neighbours along an axis and weighs them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dims.constraints import require_at_least
from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import TensorType, Type
from ..math.elementwise import FLOATS, INTEGERS
from ..shape_inference import (
    axes_in,
    count_of,
    fresh_symbol,
    ints_of,
    known_dims,
    require_dtype,
    unique_axes,
)

_F = np.float32
# Numerators and denominators of scales of which sizes known at run time only are computed.
_MAX_FRACTION = 16
_NEGATIVE = "a size to resize to is negative"


def source_coordinates(mode: str, size: int, out: int, scale: float) -> Array:
    """Where on the input axis each output element lies, computed in f32 as OpenVINO does."""
    x, by = np.arange(out, dtype=_F), _F(scale)
    if mode == "half_pixel":
        return (x + _F(0.5)) / by - _F(0.5)
    if mode == "pytorch_half_pixel":
        return (x + _F(0.5)) / by - _F(0.5) if out > 1 else np.zeros(out, _F)
    if mode == "asymmetric":
        return x / by
    if mode == "tf_half_pixel_for_nn":
        return (x + _F(0.5)) / by
    if mode == "align_corners":
        return np.zeros(out, _F) if out == 1 else x * _F(size - 1) / _F(out - 1)
    raise UnsupportedOperationError("Interpolate with this coordinate mode", got=mode)


def _round_nearest(mode: str, scale: float, coordinates: Array) -> Array:
    floor = np.floor(coordinates)
    tie = coordinates == floor + _F(0.5)
    near = np.floor(coordinates + _F(0.5))
    rules: dict[str, Callable[[], Array]] = {
        "round_prefer_floor": lambda: np.where(tie, floor, near),
        "round_prefer_ceil": lambda: near,
        "floor": lambda: floor,
        "ceil": lambda: np.ceil(coordinates),
        "simple": lambda: np.ceil(coordinates) if scale < 1 else np.trunc(coordinates),
    }
    if mode not in rules:
        raise UnsupportedOperationError("Interpolate with this nearest_mode", got=mode)
    return rules[mode]()


def _cubic(x: Array, a: float) -> Array:
    x = np.abs(x)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0))


def _triangle(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


@dataclass(frozen=True)
class _Taps:
    """Neighbours of each output element and their weights, both [out, taps]; a neighbour that is
    not `read` has no part in the sum, whatever it holds."""

    index: Array
    weights: Array
    read: Array


def _taps(size: int, first: Array, weights: Array, *, clamp: bool) -> _Taps:
    """`weights` [out, taps] of neighbours first, first + 1, ...: those outside are the edge
    (`clamp`), or are left out and the rest scaled up."""
    index = first[:, None].astype(np.int64) + np.arange(int(weights.shape[1]))
    inside = (index >= 0) & (index < size)
    index = np.clip(index, 0, size - 1)
    if clamp:
        return _Taps(index, weights, np.ones_like(inside))
    masked = np.where(inside, weights, 0)
    total = masked.sum(axis=1, keepdims=True)
    masked = np.divide(masked, total, out=np.zeros_like(masked), where=total != 0)
    return _Taps(index, masked, masked != 0)


@dataclass(frozen=True)
class _Interpolate(Op):
    """Base; attributes are OpenVINO's. Paddings are added before, with zeros."""

    kind: ClassVar[str] = "Interpolate"
    scratch_width: ClassVar[int] = 40
    mode: str
    shape_calculation_mode: str
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    antialias: bool = False
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    cube_coeff: float = -0.75

    def _padded_sizes(self, shape: Sequence[Dim]) -> list[Dim]:
        begin, end = self._pads(len(shape))
        return [d + b + e for d, b, e in zip(shape, begin, end, strict=True)]

    def _pads(self, rank: int) -> tuple[list[int], list[int]]:
        begin, end = ([*p, *[0] * (rank - len(p))] for p in (self.pads_begin, self.pads_end))
        return begin[:rank], end[:rank]

    def _by_scales(self) -> bool:
        return self.shape_calculation_mode.lower() == "scales"

    def _infer(
        self, image: Fact, sizes: Fact | None, scales: Fact | None, axes: Fact | None
    ) -> tuple[Type, ...]:
        require_dtype(image, "image", INTEGERS | FLOATS, "a numeric type")
        numbers = scales if self._by_scales() else sizes
        if self._by_scales():
            require_dtype(numbers, "scales", FLOATS, "a floating-point type")
        else:
            require_dtype(numbers, "sizes", INTEGERS, "an integer type")
        shape, dtype = image.tensor.shape, image.tensor.dtype
        if shape is None:
            return (TensorType(dtype, None),)
        out = self._padded_sizes(shape)
        listed = list(range(len(shape))) if axes is None else axes_in(axes, len(shape))
        if listed is None:
            return (TensorType(dtype, tuple(fresh_symbol(self) for _ in shape)),)
        given: list[Any] | None
        if self._by_scales():
            value = None if scales is None else scales.value
            given = None if value is None else [float(v) for v in value.reshape(-1)]
        else:
            given = known_dims(sizes)
        count = None if numbers is None else count_of(numbers)
        if count is not None and count != len(listed):
            raise ShapeError(
                "Interpolate needs one number per axis",
                got=count if given is None else given,
                expected=f"{len(listed)} numbers, for the axes {listed}",
            )
        for i, axis in enumerate(listed):
            size = out[axis]
            if given is None:
                out[axis] = fresh_symbol(self)
            elif not self._by_scales():
                out[axis] = given[i]
            else:
                scaled = scale_dim(size, given[i])
                out[axis] = fresh_symbol(self) if scaled is None else scaled
            require_at_least(0, out[axis], _NEGATIVE)
        return (TensorType(dtype, tuple(out)),)

    def _evaluate(
        self, image: Array, sizes: Array | None, scales: Array | None, axes: Array | None
    ) -> Array:
        if not image.ndim:  # no axis to pad or to resize
            return image.copy()
        begin, end = self._pads(image.ndim)
        data = np.pad(image.astype(np.float64), list(zip(begin, end, strict=True)))
        listed = list(range(image.ndim)) if axes is None else ints_of(axes)
        listed = unique_axes(listed, image.ndim)
        if self._by_scales():
            assert scales is not None
            factors = [float(v) for v in scales.reshape(-1)]
            targets = [scaled_size(data.shape[a], s) for a, s in zip(listed, factors, strict=True)]
        else:
            assert sizes is not None
            targets = ints_of(sizes)
            factors = [
                float(_F(n) / _F(max(data.shape[a], 1)))
                for a, n in zip(listed, targets, strict=True)
            ]
        if min(targets, default=0) < 0:
            raise ShapeError(_NEGATIVE, got=targets, expected=">= 0")
        for axis, out, factor in zip(listed, targets, factors, strict=True):
            if out == data.shape[axis] and factor == 1:
                continue
            data = self._resize_axis(data, axis, out, factor)
        return cast_array(np.ascontiguousarray(data), DType.from_numpy(image.dtype))

    def weights_of(self, size: int, out: int, scale: float) -> Array:
        """The matrix [out, size] that resizes an axis."""
        return self._resize_axis(np.eye(size), 0, out, scale)

    def _resize_axis(self, data: Array, axis: int, out: int, scale: float) -> Array:
        size = data.shape[axis]
        if self.mode.lower() == "nearest":
            coordinates = source_coordinates(
                self.coordinate_transformation_mode.lower(), size, out, scale
            )
            picks = _round_nearest(self.nearest_mode.lower(), scale, coordinates)
            return np.take(data, np.clip(picks, 0, size - 1).astype(np.int64), axis=axis)
        taps = self._neighbours(size, out, scale)
        along = [-1 if a == axis else 1 for a in range(data.ndim)]
        total = np.zeros([out if a == axis else d for a, d in enumerate(data.shape)])
        with np.errstate(all="ignore"):
            for index, weights, read in zip(taps.index.T, taps.weights.T, taps.read.T, strict=True):
                part = np.take(data, index, axis=axis) * weights.reshape(along)
                total += np.where(read.reshape(along), part, 0)
        return total

    def _neighbours(self, size: int, out: int, scale: float) -> _Taps:
        mode = self.mode.lower()
        if mode.endswith("_pillow"):
            return self._pillow(size, out, scale)
        coordinates = source_coordinates(
            self.coordinate_transformation_mode.lower(), size, out, scale
        )
        x = coordinates.astype(np.float64)
        if mode == "cubic":
            first = np.floor(x) - 1
            weights = _cubic(x[:, None] - (first[:, None] + np.arange(4)), self.cube_coeff)
            return _taps(size, first, weights, clamp=True)
        if mode in ("linear", "linear_onnx"):
            shrink = min(scale, 1.0) if self.antialias and mode == "linear" else 1.0
            if shrink < 1:
                reach = math.ceil(2 / shrink)
                first = np.round(x) - reach
                taps = first[:, None] + np.arange(2 * reach + 1)
                return _taps(size, first, _triangle((x[:, None] - taps) * shrink), clamp=False)
            x = np.clip(x, 0, size - 1)
            first = np.floor(x)
            return _taps(size, first, _triangle(x[:, None] - first[:, None] - [0, 1]), clamp=True)
        raise UnsupportedOperationError("Interpolate with this mode", got=self.mode)

    def _pillow(self, size: int, out: int, scale: float) -> _Taps:
        """As the image library Pillow does: the filter grows when the image shrinks."""
        cubic = self.mode.lower().startswith("bicubic")
        grow = max(1 / scale, 1.0)
        reach = (2 if cubic else 1) * grow
        middle = (np.arange(out) + 0.5) / scale
        first = np.maximum(np.floor(middle - reach + 0.5), 0)
        last = np.minimum(np.floor(middle + reach + 0.5), size)
        taps = first[:, None] + np.arange(int(np.max(last - first, initial=1)))
        x = (taps - middle[:, None] + 0.5) / grow
        weights = _cubic(x, -0.5) if cubic else _triangle(x)  # Pillow's coefficient, always
        return _taps(size, first, np.where(taps < last[:, None], weights, 0), clamp=False)


def scale_dim(size: Dim, scale: float) -> Dim | None:
    """The size of a scaled axis; None for a size that is known at run time only, times a scale that
    is neither a small fraction of a power of two nor an integer. f32 holds its products with sizes
    exactly (of fractions, below 2^20), so they are those of integers."""
    if isinstance(size, int):
        return scaled_size(size, scale)
    if not math.isfinite(scale):
        return None
    numerator, denominator = scale.as_integer_ratio()
    if denominator > 1 and max(abs(numerator), denominator) > _MAX_FRACTION:
        return None
    return size * numerator // denominator


def scaled_size(size: int, scale: float) -> int:
    """The size of a scaled axis, in f32 as OpenVINO computes it. ShapeError where there is none."""
    if not math.isfinite(_F(size) * _F(scale)):
        raise ShapeError("a scale makes no size", got=f"{size} times {scale}", expected="finite")
    return math.floor(_F(size) * _F(scale))


class Interpolate4(_Interpolate):
    """Interpolate of operation set 4: sizes and scales are two inputs."""

    version: ClassVar[int] = 4
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("image"),
        Port("output_shape"),
        Port("scales"),
        Port("axes", optional=True),
    )

    def infer(
        self, image: Fact, output_shape: Fact, scales: Fact, axes: Fact | None = None
    ) -> tuple[Type, ...]:
        return self._infer(image, output_shape, scales, axes)

    def evaluate(
        self, image: Array, output_shape: Array, scales: Array, axes: Array | None = None
    ) -> tuple[Array, ...]:
        return (self._evaluate(image, output_shape, scales, axes),)


class Interpolate(_Interpolate):
    """One input holds sizes or scales, as shape_calculation_mode says; two Pillow modes more."""

    version: ClassVar[int] = 11
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("image"),
        Port("scales_or_sizes"),
        Port("axes", optional=True),
    )

    def infer(
        self, image: Fact, scales_or_sizes: Fact, axes: Fact | None = None
    ) -> tuple[Type, ...]:
        return self._infer(image, scales_or_sizes, scales_or_sizes, axes)

    def evaluate(
        self, image: Array, scales_or_sizes: Array, axes: Array | None = None
    ) -> tuple[Array, ...]:
        return (self._evaluate(image, scales_or_sizes, scales_or_sizes, axes),)
