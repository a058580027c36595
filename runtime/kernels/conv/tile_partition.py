"""How an output row is cut into register tiles, and which taps of each tile meet the data.

Where an axis has known sizes, every tile's taps are known: a tile at an edge is compiled for its
own set of taps, so that paddings cost neither a copy nor a test. Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import BYTES
from ....plan.specs.base import Size
from ....plan.specs.convolution import ConvSpec, Window
from ....plan.target import Target
from ..emit.dot_units import DotUnit, find_unit, left_shift
from ..gemm.epilogue import is_short
from ..gemm.operand_packing import l1_ways, rows_in_ways
from ..gemm.tiling import tile_rows

# Rows are cut into segments where a convolution has fewer tasks for workers; the least number of
# tiles of a segment, and the most segments of a row whose length is known at run time only.
_MIN_TASKS: Final = 64
_MIN_TILES_PER_SEGMENT: Final = 8
_MAX_SEGMENTS_OF_ANY_LENGTH: Final = 16
# Per tap of one axis, which of a tile's pixels meet the data; None: all of them, at every tap.
Taps = tuple[tuple[bool, ...], ...] | None


@dataclass(frozen=True)
class Run:
    """`count` tiles of `size` pixels, the first at `start`, that meet the data alike."""

    start: int
    count: int
    size: int
    taps: Taps


def cut_axis(
    out: int, data: int, kernel: int, stride: int, dilation: int, pad: int, most: int
) -> tuple[Run, ...]:
    """The tiles of an axis of known sizes, at most `most` pixels each, as even as possible.

    Only tiles around the pixels where a tap starts or ceases to meet the data are looked at: an
    axis may have any number of others.
    """
    if not out:
        return ()
    tiles = max(1, -(-out // most))
    low, longer = divmod(out, tiles)
    # Positions from which on a tap meets the data, or does so no more.
    starts = {-(-(pad - k * dilation) // stride) for k in range(kernel)}
    ends = {-(-(data + pad - k * dilation) // stride) for k in range(kernel)}
    changes = {_tile_of(p, low, longer) for p in starts | ends if 0 <= p < out}
    firsts = sorted({0, longer, *changes, *(t + 1 for t in changes)} - {tiles})
    runs: list[Run] = []
    for tile, following in zip(firsts, [*firsts[1:], tiles], strict=True):
        size, start = low + (tile < longer), tile * low + min(tile, longer)
        taps: Taps = tuple(
            tuple(0 <= (start + i) * stride - pad + k * dilation < data for i in range(size))
            for k in range(kernel)
        )
        if all(all(t) for t in taps or ()):
            taps = None
        if runs and (runs[-1].size, runs[-1].taps) == (size, taps):
            last = runs.pop()
            runs.append(Run(last.start, last.count + following - tile, size, taps))
        else:
            runs.append(Run(start, following - tile, size, taps))
    return tuple(runs)


def _tile_of(position: int, low: int, longer: int) -> int:
    """The tile of a pixel, where the first `longer` tiles have `low` + 1 pixels, others `low`."""
    if position < longer * (low + 1):
        return position // (low + 1)
    return longer + (position - longer * (low + 1)) // low


def known_axis(spec: ConvSpec, axis: int, most: int) -> tuple[Run, ...] | None:
    """The tiles of a spatial axis, or None where a size is dynamic."""
    w = spec.window
    out, data, pad = spec.out_sizes[axis], spec.in_sizes[axis], w.pads[axis]
    if not isinstance(out, int) or not isinstance(data, int) or not isinstance(pad, int):
        return None
    return cut_axis(out, data, w.kernel[axis], w.strides[axis], w.dilations[axis], pad, most)


def three_axes(spec: ConvSpec) -> ConvSpec:
    """The same convolution with three spatial axes: what is missing in front has size 1."""
    extra = 3 - len(spec.in_sizes)
    ones: tuple[int, ...] = (1,) * extra
    zeros: tuple[int, ...] = (0,) * extra
    w = spec.window

    def insert_axes(strides: tuple[Size, ...]) -> tuple[Size, ...]:
        return (*strides[:2], *zeros, *strides[2:])

    return replace(
        spec,
        in_sizes=(*ones, *spec.in_sizes),
        out_sizes=(*ones, *spec.out_sizes),
        window=Window(
            (*ones, *w.kernel), (*ones, *w.strides), (*ones, *w.dilations), (*zeros, *w.pads)
        ),
        data=replace(spec.data, strides=insert_axes(spec.data.strides)),
        out=replace(spec.out, strides=insert_axes(spec.out.strides)),
        epilogue_operands=tuple(
            replace(e, strides=insert_axes(e.strides)) for e in spec.epilogue_operands
        ),
    )


@dataclass(frozen=True)
class ConvTiling:
    """How a direct convolution is cut. `columns` None: the row's length is dynamic, tiles are
    `most` pixels and fewer. `rows` None: one output row per tile, its taps found at run time.
    `group`: panels of weights that serve all tiles before the next ones' turn. `unroll`: steps
    along the channels in the body of the innermost loop. `specialized`: columns of an output whose
    tiles are compiled for the taps they meet. `fetch_lines`: cache lines of weights that a step on
    AMX fetches, at most. `inline_epilogue`: the epilogue is written out for each register of a
    tile. `segments`: pieces of a row, where workers would have too few rows and panels to share."""

    lanes: int
    nr: int
    vectors: int
    most: int
    columns: tuple[Run, ...] | None
    rows: tuple[Run, ...] | None
    panels: int
    group: int
    unroll: int
    specialized: int
    fetch_lines: int
    inline_epilogue: bool
    segments: int


def choose(spec: ConvSpec, target: Target) -> ConvTiling:
    """The cut of a convolution of three spatial axes."""
    lanes, nr = target.lanes(spec.acc.bits), spec.packed.nr
    vectors = min(nr // lanes, max(1, -(-spec.outputs // lanes)))
    most = _limit_pixels(spec, target, tile_rows(target, vectors))
    columns, rows = known_axis(spec, 2, most), None
    width = spec.out_sizes[2]
    fixed = all(isinstance(s, int) for o in spec.operands() for s in o.strides[3:])
    if columns is not None and fixed and isinstance(width, int) and 0 < 2 * width <= most:
        rows = known_axis(spec, 1, most // width)
    panels = -(-spec.outputs // nr)
    h, group = target.heuristics, _group(spec, target)
    return ConvTiling(
        lanes,
        nr,
        vectors,
        most,
        columns,
        rows,
        panels,
        group,
        h.conv_unroll,
        h.conv_max_specialized_columns,
        h.conv_amx_max_prefetched_lines,
        is_epilogue_inline(spec, target, lanes),
        _count_segments(spec, columns, rows, panels),
    )


def _count_segments(
    spec: ConvSpec, columns: tuple[Run, ...] | None, rows: tuple[Run, ...] | None, panels: int
) -> int:
    """The pieces of a row: as many as make enough tasks for workers, of a few tiles each where its
    length is known. A number of images that is known at run time only may be 1; of such rows there
    are likely to be enough."""
    high = spec.out_sizes[1] if rows is None else sum(run.count for run in rows)
    if not isinstance(high, int):
        return 1
    sizes = (spec.batch, spec.groups, spec.out_sizes[0], high, panels)
    tasks = math.prod(s for s in sizes if isinstance(s, int))
    wanted = -(-_MIN_TASKS // max(1, tasks))
    if columns is None:
        return min(wanted, _MAX_SEGMENTS_OF_ANY_LENGTH)
    return max(1, min(wanted, sum(run.count for run in columns) // _MIN_TILES_PER_SEGMENT))


def reads_in_place(spec: ConvSpec) -> bool:
    """Whether tiles read the data where they lie; else they read copied rows."""
    return spec.compute_dtype is None and spec.data.dtype not in BYTES


def _limit_pixels(spec: ConvSpec, target: Target, most: int) -> int:
    """The pixels of a tile, `most` or fewer, whose lines of data stay in L1 together: one way is
    left to the weights."""
    step = spec.data.strides[4]
    if not isinstance(step, int) or not reads_in_place(spec):
        return most
    row_bytes = step * spec.window.strides[2] * spec.data.dtype.bits // 8
    return min(most, rows_in_ways(row_bytes, l1_ways(target) - 1))


def find_conv_unit(spec: ConvSpec, target: Target, lanes: int) -> DotUnit | None:
    """What multiplies the convolution's cells; None where a cell is a value."""
    kr = spec.packed.kr
    factors = DType.i8 if spec.data.dtype in BYTES and kr > 1 else spec.compute_dtype
    return find_unit(target, factors, kr, lanes)


def flushes_sums(spec: ConvSpec, unit: DotUnit | None) -> bool:
    """Whether a mode flushes denormals in sums: the epilogue runs outside of it."""
    return spec.compute_dtype is not None and not spec.packed.depthwise and unit is None


def is_epilogue_inline(spec: ConvSpec, target: Target, lanes: int) -> bool:
    """Whether the epilogue is short enough to be written out for each register of a tile."""
    flushes = flushes_sums(spec, find_conv_unit(spec, target, lanes))
    return is_short(spec.epilogue, target) and not flushes


def is_padding_neutral(spec: ConvSpec, target: Target, lanes: int) -> bool:
    """Whether taps that see paddings only may be left out: bytes with a zero point, or that are
    shifted for the unit, add something there."""
    unit = find_conv_unit(spec, target, lanes)
    if unit is None or not unit.left:
        return True
    return not (spec.zero_points or left_shift(unit, spec.data.dtype))


def _group(spec: ConvSpec, target: Target) -> int:
    """How many panels of weights take turns at each tile: as many as stay in L2 together with the
    rows.

    So weights are fetched from afar once, and data once per group of panels.
    """
    _, k, n = spec.matrices
    panel = k * spec.packed.nr * spec.weights.dtype.bits // 8
    l2 = target.l2 or 256 << 10
    return max(
        1,
        min(
            -(-n // spec.packed.nr),
            l2 * target.heuristics.conv_weights_l2_eighths // 8 // max(1, panel),
        ),
    )


def taps_outside(taps: Taps, tap: int, size: int) -> tuple[bool, ...]:
    """Which pixels of a tile meet the data at a tap."""
    return (True,) * size if taps is None else taps[tap]


def pair_pixels_with_taps(
    window: Window, column_taps: Taps, columns: int, taps: Sequence[int]
) -> dict[int, list[tuple[int, int]]]:
    """By column of the data, ascending: the pixels of a tile and the taps of a row, of these
    `taps`, that meet there."""
    pairs: dict[int, list[tuple[int, int]]] = {}
    for kw in taps:
        inside = taps_outside(column_taps, kw, columns)
        for i in range(columns):
            if inside[i]:
                at = i * window.strides[2] + kw * window.dilations[2]
                pairs.setdefault(at, []).append((i, kw))
    return {at: pairs[at] for at in sorted(pairs)}
