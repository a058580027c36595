"""The register tile of a direct convolution: pixels x output channels, summed over taps and input
channels in vector registers.

Per tap and channel: one broadcast of the data per pixel, one vector of weights per register of
output channels, one multiply-add for each pair. Neighbouring pixels of a row read overlapping data;
LLVM must not see that, or it keeps what it has read in registers that the sums need. So the taps of
a row are a loop, and where they are written out, the address is hidden from it.

A step along K, and the loop over steps, are those of products of matrices
(runtime/kernels/emit/register_tile.py); a window of one pixel is such a product itself
(compiler/lowering/ops/convolution.py). The way along K is another one: it leaves out the taps that
some pixels of a tile do not meet, so a tile has sums that a step passes over; its pixels lie along
two axes; and channels of one tap are few steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ....ir.lazy_dataclass import dataclass
from ....plan.packing.layouts import PackedLayout
from ...llvmir.builder import AssemblyFunction, Function, StackVariable
from ...llvmir.values import F32, I64, PTR, Value, integer, is_float, vec
from ..emit.register_tile import unrolled_loop
from ..emit.x86_multiply_add_loop import multiply_add_loop
from ..gemm.bf16_rounding import flush_to_zero
from .addressing import ConvContext, ConvEpilogue, TilePosition
from .assembly.tile import write_sums, write_tile
from .tile_partition import ConvTiling
from .tile_walk import ConvTile, Factors, TileWalk

# Steps along K next to which the store and the load of a sum take less than a hundredth.
_MIN_STEPS_IN_MEMORY: Final = 128


class Micro:
    """Makes the functions of tiles, each at its first use. `factors` None: tiles read the data as
    they lie."""

    def __init__(self, g: ConvContext, cut: ConvTiling, factors: Factors | None = None) -> None:
        self.g, self.cut, self.factors = g, cut, factors
        self._tiles: dict[ConvTile, Function | AssemblyFunction] = {}
        # Of tiles whose epilogue is not in their function.
        self._sums: dict[ConvTile, AssemblyFunction] = {}
        self._finish: dict[int, Function] = {}
        self._buffer: Value | None = None
        self._opened = 0

    def compute(self, f: Function, frame: Value, tile: ConvTile, where: Sequence[Value]) -> None:
        """Write the call of a tile's function in `f`; where: its arguments behind the frame."""
        g, made = self.g, self.tile(tile)
        if tile not in self._sums:
            g.call(f, made, frame, *where)
            return
        if self._buffer is None:
            # No more sums than registers.
            self._buffer = f.stack(g.target.registers * g.lanes * g.bytes)
        f.call_function(self._sums[tile], frame, *where, self._buffer)
        self.apply_epilogue(f, frame, tile, self._buffer)

    def tile(self, tile: ConvTile) -> Function | AssemblyFunction:
        """tile(frame, data, weights, d0, d1, h0, h1, w0, w1, [tails,] soon, pace): `data` is where
        tap 0 of the first pixel lies, [d0, d1) and so on are the taps inside the data, `tails`
        where that pixel's cells of rows below each other lie; what is at `soon` is fetched
        ahead, `pace` bytes per row of weights."""
        if tile not in self._tiles:
            self._tiles[tile] = self._make(tile)
        return self._tiles[tile]

    def open(self, stem: str, tile: ConvTile) -> Function:
        """The function of a tile, empty."""
        self._opened += 1
        return self.g.module.function(
            self.g.module.unique(f"{stem}_{tile.rows}x{tile.columns}"),
            self.parameters(),
            attributes="nounwind noinline",
            linkage="internal",
        )

    def key(self, name: str) -> str:
        """A number of the tile that was opened last, in the record."""
        return f"tile.{self._opened}.{name}"

    def parameters(self) -> list[tuple[str, str]]:
        """Types and names of a tile's parameters."""
        return (
            [("ptr noalias", "frame"), ("ptr noalias readonly", "data")]
            + [("ptr noalias readonly", "weights")]
            + [(I64, n) for n in ("d0", "d1", "h0", "h1", "w0", "w1")]
            + [(PTR, "tails")] * self.g.spec.packed.tails
            + [(PTR, "soon"), (I64, "pace")]
        )

    def _make(self, tile: ConvTile) -> Function | AssemblyFunction:
        what, size = (self.g, self.cut, self.factors), f"{tile.rows}x{tile.columns}"
        if self.cut.inline_epilogue:
            found = write_tile(*what, f"tile_{size}", self.parameters(), tile)
            if found is not None:
                return found
        if self.cut.inline_epilogue and not self._is_long:
            return self._compile(tile)
        zeroed = not self.begins_elsewhere
        sums = write_sums(*what, f"sums_{size}", self.parameters(), tile, zeroed=zeroed)
        if sums is None:
            return self._compile(tile)
        if zeroed and self.g.record is None:
            self._sums[tile] = sums
            return sums
        return self._finish_sums(tile, sums)

    @property
    def _is_long(self) -> bool:
        """Whether sums have so many steps along K that they may go through memory."""
        return self.g.spec.matrices[1] // self.g.spec.packed.kr >= _MIN_STEPS_IN_MEMORY

    def _finish_sums(self, tile: ConvTile, sums: AssemblyFunction) -> Function:
        """The function of a tile whose sums another one makes."""
        g, f = self.g, self.open("tile", tile)
        vectors, align = -(-tile.channels // g.lanes), g.lanes * g.bytes
        buffer = f.stack(tile.rows * tile.columns * vectors * align)
        if self.begins_elsewhere:
            for v, first in enumerate(self.first_sums(f, vectors)):
                f.store(f.as_value(first, g.vector), f.offset(buffer, v * align), align)
        f.call_function(sums, *f.params.values(), buffer)
        self.apply_epilogue(f, f.params["frame"], tile, buffer)
        return f

    def _compile(self, tile: ConvTile) -> Function:
        g, f = self.g, self.open("tile", tile)
        tails = g.tails(f, tile.channels)
        pixels = [(r, q) for r in range(tile.rows) for q in range(tile.columns)]
        first = self.first_sums(f, len(tails))
        sums = {pixel: [f.var(g.vector, x) for x in first] for pixel in pixels}
        align = g.lanes * g.bytes
        buffer = None if self.cut.inline_epilogue else f.stack(len(pixels) * len(tails) * align)
        with flush_to_zero(f, g.flushes):
            _Sum(g, self.cut, self.factors, f, tile, sums).run()
            if buffer is not None:
                outputs = [s for pixel in pixels for s in sums[pixel]]
                for i, s in enumerate(outputs):
                    f.store(s.get(), f.offset(buffer, i * align), align)
        frame = f.params["frame"]
        columns = [(v * g.lanes, tail) for v, tail in enumerate(tails)]
        if buffer is None:
            epilogue = ConvEpilogue(g, f, frame)
            epilogue.finish_tile(
                [s.get() for row in sums.values() for s in row],
                [TilePosition(integer(r), integer(q), c, t) for r, q in sums for c, t in columns],
            )
            return f
        self.apply_epilogue(f, frame, tile, buffer)
        return f

    def apply_epilogue(self, f: Function, frame: Value, tile: ConvTile, buffer: Value) -> None:
        """The epilogue of a tile's sums."""
        g = self.g
        shape = [
            g.number(f, self.key(name), x)
            for name, x in (
                ("rows", tile.rows),
                ("columns", tile.columns),
                ("pitch", tile.apart or tile.columns),
            )
        ]
        g.call(f, self.finish(tile.channels), frame, buffer, *shape)

    @property
    def begins_elsewhere(self) -> bool:
        """Whether a tile's sums begin with other numbers than zero."""
        g = self.g
        return g.unit is not None and g.unit.left is not None and bool(g.zeros or g.shift)

    def first_sums(self, f: Function, vectors: int) -> list[Value | int]:
        """What a tile's sums begin with: zero, or what takes the zero point out of bytes again,
        which the sums of weights behind a panel say."""
        g, (_, k, n) = self.g, self.g.spec.matrices
        if not self.begins_elsewhere:
            return [0] * vectors
        zero = f.add(g.zero_number(f, f.params["frame"]), g.shift)
        less = f.splat(f.sub(integer(0, g.acc), zero), g.lanes)
        sums_at = PackedLayout.of(g.spec.packed, k, n).sums_at
        behind = f.offset(f.params["weights"], sums_at)
        addresses = [f.at(behind, v * g.lanes, g.acc) for v in range(vectors)]
        return [f.mul(less, f.load(g.vector, at)) for at in addresses]

    def finish(self, channels: int) -> Function:
        """finish(frame, buffer, rows, columns, apart): the epilogue of a tile's sums, pixel by
        pixel; rows are `apart` pixels from each other."""
        g = self.g
        if channels in self._finish:
            return self._finish[channels]
        f = g.module.function(
            g.module.unique("finish"),
            [("ptr noalias", "frame"), ("ptr noalias readonly", "buffer")]
            + [(I64, "rows"), (I64, "columns"), (I64, "apart")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p, tails = f.params, g.tails(f, channels)
        epilogue = ConvEpilogue(g, f, p["frame"], shares=True)
        columns = [(v * g.lanes, tail) for v, tail in enumerate(tails)]
        epilogue.share(columns)
        align = g.lanes * g.bytes
        with (
            f.range(0, p["rows"], unroll=1) as r,
            f.range(0, p["columns"], unroll=1) as q,
        ):
            index = f.add(f.mul(r, p["apart"]), q)
            at = f.offset(p["buffer"], f.mul(index, len(tails) * align))
            for v, (c, tail) in enumerate(columns):
                value = f.load(g.vector, f.offset(at, v * align), align)
                epilogue.finish(value, TilePosition(r, q, c, tail))
        self._finish[channels] = f
        return f


@dataclass(frozen=True)
class _Weights:
    """The address of a part of a panel, and what is fetched ahead while it is read."""

    address: Value
    soon: Value


class _Sum(TileWalk[StackVariable]):
    """Writes the loops over the taps and channels of one tile."""

    def run(self) -> None:
        f, p, w = self.f, self.f.params, self.g.spec.window
        plane = rows = w.kernel[1] * self.row
        if self.tails is not None:
            plane += -(-w.kernel[1] // self.kr) * self.nr
        with f.range(p["d0"], p["d1"], unroll=1) as kd:
            data = f.at(p["data"], f.mul(kd, self.taps[0]), self.element)
            weights = self.weights_at(_Weights(p["weights"], p["soon"]), kd, plane)
            if self.tile.rows == 1:
                with f.range(p["h0"], p["h1"], unroll=1) as kh:
                    self.taps_of_row(kh, data, weights, (True,))
            elif self.tile.row_taps is None:
                with f.range(0, w.kernel[1], unroll=1) as kh:
                    self.taps_of_row(kh, data, weights, (True,) * self.tile.rows)
            else:
                # Neighbouring taps that the same rows of pixels meet are a loop.
                for met, taps in groupby(range(w.kernel[1]), self.tile.row_taps.__getitem__):
                    these = list(taps)
                    with f.range(these[0], these[-1] + 1, unroll=1) as kh:
                        self.taps_of_row(kh, data, weights, met)
            if self.tails is not None:
                self.last_values(kd, f.at(weights.address, rows, self.weight), self.tails)

    def last_values(self, kd: Value, weights: Value, tails: tuple[int, ...]) -> None:
        """The last value of each row of taps, in cells of rows below each other."""
        f, g = self.f, self.g
        kind = vec(self.weight, g.lanes)
        high = g.spec.window.kernel[1]
        plane = f.offset(f.params["tails"], f.mul(kd, tails[0]))
        for n, row in enumerate(range(0, high, self.kr)):
            at = f.assembly(PTR, "", "=r,0", f.offset(plane, row * tails[1]))
            for pixel, sums in self.sums.items():
                x = f.load(self.cell, f.offset(at, pixel[0] * tails[2] + pixel[1] * tails[3]))
                x = f.splat(x, g.lanes)
                for v, s in enumerate(sums):
                    y = f.load(kind, f.at(weights, n * self.nr + v * g.lanes, self.weight))
                    s.set(g.multiply_add(f, x, y, s.get()))

    def weights_at(self, base: _Weights, index: Value | int, size: int) -> _Weights:
        """Part `index` of weights in parts of `size`, and what is fetched ahead next to it."""
        f = self.f
        ahead = f.mul(f.mul(self.pace, index), size // self.nr)
        at = f.at(base.address, f.mul(integer(size), index), self.weight)
        return _Weights(at, f.offset(base.soon, ahead))

    def taps_of_row(
        self, kh: Value, data: Value, weights: _Weights, rows: tuple[bool, ...]
    ) -> None:
        f, tile = self.f, self.tile
        if not any(rows):
            return
        data = f.at(data, f.mul(kh, self.taps[1]), self.element)
        weights = self.weights_at(weights, kh, self.row)
        lo, hi = (f.params["w0"], f.params["w1"]) if tile.ragged else (0, 0)
        for run in self.tap_runs(rows):
            if not tile.ragged:
                lo, hi = run.taps.start, run.taps.stop
            with f.range(lo, hi, unroll=1) as kw:
                at = f.at(data, f.mul(kw, self.taps[2]), self.element)
                to = self.weights_at(weights, kw, self.tap)
                self.depth(at, to, run.count, run.pixels, run.apart)

    def depth(
        self, data: Value, weights: _Weights, count: int, keep: list[tuple[int, int]], apart: int
    ) -> None:
        """`count` values: channels of one tap, or taps and channels that are one run. So many
        steps as `apart` says read no element twice."""
        f, g = self.f, self.g
        vectors = len(next(iter(self.sums.values())))
        kind = vec(self.weight, g.lanes)
        # Hidden: pixels overlap across taps.
        data = f.assembly(PTR, "", "=r,0", data)

        def step(k: Value, left: int = self.kr) -> None:
            at = f.at(data, f.mul(k, self.step), self.element)
            row = f.at(weights.address, f.mul(k, self.nr), self.weight)
            # Besides numbers in place one more instruction costs more than it wins.
            if self.copied:
                f.prefetch(f.offset(weights.soon, f.mul(k, self.pace)), locality=2)
            right = [
                g.widen(f, f.load(kind, f.at(row, v * g.lanes, self.weight)), g.spec.weights.dtype)
                for v in range(vectors)
            ]

            def factor(i: int) -> Value:
                r, q = keep[i]
                offset = f.add(f.mul(self.pixel_strides[1], r), f.mul(self.pixel_strides[2], q))
                x = self.value(f.at(at, offset, self.element), left)
                return g.widen(f, x, g.spec.data.dtype)

            g.add_products(f, [self.sums[pixel] for pixel in keep], factor, right)

        steps, apart = count // self.kr, max(1, apart)
        unroll = self.unroll_of(steps, len(keep), apart)
        kept = [self.sums[pixel] for pixel in keep]
        if (whole := self.steps_of(count)) and (loop := self.assembly_loop(keep, unroll)):
            addresses, ahead = (data, weights.address), (weights.soon, self.pace)
            multiply_add_loop(f, loop, kept, addresses, integer(whole), ahead, zeroed=False)
            return
        unrolled_loop(f, integer(steps), unroll, step, loop=steps > min(2 * unroll, apart))
        if count % self.kr:
            step(integer(steps), count % self.kr)

    def value(self, address: Value, left: int) -> Value:
        """The values there, of which `left` values are the tile's: others could be infinite."""
        f = self.f
        if left == self.kr or not is_float(self.g.acc):
            in_vector = self.g.cell_in_vector_register
            return f.load(F32 if in_vector else self.cell, address)
        return f.cast(f.load(self.element, address), self.cell, signed_=False)
