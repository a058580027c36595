"""Convolution on tiles of AMX: pixels of copied rows are the rows of left factors.

In a copy (row_packing.py) the values that a pixel sees in one row of taps follow one another, and
pixels are evenly apart: a tile of 16 pixels times a step of cells is read from there directly,
and the packed weights of the same cells are the right factors. So nothing is unfolded.

A step must not end within what two rows of taps (or two taps, where they are dilated) hold, for the
next values are other pixels': cells that divide a row of taps evenly are a step. Where none does
with 8 of 16 cells or more, pixels are unfolded (im2col_amx.py). That depends on taps, channels and
types alone, and so does the order of additions.
"""

from __future__ import annotations

from collections.abc import Callable

from ....ir.lazy_dataclass import dataclass
from ...llvmir.builder import Function
from ...llvmir.values import I64, PTR, Value, integer
from ..emit.amx_registers import AMX_ROWS, AmxTiles, TileAddress, on_tile
from .addressing import ConvContext
from .amx_geometry import MAX_TILE_PLACES, contiguous_values
from .register_tile import Micro
from .tile_partition import ConvTiling
from .tile_walk import ConvTile, Factors

# Lines of the next panel that a step fetches where it is not known how many steps share a panel.
_DEFAULT_PREFETCHED_LINES = 4
_LINE_BYTES = 64


class TileMicro(Micro):
    """Makes the functions of tiles whose sums are in tile registers: one row of up to
    MAX_TILE_PLACES pixels, or two rows of up to AMX_ROWS."""

    def __init__(
        self, g: ConvContext, cut: ConvTiling, factors: Factors, instruction: str, cells: int
    ) -> None:
        super().__init__(g, cut, factors)
        self.value_bytes = 4 // g.spec.packed.kr
        self.fetches = _DEFAULT_PREFETCHED_LINES
        self._configurations: list[tuple[int, ...]] = []
        # Cells of a step; bytes from a pixel to the next.
        self.instruction, self.cells = instruction, cells
        self.pixel_bytes = factors.pixel_strides[2] * self.value_bytes

    def share_fetching(self, passes: int) -> None:
        """Let a panel's steps fetch the next one, where it is read in `passes`."""
        lines = -(-4 * self.cells * self.cut.nr // _LINE_BYTES)
        self.fetches = min(self.cut.fetch_lines, max(1, -(-lines // passes)))

    def lefts(self, tile: ConvTile) -> tuple[int, ...]:
        """Rows of each register of left factors."""
        if tile.apart:
            count = (tile.rows - 1) * tile.apart + tile.columns
            return (AMX_ROWS,) * -(-count // AMX_ROWS)
        count = tile.rows * tile.columns
        side = tile.columns if tile.rows > 1 or count <= AMX_ROWS else -(-count // 2)
        return tuple(min(side, count - at) for at in range(0, count, side))

    def configuration(self, tile: ConvTile) -> tuple[Value, int]:
        """A table that configures the registers for a tile, and a number for it."""
        lefts = self.lefts(tile)[:2]
        if lefts not in self._configurations:
            self._configurations.append(lefts)
        words = AmxTiles(lefts, self.cells).configuration()
        return self.g.module.table(words, I64), self._configurations.index(lefts)

    def _make(self, tile: ConvTile) -> Function:
        g, lefts = self.g, self.lefts(tile)
        assert self.factors is not None
        f = self.open("amx", tile)
        vectors = len(g.tails(f, tile.channels))
        line = vectors * g.lanes * g.bytes
        # One size for all tiles of a pass, so that they have the same code.
        buffer = f.stack(max(sum(lefts), MAX_TILE_PLACES) * line)
        down_bytes = self.factors.pixel_strides[1] * self.value_bytes
        apart = down_bytes if tile.rows > 1 and not tile.apart else lefts[0] * self.pixel_bytes
        apart = g.number(f, self.key("apart"), apart)
        passes = _Pass(self, f, lefts[:2], vectors, apart)
        full = len(lefts) // 2
        if len(lefts) <= 2:
            passes.write(lefts, f.params["data"], buffer, f.params["soon"])
        else:
            soon = f.var(PTR, f.params["soon"])
            with f.range(0, full, unroll=1) as i:
                data = f.offset(f.params["data"], f.mul(i, f.mul(apart, 2)))
                sums = f.offset(buffer, f.mul(i, 2 * AMX_ROWS * line))
                soon.set(passes.write(lefts[:2], data, sums, soon.get()))
            if len(lefts) % 2:
                data = f.offset(f.params["data"], f.mul(apart, 2 * full))
                sums = f.offset(buffer, 2 * full * AMX_ROWS * line)
                passes.write(lefts[-1:], data, sums, soon.get())
        self.apply_epilogue(f, f.params["frame"], tile, buffer)
        return f

    def walk(self, f: Function, first: Value, step: Callable[[Value, Value], None]) -> None:
        """Call step(data, weights) where each step begins: taps in order, then channels. `first`:
        where tap 0 of the first pixel is."""
        assert self.factors is not None
        g, spec, w, p = self.g, self.g.spec, self.g.spec.window, f.params
        each, cells = self.value_bytes, self.cells
        steps = -(-contiguous_values(spec) // spec.packed.kr) // cells
        runs = w.kernel[2] if w.dilations[2] != 1 else 1
        weights_step = 4 * cells * self.cut.nr
        run = steps * weights_step
        row, plane = runs * run, w.kernel[1] * runs * run
        deep, high, across = (
            g.number(f, self.key(f"tap{axis}"), each * t)
            for axis, t in enumerate(self.factors.taps)
        )
        plane, row = g.number(f, self.key("plane"), plane), g.number(f, self.key("row"), row)
        steps = g.number(f, self.key("steps"), steps)
        with f.range(p["d0"], p["d1"], unroll=1) as kd, f.range(p["h0"], p["h1"], unroll=1) as kh:
            data = f.offset(first, f.add(f.mul(kd, deep), f.mul(kh, high)))
            weights = f.offset(p["weights"], f.add(f.mul(kd, plane), f.mul(kh, row)))
            with f.range(0, runs, unroll=1) as kw:
                here = f.offset(data, f.mul(kw, across))
                there = f.offset(weights, f.mul(kw, run))
                with f.range(0, steps, unroll=1) as k:
                    at = f.offset(here, f.mul(k, 4 * cells))
                    step(at, f.offset(there, f.mul(k, weights_step)))


@dataclass(frozen=True)
class _Pass:
    """Writes the sums of one or two registers of pixels; `apart` bytes are between the two, and
    `registers` says how they are configured."""

    micro: TileMicro
    f: Function
    registers: tuple[int, ...]
    vectors: int
    apart: Value

    def write(self, lefts: tuple[int, ...], data: Value, buffer: Value, soon: Value) -> Value:
        """The sums of pixels from `data` on go to the buffer. Returns what to fetch next."""
        f, micro, g = self.f, self.micro, self.micro.g
        tiles, shape = AmxTiles(self.registers, micro.cells), (len(lefts), self.vectors)
        line = self.vectors * g.lanes * g.bytes
        # The registers of a second row of tiles; there is none next to one alone.
        below = g.number(f, micro.key("below"), self.registers[0] * line)
        rows = [buffer, f.offset(buffer, below)]
        sums = [
            (tiles.total(down, v), f.offset(rows[down], v * g.lanes * g.bytes))
            for down in range(shape[0])
            for v in range(shape[1])
        ]
        self._begin(tiles, shape, buffer)
        pixel = g.number(f, micro.key("pixel"), micro.pixel_bytes)
        ahead = f.var(PTR, soon)
        pause = f.udiv(f.mul(f.params["pace"], tiles.cells), micro.fetches)

        def fetch() -> None:
            f.prefetch(ahead.get(), locality=2)
            ahead.set(f.offset(ahead.get(), pause))

        def step(here: Value, weights: Value) -> None:
            def a_address(down: int) -> TileAddress:
                return f.offset(here, f.mul(self.apart, down)), pixel

            def b_address(across: int) -> TileAddress:
                return f.offset(weights, 4 * across * g.lanes), integer(4 * micro.cut.nr)

            tiles.multiply(
                f, micro.instruction, shape, a_address, b_address, [fetch] * micro.fetches
            )

        micro.walk(f, data, step)
        for register, address in sums:
            on_tile(f, "tilestored64", register, address, integer(line))
        return ahead.get()

    def _begin(self, tiles: AmxTiles, shape: tuple[int, int], row: Value) -> None:
        """Sums begin with zero, or, all rows alike, with what takes zero points out."""
        f, g = self.f, self.micro.g
        for v, first in enumerate(self.micro.first_sums(f, shape[1])):
            if isinstance(first, Value):
                f.store(first, row, g.lanes * g.bytes)
            for down in range(shape[0]):
                register = tiles.total(down, v)
                if isinstance(first, Value):
                    on_tile(f, "tileloadd64", register, row, integer(0))
                else:
                    on_tile(f, "tilezero", register)
