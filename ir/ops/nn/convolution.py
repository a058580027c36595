"""Convolutions and their transposes, plain and grouped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ...dims import Dim
from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..accumulate import multiply_matrices, narrow_array, widen_array
from ..math.elementwise import NUMBERS, sizes_of
from ..shape_inference import (
    Shape,
    fresh_symbol,
    ints_of,
    known_dims,
    one_dtype,
    require_dtype,
    same_size,
    unknown_shape,
)
from .pooling_window import Windows

# Windows that are copied out for one matrix product have at most so many elements.
_PIECE_ELEMENTS = 1 << 20


def _check_operands(
    data: Fact, filters: Fact, extra: int
) -> tuple[DType, Shape | None, Shape | None]:
    """Element type and shapes; `extra` is by how much the filters' rank exceeds the data's."""
    dtype = one_dtype(data, filters)
    require_dtype(data, "data", NUMBERS, "a numeric type")
    shape, kernel = data.tensor.shape, filters.tensor.shape
    for name, found, least in (("data", shape, 3), ("filters", kernel, 3 + extra)):
        if found is not None and not least <= len(found) <= least + 2:
            raise ShapeError(
                f"input {name!r} has the wrong rank",
                got=TensorType(dtype, found),
                expected=f"rank {least} to {least + 2}",
            )
    if shape is not None and kernel is not None and len(kernel) != len(shape) + extra:
        raise ShapeError(
            "data and filters differ in their number of spatial axes",
            got=f"{data.type} and {filters.type}",
        )
    return dtype, shape, kernel


@dataclass(frozen=True)
class Convolving(Op):
    """Base: windows of the data times filters, summed."""

    inputs: ClassVar[tuple[Port, ...]] = (Port("data"), Port("filters"))
    grouped: ClassVar[bool] = False
    strides: tuple[int, ...] = ()
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    auto_pad: str = "explicit"

    def windows(self, kernel: Sequence[Dim]) -> Windows:
        """The windows that slide over the data for a kernel of these spatial sizes."""
        return Windows.of(
            kernel, self.strides, self.dilations, self.pads_begin, self.pads_end, self.auto_pad
        )

    def infer(self, data: Fact, filters: Fact) -> tuple[Type, ...]:
        lead = 1 if self.grouped else 0
        dtype, shape, kernel = _check_operands(data, filters, lead)
        if kernel is None:
            return (TensorType(dtype, None if shape is None else unknown_shape(self, len(shape))),)
        groups = kernel[0] if self.grouped else 1
        if shape is None:
            out = (fresh_symbol(self), groups * kernel[lead])
            spatial = unknown_shape(self, len(kernel) - 2 - lead)
            return (TensorType(dtype, (*out, *spatial)),)
        same_size(shape[1], groups * kernel[lead + 1], "data and filters differ in channels")
        sizes = self.windows(kernel[lead + 2 :]).out_sizes(shape[2:])
        return (TensorType(dtype, (shape[0], groups * kernel[lead], *sizes)),)

    def evaluate(self, data: Array, filters: Array) -> tuple[Array, ...]:
        weights = filters if self.grouped else filters[None]
        return (narrow_array(self._convolve(widen_array(data), widen_array(weights)), data.dtype),)

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        data, filters = inputs[:2]
        if data is None or filters is None or not (data.is_static and filters.is_static):
            return 0
        lead = 1 if self.grouped else 0
        shape, (_, inputs_each, *kernel) = sizes_of(data.shape), sizes_of(filters.shape)[lead:]
        groups = sizes_of(filters.shape)[0] if self.grouped else 1
        depth = groups * inputs_each * math.prod(kernel)
        spatial = sizes_of(outputs[0].shape)[2:]
        rows = min(depth * math.prod(spatial) * shape[0], _choose_piece(spatial, depth)[1])
        padded = self.windows(kernel).padded_elements(shape)
        return _wide_bytes(data.dtype) * (
            data.elements + filters.elements + padded + 2 * outputs[0].elements + rows
        )

    def _convolve(self, data: Array, weights: Array) -> Array:
        groups, outputs, inputs, *kernel = weights.shape
        view = self.windows(kernel).view(data, 0)
        spatial = len(kernel)
        counts, batch = view.shape[2 : 2 + spatial], data.shape[0]
        split = view.reshape(batch, groups, inputs, *counts, *kernel)
        # [N, G, out..., C, kernel...] as rows of one matrix product per batch and group.
        order = [0, 1, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial)]
        depth = inputs * math.prod(kernel)
        windows = split.transpose(order)
        matrix = weights.reshape(groups, outputs, depth).swapaxes(1, 2)

        def multiply(images: slice, lines: slice) -> Array:
            part = windows[images, :, lines]
            rows = part.reshape(len(part), groups, math.prod(part.shape[2 : 2 + spatial]), depth)
            product = np.asarray(multiply_matrices(rows, matrix)).swapaxes(2, 3)
            return product.reshape(len(part), groups * outputs, *part.shape[2 : 2 + spatial])

        step, most = _choose_piece(counts, groups * depth)
        if math.prod(counts) * groups * depth * batch <= most:
            return multiply(slice(None), slice(None))
        pieces = [
            np.concatenate(
                [
                    multiply(slice(n, n + 1), slice(line, line + step))
                    for line in range(0, counts[0], step)
                ],
                axis=2,
            )
            for n in range(batch)
        ]
        return np.concatenate(pieces)


def _choose_piece(spatial: Sequence[int], depth: int) -> tuple[int, int]:
    """How many lines of windows [line, ...] are multiplied at once, and how many elements of
    `depth` per window they have at most."""
    line = math.prod(spatial[1:]) * depth
    return max(_PIECE_ELEMENTS // max(line, 1), 1), max(_PIECE_ELEMENTS, line)


def _wide_bytes(dtype: DType) -> int:
    """Bytes of an element and of its copy in the computing type."""
    itemsize = dtype.numpy.itemsize
    return max(itemsize, 4) if dtype.is_float else itemsize + 8


class Convolution(Convolving):
    """data [N, C, spatial...], filters [O, C, kernel...]."""

    kind: ClassVar[str] = "Convolution"


class GroupConvolution(Convolving):
    """data [N, G*C, spatial...], filters [G, O, C, kernel...]."""

    kind: ClassVar[str] = "GroupConvolution"
    grouped: ClassVar[bool] = True


@dataclass(frozen=True)
class _Backprop(Op):
    """Base. The gradient of a convolution with respect to its data, used as a layer: every input
    element adds its kernel-sized patch to the output, from which paddings are then cut off.

    auto_pad same_* distributes what `output_shape` cuts; without that input it has no effect.
    """

    inputs: ClassVar[tuple[Port, ...]] = (
        Port("data"),
        Port("filters"),
        Port("output_shape", optional=True),
    )
    grouped: ClassVar[bool] = False
    strides: tuple[int, ...] = ()
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    auto_pad: str = "explicit"
    output_padding: tuple[int, ...] = ()

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        data, filters = inputs[:2]
        if data is None or filters is None or not (data.is_static and filters.is_static):
            return 0
        kernel = sizes_of(filters.shape)[1 if self.grouped else 0 :]
        groups = sizes_of(filters.shape)[0] if self.grouped else 1
        pixels = math.prod(sizes_of(data.shape)[2:]) * sizes_of(data.shape)[0]
        patches = groups * math.prod(kernel[1:]) * pixels
        full = self._full_sizes(self._windows(kernel[2:]), sizes_of(data.shape)[2:])
        room = math.prod(int(d) for d in full if isinstance(d, int))
        room = max(room * sizes_of(data.shape)[0] * groups * kernel[1], outputs[0].elements)
        return _wide_bytes(data.dtype) * 2 * (data.elements + filters.elements + patches + room)

    def _windows(self, kernel: Sequence[Dim]) -> Windows:
        return Windows.of(
            kernel, self.strides, self.dilations, self.pads_begin, self.pads_end, self.auto_pad
        )

    def _full_sizes(self, windows: Windows, sizes: Sequence[Dim]) -> list[Dim]:
        """Sizes of the output before paddings are cut off."""
        extra = self.output_padding or (0,) * len(sizes)
        return [
            (d - 1) * windows.strides[i] + windows.extent(i) + extra[i] for i, d in enumerate(sizes)
        ]

    def infer(
        self, data: Fact, filters: Fact, output_shape: Fact | None = None
    ) -> tuple[Type, ...]:
        lead = 1 if self.grouped else 0
        dtype, shape, kernel = _check_operands(data, filters, lead)
        if shape is None or kernel is None:
            rank = len(shape) if shape is not None else None
            rank = len(kernel) - lead if kernel is not None else rank
            return (TensorType(dtype, None if rank is None else unknown_shape(self, rank)),)
        groups = kernel[0] if self.grouped else 1
        same_size(shape[1], groups * kernel[lead], "data and filters differ in channels")
        windows = self._windows(kernel[lead + 2 :])
        spatial: Sequence[Dim]
        if output_shape is not None:
            spatial = known_dims(output_shape) or unknown_shape(self, len(shape) - 2)
        else:
            pads = zip(windows.pads_begin, windows.pads_end, strict=True)
            full = self._full_sizes(windows, shape[2:])
            spatial = [d - b - e for d, (b, e) in zip(full, pads, strict=True)]
        return (TensorType(dtype, (shape[0], groups * kernel[lead + 1], *spatial)),)

    def evaluate(
        self, data: Array, filters: Array, output_shape: Array | None = None
    ) -> tuple[Array, ...]:
        weights = filters if self.grouped else filters[None]
        target = None if output_shape is None else ints_of(output_shape)
        out = self._scatter(widen_array(data), widen_array(weights), target)
        return (narrow_array(out, data.dtype),)

    def _scatter(self, data: Array, weights: Array, target: Sequence[int] | None) -> Array:
        groups, inputs, outputs, *kernel = weights.shape
        batch, sizes = data.shape[0], data.shape[2:]
        windows = self.explicit_windows(kernel, sizes, target)
        assert windows is not None
        full = [int(d) for d in self._full_sizes(windows, sizes) if isinstance(d, int)]
        begin, ends = windows.pads_begin, windows.pads_end
        want = target or [f - b - e for f, b, e in zip(full, begin, ends, strict=True)]
        room = [max(f, b + w) for f, b, w in zip(full, begin, want, strict=True)]
        # All sizes are given: without elements, none can be computed from the others.
        rows = data.reshape(batch, groups, inputs, math.prod(sizes))
        matrix = weights.reshape(groups, inputs, outputs * math.prod(kernel)).swapaxes(1, 2)
        patches = np.asarray(multiply_matrices(matrix, rows))
        patches = patches.reshape(batch, groups, outputs, *kernel, *sizes)
        out = np.zeros((batch, groups, outputs, *room), patches.dtype)
        for tap in np.ndindex(*kernel):
            starts = [p * d for p, d in zip(tap, windows.dilations, strict=True)]
            where = tuple(
                slice(a, a + (n - 1) * s + 1 if n else a, s)
                for a, n, s in zip(starts, sizes, windows.strides, strict=True)
            )
            out[(..., *where)] += patches[(slice(None), slice(None), slice(None), *tap)]
        keep = tuple(slice(b, b + w) for b, w in zip(begin, want, strict=True))
        return out[(..., *keep)].reshape(batch, groups * outputs, *want)

    def explicit_windows(
        self, kernel: Sequence[Dim], sizes: Sequence[Dim], target: Sequence[Dim] | None
    ) -> Windows | None:
        """The windows, with numbers for paddings that follow from the output's sizes `target`;
        None where those depend on sizes that are not known."""
        windows = self._windows(kernel)
        if target is None or not windows.is_same_padded:
            return windows
        begin: list[int] = []
        for full, size in zip(self._full_sizes(windows, sizes), target, strict=True):
            total = full - size
            if not isinstance(total, int):
                return None
            # The odd element of padding is at the beginning for same_upper: the opposite of what
            # a convolution does, as OpenVINO's specification has it.
            half = max(total, 0) // 2
            begin.append(max(total, 0) - half if windows.auto_pad == "same_upper" else half)
        return replace(windows, auto_pad="explicit", pads_begin=tuple(begin))


class ConvolutionBackpropData(_Backprop):
    """data [N, C, spatial...], filters [C, O, kernel...]."""

    kind: ClassVar[str] = "ConvolutionBackpropData"


class GroupConvolutionBackpropData(_Backprop):
    """data [N, G*C, spatial...], filters [G, C, O, kernel...]."""

    kind: ClassVar[str] = "GroupConvolutionBackpropData"
    grouped: ClassVar[bool] = True
