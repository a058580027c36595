"""Normalisations: MVN, BatchNormInference, LayerNorm, RMSNorm, groups, NormalizeL2, LRN.

Sums run in f64 and results are rounded once, so that an error seen in a kernel's test is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import eq
from ...dims.constraints import require_broadcast, require_equal
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import cast_array
from ...types import Type, format_shape, normalize_axis
from ..math.elementwise import FLOATS
from ..shape_inference import (
    Shape,
    axes_in,
    fits,
    ints_of,
    one_dtype,
    require_dtype,
    require_rank,
    same_size,
    tensor,
    unique_axes,
)


def _float(*facts: Fact | None) -> DType:
    dtype = one_dtype(*facts)
    if not fits(dtype, FLOATS):
        raise ShapeError("a normalisation needs floats", got=dtype, expected="a float type")
    return dtype


def _cast_back(wide: Array, like: Array) -> Array:
    return cast_array(wide, DType.from_numpy(like.dtype))


def normalize_array(
    x: Array,
    axes: Sequence[int],
    eps: float,
    *,
    centre: bool = True,
    scale: bool = True,
    outside: bool = False,
) -> Array:
    """(x - mean) / sqrt(var + eps) over axes, in f64; `outside`: / (sqrt(var) + eps)."""
    with np.errstate(all="ignore"):
        wide, over = x.astype(np.float64), tuple(axes)
        if not over:  # every element is its own mean
            over, wide = (wide.ndim,), wide[..., None]
        if centre:
            wide = wide - np.mean(wide, axis=over, keepdims=True)
        if scale:
            variance = np.mean(wide * wide, axis=over, keepdims=True)
            wide = wide / (np.sqrt(variance) + eps if outside else np.sqrt(variance + eps))
        return wide[..., 0] if not axes else wide


@dataclass(frozen=True)
class MVN2(Op):
    """MVN of operation set 2: over all axes but the batch, or but batch and channel."""

    kind: ClassVar[str] = "MVN"
    version: ClassVar[int] = 2
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    across_channels: bool = True
    normalize_variance: bool = True
    eps: float = 1e-9

    def axes(self, rank: int) -> tuple[int, ...]:
        """The axes over which mean and variance are taken."""
        return tuple(range(1 if self.across_channels else 2, rank))

    def infer(self, data: Fact) -> tuple[Type, ...]:
        _float(data)
        return (data.tensor,)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        axes = self.axes(data.ndim)
        return (
            _cast_back(normalize_array(data, axes, self.eps, scale=self.normalize_variance), data),
        )


@dataclass(frozen=True)
class MVN(Op):
    """Mean and variance normalisation over a list of axes; `eps_mode`: INSIDE_SQRT or
    OUTSIDE_SQRT."""

    kind: ClassVar[str] = "MVN"
    version: ClassVar[int] = 6
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes"))
    normalize_variance: bool = True
    eps: float = 1e-6
    eps_mode: str = "INSIDE_SQRT"

    @property
    def eps_outside(self) -> bool:
        return self.eps_mode.upper() == "OUTSIDE_SQRT"

    def infer(self, data: Fact, axes: Fact) -> tuple[Type, ...]:
        _float(data)
        if data.tensor.shape is not None:
            axes_in(axes, len(data.tensor.shape))
        return (data.tensor,)

    def evaluate(self, data: Array, axes: Array) -> tuple[Array, ...]:
        listed = unique_axes(ints_of(axes), data.ndim)
        scale, outside = self.normalize_variance, self.eps_outside
        return (
            _cast_back(normalize_array(data, listed, self.eps, scale=scale, outside=outside), data),
        )


def _check_scale(fact: Fact | None, name: str, data: Shape | None) -> None:
    """Refuse a scale or bias that would broadcast the data up."""
    shape = None if fact is None else fact.tensor.shape
    if shape is None or data is None:
        return
    pairs = zip(reversed(shape), reversed(data), strict=False)
    if len(shape) > len(data) or any(eq(s, 1) is False and eq(s, d) is False for s, d in pairs):
        raise ShapeError(
            f"input {name!r} does not broadcast to the data",
            got=format_shape(shape),
            expected=f"{format_shape(data)} or 1, axis by axis from the last",
        )
    for s, d in zip(reversed(shape), reversed(data), strict=False):
        require_broadcast(s, d, f"input {name!r} does not broadcast to the data")


@dataclass(frozen=True)
class LayerNorm(Op):
    """(x - mean) / sqrt(var + eps) over the axes from `axis` on, times scale, plus bias.

    Dialect. Scale and bias broadcast to the data. Source: ONNX LayerNormalization.
    """

    kind: ClassVar[str] = "LayerNorm"
    version: ClassVar[int] = 0
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("scale", optional=True),
        Port("bias", optional=True),
    )
    centre: ClassVar[bool] = True
    axis: int = -1
    eps: float = 1e-5

    def infer(
        self, data: Fact, scale: Fact | None = None, bias: Fact | None = None
    ) -> tuple[Type, ...]:
        _float(data, scale, bias)
        shape = data.tensor.shape
        if shape is not None:
            normalize_axis(self.axis, len(shape))
        _check_scale(scale, "scale", shape)
        _check_scale(bias, "bias", shape)
        return (data.tensor,)

    def evaluate(
        self, data: Array, scale: Array | None = None, bias: Array | None = None
    ) -> tuple[Array, ...]:
        axes = range(normalize_axis(self.axis, data.ndim), data.ndim)
        wide = normalize_array(data, axes, self.eps, centre=self.centre)
        with np.errstate(all="ignore"):
            wide = wide if scale is None else wide * scale.astype(np.float64)
            wide = wide if bias is None else wide + bias.astype(np.float64)
        return (_cast_back(wide, data),)


class RMSNorm(LayerNorm):
    """x / sqrt(mean x^2 + eps) over the axes from `axis` on, times scale, plus bias (dialect)."""

    kind: ClassVar[str] = "RMSNorm"
    centre: ClassVar[bool] = False


def _per_channel(vector: Array, rank: int) -> Array:
    """A vector of axis 1 as an f64 array that broadcasts."""
    return vector.astype(np.float64).reshape(1, -1, *(1,) * (rank - 2))


def _check_channels(data: Fact, *vectors: Fact) -> None:
    shape = data.tensor.shape
    if shape is not None and len(shape) < 2:
        raise ShapeError("the data has no channel axis", got=data.type, expected="rank 2 or more")
    for fact in vectors:
        require_rank(fact, "per channel", 1)
        vector = fact.tensor.shape
        if shape is not None and vector is not None:
            same_size(vector[0], shape[1], "one value per channel is needed")


@dataclass(frozen=True)
class BatchNormInference(Op):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, one of each per channel."""

    kind: ClassVar[str] = "BatchNormInference"
    version: ClassVar[int] = 5
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("data", "gamma", "beta", "mean", "variance"))
    )
    epsilon: float

    def infer(
        self, data: Fact, gamma: Fact, beta: Fact, mean: Fact, variance: Fact
    ) -> tuple[Type, ...]:
        _float(data, gamma, beta, mean, variance)
        _check_channels(data, gamma, beta, mean, variance)
        return (data.tensor,)

    def evaluate(
        self, data: Array, gamma: Array, beta: Array, mean: Array, variance: Array
    ) -> tuple[Array, ...]:
        g, b, m, v = (_per_channel(a, data.ndim) for a in (gamma, beta, mean, variance))
        with np.errstate(all="ignore"):
            wide = (data.astype(np.float64) - m) / np.sqrt(v + self.epsilon) * g + b
        return (_cast_back(wide, data),)


class BatchNormInference1(BatchNormInference):
    """BatchNormInference of operation set 1: the data is the third input."""

    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        map(Port, ("gamma", "beta", "data", "mean", "variance"))
    )

    def infer(
        self, data: Fact, gamma: Fact, beta: Fact, mean: Fact, variance: Fact
    ) -> tuple[Type, ...]:
        return super().infer(beta, data, gamma, mean, variance)

    def evaluate(
        self, data: Array, gamma: Array, beta: Array, mean: Array, variance: Array
    ) -> tuple[Array, ...]:
        return super().evaluate(beta, data, gamma, mean, variance)


@dataclass(frozen=True)
class GroupNormalization(Op):
    """Normalised over each of `num_groups` groups of channels; scale and bias per channel."""

    kind: ClassVar[str] = "GroupNormalization"
    version: ClassVar[int] = 12
    scratch_width: ClassVar[int] = 24
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("scale"), Port("bias"))
    num_groups: int
    epsilon: float

    def infer(self, data: Fact, scale: Fact, bias: Fact) -> tuple[Type, ...]:
        _float(data, scale, bias)
        _check_channels(data, scale, bias)
        shape = data.tensor.shape
        if shape is not None:
            channels, what = shape[1], "channels must split into equal groups"
            if self.num_groups < 1 or (isinstance(channels, int) and channels % self.num_groups):
                raise ShapeError(what, got=f"{channels} in {self.num_groups} groups")
            require_equal(channels, channels // self.num_groups * self.num_groups, what)
        return (data.tensor,)

    def evaluate(self, data: Array, scale: Array, bias: Array) -> tuple[Array, ...]:
        grouped = data.reshape(data.shape[0], self.num_groups, -1)
        wide = normalize_array(grouped, (2,), self.epsilon).reshape(data.shape)
        wide = wide * _per_channel(scale, data.ndim) + _per_channel(bias, data.ndim)
        return (_cast_back(wide, data),)


@dataclass(frozen=True)
class NormalizeL2(Op):
    """x / sqrt(sum x^2 + eps), or / sqrt(max(sum x^2, eps)), over a list of axes."""

    kind: ClassVar[str] = "NormalizeL2"
    scratch_width: ClassVar[int] = 24
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes"))
    eps: float
    eps_mode: str = "add"

    def infer(self, data: Fact, axes: Fact) -> tuple[Type, ...]:
        _float(data)
        if data.tensor.shape is not None:
            axes_in(axes, len(data.tensor.shape))
        return (data.tensor,)

    def evaluate(self, data: Array, axes: Array) -> tuple[Array, ...]:
        wide = data.astype(np.float64)
        listed = tuple(unique_axes(ints_of(axes), data.ndim))
        total = np.sum(wide * wide, axis=listed, keepdims=True) if listed else wide * wide
        inside = total + self.eps if self.eps_mode.lower() == "add" else np.maximum(total, self.eps)
        with np.errstate(all="ignore"):
            return (_cast_back(wide / np.sqrt(inside), data),)


@dataclass(frozen=True)
class GRN(Op):
    """x / sqrt(sum of squares over channels (axis 1) + bias). data: rank 2 to 4."""

    kind: ClassVar[str] = "GRN"
    scratch_width: ClassVar[int] = 24
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    bias: float

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        require_rank(data, "data", 2, 3, 4)
        return (data.tensor,)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        wide = data.astype(np.float64)
        return (
            _cast_back(wide / np.sqrt((wide * wide).sum(axis=1, keepdims=True) + self.bias), data),
        )


@dataclass(frozen=True)
class LRN(Op):
    """x / (bias + alpha / size^n * sum of squares of a window of `size` on each of n axes)^beta."""

    kind: ClassVar[str] = "LRN"
    scratch_width: ClassVar[int] = 40
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("axes"))
    alpha: float
    beta: float
    bias: float
    size: int

    def infer(self, data: Fact, axes: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        if data.tensor.shape is not None:
            axes_in(axes, len(data.tensor.shape))
        return (tensor(data.tensor.dtype, data.tensor.shape),)

    def evaluate(self, data: Array, axes: Array) -> tuple[Array, ...]:
        wide = data.astype(np.float64)
        listed = unique_axes(ints_of(axes), data.ndim)
        squares = wide * wide
        for axis in listed:
            squares = _window_sum(squares, axis, self.size)
        scale = self.bias + self.alpha / self.size ** len(listed) * squares
        return (_cast_back(wide / scale**self.beta, data),)


def _window_sum(x: Array, axis: int, size: int) -> Array:
    """Sums over windows of `size` elements, `(size - 1) // 2` of them before the middle."""
    before = (size - 1) // 2
    pads = [(before, size - 1 - before) if a == axis else (0, 0) for a in range(x.ndim)]
    view = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), size, axis=axis)
    return np.asarray(view.sum(axis=-1))
