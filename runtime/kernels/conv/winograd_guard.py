"""The guard of Winograd's transform in f32: tiles of extreme data are computed by direct sums.

Every output of a tile mixes all values that the tile reads, and cancels those that its own window
does not contain: a NaN, an infinity or an overflow reaches all outputs of the tile, and the
rounding errors of one large value drown outputs of small ones. So while a tile is transformed, the
largest absolute value of each aligned square of 2 x 2 pixels, over all channels, is computed. Each
window of 3 x 3 pixels contains such a square. A tile is transformed if its largest value is finite,
at most MAX_VALUE, and at most MAX_RATIO times the maximum of every square (docs/numerics.md).

The scratch of another tile receives its data as they are, and its outputs are the sums that the
direct convolution computes, in the same order, with the filters behind the transformed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ....plan.packing.layouts import PackedLayout
from ...llvmir.builder import Function, Module, StackVariable
from ...llvmir.kernel_entry import UNOPTIMIZED
from ...llvmir.values import ELEMENT, F32, I1, I32, I64, Value, bytes_of, integer, vec
from ..emit.strided_loops import emit_vectors, masked_load
from ..emit.tail_mask import TailMask
from .addressing import ConvContext, ConvEpilogue, TilePosition
from .winograd_tiles import WinogradSchedule

# With filters of at most MAX_WEIGHT (compiler/lowering/schedule/conv_algorithm.py) no sum overflows
# f32 below.
MAX_VALUE: Final = 2.0**50
MAX_RATIO: Final = 2.0**6

_MAGNITUDE = 0x7FFFFFFF
_TAPS = 3


class TileGuard:
    """Collects the maxima of a tile's squares in the function that transforms its data.

    Absolute values are compared as integers: NaN and infinities are larger than all numbers.
    """

    def __init__(self, g: ConvContext, f: Function, plan: WinogradSchedule) -> None:
        self.f, self.kind = f, vec(I32, plan.lanes)
        half = range(plan.side // 2)
        self.squares: list[list[StackVariable]] = [
            [f.var(self.kind, 0) for _ in half] for _ in half
        ]
        self.test = extreme_function(g, plan)

    def include(self, values: Sequence[Sequence[Value]]) -> None:
        """Take a vector of channels of each pixel of the tile into account."""
        f = self.f
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                square = self.squares[i // 2][j // 2]
                magnitude = f.and_(f.bitcast(value, self.kind), _MAGNITUDE)
                square.set(f.smax(square.get(), magnitude))

    def is_extreme(self, height: Value, width: Value) -> Value:
        """Whether the tile has to be computed directly; so many rows and columns of outputs begin
        in it inside the image."""
        f, bytes_ = self.f, bytes_of(self.kind)
        every = [square.get() for row in self.squares for square in row]
        maxima = f.stack(len(every) * bytes_)
        for i, square in enumerate(every):
            f.store(square, f.offset(maxima, i * bytes_))
        return f.call_function(self.test, maxima, height, width)


def extreme_function(g: ConvContext, plan: WinogradSchedule) -> Function:
    """The module's `extreme`."""
    return g.module.define_once("extreme", lambda _, name: _extreme_function(g, plan, name))


def _extreme_function(g: ConvContext, plan: WinogradSchedule, name: str) -> Function:
    """extreme(maxima, height, width): what TileGuard.is_extreme returns. Of the squares' maxima, in
    vectors of channels, those count that windows of outputs inside the image contain: a window's
    row i contains the pair of rows that begins at i or i + 1."""
    f = g.module.function(
        name,
        [("ptr noalias readonly", "maxima"), (I64, "height"), (I64, "width")],
        I1,
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, kind, pairs = f.params, vec(I32, plan.lanes), plan.side // 2
    rows, columns = (f.smin(f.add(f.udiv(p[n], 2), 1), pairs) for n in ("height", "width"))

    def maximum(i: Value, j: Value) -> Value:
        at = f.mul(f.add(f.mul(i, pairs), j), bytes_of(kind))
        return f.load(kind, f.offset(p["maxima"], at))

    def exceeds(largest: Value, smallest: Value) -> Value:
        bound = f.min_or(f.fmul(f.bitcast(smallest, F32), MAX_RATIO), MAX_VALUE)
        return f.fcmp("ugt", f.bitcast(largest, F32), bound)

    high, low = f.var(kind, 0), f.var(kind, _MAGNITUDE)
    for i in range(pairs):
        for j in range(pairs):
            square = maximum(integer(i), integer(j))
            high.set(f.smax(high.get(), square))
            counts = f.and_(f.icmp("sgt", rows, i), f.icmp("sgt", columns, j))
            low.set(f.select(counts, f.smin(low.get(), square), low.get()))
    largest = f.reduce("smax", high.get())
    # The largest of the lanes' minima is at most the smallest of the squares' maxima, and takes one
    # reduction in place of one per square.
    with f.if_(exceeds(largest, f.reduce("smax", low.get()))):
        smallest = f.var(I32, _MAGNITUDE)
        with f.range(0, rows, unroll=1) as i, f.range(0, columns, unroll=1) as j:
            smallest.set(f.smin(smallest.get(), f.reduce("smax", maximum(i, j))))
        f.ret(exceeds(largest, smallest.get()))
    f.ret(0)
    return f


def copy_function(g: ConvContext, plan: WinogradSchedule) -> Function:
    """copy(data, to, y, x, down, right, height, width, place, channels): the square at `data`,
    whose pixel in the image of height x width is (y, x), as it is, for all channels; zeros outside
    the image. down, right: elements between pixels; place: between those of `to`. All kernels share
    it. It is called for extreme tiles alone, so that LLVM need not optimize it."""
    stored, kind = ELEMENT[g.spec.data.dtype.value], vec(F32, plan.lanes)
    names = ["y", "x", "down", "right", "height", "width", "place", "channels"]
    f = g.module.function(
        g.module.unique("copy"),
        [("ptr noalias readonly", "data"), ("ptr noalias", "to"), *((I64, n) for n in names)],
        attributes=f"nounwind {UNOPTIMIZED}",
        linkage="internal",
    )
    p = f.params
    with (
        f.range(0, plan.side, unroll=1) as i,
        f.range(0, plan.side, unroll=1) as j,
    ):
        to = f.at(p["to"], f.mul(f.add(f.mul(i, plan.side), j), p["place"]), F32)
        at = f.add(f.mul(p["down"], i), f.mul(p["right"], j))
        data = f.at(p["data"], at, stored)
        inside = f.icmp("ult", f.add(p["y"], i), p["height"])
        inside = f.and_(inside, f.icmp("ult", f.add(p["x"], j), p["width"]))
        with f.if_(inside) as branch:
            for c, (tail,) in emit_vectors(f, p["channels"], plan.lanes, 1):
                value = masked_load(f, kind, f.at(data, c, stored), tail)
                f.store(value, f.at(to, c, F32), 4)
            branch.else_()
            for c, _ in emit_vectors(f, p["channels"], plan.lanes, 1):
                f.store(f.as_value(0, kind), f.at(to, c, F32), 4)
    return f


def taps_offset(plan: WinogradSchedule, panels: int, channels: int) -> int:
    """Elements from the transformed filters of a panel to its filters as they are."""
    return plan.points * panels * PackedLayout(channels, plan.nr, plan.nr).size


def direct_function(
    g: ConvContext, plan: WinogradSchedule, name: str, panels: int, channels: int
) -> Function:
    """direct(frame, data, weights, height, width): the outputs of a tile, whose data
    copy_function wrote to `data`, of up to a vector of channels: direct sums, finished. At an edge
    fewer pixels than m x m exist."""
    spec = g.spec
    f = g.module.function(
        name,
        [("ptr noalias", "frame"), ("ptr noalias readonly", "data")]
        + [("ptr noalias readonly", "weights"), (I64, "height"), (I64, "width")],
        attributes="nounwind noinline",
        linkage="internal",
    )
    p, m, (tail,) = f.params, plan.m, g.tails(f, channels)
    tap_size = panels * PackedLayout(plan.channels, plan.nr, plan.nr).size
    place_size = plan.block * plan.pitch
    sums = f.stack(m * m * g.lanes * 4)
    # Two rows of pixels at a time: sums enough to hide the latency of one another.
    with f.range(0, m, 2, unroll=1) as i:
        accumulators = [[f.var(g.vector, 0) for _ in range(m)] for _ in range(2)]
        with (
            f.range(0, plan.slices, unroll=1) as z,
            f.range(0, _TAPS, unroll=1) as y,
            f.range(0, _TAPS, unroll=1) as x,
        ):
            tap, channel = f.add(f.mul(y, _TAPS), x), f.mul(z, spec.channels)
            at = f.add(f.mul(tap, tap_size), f.mul(channel, plan.nr))
            weights = f.at(p["weights"], at, F32)
            first = f.add(f.mul(f.add(i, y), plan.side), x)
            data = f.at(p["data"], f.add(f.mul(first, place_size), channel), F32)
            with f.range(0, spec.channels, unroll=1) as c:
                weight = f.load(g.vector, f.at(weights, f.mul(c, plan.nr), F32))
                for down, row in enumerate(accumulators):
                    for right, accumulator in enumerate(row):
                        at = f.add(c, (down * plan.side + right) * place_size)
                        value = f.splat(f.load(F32, f.at(data, at, F32)), g.lanes)
                        accumulator.set(f.fma(value, weight, accumulator.get()))
        for down, row in enumerate(accumulators):
            for right, accumulator in enumerate(row):
                at = f.add(f.mul(f.add(i, down), m), right)
                f.store(accumulator.get(), f.offset(sums, f.mul(at, g.lanes * 4)))
    epilogue = ConvEpilogue(g, f, p["frame"])
    epilogue.share([(0, tail)])
    finish_places(g, plan, f, sums, epilogue, tail)
    return f


def finish_function(g: ConvContext, plan: WinogradSchedule, channels: int) -> Function:
    """finish(frame, buffer, height, width): the epilogue of a tile's m x m values of up to a vector
    of channels. At an edge fewer pixels exist."""

    def make(module: Module, name: str) -> Function:
        f = module.function(
            name,
            [("ptr noalias", "frame"), ("ptr noalias readonly", "buffer")]
            + [(I64, "height"), (I64, "width")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        (tail,) = g.tails(f, channels)
        epilogue = ConvEpilogue(g, f, f.params["frame"], shares=True)
        epilogue.share([(0, tail)])
        finish_places(g, plan, f, f.params["buffer"], epilogue, tail)
        return f

    return g.module.define_once(f"finish_{channels}", make)


def finish_places(
    g: ConvContext,
    plan: WinogradSchedule,
    f: Function,
    vectors: Value,
    epilogue: ConvEpilogue,
    tail: TailMask | None,
) -> None:
    """Apply the epilogue to a tile's m x m values at `vectors`, where their pixels exist."""
    p, m = f.params, plan.m
    with (
        f.range(0, f.smin(p["height"], m), unroll=1) as i,
        f.range(0, f.smin(p["width"], m), unroll=1) as j,
    ):
        at = f.mul(f.add(f.mul(i, m), j), g.lanes * 4)
        value = f.load(g.vector, f.offset(vectors, at))
        epilogue.finish(value, TilePosition(i, j, 0, tail))
