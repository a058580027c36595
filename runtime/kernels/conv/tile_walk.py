"""How a register tile of a direct convolution walks taps and channels: in which order, which of its
pixels meet a tap, and how many steps a loop has.

Tiles that LLVM compiles (register_tile.py) and those in assembly (assembly_tile.py) follow it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import or_
from typing import Generic, TypeVar

from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import Function
from ...llvmir.values import ELEMENT, bits_of, integer, is_float
from ..emit.x86_multiply_add_loop import MultiplyAddLoop, cell_instruction, widening_load
from .addressing import ConvContext
from .tile_partition import ConvTiling, Taps, taps_outside

Sum = TypeVar("Sum")
Pixel = tuple[int, int]

# A loop over fewer taps than a row's by this has its steps written out once.
_MIN_LOOPED_TAPS = 8
# Sets of pixels that the taps of a row meet, above which taps share them.
_MAX_PLACE_SETS = 8


@dataclass(frozen=True)
class ConvTile:
    """`rows` x `columns` pixels, of which `row_taps` and `column_taps` say what meets the data.
    One row alone takes its taps at run time; `ragged`: so does its one column. `apart`: rows are
    so many pixels apart, where what lies between them is computed, too, and thrown away."""

    rows: int
    columns: int
    row_taps: Taps
    column_taps: Taps
    channels: int
    ragged: bool = False
    apart: int = 0


@dataclass(frozen=True)
class Factors:
    """How tiles walk a copy of the data, in values of type `element`: from a tap to the next and
    from an output pixel to the next along each axis. A step reads `kr` neighbours, one `cell`, and
    a row of weights of type `weight`."""

    element: str
    cell: str
    weight: str
    kr: int
    taps: tuple[int, int, int]
    pixel_strides: tuple[int, int, int]
    # Of cells of rows below each other (PackedConv.tails), in bytes: to those of the next plane of
    # taps, of the next row, of the next output row, of the next pixel.
    tails: tuple[int, int, int, int] | None = None


@dataclass(frozen=True)
class TapRun:
    """Neighbouring taps of a row that `pixels` meet, each of `count` values; so many steps as
    `apart` says read no element twice."""

    taps: range
    count: int
    pixels: list[Pixel]
    apart: int


class TileWalk(Generic[Sum]):
    """The walk of one tile. sums: what holds the sums of each pixel, a vector of channels each."""

    def __init__(
        self,
        g: ConvContext,
        cut: ConvTiling,
        factors: Factors | None,
        f: Function,
        tile: ConvTile,
        sums: Mapping[Pixel, Sequence[Sum]],
    ) -> None:
        self.f, self.g, self.tile, self.sums = f, g, tile, sums
        spec, frame = self.g.spec, f.params["frame"]
        self.nr = cut.nr
        # Up to twice as many steps are written out without a loop.
        self.unroll = cut.unroll
        w, given = spec.window, factors
        self.kr = spec.packed.kr
        self.weight = ELEMENT[spec.weights.dtype.value]
        if given is not None:
            self.element, self.cell, self.weight = given.element, given.cell, given.weight
            self.step = integer(given.kr)
            self.taps = [integer(s) for s in given.taps]
            self.pixel_strides = [integer(s) for s in given.pixel_strides]
        else:
            self.element = self.cell = ELEMENT[spec.data.dtype.value]
            self.step, *spatial = [self.g.size(f, frame, s) for s in spec.data.strides[1:]]
            # Elements from one tap to the next, and from one output pixel to the next.
            self.taps = [f.mul(s, d) for s, d in zip(spatial, w.dilations, strict=True)]
            self.pixel_strides = [f.mul(s, d) for s, d in zip(spatial, w.strides, strict=True)]
        self.pace, self.copied = f.params["pace"], given is not None
        # Values of a row of taps in whole cells; weights of such a row, and of one tap of it.
        self.tails = given.tails if given else None
        self.run_length = spec.channels * w.kernel[2] - (self.tails is not None)
        self.row = self.tap = self.run_length // self.kr * self.nr
        if self.tails is None:
            self.tap = spec.packed.depth(spec.channels, (1,)) // self.kr * self.nr
            self.row = spec.packed.depth(spec.channels, w.kernel[2:]) // self.kr * self.nr

    def tap_runs(self, rows: Sequence[bool]) -> list[TapRun]:
        """The taps of a row that the pixels of some rows meet; of a ragged tile, as if all were."""
        tile, width = self.tile, self.g.spec.window.kernel[2]
        channels = self.g.spec.channels
        if tile.column_taps is None:
            keep = [(r, q) for r, q in self.sums if rows[r]]
            dense = self.taps[2].known == channels * ((self.step.known or 0) // self.kr)
            if dense and not tile.ragged:
                # The taps of a row and their channels are one run, in data and weights alike.
                distinct = (self.pixel_strides[2].known or 1) // self.kr
                return [TapRun(range(1), self.run_length, keep, distinct)]
            return [TapRun(range(width), channels, keep, 2 * self.unroll)]
        # Neighbouring taps that meet the data in the same pixels are a loop. Of few taps of a long
        # row no step is written out several times: such loops are short, but their code is not.
        met = [taps_outside(tile.column_taps, kw, tile.columns) for kw in range(width)]
        if self.copied and len(set(met)) > _MAX_PLACE_SETS:
            # Two taps share one where a copy holds zeros for the pixels that one does not meet.
            met = [
                tuple(map(or_, some, met[min(kw ^ 1, width - 1)])) for kw, some in enumerate(met)
            ]
        runs: list[TapRun] = []
        for _, some in groupby(range(width), met.__getitem__):
            taps = list(some)
            apart = 2 * self.unroll if len(taps) * _MIN_LOOPED_TAPS >= width else 1
            keep = [(r, q) for r, q in self.sums if rows[r] and met[taps[0]][q]]
            if keep:
                runs.append(TapRun(range(taps[0], taps[-1] + 1), channels, keep, apart))
        return runs

    def unroll_of(self, steps: int, pixels: int, apart: int) -> int:
        """How many steps the body of a loop has."""
        vectors = len(next(iter(self.sums.values())))
        # 24 multiply-adds hide a loop's own instructions; between the steps of larger tiles LLVM
        # would move loads, for which there are no registers.
        unroll = min(self.unroll, apart, -(-24 // (pixels * vectors)))
        if unroll == 3 and steps % 3 and steps % 2 == 0:
            unroll = 2  # without a rest
        return unroll

    def steps_of(self, count: int) -> int | None:
        """The steps along K for so many values, of whole cells; None where the rest of the last
        cell must not be multiplied: bytes of weights are zero there, floats may be infinite."""
        rest = count % self.kr
        return None if rest and is_float(self.g.acc) else -(-count // self.kr)

    def assembly_loop(self, keep: Sequence[Pixel], unroll: int) -> MultiplyAddLoop | None:
        """The steps of `depth` as a loop in assembly: None for values that are converted, dynamic
        strides and targets without it."""
        g = self.g
        vectors = len(next(iter(self.sums.values())))
        _, down, right = (s.known for s in self.pixel_strides)
        step = self.step.known
        cells = cell_instruction(g.unit, g.target) if bits_of(self.cell) == g.bytes * 8 else ""
        floats = not g.unit and {self.element, self.cell, self.weight} == {g.acc}
        if g.flushes or not (cells or (floats and self.kr == 1)):
            return None
        if step is None or down is None or right is None:
            return None
        value, weight = (bits_of(t) // 8 for t in (self.element, self.weight))
        loop = MultiplyAddLoop(
            element=g.acc,
            lanes=g.lanes,
            rows=tuple((down * r + right * q) * value for r, q in keep),
            columns=tuple(v * g.lanes * weight for v in range(vectors)),
            a_step=step * value,
            b_step=self.nr * weight,
            unroll=unroll,
            ahead=(0,) * self.copied,
            locality=2,
            cells=cells,
            widening=widening_load(self.weight, g.spec.weights.dtype) if cells else "",
        )
        return loop if loop.fits(g.target) else None
