"""Schedules of convolutions as values: the algorithm is the class, its parameters are the fields.

`schedule_conv` makes one from (spec, Target), and the generator of its class reads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import BYTES, cell_depth
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ..emit.amx_registers import AMX_ROWS
from .amx_geometry import (
    MAX_TILE_PLACES,
    Flat,
    Unfolding,
    flatten_rows,
    instruction,
    is_unfolding_short,
    pairs_fill_registers,
    plan_im2col,
    step_cells,
)
from .depthwise_cells import CELL_ROWS
from .row_packing import RowCopies, choose_rows
from .tile_partition import (
    ConvTiling,
    Run,
    choose,
    cut_axis,
    is_epilogue_inline,
    is_padding_neutral,
    known_axis,
    reads_in_place,
    three_axes,
)
from .winograd_tiles import WinogradSchedule, choose_winograd


@dataclass(frozen=True)
class DirectSchedule:
    """Tiles of vector registers that read the data in place (direct.py)."""

    cut: ConvTiling


@dataclass(frozen=True)
class CopiedRowsSchedule:
    """Tiles that read copied rows. tall: rows of a tile; across, down: the tiles of a row of
    copies, and the rows of tiles, None: found at run time; flat: rows of pixels that are computed
    as one."""

    cut: ConvTiling
    rows: RowCopies
    across: tuple[Run, ...] | None
    tall: int = 1
    down: tuple[Run, ...] | None = None
    flat: Flat | None = None


@dataclass(frozen=True)
class PackedSchedule(CopiedRowsSchedule):
    """Tiles of vector registers (packed_direct.py)."""


@dataclass(frozen=True, kw_only=True)
class AmxConvSchedule(CopiedRowsSchedule):
    """Tiles of AMX that read the copies as they are, in steps of `cells` (amx.py)."""

    instruction: str
    cells: int


@dataclass(frozen=True, kw_only=True)
class Im2colSchedule(CopiedRowsSchedule):
    """Tiles of AMX that read unfolded pixels (im2col_amx.py), made once for panels_per_copy panels
    of weights."""

    instruction: str
    unfolding: Unfolding
    panels_per_copy: int


@dataclass(frozen=True)
class DepthwiseSchedule:
    """Tiles of one row of `columns` pixels and a vector of channels (depthwise.py). unrolls:
    whether the taps of a row are written out; inline_epilogue: whether the epilogue is, for each
    pixel of a tile; cells: whether bytes of rows below each other are multiplied at once
    (depthwise_cells.py)."""

    lanes: int
    columns: int
    unrolls: bool
    inline_epilogue: bool
    cells: bool = False


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
            return _amx_schedule(wide, target, on_tiles, name, cells)
        if is_unfolding_short(unfolding := plan_im2col(wide)):
            # Tasks of a few panels, all of a unit's one after the other.
            panels = target.heuristics.conv_amx_panels_per_copy
            tasks = -(-cut.panels // panels)
            grouped = replace(on_tiles, panels=tasks, group=tasks)
            rows = choose_rows(wide, target, grouped, 1)
            across = _even_tiles(wide, rows, MAX_TILE_PLACES)
            return Im2colSchedule(
                grouped,
                rows,
                across,
                instruction=name,
                unfolding=unfolding,
                panels_per_copy=panels,
            )
    if reads_in_place(spec):
        return DirectSchedule(cut)
    tall = _tile_rows(wide, cut)
    rows = choose_rows(wide, target, cut, tall)
    across, down = _known_tiles(wide, target, cut, rows, tall)
    return PackedSchedule(cut, rows, across, tall, down)


def _amx_schedule(
    spec: ConvSpec, target: Target, cut: ConvTiling, instruction: str, cells: int
) -> AmxConvSchedule:
    """Tiles of one row of pixels, or of two where these fill the registers better."""
    flat = flatten_rows(spec, target)
    tall = flat.rows if flat else min(2, _tile_rows(spec, cut))
    if tall == 1 and pairs_fill_registers(spec):
        paired = replace(cut, most=AMX_ROWS)
        rows = choose_rows(spec, target, paired, 2)
        if (across := _even_tiles(spec, rows, AMX_ROWS)) is not None:
            return AmxConvSchedule(paired, rows, across, 2, instruction=instruction, cells=cells)
    rows = choose_rows(spec, target, cut, tall, flat.width if flat else 0)
    across = _even_tiles(spec, rows, MAX_TILE_PLACES, flat)
    return AmxConvSchedule(cut, rows, across, tall, flat=flat, instruction=instruction, cells=cells)


def _even_tiles(
    spec: ConvSpec, rows: RowCopies, most: int, flat: Flat | None = None
) -> tuple[Run, ...] | None:
    """The tiles of a row, all of them alike, where a copy holds all of it; None otherwise."""
    across = spec.out_sizes[2]
    if across != rows.across or not isinstance(across, int):
        return None
    return cut_axis(across, across, 1, 1, 1, 0, across if flat else most)


def _known_tiles(
    spec: ConvSpec, target: Target, cut: ConvTiling, rows: RowCopies, tall: int
) -> tuple[tuple[Run, ...] | None, tuple[Run, ...] | None]:
    """The tiles of a row, and the rows of tiles, where they are known. Small images leave out the
    taps that see paddings only: there they are many."""
    even = _even_tiles(spec, rows, cut.most)
    tiles, down = known_axis(spec, 2, cut.most), spec.out_sizes[1]
    if even is None or tiles is None or spec.channels % rows.kr or rows.across > cut.specialized:
        return even, None
    if not is_padding_neutral(spec, target, cut.lanes):
        return even, None
    if tall > 1 and isinstance(down, int) and down <= rows.down and spec.window.kernel[1] > 1:
        return tiles, known_axis(spec, 1, tall)
    return tiles, None


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
    lanes = target.lanes(spec.acc.bits)
    inline = is_epilogue_inline(spec, target, lanes)
    unrolls = taps <= unrolled
    cells = unrolls and _has_cells(spec, target)
    return DepthwiseSchedule(lanes, columns, unrolls, inline, cells)


def _has_cells(spec: ConvSpec, target: Target) -> bool:
    """Whether an instruction multiplies a depthwise convolution's bytes by cells of rows."""
    planes, rows, _ = spec.window.kernel
    bytes_ = spec.data.dtype in BYTES and spec.weights.dtype is DType.i8
    units = target.arch == "x86_64" and cell_depth(target, DType.i8) == CELL_ROWS
    return bytes_ and units and planes == 1 and rows > 1
