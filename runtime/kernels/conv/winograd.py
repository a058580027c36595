"""Convolutions of 3 x 3 taps by Winograd's transform: fewer products, more additions. The slices
that a window of three axes reads are channels of one transform.

Output tiles of m x m pixels are transformed in blocks, so that a block's data stay in L2. Per
block: all channels of all its tiles are transformed into scratch; then, panel of output channels
by panel, the (m + 2)^2 products of (tiles x C) by (C x panel) are computed and their tiles
transformed back, with the epilogue, while they are still in the cache.

A tile's numbers depend on its pixel in the image alone: neither blocks nor workers change bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ....plan.packing.layouts import PackedLayout
from ....plan.specs.base import Size
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ...llvmir.builder import AssemblyFunction, Function, Module
from ...llvmir.kernel_entry import OpenKernel as Entry
from ...llvmir.kernel_entry import open_kernel, share
from ...llvmir.values import ELEMENT, F32, I1, I8, I64, PTR, Value, integer
from ..emit.contract import Kernel
from ..emit.register_tile import unrolled_loop
from ..emit.tail_mask import TailMask
from ..emit.x86_multiply_add_loop import MultiplyAddLoop, cell_instruction, multiply_add_loop
from .addressing import ConvContext, ConvEpilogue, TilePosition, buffers_of, widths
from .assembly import winograd as assembly
from .assembly.winograd_guard import write_extreme_function
from .tile_partition import three_axes
from .winograd_guard import (
    copy_function,
    direct_function,
    finish_function,
    finish_places,
    taps_offset,
)
from .winograd_matrices import RESULT, both_ways, remove_scale
from .winograd_tiles import WinogradSchedule
from .winograd_transforms import data_function


def generate(spec: ConvSpec, target: Target, symbol: str, plan: WinogradSchedule) -> Kernel:
    """The kernel of a convolution whose weights are transformed."""
    module = Module(target)
    wide = three_axes(spec)
    g = ConvContext.of(wide, target, module, plan.lanes)
    entry = open_kernel(
        module, symbol, buffers_of(spec), spec.runtime_dims, only_calls=True, optimized=False
    )
    loops = _WinogradLoops(g, plan, entry)
    loops.run()
    return Kernel(symbol, module.text(), loops.scratch)


class _WinogradLoops:
    def __init__(self, g: ConvContext, plan: WinogradSchedule, entry: Entry) -> None:
        self.g, self.plan, self.entry, self.f, self.spec = g, plan, entry, entry.function, g.spec
        f, spec = self.f, g.spec
        self.frame = f.stack(max(8, g.frame_bytes))
        for i, d in enumerate(entry.dims):
            g.set_dim(f, self.frame, i, d)
        self.depth, *self.out = (self.size(s) for s in spec.out_sizes)
        self.data = [self.size(s) for s in spec.in_sizes]
        self.pads = [self.size(s) for s in spec.window.pads]
        self.pointers = [
            f.at(p, self.size(o.offset), ELEMENT[o.dtype.value])
            for p, o in zip(entry.buffers, spec.operands(), strict=True)
        ]
        for zero in self.pointers[2 : 2 + len(g.zeros)]:
            g.set_base(f, self.frame, len(g.walked_operands), zero)
            self.pointers.remove(zero)
        self.across = [f.ceil_div(n, plan.m) for n in self.out]
        self.panels = -(-spec.outputs // plan.nr)
        held = plan.points * plan.block * plan.pitch * 4 // plan.kr
        flags = held + plan.points * plan.block * plan.nr * 4
        self.scratch = flags + plan.block
        self.turned, self.sums = entry.scratch, f.offset(entry.scratch, held)
        # One byte per tile of the block: whether winograd_guard.py computes it directly.
        self.extreme = f.offset(entry.scratch, flags)
        self.products: dict[tuple[int, int], Function | AssemblyFunction] = {}
        self.assembles_data = assembly.fits_data(g, plan)
        self.assembles_results = assembly.fits_results(g, plan)
        # In assembly: the results and the direct sums of so many channels; None: without epilogue.
        self.results: dict[int | None, tuple[AssemblyFunction, AssemblyFunction]] = {}
        self.buffer = f.stack(plan.m**2 * plan.lanes * 4)
        g.set_strides(f, self.frame)

    def size(self, size: Size) -> Value:
        return integer(size) if isinstance(size, int) else self.entry.dims[size.index]

    def run(self) -> None:
        f, spec, plan = self.f, self.spec, self.plan
        if any(s == 0 for s in (spec.batch, spec.outputs, *spec.out_sizes)):
            f.ret(0)
            return
        each = f.mul(*self.across)
        tiles, panels = self.split_work(f.mul(f.mul(self.size(spec.batch), self.depth), each))
        into = self.data_functions()
        copy = copy_function(self.g, self.plan) if plan.kr == 1 else None
        with f.range(*tiles, plan.block, outer=True) as first:
            count = f.smin(f.sub(tiles[1], first), plan.block)
            with self.each_tile(first, count, each) as (i, position):
                self.transform(into, copy, position, i)
            with f.range(*panels, outer=True) as panel:
                for channels in widths(f, panel, spec.outputs, plan.nr):
                    self.panel(first, count, each, panel, channels)
        f.ret(0)

    def split_work(self, tiles: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
        """This worker's tiles and panels: the grid of workers with the least cost.

        Cost of t tiles and p panels, in multiply-adds per point and channel: t * p products of nr
        channels, t transforms, and p panels of weights read from far away.
        """
        f, plan, entry = self.f, self.plan, self.entry
        vectors = plan.nr // plan.lanes
        best, down, right = f.var(I64, 1 << 62), f.var(I64, 1), f.var(I64, 1)
        with f.range(1, f.add(f.smin(entry.workers, self.panels), 1), outer=True) as x:
            y = f.smax(f.smin(f.udiv(entry.workers, x), tiles), 1)
            t, p = f.ceil_div(tiles, y), f.ceil_div(self.panels, x)
            work = f.add(f.mul(f.mul(t, p), vectors * plan.lanes), f.mul(t, 6))
            cost = f.add(work, f.mul(p, plan.nr * plan.lanes))
            with f.if_(f.icmp("slt", cost, best.get())):
                best.set(cost)
                down.set(y)
                right.set(x)
        rank, of = f.udiv(entry.worker, right.get()), down.get()
        with f.if_(f.icmp("sge", rank, of)):
            f.ret(0)
        column = f.urem(entry.worker, right.get())
        return share(f, tiles, rank, of), share(f, self.panels, column, right.get())

    @contextmanager
    def each_tile(
        self, first: Value, count: Value, each: Value
    ) -> Iterator[tuple[Value, tuple[Value, Value, Value, Value]]]:
        """Write a loop over tiles from `first` on, of which an image has `each`: the number in the
        loop, and the batch, the depth, the first row and the first column. Rows and columns are
        counted, not divided."""
        f, m = self.f, self.plan.m
        inside = f.urem(first, each)
        image = f.var(I64, f.udiv(first, each))
        row = f.var(I64, f.mul(f.udiv(inside, self.across[1]), m))
        column = f.var(I64, f.mul(f.urem(inside, self.across[1]), m))
        height, width = (f.mul(n, m) for n in self.across)
        with f.range(0, count, unroll=1) as i:
            at = image.get(), integer(0)
            if self.spec.out_sizes[0] != 1:
                at = f.udiv(image.get(), self.depth), f.urem(image.get(), self.depth)
            yield i, (*at, row.get(), column.get())
            right = f.add(column.get(), m)
            column.set(right)
            with f.if_(f.icmp("sge", right, width)):
                column.set(0)
                down = f.add(row.get(), m)
                row.set(down)
                with f.if_(f.icmp("sge", down, height)):
                    row.set(0)
                    image.set(f.add(image.get(), 1))

    def data_functions(
        self,
    ) -> Callable[[Value, Value, Sequence[Value], Sequence[Value]], Value]:
        """What writes the transform of a tile's data: (data, to, the pixel where the tile's data
        begin, the one where its outputs do). It returns whether the tile is extreme."""
        f, g, plan = self.f, self.g, self.plan
        if self.assembles_data:
            data = assembly.data_function(g, plan)
            between = f.stack(plan.points * plan.lanes * 4)
            maxima = f.stack((plan.side // 2) ** 2 * plan.lanes * 4)
            test = write_extreme_function(g.module, plan)

            def call(at: Value, to: Value, start: Sequence[Value], out: Sequence[Value]) -> Value:
                f.call_function(data, at, to, between, maxima, *start)
                left = [f.sub(n, first) for n, first in zip(self.out, out, strict=True)]
                return f.icmp("ne", f.call_function(test, maxima, *left), 0)

            return call
        into = {edge: data_function(g, plan, edge) for edge in (False, True)}

        def choose(at: Value, to: Value, start: Sequence[Value], out: Sequence[Value]) -> Value:
            fits = f.icmp("sge", f.smin(*start), 0)
            ends = [f.add(p, plan.side) for p in start]
            room = [f.sub(n, end) for n, end in zip(self.data[1:], ends, strict=True)]
            fits = f.and_(fits, f.icmp("sge", f.smin(*room), 0))
            extreme = f.var(I1)
            with f.if_(fits) as branch:
                extreme.set(f.call_function(into[False], self.frame, at, to, *start))
                branch.else_()
                extreme.set(f.call_function(into[True], self.frame, at, to, *start))
            return extreme.get()

        return choose

    def transform(
        self,
        into: Callable[[Value, Value, Sequence[Value], Sequence[Value]], Value],
        copy: Function | None,
        position: tuple[Value, Value, Value, Value],
        index: Value,
    ) -> None:
        """One tile's data into scratch: transformed, or as they are where they are extreme."""
        f, plan = self.f, self.plan
        batch, depth, row, column = position
        strides = [self.size(s) for s in self.spec.data.strides]
        y, x = (f.sub(n, pad) for n, pad in zip((row, column), self.pads[1:], strict=True))
        at = f.add(f.mul(batch, strides[0]), f.add(f.mul(y, strides[3]), f.mul(x, strides[4])))
        to = f.at(self.turned, f.mul(index, plan.pitch), plan.element)
        extreme = f.var(I8, 0)
        with self.each_slice(at, to, depth, y) as (data, channels, first):
            is_extreme = into(data, channels, (first, x), (row, column))
            extreme.set(f.or_(extreme.get(), f.cast(is_extreme, I8)))
        if copy is None:
            return
        f.store(extreme.get(), f.offset(self.extreme, index))
        counts = plan.block * plan.pitch, self.spec.channels
        is_copied = f.icmp("ne", extreme.get(), 0)
        with f.if_(is_copied), self.each_slice(at, to, depth, y) as (data, channels, first):
            f.call_function(copy, data, channels, first, x, *strides[3:], *self.data[1:], *counts)

    @contextmanager
    def each_slice(
        self, at: Value, to: Value, depth: Value, row: Value
    ) -> Iterator[tuple[Value, Value, Value]]:
        """Write a loop over the slices that outputs at `depth` read: the address of a tile's pixels
        (`at`: their offset in slice 0), that of its channels in scratch (`to`: of the first slice),
        and its first row, which is below the image where the slice is outside the data."""
        f, spec, w = self.f, self.spec, self.spec.window
        kind = ELEMENT[spec.data.dtype.value]
        if (w.kernel[0], spec.in_sizes[0], spec.out_sizes[0]) == (1, 1, 1):
            yield f.at(self.pointers[0], at, kind), to, row
            return
        first = f.sub(f.mul(depth, w.strides[0]), self.pads[0])
        with f.range(0, self.plan.slices, unroll=1) as i:
            here = f.add(first, f.mul(i, w.dilations[0]))
            data = f.add(at, f.mul(here, self.size(spec.data.strides[2])))
            channels = f.at(to, f.mul(i, spec.channels), self.plan.element)
            y = f.select(f.icmp("ult", here, self.data[0]), row, self.data[1])
            yield f.at(self.pointers[0], data, kind), channels, y

    # -- products and results -----------------------------------------------------------------

    def panel(self, first: Value, count: Value, each: Value, panel: Value, channels: int) -> None:
        """One panel of output channels of a block's tiles."""
        f, plan, spec = self.f, self.plan, self.spec
        vectors = -(-channels // plan.lanes)
        size = PackedLayout.of(spec.packed, plan.channels, plan.nr).size
        weights = f.at(self.pointers[1], f.mul(panel, size), plan.element)
        strips = f.ceil_div(count, plan.rows)
        # While all strips are multiplied at a point, the next point's weights are fetched, at the
        # last point those of the next panel's first one.
        pace = f.udiv(integer(plan.nr * 4), strips)
        with f.range(0, plan.points, outer=True) as point:
            data = f.at(self.turned, f.mul(point, plan.block * plan.pitch), plan.element)
            sums = f.at(self.sums, f.mul(point, plan.block * plan.nr), F32)
            b = f.at(weights, f.mul(point, self.panels * size), plan.element)
            is_last = f.icmp("eq", point, plan.points - 1)
            following = f.at(b, self.panels * size, plan.element)
            soon = f.select(is_last, f.at(weights, size, plan.element), following)
            with f.range(0, strips, outer=True) as strip:
                row = f.mul(strip, plan.rows)
                a = f.at(data, f.mul(row, plan.pitch), plan.element)
                to = f.at(sums, f.mul(row, plan.nr), F32)
                ahead = f.mul(f.mul(strip, pace), size // plan.nr // plan.kr)
                where = (a, b, to, f.offset(soon, ahead), pace)
                self.multiply(vectors, f.sub(count, row), where)
        widths = [min(plan.lanes, channels - v * plan.lanes) for v in range(vectors)]
        finish = self.finish_functions(widths)
        with self.each_tile(first, count, each) as (i, (batch, depth, row, column)):
            left = [f.sub(n, at) for n, at in zip(self.out, (row, column), strict=True)]
            sums = f.at(self.sums, f.mul(i, plan.nr), F32)
            for v, n in enumerate(widths):
                channel = f.add(f.mul(panel, plan.nr), v * plan.lanes)
                self.point_to((batch, channel, depth, row, column))
                finish(
                    i, f.at(sums, v * plan.lanes, F32), left, n, f.at(weights, v * plan.lanes, F32)
                )

    def multiply(self, vectors: int, left: Value, where: Sequence[Value]) -> None:
        """Call the product of a strip with arguments `where`; `left`: the tiles from it on."""
        f, plan = self.f, self.plan
        if not plan.few:
            f.call_function(self.product(vectors, plan.rows), *where)
            return
        with f.if_(f.icmp("sgt", left, plan.few)) as branch:
            f.call_function(self.product(vectors, plan.rows), *where)
            branch.else_()
            f.call_function(self.product(vectors, plan.few), *where)

    def finish_functions(
        self, widths: Sequence[int]
    ) -> Callable[[Value, Value, Sequence[Value], int, Value], None]:
        """What writes the transform back and the epilogue of up to a vector of channels: (tile,
        sums, rows and columns that exist, channels, weights)."""
        f, g, plan = self.f, self.g, self.plan
        taps = taps_offset(plan, self.panels, plan.channels)

        def directly(i: Value, weights: Value) -> list[Value]:
            """Whether a tile's data are computed directly, the data, and the filters."""
            return [
                f.load(I8, f.offset(self.extreme, i)),
                f.at(self.turned, f.mul(i, plan.pitch), F32),
                f.at(weights, taps, F32),
            ]

        if self.assembles_results:
            finishes = assembly.fits_epilogue(g, plan)

            def call(i: Value, sums: Value, left: Sequence[Value], n: int, weights: Value) -> None:
                extreme, data, filters = directly(i, weights)
                result, direct = self.assemble_results(n if finishes else None)
                last = left if finishes else [self.buffer]
                with f.if_(f.icmp("ne", extreme, 0)) as branch:
                    f.call_function(direct, self.frame, data, filters, *last)
                    branch.else_()
                    f.call_function(result, self.frame, sums, *last)
                if not finishes:
                    epilogue = finish_function(g, plan, n)
                    f.call_function(epilogue, self.frame, self.buffer, *left)

            return call
        results = {n: self.result_function(n) for n in dict.fromkeys(widths)}

        def choose(i: Value, sums: Value, left: Sequence[Value], n: int, weights: Value) -> None:
            more = directly(i, weights) if plan.kr == 1 else []
            f.call_function(results[n], self.frame, sums, *left, *more)

        return choose

    def assemble_results(self, channels: int | None) -> tuple[AssemblyFunction, AssemblyFunction]:
        """The functions of results and of direct sums."""
        g, plan = self.g, self.plan
        if channels not in self.results:
            direct = assembly.direct_function(g, plan, self.panels, channels)
            self.results[channels] = assembly.result_function(g, plan, channels), direct
        return self.results[channels]

    def point_to(self, position: Sequence[Value]) -> None:
        """Store the addresses of a tile's first pixel and channel (batch, channel, depth, row,
        column), in extras and out, in the frame."""
        f = self.f
        for k, (pointer, o) in enumerate(
            zip(self.pointers[2:], self.g.walked_operands, strict=True)
        ):
            at = integer(0)
            for index, stride in zip(position, o.strides, strict=True):
                at = f.add(at, f.mul(index, self.size(stride)))
            self.g.set_base(f, self.frame, k, f.at(pointer, at, ELEMENT[o.dtype.value]))

    def product(self, vectors: int, rows: int) -> Function | AssemblyFunction:
        """product(a, b, to, soon, pace): `rows` tiles times one panel at one point. The cache lines
        at `soon` are fetched, `pace` bytes on with every step."""
        g, plan = self.g, self.plan
        if (rows, vectors) in self.products:
            return self.products[rows, vectors]
        lanes, depth = plan.lanes, -(-plan.channels // plan.kr)
        # As in register_tile.py: tall tiles have no registers for a second step's loads.
        unroll = min(plan.unroll, 24 // (rows * vectors) + 1)
        loop = MultiplyAddLoop(
            element=g.acc,
            lanes=lanes,
            rows=tuple(i * plan.pitch // plan.kr * g.bytes for i in range(rows)),
            columns=tuple(v * lanes * g.bytes for v in range(vectors)),
            a_step=g.bytes,
            b_step=plan.nr * g.bytes,
            unroll=unroll,
            ahead=(0,),
            cells=cell_instruction(g.unit, g.target),
        )
        if depth and loop.fits(g.target):
            made = assembly.product_function(g, plan, loop, depth)
            if made is not None:
                self.products[rows, vectors] = made
                return made
        f = g.module.function(
            g.module.unique("product"),
            [("ptr noalias readonly", "a"), ("ptr noalias readonly", "b"), ("ptr noalias", "to")]
            + [("ptr", "soon"), (I64, "pace")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p = f.params
        sums = [[f.var(g.vector, 0) for _ in range(vectors)] for _ in range(rows)]

        def step(k: Value) -> None:
            at = f.at(p["b"], f.mul(k, plan.nr), F32)
            right = [f.load(g.vector, f.at(at, v * lanes, F32)) for v in range(vectors)]
            column = f.at(p["a"], k, F32)
            f.prefetch(f.offset(p["soon"], f.mul(k, p["pace"])))

            def load_a(i: int) -> Value:
                return f.load(g.acc, f.at(column, i * plan.pitch // plan.kr, F32))

            g.add_products(f, sums, load_a, right)

        if depth and loop.fits(g.target):
            addresses, ahead = (p["a"], p["b"]), (p["soon"], p["pace"])
            multiply_add_loop(f, loop, sums, addresses, integer(depth), ahead, zeroed=True)
        else:
            unrolled_loop(f, integer(depth), unroll, step)
        for i, row in enumerate(sums):
            for v, s in enumerate(row):
                f.store(s.get(), f.at(p["to"], i * plan.nr + v * lanes, F32))
        self.products[rows, vectors] = f
        return f

    def result_function(self, channels: int) -> Function:
        """result(frame, sums, height, width): one tile's sums of up to a vector of channels
        transformed back and finished. At an edge fewer pixels than m x m exist. Of f32 there follow
        (extreme, data, taps): whether the tile's data are computed directly instead, with these
        filters."""
        g, plan = self.g, self.plan
        name = f"result_{channels}"
        made = g.module.define_once(name, lambda module, n: self._make_result(n, channels))
        assert made.name == name and plan.m
        return made

    def _make_result(self, name: str, channels: int) -> Function:
        g, plan = self.g, self.plan
        f = g.module.function(
            name,
            [("ptr noalias", "frame"), ("ptr noalias readonly", "sums")]
            + [(I64, "height"), (I64, "width")]
            + [(I8, "extreme"), (PTR, "data"), (PTR, "taps")] * (plan.kr == 1),
            attributes="nounwind noinline",
            linkage="internal",
        )
        p, (tail,) = f.params, g.tails(f, channels)
        if plan.kr == 1:
            with f.if_(f.icmp("ne", p["extreme"], 0)):
                direct = direct_function(g, plan, f"direct_{channels}", self.panels, channels)
                args = (p[n] for n in ("frame", "data", "taps", "height", "width"))
                f.call_function(direct, *args)
                f.ret()
        epilogue = ConvEpilogue(g, f, p["frame"])
        epilogue.share([(0, tail)])
        if plan.kr > 1:
            self._finish_in_loops(f, epilogue, tail)
            return f
        square = [
            [
                f.load(
                    g.vector,
                    f.at(p["sums"], (i * plan.side + j) * plan.block * plan.nr, F32),
                )
                for j in range(plan.side)
            ]
            for i in range(plan.side)
        ]
        buffer = None if plan.inline_epilogue else f.stack(plan.m * plan.m * g.lanes * 4)
        rows = both_ways(f, RESULT[plan.m], square)

        def finish(i: Value, j: Value, value: Value) -> None:
            epilogue.finish(value, TilePosition(i, j, 0, tail))

        if buffer is not None:
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    f.store(value, f.offset(buffer, (i * plan.m + j) * g.lanes * 4))
            finish_places(g, plan, f, buffer, epilogue, tail)
            return f
        least = f.smin(p["height"], p["width"])
        even = all(isinstance(s, int) and s % plan.m == 0 for s in g.spec.out_sizes[1:])
        with f.if_(True if even else f.icmp("sge", least, plan.m)) as branch:
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    finish(integer(i), integer(j), value)
            branch.else_()
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    inside = f.icmp("sgt", p["height"], i)
                    with f.if_(f.and_(inside, f.icmp("sgt", p["width"], j))):
                        finish(integer(i), integer(j), value)
        return f

    def _finish_in_loops(self, f: Function, epilogue: ConvEpilogue, tail: TailMask | None) -> None:
        """The body of a result function of integers, in loops, which compile in a third of the time
        and are as fast."""
        g, plan, p, one = self.g, self.plan, f.params, RESULT[self.plan.m]
        m, side, size = plan.m, plan.side, g.lanes * 4
        held, finished = f.stack(m * side * size), f.stack(m * size)

        def load_line(base: Value, stride: int) -> list[Value]:
            return [f.load(g.vector, f.offset(base, n * stride)) for n in range(side)]

        with f.range(0, side, unroll=1) as j:
            point = plan.block * plan.nr * 4
            column = load_line(f.offset(p["sums"], f.mul(j, point)), side * point)
            for i, value in enumerate(one(f, column)):
                f.store(value, f.offset(held, f.mul(f.add(j, i * side), size)))
        with f.range(0, f.smin(p["height"], m), unroll=1) as i:
            row = load_line(f.offset(held, f.mul(i, side * size)), size)
            for j, value in enumerate(one(f, row)):
                f.store(remove_scale(f, value), f.offset(finished, j * size))
            with f.range(0, f.smin(p["width"], m), unroll=1) as j:
                value = f.load(g.vector, f.offset(finished, f.mul(j, size)))
                epilogue.finish(value, TilePosition(i, j, 0, tail))
