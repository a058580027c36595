"""Output layers of YOLO detectors: RegionYolo and ReorgYolo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import product
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type, normalize_axis
from ..accumulate import computing_bytes, narrow_array, widen_array, widened_bytes
from ..math.elementwise import FLOATS
from ..shape_inference import require_dtype, require_rank


@dataclass(frozen=True)
class RegionYolo(Op):
    """Sigmoid of the box centres, of objectness and (without `do_softmax`) of the classes; softmax
    over the classes otherwise, flattened from `axis` to `end_axis`.

    data [N, regions * (coords + 1 + classes), H, W]; regions are `num`, or as many as `mask` lists.
    """

    kind: ClassVar[str] = "RegionYolo"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    coords: int
    classes: int
    num: int
    axis: int
    end_axis: int
    do_softmax: bool = True
    mask: tuple[int, ...] = ()
    anchors: tuple[float, ...] = ()

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        out = outputs[0]
        return 3 * computing_bytes(out.dtype) * out.elements + 2 * widened_bytes(inputs[0])

    @property
    def regions(self) -> int:
        return self.num if self.do_softmax else len(self.mask)

    @property
    def region_channels(self) -> int:
        return self.coords + 1 + self.classes

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", FLOATS, "a float type")
        require_rank(data, "data", 4)
        if min(self.coords, self.classes, self.num) < 1 or self.coords < 2:
            raise ShapeError(
                "coords, classes or num is too small",
                got=f"{self.coords}, {self.classes}, {self.num}",
                expected="at least 2, 1 and 1",
            )
        shape = data.tensor.shape
        axis, end = (normalize_axis(a, 4) for a in (self.axis, self.end_axis))
        if end < axis:
            raise ShapeError("end_axis is before axis", got=f"{self.end_axis} and {self.axis}")
        if shape is None:
            return (TensorType(data.tensor.dtype, None),)
        channels = self.regions * self.region_channels
        if isinstance(shape[1], int) and shape[1] < channels:
            raise ShapeError("data has too few channels", got=data.type, expected=channels)
        if self.do_softmax:
            flat = product(shape[axis : end + 1])
            out = (*shape[:axis], flat, *shape[end + 1 :])
        else:
            out = (shape[0], channels, *shape[2:])
        return (TensorType(data.tensor.dtype, out),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        images, _, height, width = data.shape
        channels = self.regions * self.region_channels
        if self.do_softmax and data.shape[1] != channels:
            raise ShapeError(
                "data has a wrong number of channels", got=data.shape, expected=channels
            )
        wide = widen_array(data[:, :channels])
        out = wide.reshape(images, self.regions, self.region_channels, height, width).copy()
        last = self.coords + 1 if self.do_softmax else self.region_channels
        for part in (out[:, :, :2], out[:, :, self.coords : last]):
            part[...] = 1 / (1 + np.exp(-part))
        if self.do_softmax:
            rest = out[:, :, last:]
            powers = np.exp(rest - rest.max(axis=2, keepdims=True, initial=-np.inf))
            rest[...] = powers / powers.sum(axis=2, keepdims=True)
        shape = [images, channels, height, width]
        if self.do_softmax:
            axis, end = (normalize_axis(a, 4) for a in (self.axis, self.end_axis))
            shape[axis : end + 1] = [int(np.prod(shape[axis : end + 1]))]
        return (narrow_array(out.reshape(shape), data.dtype),)


@dataclass(frozen=True)
class ReorgYolo(Op):
    """Blocks of stride x stride elements to channels, in the order of Darknet's reorg layer.

    data [N, C, H, W] to [N, C * stride^2, H / stride, W / stride].
    """

    kind: ClassVar[str] = "ReorgYolo"
    version: ClassVar[int] = 2
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    stride: int

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_rank(data, "data", 4)
        if self.stride < 1:
            raise ShapeError("stride is not positive", got=self.stride)
        if data.tensor.shape is None:
            return (TensorType(data.tensor.dtype, None),)
        images, channels, *sizes = data.tensor.shape
        for size in sizes:
            if isinstance(size, int) and size % self.stride:
                raise ShapeError(
                    "an axis is not a multiple of the stride", got=size, expected=self.stride
                )
        area = self.stride * self.stride
        if isinstance(channels, int) and (channels < area or channels % area):
            raise ShapeError(
                "channels are not a multiple of stride * stride", got=channels, expected=area
            )
        shape = (images, channels * area, *(size // self.stride for size in sizes))
        return (TensorType(data.tensor.dtype, shape),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        images, channels, height, width = data.shape
        s = self.stride
        if height % s or width % s or channels % (s * s):
            raise ShapeError("a size is not a multiple of the stride", got=data.shape, expected=s)
        # Darknet reads the tensor as [N, C / s^2, H * s, W * s] and moves offsets to the front.
        split = data.reshape(images, channels // (s * s), height, s, width, s)
        moved = split.transpose(0, 3, 5, 1, 2, 4)
        out = np.empty(moved.shape, data.dtype)
        out[...] = moved
        return (out.reshape(images, channels * s * s, height // s, width // s),)
