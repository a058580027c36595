"""Convolutions on tiles of AMX: which steps of cells copies have, and how pixels unfold (im2col).

Pure functions of the spec and the Target; schedule.py chooses by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import BYTES
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ..emit.amx_registers import AMX_ROWS
from ..emit.dot_units import tile_instruction

# Fewer cells than these in a step waste more of the unit than unfolding takes.
_MIN_STEP_CELLS: Final = 8
# Pixels of a tile: two registers.
MAX_TILE_PLACES: Final = 2 * AMX_ROWS
_LINE_BYTES: Final = 64
# Vectors moved for a pixel, above which the code would be long.
_MAX_VECTOR_MOVES: Final = 64


def instruction(spec: ConvSpec, target: Target) -> str:
    """What multiplies tiles of a convolution's factors; "" where the Target has nothing."""
    factors = DType.i8 if spec.data.dtype in BYTES else spec.compute_dtype
    return tile_instruction(target, factors, spec.packed.kr)


def contiguous_values(spec: ConvSpec) -> int:
    """Values that follow one another in a copy and in the weights: those of a row of taps, or of
    one tap where taps are apart."""
    width = spec.window.kernel[2] if spec.window.dilations[2] == 1 else 1
    return spec.channels * width


def step_cells(spec: ConvSpec) -> int:
    """Cells of a step; 0 where unchanged copies do not fit. A float besides the end of a run
    could be infinite, so its last cell must be full; bytes next to it meet weights of zero."""
    kr = spec.packed.kr
    if spec.packed.tails:
        return 0
    run = contiguous_values(spec)
    if run % kr and spec.data.dtype not in BYTES:
        return 0
    cells = -(-run // kr)
    for steps in range(max(1, -(-cells // AMX_ROWS)), cells // _MIN_STEP_CELLS + 1):
        if cells % steps == 0:
            return cells // steps
    return 0


@dataclass(frozen=True)
class Flat:
    """Rows of pixels as one row: `rows` output rows, `apart` pixels from one to the next, `width`
    data pixels per copied row, in so many registers. The pixels between two rows are computed and
    thrown away."""

    rows: int
    apart: int
    width: int
    registers: int

    @property
    def passes(self) -> int:
        return -(-self.registers // 2)


def flatten_rows(spec: ConvSpec, target: Target) -> Flat | None:
    """Whether registers are better filled by pixels of several rows, gaps included."""
    most = target.heuristics.conv_amx_max_flat_columns
    w, (height, width) = spec.window, spec.out_sizes[1:]
    if not isinstance(height, int) or not isinstance(width, int) or not 0 < width <= most:
        return None
    if w.dilations[1] > 1 or w.strides[1] > w.kernel[1] or height < 1:
        return None
    stride = w.strides[2]
    wide = (width - 1) * stride + (w.kernel[2] - 1) * w.dilations[2] + 1
    step = stride // math.gcd(stride, w.strides[1])
    wide = -(-wide // step) * step
    apart = w.strides[1] * wide // stride
    rows = min(height, (most - width) // apart + 1)
    rows = -(-height // -(-height // rows))
    registers = -(-((rows - 1) * apart + width) // AMX_ROWS)
    alone = [1] * rows if width <= AMX_ROWS else [2] * -(-width // MAX_TILE_PLACES) * rows
    # A pass of one register costs two thirds of one of two.
    ours, theirs = 3 * (registers // 2) + 2 * (registers % 2), -(-3 * sum(alone) // 2)
    return Flat(rows, apart, wide, registers) if 10 * ours <= 9 * theirs else None


def pairs_fill_registers(spec: ConvSpec) -> bool:
    """Whether tiles of two rows of AMX_ROWS pixels leave fewer rows of registers empty than those
    of one row of twice as many."""
    w, (height, width) = spec.window, spec.out_sizes[1:]
    if not isinstance(height, int) or not isinstance(width, int) or width <= MAX_TILE_PLACES:
        return False
    if w.dilations[1] > 1 or w.strides[1] > w.kernel[1]:
        return False
    # A pass of one register costs two thirds of one of two.
    ours = -(-width // AMX_ROWS) * (3 * (height // 2) + 2 * (height % 2))
    return 10 * ours <= 9 * 3 * height * -(-width // MAX_TILE_PLACES)


def is_unfolding_short(unfolding: Unfolding) -> bool:
    """Whether the code that unfolds a pixel is short enough."""
    moves = sum(-(-piece.count // _LINE_BYTES) for piece in unfolding.pieces)
    return moves <= _MAX_VECTOR_MOVES


@dataclass(frozen=True)
class CopyPiece:
    """`count` bytes of a pixel's row, at byte `to`: tap (depth, row, column), from channel 0, or
    the cell of rows below each other that begins there. `depth` None: zeros."""

    to: int
    count: int
    depth: int | None = None
    row: int = 0
    column: int = 0
    skip: int = 0
    tails: bool = False


@dataclass(frozen=True)
class Unfolding:
    """A pixel's row: `steps` steps of `cells` cells, of which `total` are the weights'."""

    total: int
    steps: int
    cells: int
    pieces: tuple[CopyPiece, ...]

    @property
    def pitch(self) -> int:
        """Bytes from a pixel's row to the next."""
        return -(-4 * self.cells * self.steps // _LINE_BYTES) * _LINE_BYTES


def plan_im2col(spec: ConvSpec) -> Unfolding:
    """How the pixels of a convolution of three spatial axes unfold."""
    kr = spec.packed.kr
    total = spec.matrices[1] // kr
    steps = -(-total // AMX_ROWS)
    cells = total if steps == 1 else AMX_ROWS
    gap = 4 * (steps * cells - total)
    begins = 4 * (steps - 1) * cells
    pieces: list[CopyPiece] = []
    for piece in _in_order(spec):
        if not gap or piece.to + piece.count <= begins:
            pieces.append(piece)
        elif piece.to >= begins:
            pieces.append(replace(piece, to=piece.to + gap))
        else:
            first = begins - piece.to
            pieces.append(replace(piece, count=first))
            rest = replace(piece, to=begins + gap, count=piece.count - first, skip=first)
            pieces.append(rest)
    if gap:
        pieces.append(CopyPiece(begins, gap))
    return Unfolding(total, steps, cells, tuple(sorted(pieces, key=lambda p: p.to)))


def _in_order(spec: ConvSpec) -> Iterator[CopyPiece]:
    """The pieces of a row without a gap: the order of packed weights (plan/packing/layouts.py)."""
    packed, each = spec.packed, 4 // spec.packed.kr
    deep, high, wide = spec.window.kernel
    runs = 1 if packed.runs else wide
    values = spec.channels * (wide // runs)
    at = 0
    for d in range(deep):
        for h in range(high):
            for w in range(runs):
                count = values // packed.kr * 4 if packed.tails else values * each
                yield CopyPiece(at, count, d, h, w)
                at += count
                if pad := -at % 4:
                    yield CopyPiece(at, pad)
                    at += pad
        if packed.tails:
            for h in range(0, high, packed.kr):
                yield CopyPiece(at, 4, d, h, wide - 1, tails=True)
                at += 4
