"""Colour images from YUV planes: NV12toRGB, NV12toBGR, I420toRGB, I420toBGR."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import narrow_array
from ..shape_inference import fresh_symbol, one_dtype, require_dtype, require_rank, same_size

F32 = np.float32
# BT.601: factors of Y - 16, U - 128 and V - 128 for red, green and blue.
YUV_TO_RGB = np.array(
    [[1.164, 0.0, 1.596], [1.164, -0.391, -0.813], [1.164, 2.018, 0.0]], np.float32
)
YUV_OFFSETS = np.array([16, 128, 128], np.float32)
_TYPES = frozenset([DType.u8, DType.f16, DType.bf16, DType.f32])


class ConvertColor(Op, ABC):
    """Base. Planes of a frame to [N, H, W, 3]; U and V have half the height and width.

    One input [N, H * 3 / 2, W, 1] holds all planes, several hold one each (Y: [N, H, W, 1]). Values
    are clipped to 0..255, and of integers rounded, halves away from zero.
    """

    version: ClassVar[int] = 8
    scratch_width: ClassVar[int] = 12
    # Whether the last axis is blue, green, red.
    is_bgr: ClassVar[bool] = False

    def infer(self, arg: Fact, *planes: Fact | None) -> tuple[Type, ...]:
        dtype = one_dtype(arg, *planes)
        require_dtype(arg, "arg", _TYPES, "u8 or a float type")
        given = [p for p in planes if p is not None]
        if given and len(given) < len(planes):
            raise ShapeError(f"{self.kind} takes one input or all planes", got=len(given) + 1)
        for n, fact in enumerate((arg, *given)):
            require_rank(fact, self.inputs[n].name, 4)
        shape = arg.tensor.shape
        if shape is None:
            sizes: tuple[Dim, ...] = tuple(fresh_symbol(self) for _ in range(3))
            return (TensorType(dtype, (*sizes, 3)),)
        images, rows, columns, depth = shape
        same_size(depth, 1, "a plane of Y has one channel")
        if not given:
            if isinstance(rows, int) and rows % 3:
                raise ShapeError("a frame's rows are not a multiple of 3", got=arg.type)
            rows = rows * 2 // 3
        for size in (rows, columns):
            if isinstance(size, int) and size % 2:
                raise ShapeError("an image's side is odd", got=arg.type, expected="even sides")
        for fact in given:
            if fact.tensor.shape is not None:
                wanted = (images, rows // 2, columns // 2, 3 - len(given))
                for have, want in zip(fact.tensor.shape, wanted, strict=True):
                    same_size(have, want, "a plane of U or V has half the sides of Y")
        return (TensorType(dtype, (images, rows, columns, 3)),)

    @abstractmethod
    def planes(self, arrays: list[Array]) -> tuple[Array, Array, Array]:
        """Y [N, H, W], U and V [N, H / 2, W / 2]."""

    def evaluate(self, arg: Array, *planes: Array | None) -> tuple[Array, ...]:
        if arg.shape[2] % 2 or (planes[0] is None and arg.shape[1] % 3):
            raise ShapeError("the sides of a frame do not fit", got=arg.shape)
        y, u, v = (
            p.astype(F32) - offset
            for p, offset in zip(
                self.planes([arg, *(p for p in planes if p is not None)]), YUV_OFFSETS, strict=True
            )
        )
        u, v = (np.repeat(np.repeat(p, 2, axis=1), 2, axis=2) for p in (u, v))
        out = np.empty((*y.shape, 3), F32)
        for n, (a, b, c) in enumerate(YUV_TO_RGB[::-1] if self.is_bgr else YUV_TO_RGB):
            out[..., n] = y * a + u * b + v * c
        if arg.dtype.kind == "u":
            out += F32(0.5)
            np.floor(out, out=out)
        return (narrow_array(np.clip(out, 0, 255, out=out), arg.dtype),)


def _split_frame(arg: Array) -> tuple[Array, int, int]:
    """A frame's values [N, H * W * 3 / 2], and the height and width of the image."""
    images, rows, columns = arg.shape[:3]
    return arg.reshape(images, rows * columns), rows * 2 // 3, columns


class NV12toRGB(ConvertColor):
    """Y and interleaved U, V [N, H / 2, W / 2, 2] to red, green, blue."""

    kind: ClassVar[str] = "NV12toRGB"
    inputs: ClassVar[tuple[Port, ...]] = (Port("arg"), Port("arg_uv", optional=True))

    def planes(self, arrays: list[Array]) -> tuple[Array, Array, Array]:
        if len(arrays) == 2:
            y, uv = arrays
            return y[..., 0], uv[..., 0], uv[..., 1]
        flat, height, width = _split_frame(arrays[0])
        area = height * width
        uv = flat[:, area:].reshape(len(flat), height // 2, width // 2, 2)
        return flat[:, :area].reshape(-1, height, width), uv[..., 0], uv[..., 1]


class NV12toBGR(NV12toRGB):
    """Y and interleaved U, V to blue, green, red."""

    kind: ClassVar[str] = "NV12toBGR"
    is_bgr: ClassVar[bool] = True


class I420toRGB(ConvertColor):
    """Y, U and V [N, H / 2, W / 2, 1] to red, green, blue."""

    kind: ClassVar[str] = "I420toRGB"
    inputs: ClassVar[tuple[Port, ...]] = (
        Port("arg"),
        Port("arg_u", optional=True),
        Port("arg_v", optional=True),
    )

    def planes(self, arrays: list[Array]) -> tuple[Array, Array, Array]:
        if len(arrays) == 3:
            y, u, v = arrays
            return y[..., 0], u[..., 0], v[..., 0]
        flat, height, width = _split_frame(arrays[0])
        area = height * width
        quarter = (len(flat), height // 2, width // 2)
        u, v = (
            flat[:, area + n * (area // 4) : area + (n + 1) * (area // 4)].reshape(quarter)
            for n in (0, 1)
        )
        return flat[:, :area].reshape(-1, height, width), u, v


class I420toBGR(I420toRGB):
    """Y, U and V to blue, green, red."""

    kind: ClassVar[str] = "I420toBGR"
    is_bgr: ClassVar[bool] = True
