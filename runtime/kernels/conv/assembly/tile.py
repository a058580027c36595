"""Tiles of direct convolutions as functions in assembly (emit/x86_tile.py): known strides, at most
two spatial axes, and floats that need no conversion, or cells. The epilogue is in the tile where it
has a plan (with AVX-512 also for a last vector of channels that is not full); else sums go to
memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ....llvmir.builder import AssemblyFunction, Function
from ....llvmir.values import bits_of
from ...emit.x86_epilogue import STORE, EpilogueAssembly, plan_epilogue
from ...emit.x86_multiply_add_loop import MultiplyAddLoop
from ...emit.x86_tile import OperandAddress, TileLayout, TileWriter, argument, low_half
from ..addressing import ConvContext
from ..tile_partition import ConvTiling
from ..tile_walk import ConvTile, Factors, Pixel, TapRun, TileWalk

# Parameters of a tile (register_tile.py) by number.
_FRAME, _DATA, _WEIGHTS, _D0, _D1, _H0, _H1 = (argument(i) for i in range(7))
_SOON, _PACE = argument(9), argument(10)
_COUNTER, _AHEAD, _STEP = "%rax", "%r10", "%r11"
# Counters of rows of taps and of taps, once the first row is known.
_ROWS, _TAPS = "%r8", "%r9"
# Displacements and increments are immediates of 32 bits, signed.
_MAX_OFFSET_BYTES = 2**31 - 1
_POINTERS = ("%rdx", "%rsi", "%rcx", "%r8", "%r9", "%r10", "%r11")


def write_tile(
    g: ConvContext,
    cut: ConvTiling,
    factors: Factors | None,
    stem: str,
    params: Sequence[tuple[str, str]],
    tile: ConvTile,
) -> AssemblyFunction | None:
    """The function of a tile; None for one that needs LLVM."""
    if g.unit or g.zeros:
        return None
    parts = tuple(min(g.lanes, tile.channels - first) for first in range(0, tile.channels, g.lanes))
    pixels, vectors = tile.rows * tile.columns, len(parts)
    planned = plan_epilogue_of(g, _FRAME, _pixels(tile), vectors)
    if planned is None:
        return None
    layout = TileLayout(g.acc, g.lanes, pixels * vectors, *planned, parts * pixels)
    return _assemble(g, cut, factors, stem, params, tile, layout)


def write_sums(
    g: ConvContext,
    cut: ConvTiling,
    factors: Factors | None,
    stem: str,
    params: Sequence[tuple[str, str]],
    tile: ConvTile,
    *,
    zeroed: bool,
) -> AssemblyFunction | None:
    """The function of a tile without its epilogue; None for one that needs LLVM. It has one more
    parameter, where it stores the sums, pixel by pixel. They begin as zero, or as the first pixel's
    sums there."""
    pixels, vectors = tile.rows * tile.columns, -(-tile.channels // g.lanes)
    address, size = argument(len(params)), g.lanes * g.bytes
    offsets = tuple(i * size for i in range(pixels * vectors))
    stored = OperandAddress(address, (), offsets)
    layout = TileLayout(g.acc, g.lanes, len(offsets), STORE, (stored,))
    params = [*params, ("ptr noalias", "sums")]
    return _assemble(g, cut, factors, stem, params, tile, layout, "" if zeroed else address)


def _pixels(tile: ConvTile) -> list[Pixel]:
    return [(r, q) for r in range(tile.rows) for q in range(tile.columns)]


def _assemble(
    g: ConvContext,
    cut: ConvTiling,
    factors: Factors | None,
    stem: str,
    params: Sequence[tuple[str, str]],
    tile: ConvTile,
    layout: TileLayout,
    first: str = "",
) -> AssemblyFunction | None:
    """A tile's function. first: the memory that holds the address of what the sums of each pixel
    begin with; "": zero."""
    spec, pixels = g.spec, _pixels(tile)
    if g.flushes or tile.ragged or tile.apart or spec.window.kernel[0] != 1 or spec.packed.tails:
        return None
    vectors = layout.sums // len(pixels)
    # Nothing is written to this function: all that the walk computes is known.
    scratch = Function(g.module, stem, params, "void", "", "internal")
    numbers = {p: range(i * vectors, (i + 1) * vectors) for i, p in enumerate(pixels)}
    walk = _AssemblyWalk(g, cut, factors, scratch, tile, numbers)
    loops = walk.loops()
    if scratch.lines or not loops or walk.reach_bytes > _MAX_OFFSET_BYTES:
        return None
    if not layout.fits(len(_POINTERS), g.target, loops):
        return None
    writer = TileWriter(layout)
    writer.load_masks(_COUNTER)
    if first:
        writer.add(f"movq {first}, {_COUNTER}")
        begin = [v * g.lanes * g.bytes for v in range(vectors)]
        writer.load_sums(_COUNTER, begin * len(pixels))
    else:
        writer.zero_sums()
    walk.write(writer)
    writer.finish(_POINTERS, _COUNTER)
    return g.module.assembly_function(stem, params, writer.text())


def plan_epilogue_of(
    g: ConvContext, frame: str, pixels: Sequence[Pixel], vectors: int
) -> tuple[EpilogueAssembly, tuple[OperandAddress, ...]] | None:
    """The epilogue and its operands, whose addresses are in the frame."""
    if {o.dtype for o in g.walked_operands} != {g.spec.acc}:
        return None
    strides: list[tuple[int, int, int]] = []
    for o in g.walked_operands:
        channel, row, column = (o.strides[axis] for axis in (1, 3, 4))
        if not (isinstance(channel, int) and isinstance(row, int) and isinstance(column, int)):
            return None
        strides.append((channel, row, column))
    if strides[-1][0] != 1 or any(channel not in (0, 1) for channel, _, _ in strides):
        return None
    broadcast = [channel == 0 for channel, _, _ in strides[:-1]]
    planned = plan_epilogue(g.spec.epilogue, broadcast, g.acc)
    if planned is None:
        return None
    return planned, tuple(
        OperandAddress(
            f"{8 * i}({frame})",
            (),
            tuple(
                (r * row + q * column + v * g.lanes * channel) * g.bytes
                for r, q in pixels
                for v in range(vectors)
            ),
            broadcast=channel == 0,
        )
        for i, (channel, row, column) in enumerate(strides)
    )


class _AssemblyWalk(TileWalk[int]):
    """Writes the loops over taps and channels. Between them, addresses move on by distances that
    are known; offsets are relative to the first tap: bytes of data, and rows of weights."""

    def loops(self) -> list[MultiplyAddLoop]:
        """The loops along channels; none if one of them cannot be written in assembly."""
        found: list[MultiplyAddLoop] = []
        for rows in self._row_sets():
            for run in self.tap_runs(rows):
                loop = self._loop(run)
                if loop is None:
                    return []
                found.append(loop)
        return found

    def _row_sets(self) -> list[Sequence[bool]]:
        """Per row of taps, the rows of pixels that meet it."""
        tile, high = self.tile, self.g.spec.window.kernel[1]
        if tile.rows == 1 or tile.row_taps is None:
            return [(True,) * tile.rows] * high
        return list(tile.row_taps)

    def _loop(self, run: TapRun) -> MultiplyAddLoop | None:
        steps, apart = run.count // self.kr, max(1, run.apart)
        unroll = self.unroll_of(steps, len(run.pixels), apart)
        return self.assembly_loop(run.pixels, unroll) if self.steps_of(run.count) else None

    @property
    def reach_bytes(self) -> int:
        """More than any distance between two addresses of a tile's data or weights."""
        spec, (_, high, width) = self.g.spec, self.g.spec.window.kernel
        _, down, right = (abs(t.known or 0) for t in self.taps)
        data = high * down + width * right + spec.channels * width * abs(self.step.known or 0)
        weights = (high * self.row + width * self.tap) * bits_of(self.weight) // 8
        return max(2 * data * bits_of(self.element) // 8, 2 * weights)

    def write(self, w: TileWriter) -> None:
        self.w, self.value = w, bits_of(self.element) // 8
        self.weights_row = self.nr * bits_of(self.weight) // 8
        self.at = self.weights_at = self.ahead_at = 0
        # One tap along the outermost axis, which may be outside.
        w.add(f"cmpq {_D1}, {_D0}", "jge 8f")
        if self.copied:
            w.add(f"movq {_SOON}, {_AHEAD}", f"movq {_PACE}, {_STEP}")
        if self.tile.rows == 1:
            self._rows_at_run_time()
        else:
            sets = self._row_sets()
            for met, some in groupby(range(len(sets)), sets.__getitem__):
                rows = list(some)
                if any(met):
                    self._move_to(rows[0] * self._row_bytes, rows[0] * self._row_weights)
                    self._repeat(len(rows), _ROWS, 6, met)
        w.add("8:")

    @property
    def _row_bytes(self) -> int:
        """Of the data, from a row of taps to the next."""
        return (self.taps[1].known or 0) * self.value

    @property
    def _row_weights(self) -> int:
        """Rows of weights of a row of taps."""
        return self.row // self.nr

    def _rows_at_run_time(self) -> None:
        """The rows of taps that the tile's only row meets."""
        w = self.w
        w.add(f"movq {_H1}, {_ROWS}", f"subq {_H0}, {_ROWS}", "jle 8f")
        for register, step in (
            (_DATA, self._row_bytes),
            (_WEIGHTS, self._row_weights * self.weights_row),
        ):
            w.add(f"imulq $${step}, {_H0}, {_COUNTER}", f"addq {_COUNTER}, {register}")
        if self.copied:
            w.add(f"imulq $${self._row_weights}, {_H0}, {_COUNTER}")
            w.add(f"imulq {_STEP}, {_COUNTER}", f"addq {_COUNTER}, {_AHEAD}")
        self._repeat(None, _ROWS, 6, (True,))

    def _repeat(self, times: int | None, counter: str, label: int, met: Sequence[bool]) -> None:
        """A number of rows of taps that the same rows of pixels meet; None: the counter is set."""
        looped = times is None or times > 1
        if looped:
            if times is not None:
                self.w.add(f"movl $${times}, {low_half(counter)}")
            self.w.add(f"{label}:")
        first = self.at, self.weights_at
        self._row(met)
        if looped:
            self._move_to(first[0] + self._row_bytes, first[1] + self._row_weights)
            self.w.add(f"decq {counter}", f"jne {label}b")
        if times is not None:
            self._skip(times - 1, self._row_bytes, self._row_weights)

    def _row(self, met: Sequence[bool]) -> None:
        """The taps of a row."""
        first = self.at, self.weights_at
        tap_bytes, tap_rows = (self.taps[2].known or 0) * self.value, self.tap // self.nr
        for run in self.tap_runs(met):
            start, times = run.taps.start, len(run.taps)
            self._move_to(first[0] + start * tap_bytes, first[1] + start * tap_rows)
            if times > 1:
                self.w.add(f"movl $${times}, {low_half(_TAPS)}", "5:")
            begin = self.at, self.weights_at
            self._channels(run)
            if times > 1:
                self._move_to(begin[0] + tap_bytes, begin[1] + tap_rows)
                self.w.add(f"decq {_TAPS}", "jne 5b")
                self._skip(times - 1, tap_bytes, tap_rows)

    def _channels(self, run: TapRun) -> None:
        loop, steps = self._loop(run), self.steps_of(run.count)
        assert loop is not None and steps
        sums = [number for pixel in run.pixels for number in self.sums[pixel]]
        registers = (_DATA, _WEIGHTS, _AHEAD, _STEP)
        moved = self.w.loop(loop, sums, registers, _COUNTER, steps)
        self.at += moved * loop.a_step
        self.weights_at += moved
        self.ahead_at += steps

    def _move_to(self, at: int, row: int) -> None:
        """Move the addresses on to bytes of data and a row of weights."""
        w = self.w
        if at != self.at:
            w.add(f"addq $${at - self.at}, {_DATA}")
        if row != self.weights_at:
            w.add(f"addq $${(row - self.weights_at) * self.weights_row}, {_WEIGHTS}")
        if self.copied and row != self.ahead_at:
            w.add(f"imulq $${row - self.ahead_at}, {_STEP}, {_COUNTER}")
            w.add(f"addq {_COUNTER}, {_AHEAD}")
        self.at, self.weights_at, self.ahead_at = at, row, row

    def _skip(self, times: int, size: int, rows: int) -> None:
        """Count what a loop has moved the addresses on."""
        self.at += times * size
        self.weights_at += times * rows
        self.ahead_at += times * rows
