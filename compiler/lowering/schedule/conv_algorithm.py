"""Which convolutions Winograd's transforms compute, and by which of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ....ir.dims import Dim, product
from ....ir.dtype import DType
from ....ir.graph import Graph, Value
from ....ir.op import Array
from ....ir.ops import Constant, Convolution
from ....ir.ops.nn.pooling_window import Windows
from ....plan.packing.layouts import WHOLE_SUM
from ....plan.packing.panel_params import BF16_STEP_VALUES, cell_depth, multiplies_pairs
from ....plan.target import Target
from ...options import Options
from .bf16x3 import multiplies_bf16x3

# Filters beyond these are extreme: the largest absolute value of a tap, and that of an output's
# filter over that of the four taps which a window at a corner of the image multiplies.
MAX_WEIGHT: Final = 2.0**30
MAX_WEIGHT_RATIO: Final = 2.0**8


def winograd_tiles(
    graph: Graph, native: Mapping[int, bool], options: Options, target: Target
) -> dict[int, int]:
    """The native convolutions that a transform computes, each with the side of its tiles."""
    tiles = {n: _float_tile(graph, n, options, target) for n, runs in native.items() if runs}
    return {node: tile for node, tile in tiles.items() if tile}


def _float_tile(graph: Graph, node: int, options: Options, target: Target) -> int:
    """The side of the output tiles with which Winograd's transform computes a convolution of f32; 0
    for a direct convolution, or another type or operation.

    Fewer channels leave too little to multiply for what the transforms cost. F(4 x 4) has larger
    errors, which docs/numerics.md allows for large images only: not where a size is dynamic.
    The transform computes in f32, and direct convolutions of bf16 take half the time where a unit
    multiplies pairs: there F(4 x 4), whose errors are small besides bf16's, serves where it pays.
    """
    op = graph.op(node)
    if not isinstance(op, Convolution):
        return 0
    made, filters = graph.shape(Value(node)), graph.shape(graph.input(node, 1))
    outputs, channels = filters[0], product([filters[1], *filters[2:-2]])
    dtype = graph.tensor(graph.input(node, 0)).dtype
    if dtype is not DType.f32 or not _slides(options, op.windows(filters[2:])):
        return 0
    if not isinstance(outputs, int) or not isinstance(channels, int):
        return 0
    h = target.heuristics
    least = min(d if isinstance(d, int) else h.winograd_min_side for d in made[-2:])
    if least < h.winograd_min_side or min(outputs, channels) < h.winograd_min_channels:
        return 0
    tile = _float_tile_of_sizes(made, (outputs, channels), options, target)
    if tile == 2 and _multiplies_on_tiles(graph, node, options, target):
        return 0
    return tile if tile and not _is_extreme(graph, graph.input(node, 1)) else 0


def _multiplies_on_tiles(graph: Graph, node: int, options: Options, target: Target) -> bool:
    """Whether tiles of AMX multiply the windows of an image, of f32. They take less time than
    F(2 x 2), whose weights take almost twice the memory
    (docs/dev/tuning/f32-convolutions-amx.md)."""
    sides = graph.shape(Value(node))[2:]
    filters = graph.op(graph.input(node, 1).node)
    if not isinstance(filters, Constant) or not all(isinstance(d, int) for d in sides):
        return False
    outputs, channels, *kernel = filters.data.shape
    if channels % BF16_STEP_VALUES != 0:
        return False
    sizes = (product(sides), outputs, math.prod(kernel) * channels)
    return multiplies_bf16x3(target, options, filters, DType.f32, sizes)


def _float_tile_of_sizes(
    shape: Sequence[Dim], filters: tuple[int, int], options: Options, target: Target
) -> int:
    """The same, of output sizes and (outputs, channels) that the transform is for."""
    outputs, channels = filters
    if options.precision != "bf16" or cell_depth(target, DType.bf16) == 1:
        # Of a dynamic size F(2 x 2), whatever the thresholds.
        if not all(isinstance(d, int) for d in shape[-2:]):
            return 2
        least = min(d for d in shape[-2:] if isinstance(d, int))
        return 4 if least >= target.heuristics.winograd_min_f4_side else 2
    # Never by the batch: an image has the same bits alone and among others.
    height, width = (d if isinstance(d, int) else 0 for d in shape[-2:])
    tiles = -(-height // 4) * -(-width // 4)
    pairs = 9 * height * width * channels // 2
    amx = target.has("amx-bf16")
    return 4 if not amx and _pays(target, pairs, tiles, channels, outputs) else 0


def _is_extreme(graph: Graph, filters: Value) -> bool:
    """Whether filters [O, C, (D,) 3, 3] of f32 hold what the transform would spread: values that
    are not finite or overflow sums, and values that drown those of another part of their window,
    slice by slice: beyond an edge of the data slices are not multiplied."""
    op = graph.op(filters.node)
    if not isinstance(op, Constant):
        return True
    taps = np.abs(op.data).max(axis=1).reshape(-1, 3, 3)
    largest = taps.max(axis=(1, 2))
    # Not <= in place of >: NaN is extreme.
    if not bool((largest <= MAX_WEIGHT).all()):
        return True
    rows = np.maximum(taps[:, :-1], taps[:, 1:])
    corners = np.maximum(rows[:, :, :-1], rows[:, :, 1:]).min(axis=(1, 2))
    return bool((largest > MAX_WEIGHT_RATIO * corners).any())


def byte_tile(
    options: Options,
    target: Target,
    windows: Windows,
    filters: Array,
    reach: int,
    shape: Sequence[Dim],
) -> int:
    """The same for bytes, whose filters [O, C, 3, 3] are `filters`, and whose data, less their zero
    point, are at most `reach` from 0: 4 where F(4 x 4) is exact and pays, else 0."""
    sizes = [d for d in shape if isinstance(d, int)]
    if filters.dtype != np.int8 or filters.ndim != 4 or len(sizes) != 4:
        return 0
    if not _slides(options, windows):
        return 0
    batch, outputs, height, width = sizes
    tiles = batch * -(-height // 4) * -(-width // 4)
    lanes, kr = target.lanes(32), cell_depth(target, DType.i8)
    channels = filters.shape[1]
    # Where tiles of AMX multiply bytes, 16 rows at a time, nothing is left to save.
    if not multiplies_pairs(target) or target.has("amx-int8"):
        return 0
    if channels % (2 * lanes) or outputs % lanes:
        return 0
    cells = 9 * batch * height * width * channels // kr
    if not _pays(target, cells, tiles, channels // 2, outputs):
        return 0
    # Last, as it takes longest. By sums of 64 bits: of 8 bits -128 has no absolute value.
    largest = np.abs(filters.astype(np.int16)).sum(axis=(1, 2, 3), dtype=np.int64).max()
    return 4 if int(largest) * reach < WHOLE_SUM else 0


def _slides(options: Options, windows: Windows) -> bool:
    """Whether windows are 3 x 3 along the last two axes, pixel by pixel."""
    along = [axes[-2:] for axes in (windows.kernel, windows.strides, windows.dilations)]
    return along == [(3, 3), (1, 1), (1, 1)] and options.conv_algorithm != "direct"


def _pays(target: Target, direct: int, tiles: int, depth: int, outputs: int) -> bool:
    """Whether F(4 x 4) takes fewer instructions than a direct convolution, which multiplies
    `direct` cells for every output channel. The transform multiplies `depth` cells, of one f32 or
    two values of 16 bits, at the 36 points of a tile; its weights take eight times the size.

    Transforming sums back takes 36 stores and loads, 14 instructions for each of six columns and
    four rows, 32 for the scale of bytes, and some that compute addresses; transforming data takes
    36 loads and stores, and 12 instructions for each of six columns and rows
    (docs/dev/tuning/winograd-choice.md).
    """
    h = target.heuristics
    lanes = target.lanes(32)
    vectors = -(-outputs // lanes)
    weights = 36 * depth * vectors
    ours = (
        tiles
        * (weights + vectors * h.winograd_output_cost + -(-depth // lanes) * h.winograd_input_cost)
        + weights * h.winograd_far_load_cost
    )
    return direct * vectors >= h.winograd_min_speedup * ours
