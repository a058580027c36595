"""Pools: MaxPool, AvgPool, and the adaptive ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...dims import Dim
from ...dims.constraints import require_at_least
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port, attr
from ...scalar.builder import cast_array
from ...types import TensorType, Type, normalize_axis
from ..accumulate import widen_array
from ..math.elementwise import FLOATS, INTEGERS, sizes_of
from ..shape_inference import (
    Shape,
    count_of,
    ints_of,
    known_dims,
    require_dtype,
    require_rank,
    unknown_shape,
)
from .pooling_window import Windows


@dataclass(frozen=True)
class _PoolOp(Op):
    """Base. Windows of `kernel` slide over the spatial axes of [N, C, spatial...]."""

    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    strides: tuple[int, ...] = ()
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()
    rounding_type: str = "floor"
    auto_pad: str = "explicit"

    def windows(self) -> Windows:
        """The windows of the pool."""
        dilations: tuple[int, ...] = getattr(self, "dilations", ())
        return Windows.of(
            self.kernel,
            self.strides,
            dilations,
            self.pads_begin,
            self.pads_end,
            self.auto_pad,
            self.rounding_type,
        )

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        data = inputs[0]
        if data is None or data.shape is None or not data.is_static:
            return 0
        shape = sizes_of(data.shape)
        padded = self.windows().padded_elements(shape)
        taps = math.prod(self.kernel) * outputs[0].elements if len(outputs) > 1 else 0
        # The data in f64 or with indices, padded; the windows of a pool that also gives indices.
        return 16 * data.elements + 12 * padded + 20 * taps

    def out_shape(self, data: Fact) -> Shape | None:
        """The output's shape. ShapeError where kernel and data differ in spatial axes."""
        shape = data.tensor.shape
        if shape is None:
            return None
        if len(shape) != len(self.kernel) + 2:
            raise ShapeError(
                "the kernel needs one number per spatial axis",
                got=f"kernel {list(self.kernel)} for {data.type}",
                expected=f"{len(shape) - 2} numbers",
            )
        return (*shape[:2], *self.windows().out_sizes(shape[2:]))


class MaxPool1(_PoolOp):
    """MaxPool of operation set 1: no dilations, no indices."""

    kind: ClassVar[str] = "MaxPool"

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", INTEGERS | FLOATS, "a numeric type")
        return (TensorType(data.tensor.dtype, self.out_shape(data)),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        return (_max_pool(self.windows(), data),)


def _lowest_value(data: Array) -> Any:
    dtype = DType.from_numpy(data.dtype)
    return -np.inf if dtype.is_float else dtype.min


def _max_pool(windows: Windows, data: Array) -> Array:
    wide = widen_array(data)
    view = windows.view(wide, _lowest_value(wide))
    axes = tuple(range(data.ndim, view.ndim))
    return np.asarray(np.max(view, axis=axes)).astype(data.dtype)


@dataclass(frozen=True)
class MaxPool8(_PoolOp):
    """MaxPool with the indices of the largest elements, counted over the axes from `axis` on."""

    kind: ClassVar[str] = "MaxPool"
    version: ClassVar[int] = 8
    outputs: ClassVar[tuple[Port, ...]] = (Port("output"), Port("indices"))
    dilations: tuple[int, ...] = ()
    index_element_type: DType = DType.i64
    axis: int = 0

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", INTEGERS | FLOATS, "a numeric type")
        shape = self.out_shape(data)
        if data.tensor.shape is not None:
            normalize_axis(self.axis, len(data.tensor.shape))
        return TensorType(data.tensor.dtype, shape), TensorType(self.index_element_type, shape)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        windows, at = self.windows(), normalize_axis(self.axis, data.ndim)
        index = np.arange(data.size, dtype=np.int64).reshape(data.shape)
        index %= max(int(np.prod(data.shape[at:], dtype=np.int64)), 1)
        wide = widen_array(data)
        view = windows.view(wide, _lowest_value(wide))
        window_indices = windows.view(index, -1)
        flat = view.reshape(*view.shape[: data.ndim], -1)
        # The first of equal elements that are not padding; NaN counts as the largest.
        real = window_indices.reshape(flat.shape) >= 0
        largest = np.max(flat, axis=-1, keepdims=True)
        hit = real & ((flat == largest) | (np.isnan(flat) if flat.dtype.kind == "f" else False))
        first = np.argmax(hit, axis=-1)[..., None]
        indices = np.take_along_axis(window_indices.reshape(flat.shape), first, axis=-1)[..., 0]
        return largest[..., 0].astype(data.dtype), indices.astype(self.index_element_type.numpy)


class MaxPool(MaxPool8):
    """As MaxPool-8, with rounding_type ceil_torch."""

    version: ClassVar[int] = 14


@dataclass(frozen=True)
class AvgPool1(_PoolOp):
    """The mean of each window; padding counts unless `exclude_pad`.

    Where rounding is "ceil", what a window covers beyond the padding counts as well.
    """

    kind: ClassVar[str] = "AvgPool"
    exclude_pad: bool = attr(xml="exclude-pad", default=False)

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", INTEGERS | FLOATS, "a numeric type")
        return (TensorType(data.tensor.dtype, self.out_shape(data)),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        windows = self.windows()
        view = windows.view(data.astype(np.float64), 0)
        axes = tuple(range(data.ndim, view.ndim))
        count: Any = math.prod(self.kernel)
        if self.exclude_pad:
            count = windows.view(np.ones((1, 1, *data.shape[2:])), 0).sum(axis=axes)
        elif windows.rounding == "ceil_torch":
            count = self._count_inside(windows, data.shape[2:], view.shape[2 : data.ndim])
        with np.errstate(all="ignore"):
            mean = view.sum(axis=axes) / count
        return (cast_array(np.asarray(mean), DType.from_numpy(data.dtype)),)

    @staticmethod
    def _count_inside(windows: Windows, sizes: tuple[int, ...], counts: tuple[int, ...]) -> Array:
        """How many elements of each window are data or its padding, not beyond both."""
        padded_sizes = [n + b + e for n, (b, e) in zip(sizes, windows.pads(sizes), strict=True)]
        free = Windows.of(
            windows.kernel, windows.strides, windows.dilations, (), (), "explicit", "ceil"
        )
        view = free.view(np.ones((1, 1, *padded_sizes)), 0)
        view = view[(slice(None), slice(None), *(slice(0, n) for n in counts))]
        return np.asarray(view.sum(axis=tuple(range(2 + len(sizes), view.ndim))))


class AvgPool14(AvgPool1):
    """As AvgPool-1, with rounding_type ceil_torch: nothing beyond the padding counts."""

    version: ClassVar[int] = 14


@dataclass(frozen=True)
class AvgPool(AvgPool1):
    """As AvgPool-14, with dilations."""

    version: ClassVar[int] = 16
    dilations: tuple[int, ...] = ()


class _Adaptive(Op):
    """Base. Output element i of n covers input elements floor(i * d / n) to ceil((i+1) * d / n)."""

    version: ClassVar[int] = 8
    scratch_width: ClassVar[int] = 16
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("output_shape"))

    def _shape(self, data: Fact, output_shape: Fact) -> Shape | None:
        shape, wanted = data.tensor.shape, known_dims(output_shape)
        count = count_of(output_shape)
        require_dtype(output_shape, "output_shape", INTEGERS, "an integer type")
        if shape is None:
            return None
        require_rank(data, "data", 3, 4, 5)
        if count is not None and count != len(shape) - 2:
            raise ShapeError(
                "output_shape needs one number per spatial axis", got=count, expected=len(shape) - 2
            )
        for size in wanted or ():
            require_at_least(0, size, "a size to pool to is negative")
        spatial: tuple[Dim, ...] = unknown_shape(self, len(shape) - 2)
        return (*shape[:2], *(spatial if wanted is None else wanted))

    @staticmethod
    def _iterate_windows(
        data: Array, sizes: list[int]
    ) -> Iterator[tuple[tuple[int, ...], Array, list[int]]]:
        """Position, elements [N, C, spatial...] and where they begin, of every output position."""
        if 0 not in sizes and 0 in data.shape[2:]:
            raise ShapeError("an empty axis has no element to take", got=list(data.shape))
        for position in np.ndindex(*sizes):
            spans: list[slice] = []
            for i, n, d in zip(position, sizes, data.shape[2:], strict=True):
                spans.append(slice(i * d // n, -((-(i + 1) * d) // n)))
            part = data[(slice(None), slice(None), *spans)]
            yield tuple(position), part, [int(s.start) for s in spans]


class AdaptiveAvgPool(_Adaptive):
    kind: ClassVar[str] = "AdaptiveAvgPool"

    def infer(self, data: Fact, output_shape: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        return (TensorType(data.tensor.dtype, self._shape(data, output_shape)),)

    def evaluate(self, data: Array, output_shape: Array) -> tuple[Array, ...]:
        sizes = ints_of(output_shape)
        out = np.empty((*data.shape[:2], *sizes))
        for position, part, _ in self._iterate_windows(data.astype(np.float64), sizes):
            out[(..., *position)] = part.mean(axis=tuple(range(2, data.ndim)))
        return (cast_array(out, DType.from_numpy(data.dtype)),)


@dataclass(frozen=True)
class AdaptiveMaxPool(_Adaptive):
    """With the index of the largest element among the spatial ones."""

    kind: ClassVar[str] = "AdaptiveMaxPool"
    outputs: ClassVar[tuple[Port, ...]] = (Port("output"), Port("indices"))
    index_element_type: DType = DType.i64

    def infer(self, data: Fact, output_shape: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        shape = self._shape(data, output_shape)
        return TensorType(data.tensor.dtype, shape), TensorType(self.index_element_type, shape)

    def evaluate(self, data: Array, output_shape: Array) -> tuple[Array, ...]:
        sizes, spatial = ints_of(output_shape), data.shape[2:]
        out = np.empty((*data.shape[:2], *sizes), data.dtype)
        indices = np.empty(out.shape, self.index_element_type.numpy)
        for position, part, start in self._iterate_windows(data, sizes):
            flat = widen_array(part).reshape(*part.shape[:2], -1)
            best: Array = np.argmax(flat, axis=-1)
            inside: Any = np.unravel_index(best, part.shape[2:])
            where: Any = tuple(inside[i] + s for i, s in enumerate(start))
            out[(..., *position)] = np.take_along_axis(flat, best[..., None], -1)[..., 0]
            indices[(..., *position)] = np.ravel_multi_index(where, spatial)
        return out, indices
