"""Schedules of convolutions as values: the algorithm is the class, its parameters are the fields.

`schedule_conv` makes one from (spec, Target), and the generator of its class reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from ....plan.packing.panel_params import BYTES
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from .amx_geometry import (
    MAX_TILE_PLACES,
    Flat,
    Unfolding,
    flatten_rows,
    instruction,
    is_unfolding_short,
    plan_im2col,
    step_cells,
)
from .row_packing import RowCopies, choose_rows
from .tile_partition import ConvTiling, choose, three_axes
from .winograd_tiles import WinogradSchedule, choose_winograd


@dataclass(frozen=True)
class DirectSchedule:
    """Tiles of vector registers that read the data in place (direct.py)."""

    cut: ConvTiling


@dataclass(frozen=True)
class PackedSchedule:
    """Tiles of vector registers, of `tall` rows, that read copied rows (packed_direct.py)."""

    cut: ConvTiling
    tall: int
    rows: RowCopies


@dataclass(frozen=True)
class AmxConvSchedule:
    """Tiles of AMX that read copied rows as they are, in steps of `cells` (amx.py); flat: rows of
    pixels that are computed as one."""

    cut: ConvTiling
    tall: int
    rows: RowCopies
    instruction: str
    cells: int
    flat: Flat | None


@dataclass(frozen=True)
class Im2colSchedule:
    """Tiles of AMX that read unfolded pixels (im2col_amx.py), made once for panels_per_copy panels
    of weights."""

    cut: ConvTiling
    rows: RowCopies
    instruction: str
    unfolding: Unfolding
    panels_per_copy: int


@dataclass(frozen=True)
class DepthwiseSchedule:
    """Tiles of one row of `columns` pixels and a vector of channels (depthwise.py). unrolls:
    whether the taps of a row are written out."""

    lanes: int
    columns: int
    unrolls: bool


ConvSchedule: TypeAlias = (
    DirectSchedule
    | PackedSchedule
    | AmxConvSchedule
    | Im2colSchedule
    | DepthwiseSchedule
    | WinogradSchedule
)


def schedule_conv(spec: ConvSpec, target: Target) -> ConvSchedule:
    """All that the generator of a convolution's kernel decides, as a value."""
    wide = three_axes(spec)
    if spec.packed.winograd:
        return choose_winograd(wide, target)
    if spec.packed.depthwise:
        return _depthwise_schedule(wide, target)
    cut = choose(wide, target)
    if name := instruction(wide, target):
        on_tiles = replace(cut, most=MAX_TILE_PLACES)
        if cells := step_cells(wide):
            flat = flatten_rows(wide, target)
            tall = flat.rows if flat else min(2, _tile_rows(wide, on_tiles))
            rows = choose_rows(wide, target, on_tiles, tall, flat.width if flat else 0)
            return AmxConvSchedule(on_tiles, tall, rows, name, cells, flat)
        if is_unfolding_short(unfolding := plan_im2col(wide)):
            # Tasks of a few panels, all of a unit's one after the other.
            panels = target.heuristics.conv_amx_panels_per_copy
            tasks = -(-cut.panels // panels)
            grouped = replace(on_tiles, panels=tasks, group=tasks)
            rows = choose_rows(wide, target, grouped, 1)
            return Im2colSchedule(grouped, rows, name, unfolding, panels)
    if spec.compute_dtype is None and spec.data.dtype not in BYTES:
        return DirectSchedule(cut)
    tall = _tile_rows(wide, cut)
    return PackedSchedule(cut, tall, choose_rows(wide, target, cut, tall))


def _tile_rows(spec: ConvSpec, cut: ConvTiling) -> int:
    """Rows of one tile: several where an output row is short."""
    height, width = spec.out_sizes[1:]
    if not isinstance(height, int) or not isinstance(width, int) or width < 1:
        return 1
    if spec.window.dilations[1] > 1 or spec.window.strides[1] > spec.window.kernel[1]:
        return 1
    return max(1, min(height, cut.most // width))


def _depthwise_schedule(spec: ConvSpec, target: Target) -> DepthwiseSchedule:
    """The sums of a tile's pixels, one row's weights and two vectors of data fit the registers."""
    h, taps = target.heuristics, spec.window.kernel[2]
    unrolled = h.conv_depthwise_max_unrolled_taps
    spare = target.registers - min(taps, unrolled) - 2
    columns = max(1, min(h.conv_depthwise_max_tile_columns, spare))
    return DepthwiseSchedule(target.lanes(spec.acc.bits), columns, taps <= unrolled)
