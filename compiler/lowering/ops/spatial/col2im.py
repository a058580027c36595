"""Col2Im: columns [batch, channels * kernel, windows] are added up to an image.

With stride s, taps t * s to t * s + s - 1 of window q are the pixels (q + t) * s to (q + t) * s + s
- 1: taps of one t, of all windows, are a run of the image's rows or columns, which no two of them
share. So an image of zeros gets one sum of views for each t of each axis. Where windows have
dilations, each tap is a sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product as each
from typing import Final, TypeAlias

import numpy as np

from .....ir.dtype import DType
from .....ir.graph import Graph, Value
from .....ir.ops import Col2Im
from .....ir.scalar.builder import Builder, cast_array
from ....strided_view import View, are_equal, broadcast_to, permute, reshape, take
from ...build.region_lowering import RegionLowering
from ..data_movement import known_ints
from ..matmul import accumulator

# So many sums are compiled in half a second, and take 0.3 to 0.6 of NumPy's time on one thread.
_MAX_SUMS: Final = 256
_Taps: TypeAlias = tuple[int, int]  # the first tap of a sum, and how many


def refuse_col2im(graph: Graph, node: int, op: Col2Im) -> str | None:
    """Why no kernels add up these columns, or None."""
    data = graph.tensor(graph.input(node, 0))
    if not (data.dtype.is_float or data.dtype in (DType.i32, DType.i64)):
        return f"no kernel for Col2Im of {data.dtype}"
    kernel, size = known_ints(graph, node, 2), known_ints(graph, node, 1)
    if kernel is None or size is None or data.shape is None:
        return "the sizes of the image or of the windows are known at run time only"
    if data.shape[-1] != math.prod(op.count_windows(size, kernel)):
        return "other windows than the image has"
    sums = (len(_split_taps(*axis)) for axis in zip(kernel, op.strides, op.dilations, strict=True))
    if math.prod(sums) > _MAX_SUMS:
        return f"a window of more than {_MAX_SUMS} sums"
    return None


def _split_taps(kernel: int, stride: int, dilation: int) -> list[_Taps]:
    """The taps of each sum along one axis."""
    step = stride if dilation == 1 else 1
    return [(first, min(step, kernel - first)) for first in range(0, kernel, step)]


def lower_col2im(lowering: RegionLowering, node: int, op: Col2Im) -> None:
    """Zeros, the sums, and a copy of what is not padding."""
    data = lowering.view(lowering.graph.input(node, 0))
    size, kernel = (known_ints(lowering.graph, node, port) or [] for port in (1, 2))
    name, sources = lowering.name(node), lowering.sources(node)
    windows = op.count_windows(size, kernel)
    shape = (*data.shape[:-2], data.shape[-2] // (kernel[0] * kernel[1]), *kernel, *windows)
    columns = reshape(data, shape)
    if columns is None:
        columns = reshape(lowering.contiguous(data, name), shape)
    assert columns is not None
    image = _allocate_image(lowering, op, columns, size, name)
    zero = lowering.array(cast_array(np.zeros(1), image.dtype), image.dtype, None, name)
    lowering.copy(broadcast_to(zero, image.shape), image, name, sources)
    builder = Builder()
    value = builder.cast(builder.input(1, data.dtype), image.dtype)
    program = builder.finish(builder.op("add", builder.input(0, image.dtype), value))
    axes = zip(kernel, op.strides, op.dilations, strict=True)
    for first, second in each(*(_split_taps(*axis) for axis in axes)):
        taps = take(take(columns, -4, *first), -3, *second)
        pixels = _pixels_of(op, image, taps, (first[0], second[0]))
        lowering.elementwise(program, [pixels, taps], [pixels], name, sources)
    for axis, (begin, count) in enumerate(zip(op.pads_begin, size, strict=True)):
        image = take(image, axis - 2, begin, count)
    out = lowering.result(Value(node))
    builder = Builder()
    last = builder.finish(builder.cast_stored(builder.input(0, image.dtype), out.dtype))
    lowering.elementwise(last, [image], [out], name, sources)


def _allocate_image(
    lowering: RegionLowering, op: Col2Im, columns: View, size: Sequence[int], name: str
) -> View:
    """Memory for an image with its paddings, in whose order of axes columns are read in runs."""
    pads = zip(size, op.pads_begin, op.pads_end, strict=True)
    shape = (*columns.shape[:-4], *(n + begin + end for n, begin, end in pads))
    rank, dtype = len(shape), accumulator(columns.dtype)
    if not are_equal(columns.strides[-5], 1):
        return lowering.region.allocate(dtype, shape, name)
    turned = lowering.region.allocate(dtype, (*shape[:-3], *shape[-2:], shape[-3]), name)
    return permute(turned, [*range(rank - 3), rank - 1, rank - 3, rank - 2])


def _pixels_of(op: Col2Im, image: View, taps: View, first: Sequence[int]) -> View:
    """The pixels of taps [..., kernel rows, kernel columns, windows...] from the first ones on."""
    steps, offset = image.strides[-2:], image.offset
    for tap, dilation, step in zip(first, op.dilations, steps, strict=True):
        offset = offset + tap * dilation * step
    jumps = (step * stride for step, stride in zip(steps, op.strides, strict=True))
    strides = (*image.strides[:-2], *steps, *jumps)
    return replace(image, shape=taps.shape, strides=strides, offset=offset)
