"""Slices of a convolution's channels, whose sums are added up one after the other.

On tiles of AMX, data and filters of many channels come from beyond L2 for each few rows of the
result: copies of so many channels fill L2 with few rows. Slices reach less far, and the sums in
between are few bytes next to that (docs/dev/tuning/conv-channel-slices.md).
"""

from __future__ import annotations

from collections.abc import Sequence

from .....ir.dtype import DType
from .....ir.scalar.builder import Builder
from .....ir.scalar.program import Program
from .....plan.packing.layouts import PackedConv
from .....plan.packing.panel_params import has_tiles
from .....plan.target import Target

# Slices have a multiple of so many cells: two steps of a tile.
_SLICE_CELLS = 32


def slice_channels(
    target: Target, layout: PackedConv, channels: int, factors: DType | None
) -> list[int]:
    """The numbers of channels of each slice: `channels` alone, unless tiles of AMX multiply
    `factors`. By channels and types alone, so that an image has the same bits in any size."""
    h, kr = target.heuristics, layout.kr
    tiled = has_tiles(target, factors, kr) and not layout.grouped
    if not tiled or channels <= h.conv_amx_max_cells * kr:
        return [channels]
    unit = _SLICE_CELLS * kr
    units, count = -(-channels // unit), -(-channels // max(h.conv_amx_slice_cells * kr, unit))
    each, longer = divmod(units, count)
    sizes = [(each + (i < longer)) * unit for i in range(count)]
    return [*sizes[:-1], channels - sum(sizes[:-1])]


def sum_slices(
    epilogue: Program, acc: DType, operands: Sequence[DType], count: int
) -> list[Program]:
    """The epilogues of `count` slices, of which all but the last store sums of type `acc`, and all
    but the first add those of the slice before, which are their first epilogue operand."""
    first, later, last = Builder(), Builder(), Builder()
    total = last.op("add", last.input(0, acc), last.input(1, acc))
    inputs = [last.input(2 + i, dtype) for i, dtype in enumerate(operands)]
    return [
        first.finish(first.input(0, acc)),
        *[later.finish(later.op("add", later.input(0, acc), later.input(1, acc)))] * (count - 2),
        last.finish(*last.inline(epilogue, total, *inputs)),
    ]
