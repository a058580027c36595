"""Convolutions of other kinds: DeformableConvolution, and BinaryConvolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import (
    computing_bytes,
    multiply_matrices,
    narrow_array,
    widen_array,
    widened_bytes,
)
from ..math.elementwise import FLOATS, NUMBERS, sizes_of
from ..nn.convolution import Convolving
from ..nn.pooling_window import Windows
from ..shape_inference import (
    fresh_symbol,
    one_dtype,
    require_dtype,
    require_rank,
    same_size,
    unknown_shape,
)


@dataclass(frozen=True)
class DeformableConvolution1(Op):
    """A convolution whose taps read the data at coordinates moved by `offsets`, bilinearly.

    data [N, C, H, W], offsets [N, deformable_group * taps * 2 (y, x), rows, columns], filters
    [O, C / group, kernel]. Each deformable group of channels has offsets of its own.
    """

    kind: ClassVar[str] = "DeformableConvolution"
    version: ClassVar[int] = 1
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("offsets"), Port("filters"))
    strides: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]
    dilations: tuple[int, ...]
    auto_pad: str = "explicit"
    group: int = 1
    deformable_group: int = 1

    @property
    def pads_bilinearly(self) -> bool:
        """Whether a sample up to a pixel outside is between the image and zeros; else it is 0."""
        return False

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        data, filters = inputs[0], inputs[2]
        if data is None or filters is None or not (data.is_static and filters.is_static):
            return 0
        pixels = len_of_taps(filters) * outputs[0].elements // max(sizes_of(filters.shape)[0], 1)
        samples = pixels * sizes_of(data.shape)[1]
        item = computing_bytes(data.dtype)
        # The samples, what is added to them, and the matrix of them; coordinates and weights.
        return (
            item * (4 * samples + outputs[0].elements)
            + 100 * pixels * self.deformable_group
            + widened_bytes(*inputs)
        )

    def windows(self, kernel: Sequence[Dim]) -> Windows:
        """The windows that slide over the data for a kernel of these sizes."""
        return Windows.of(
            kernel, self.strides, self.dilations, self.pads_begin, self.pads_end, self.auto_pad
        )

    def infer(
        self, data: Fact, offsets: Fact, filters: Fact, mask: Fact | None = None
    ) -> tuple[Type, ...]:
        dtype = one_dtype(data, offsets, filters, mask)
        require_dtype(data, "data", FLOATS, "a float type")
        for name, fact in (("data", data), ("offsets", offsets), ("filters", filters)):
            require_rank(fact, name, 4)
        if self.group < 1 or self.deformable_group < 1:
            raise ShapeError("a number of groups is not positive", got=self.group)
        shape, kernel = data.tensor.shape, filters.tensor.shape
        if shape is None or kernel is None:
            count = fresh_symbol(self) if shape is None else shape[0]
            outputs = fresh_symbol(self) if kernel is None else kernel[0]
            return (TensorType(dtype, (count, outputs, *unknown_shape(self, 2))),)
        same_size(shape[1], kernel[1] * self.group, "data and filters differ in channels")
        for name, size, groups in (
            ("group", kernel[0], self.group),
            ("deformable_group", shape[1], self.deformable_group),
        ):
            if isinstance(size, int) and size % groups:
                raise ShapeError(
                    f"channels are not a multiple of {name}", got=size, expected=groups
                )
        sizes = self.windows(kernel[2:]).out_sizes(shape[2:])
        taps = kernel[2] * kernel[3] * self.deformable_group
        for name, fact, each in (("offsets", offsets, 2), ("mask", mask, 1)):
            have = None if fact is None else fact.tensor.shape
            if fact is not None:
                require_rank(fact, name, 4)
            for a, b in zip(have or (), (shape[0], taps * each, *sizes), strict=False):
                same_size(a, b, f"{name} has {each} channels per tap, and the output's sizes")
        return (TensorType(dtype, (shape[0], kernel[0], *sizes)),)

    def evaluate(
        self, data: Array, offsets: Array, filters: Array, mask: Array | None = None
    ) -> tuple[Array, ...]:
        wide, moves, weights = widen_array(data), widen_array(offsets), widen_array(filters)
        outputs, inputs, *kernel = filters.shape
        rows, columns = offsets.shape[2:]
        taps = kernel[0] * kernel[1]
        groups, images, channels = self.deformable_group, len(data), data.shape[1]
        split = moves.reshape(images, groups, taps, 2, rows, columns)
        starts = self.tap_starts(kernel, wide.shape[2:], (rows, columns))
        y, x = (split[:, :, :, a] + starts[a].astype(moves.dtype) for a in (0, 1))
        planes = wide.reshape(images * groups, channels // groups, *wide.shape[2:])
        found = _sample_planes(
            planes,
            *(p.reshape(images * groups, taps, rows, columns) for p in (y, x)),
            pads=self.pads_bilinearly,
        )
        if mask is not None:
            factors = widen_array(mask).reshape(images * groups, 1, taps, rows, columns)
            found = found * factors
        # [N, group, channels of a group, taps] times [group, outputs, channels of a group, taps].
        depth = inputs * taps
        matrix = found.reshape(images, self.group, depth, rows * columns)
        weight = weights.reshape(self.group, outputs // self.group, depth)
        product = np.asarray(multiply_matrices(weight, matrix))
        return (narrow_array(product.reshape(images, outputs, rows, columns), data.dtype),)

    def tap_starts(
        self, kernel: Sequence[int], sizes: Sequence[int], counts: Sequence[int]
    ) -> list[Array]:
        """Where taps read without offsets, [taps, rows, columns] in y and in x."""
        windows = self.windows(kernel)
        pads = windows.pads(sizes)
        along: list[Array] = []
        for a in (0, 1):
            first = np.arange(counts[a]) * windows.strides[a] - pads[a][0]
            along.append(np.arange(kernel[a])[:, None] * windows.dilations[a] + first)
        y = along[0][:, None, :, None]
        x = along[1][None, :, None, :]
        shape = (kernel[0], kernel[1], *counts)
        return [np.broadcast_to(p, shape).reshape(-1, *counts) for p in (y, x)]


def len_of_taps(filters: TensorType) -> int:
    """Elements of a filter [O, C / group, kernel] per channel."""
    return math.prod(sizes_of(filters.shape)[2:])


def _sample_planes(planes: Array, y: Array, x: Array, *, pads: bool) -> Array:
    """Bilinear samples [B, C, taps, rows, columns] of planes [B, C, H, W] at [B, taps, ...]; 0
    outside, where `pads` between the last pixel and 0 within a pixel of it."""
    height, width = planes.shape[2:]
    batch = np.arange(len(planes)).reshape(-1, 1, 1, 1)
    least = -1 if pads else 0
    inside = (y < height) & (x < width) & ((y > -1) & (x > -1) if pads else (y >= 0) & (x >= 0))
    y, x = (np.where(inside, v, 0) for v in (y, x))
    top, left = np.floor(y).astype(np.int64), np.floor(x).astype(np.int64)
    dy, dx = (y - top).astype(planes.dtype), (x - left).astype(planes.dtype)
    out = np.zeros((*y.shape, planes.shape[1]), planes.dtype)
    for rows, columns, weight in (
        (top, left, (1 - dy) * (1 - dx)),
        (top, left + 1, (1 - dy) * dx),
        (top + 1, left, dy * (1 - dx)),
        (top + 1, left + 1, dy * dx),
    ):
        readable = inside & (rows > least - (not pads)) & (columns > least - (not pads))
        if pads:
            readable &= (rows >= 0) & (columns >= 0) & (rows < height) & (columns < width)
        rows, columns = np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)
        out += np.where(readable[..., None], planes[batch, :, rows, columns] * weight[..., None], 0)
    return np.moveaxis(out, -1, 1)


@dataclass(frozen=True)
class DeformableConvolution(DeformableConvolution1):
    """DeformableConvolution whose taps are multiplied by an optional mask [N, deformable_group *
    taps, rows, columns]."""

    version: ClassVar[int] = 8
    inputs: ClassVar[tuple[Port, ...]] = (
        *DeformableConvolution1.inputs,
        Port("mask", optional=True),
    )
    bilinear_interpolation_pad: bool = False

    @property
    def pads_bilinearly(self) -> bool:
        return self.bilinear_interpolation_pad


@dataclass(frozen=True)
class BinaryConvolution(Convolving):
    """A convolution of signs: 1 means 1 and any other value -1, in data and in `filters`.

    data [N, C, H, W] numeric, filters [O, C, kernel] of u1; paddings are signs of
    `pad_value`: 0 adds nothing.
    The filters' bits count from the lowest of each byte, as OpenVINO's converter writes them and
    its CPU plugin reads them; u1 counts from the highest elsewhere.
    """

    kind: ClassVar[str] = "BinaryConvolution"
    mode: str = "xnor-popcount"
    pad_value: float = 0.0

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        data, filters = inputs[:2]
        if data is None or filters is None or not (data.is_static and filters.is_static):
            return 0
        padded = self.windows(sizes_of(filters.shape)[2:]).padded_elements(sizes_of(data.shape))
        signs = [TensorType(DType.f32, t.shape) for t in (data, filters)]
        # The convolution of signs in f32; the signs before and after padding, and of the filters.
        return super().scratch_bytes(signs, outputs) + 8 * (padded + 2 * filters.elements)

    def infer(self, data: Fact, filters: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", NUMBERS, "a numeric type")
        # Arrays hold u1 as u8.
        require_dtype(filters, "filters", frozenset([DType.u1, DType.u8]), "u1")
        require_rank(data, "data", 4)
        require_rank(filters, "filters", 4)
        as_data = Fact(TensorType(data.tensor.dtype, filters.tensor.shape))
        return super().infer(data, as_data)

    def evaluate(self, data: Array, filters: Array) -> tuple[Array, ...]:
        signs = np.where(widen_array(data) == 1, np.float32(1), np.float32(-1))
        pads = self.windows(filters.shape[2:]).pads(data.shape[2:])
        signs = np.pad(signs, [(0, 0), (0, 0), *pads], constant_values=np.float32(self.pad_value))
        plain = Convolving(self.strides, (), (), self.dilations)
        (out,) = plain.evaluate(signs, signs_of_bits(filters))
        return (narrow_array(out, data.dtype),)


def signs_of_bits(filters: Array) -> Array:
    """1 and -1 in f32 for filters as they are read, each byte's bits in the opposite order."""
    flat = filters.reshape(-1)
    padded = np.zeros(-(-flat.size // 8) * 8, flat.dtype)
    padded[: flat.size] = flat
    bits = padded.reshape(-1, 8)[:, ::-1].reshape(-1)[: flat.size]
    return (2 * bits.astype(np.float32) - 1).reshape(filters.shape)
