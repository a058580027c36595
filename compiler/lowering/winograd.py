"""Which convolutions Winograd's transforms compute, and by which of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...ir.dim import Dim
from ...ir.dtype import DType
from ...ir.layouts import WHOLE_SUM
from ...ir.op import Array
from ...ir.ops.windows import Windows
from ...ir.target import Target
from ...ir.tiles import cell_depth
from .context import Lowering

# Least channels, least side of an image, and of one for F(4 x 4).
_WORTH, _SMALL, _LARGE = 16, 8, 28
# Where factors may be rounded, least side of an image for which the transform is faster still.
DIRECT_BELOW = 56
# Of bytes: instructions that transform a tile's sums of one vector of channels back (36 stores and
# loads, 14 for each of six columns and four rows, 32 for the scale, some that compute addresses),
# those that transform a tile's data of one vector of cells (36 loads and stores, 12 for each of six
# columns and rows), and multiply-adds that take as long as reading a vector of weights from beyond
# L2. A direct convolution then takes 1.43 times as long of 64 channels at 56 x 56 (measured on Zen
# 4: 1.5), 1.49 of 128 at 28 x 28 (1.55), 0.96 of 256 at 14 x 14 (1.0 to 1.14), 0.5 of 512 at 7 x 7
# (0.5).
_BACK, _FORTH, _AFAR = 300, 220, 8
# How much cheaper than a direct convolution it has to be for weights of eight times the size.
_GAIN: Final = 1.2


def winograd_tile(
    low: Lowering, windows: Windows, dtype: DType, shape: Sequence[Dim], channels: int
) -> int:
    """The side of the output tiles that Winograd's transform computes; 0 for a direct convolution.

    Fewer channels leave too little to multiply for what the transforms cost. F(4 x 4) has larger
    errors, which docs/numerics.md allows for large images only: not where a size is of run time.
    """
    image, outputs = [d if isinstance(d, int) else _SMALL for d in shape[2:]], shape[1]
    if dtype is not DType.f32 or not _slides(low, windows) or min(image) < _SMALL:
        return 0
    if not isinstance(outputs, int) or min(outputs, channels) < _WORTH:
        return 0
    return 4 if min(image) >= _LARGE else 2


def byte_tile(
    low: Lowering, windows: Windows, filters: Array, reach: int, shape: Sequence[Dim]
) -> int:
    """The same for bytes, whose filters [O, C, 3, 3] are `filters`, and whose data, less their zero
    point, are at most `reach` from 0: 4 where F(4 x 4) is exact and pays, else 0."""
    sizes = [d for d in shape if isinstance(d, int)]
    if not _slides(low, windows) or len(sizes) != 4 or filters.dtype != np.int8:
        return 0
    # By sums of 64 bits: of 8 bits -128 has no absolute value.
    largest = np.abs(filters.astype(np.int16)).sum(axis=(1, 2, 3), dtype=np.int64).max()
    if int(largest) * reach >= WHOLE_SUM:
        return 0
    batch, outputs, height, width = sizes
    tiles = batch * -(-height // 4) * -(-width // 4)
    channels = filters.shape[1]
    return 4 if _pays(low.target, batch * height * width, tiles, channels, outputs) else 0


def _slides(low: Lowering, windows: Windows) -> bool:
    plain = windows.kernel == (3, 3) and windows.strides == windows.dilations == (1, 1)
    return plain and low.options.conv_algorithm != "direct"


def _pays(target: Target, places: int, tiles: int, channels: int, outputs: int) -> bool:
    """Whether F(4 x 4) of bytes takes fewer instructions than a direct convolution.

    Both multiply cells of bytes, of kr values here and of two values of 16 bits there: nine cells
    for every kr channels of a place, and 36 for every two of a tile of 16 places. Where tiles of
    AMX multiply bytes, 16 rows at a time, nothing is left to save.
    """
    lanes, kr = target.lanes(32), cell_depth(target, DType.i8)
    if kr == 1 or target.has("amx-int8") or channels % (2 * lanes) or outputs % lanes:
        return False
    vectors, cells = outputs // lanes, channels // 2
    direct = places * vectors * 9 * channels / kr
    weights = 36 * cells * vectors
    ours = tiles * (weights + vectors * _BACK + cells // lanes * _FORTH) + weights * _AFAR
    return direct >= _GAIN * ours
