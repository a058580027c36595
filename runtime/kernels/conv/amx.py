"""Convolution on tiles of AMX: places of copied rows are the rows of left factors.

In a copy (rows.py) the values that a place sees in one row of taps follow one another, and places
are evenly apart: a tile of 16 places times a step of cells is read from there as it stands, and the
packed weights of the same cells are the right factors. So nothing is unfolded.

A step must not end within what two rows of taps (or two taps, where they are dilated) hold, for the
next values are other places': cells that divide a row of taps evenly are a step. Where none does
with 8 of 16 cells or more, places are unfolded (unfolded.py). That depends on taps, channels and
types alone, and so does the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....ir.dtype import DType
from ....ir.specs_conv import ConvSpec
from ....ir.target import Target
from ....ir.tiles import BYTES
from ...codegen.emit import Function
from ...codegen.values import PTR, Value, integer
from ..tiles import SIDE, Place, Tiles, on_tile
from ..units import tile_instruction
from .micro import Factors, Micro, Tile
from .place import Context
from .tiling import Cut

# Fewer cells than these in a step waste more of the unit than unfolding takes.
_LEAST = 8
# Lines of the next panel that a step fetches.
_FETCHES = 4
# Places of a tile: two registers.
MOST = 2 * SIDE


def instruction(spec: ConvSpec, target: Target) -> str:
    """What multiplies tiles of a convolution's factors; "" where the Target has nothing."""
    factors = DType.i8 if spec.data.dtype in BYTES else spec.factors
    return tile_instruction(target, factors, spec.packed.kr)


def serves(spec: ConvSpec, target: Target) -> bool:
    """Whether tiles read the copies of a convolution of three spatial axes as they stand."""
    return bool(instruction(spec, target)) and step_cells(spec) > 0


def run_of(spec: ConvSpec) -> int:
    """Values that follow one another in a copy and in the weights: those of a row of taps, or of
    one tap where taps are apart."""
    width = spec.window.kernel[2] if spec.window.dilations[2] == 1 else 1
    return spec.channels * width


def step_cells(spec: ConvSpec) -> int:
    """Cells of a step; 0 where copies as they stand do not fit. A float beside the end of a run
    could be infinite, so its last cell must be full; bytes beside it meet weights of zero."""
    kr = spec.packed.kr
    if spec.packed.tails:
        return 0
    run = run_of(spec)
    if run % kr and spec.data.dtype not in BYTES:
        return 0
    cells = -(-run // kr)
    for steps in range(max(1, -(-cells // SIDE)), cells // _LEAST + 1):
        if cells % steps == 0:
            return cells // steps
    return 0


def cut_for_tiles(cut: Cut) -> Cut:
    """A cut into tiles of up to two registers of places."""
    return replace(cut, most=MOST)


class TileMicro(Micro):
    """Makes the functions of tiles whose sums lie in tile registers: one row of up to MOST places,
    or two rows of up to SIDE."""

    def __init__(self, g: Context, cut: Cut, factors: Factors) -> None:
        super().__init__(g, cut, factors)
        self.value_bytes = 4 // g.spec.packed.kr
        # Cells of a step; bytes from a place to the next.
        self.cells = step_cells(g.spec)
        self.place_bytes = factors.places[2] * self.value_bytes

    def _make(self, tile: Tile) -> Function:
        g = self.g
        assert self.factors is not None
        f = self.open("amx", tile)
        count = tile.rows * tile.columns
        side = tile.columns if tile.rows > 1 or count <= SIDE else -(-count // 2)
        down_bytes = self.factors.places[1] * self.value_bytes
        apart = down_bytes if tile.rows > 1 else side * self.place_bytes
        lefts = tuple(min(side, count - at) for at in range(0, count, side))
        tiles, vectors = Tiles(lefts, self.cells), len(g.parts(f, tile.channels))
        line = vectors * g.lanes * g.bytes
        buffer = f.stack(count * line)
        sums = [
            (tiles.total(down, v), f.offset(buffer, down * side * line + v * g.lanes * g.bytes))
            for down in range(len(lefts))
            for v in range(vectors)
        ]
        tiles.configure(f)
        self._begin(f, tiles, (len(lefts), vectors), buffer)
        width = integer(self.place_bytes)

        soon = f.var(PTR, f.params["soon"])
        pause = f.udiv(f.mul(f.params["pace"], tiles.cells), _FETCHES)

        def step(data: Value, weights: Value) -> None:
            for _ in range(_FETCHES):
                f.prefetch(soon.get(), locality=2)
                soon.set(f.offset(soon.get(), pause))

            def left(down: int) -> Place:
                return f.offset(data, down * apart), width

            def right(across: int) -> Place:
                return f.offset(weights, 4 * across * g.lanes), integer(4 * self.cut.nr)

            name = instruction(g.spec, g.target)
            tiles.multiply(f, name, (len(lefts), vectors), left, right)

        self._walk(f, step)
        for register, place in sums:
            on_tile(f, "tilestored64", register, place, integer(line))
        shape = (integer(tile.rows), integer(tile.columns))
        f.call_function(self.finish(tile.channels), f.params["frame"], buffer, *shape)
        return f

    def _begin(self, f: Function, tiles: Tiles, shape: tuple[int, int], row: Value) -> None:
        """Sums begin with zero, or, all rows alike, with what takes zero points out."""
        g = self.g
        for v, first in enumerate(self.first_sums(f, shape[1])):
            if isinstance(first, Value):
                f.store(first, row, g.lanes * g.bytes)
            for down in range(shape[0]):
                register = tiles.total(down, v)
                if isinstance(first, Value):
                    on_tile(f, "tileloadd64", register, row, integer(0))
                else:
                    on_tile(f, "tilezero", register)

    def _walk(self, f: Function, step: Callable[[Value, Value], None]) -> None:
        """Call step(data, weights) where each step begins: taps in order, then channels."""
        assert self.factors is not None
        spec, w, p = self.g.spec, self.g.spec.window, f.params
        each, cells = self.value_bytes, self.cells
        steps = -(-run_of(spec) // spec.packed.kr) // cells
        runs = w.kernel[2] if w.dilations[2] != 1 else 1
        weights_step = 4 * cells * self.cut.nr
        run = steps * weights_step
        row, plane = runs * run, w.kernel[1] * runs * run
        deep, high, across = (each * t for t in self.factors.taps)
        with f.range(p["d0"], p["d1"], unroll=1) as kd, f.range(p["h0"], p["h1"], unroll=1) as kh:
            data = f.offset(p["data"], f.add(f.mul(kd, deep), f.mul(kh, high)))
            weights = f.offset(p["weights"], f.add(f.mul(kd, plane), f.mul(kh, row)))
            with f.range(0, runs, unroll=1) as kw:
                here = f.offset(data, f.mul(kw, across))
                there = f.offset(weights, f.mul(kw, run))
                with f.range(0, steps, unroll=1) as k:
                    at = f.offset(here, f.mul(k, 4 * cells))
                    step(at, f.offset(there, f.mul(k, weights_step)))
