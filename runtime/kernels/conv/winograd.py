"""Convolutions of 3 x 3 taps by Winograd's transform: fewer products, more additions.

Output tiles of m x m places are transformed in blocks, so that a block's data stay in L2. Per
block: all channels of all its tiles are transformed into scratch; then, panel of output channels
by panel, the (m + 2)^2 products of (tiles x C) by (C x panel) are computed and their tiles
transformed back, with the epilogue, while they are still in the cache.

A tile's numbers depend on its place in the image alone: neither blocks nor workers change bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....ir.specs import Size
from ....ir.specs_conv import ConvSpec
from ....ir.target import Target
from ...codegen.emit import Function, Module
from ...codegen.kernel import Kernel as Entry
from ...codegen.kernel import open_kernel, share
from ...codegen.llvm import BRIEF
from ...codegen.values import ELEMENT, F32, I64, Value, integer
from ..contract import Kernel
from ..gemm.tiling import tile_rows
from ..transforms import DATA, RESULT, both_ways
from ..walk import Part, in_parts, load_part
from .place import Context, Epilogue, Spot, buffers_of, widths
from .tiling import three_axes

_UNROLL = 4


@dataclass(frozen=True)
class Plan:
    """m: side of an output tile; side: of the data it reads; nr: channels of a panel; rows: tiles
    per register tile; block: tiles transformed at once, a multiple of `rows`; pitch: elements
    between two tiles' channels in scratch."""

    m: int
    lanes: int
    nr: int
    rows: int
    block: int
    pitch: int

    @property
    def side(self) -> int:
        return self.m + 2

    @property
    def points(self) -> int:
        return self.side * self.side


def choose(spec: ConvSpec, target: Target) -> Plan:
    """The plan of a convolution of three spatial axes."""
    m, nr, lanes = spec.packed.winograd, spec.packed.nr, target.lanes(32)
    points = (m + 2) ** 2
    # A line more than the channels fill: tiles a power of two apart would share cache sets.
    pitch = -(-spec.channels // lanes) * lanes + 16
    most = tile_rows(target, nr // lanes)
    room = max(most, (target.l2 or 256 << 10) * 3 // 4 // (4 * points * (pitch + nr)))
    sizes = [spec.batch, *spec.out_sizes[1:]]
    tiles = 4 * room
    if all(isinstance(s, int) for s in sizes):
        batch, height, width = (s for s in sizes if isinstance(s, int))
        tiles = max(1, batch * -(-height // m) * -(-width // m))
    blocks = -(-tiles // room)
    block = -(-tiles // blocks)
    strips = -(-block // most)
    rows = -(-block // strips)
    return Plan(m, lanes, nr, rows, strips * rows, pitch)


def generate(spec: ConvSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a convolution whose weights are transformed."""
    module = Module(target)
    wide = three_axes(spec)
    plan = choose(wide, target)
    g = Context(wide, target, module, plan.lanes)
    entry = open_kernel(module, symbol, buffers_of(spec), spec.dim_args)
    loops = _Loops(g, plan, entry)
    loops.run()
    return Kernel(symbol, module.text() + BRIEF, loops.scratch)


class _Loops:
    def __init__(self, g: Context, plan: Plan, entry: Entry) -> None:
        self.g, self.plan, self.entry, self.f, self.spec = g, plan, entry, entry.function, g.spec
        f, spec = self.f, g.spec
        self.frame = f.stack(max(8, g.frame_bytes))
        for i, d in enumerate(entry.dims):
            g.set_dim(f, self.frame, i, d)
        self.out = [self.size(s) for s in spec.out_sizes[1:]]
        self.data = [self.size(s) for s in spec.in_sizes[1:]]
        self.pads = [self.size(s) for s in spec.window.pads[1:]]
        self.pointers = [
            f.at(p, self.size(o.offset), ELEMENT[o.dtype.value])
            for p, o in zip(entry.buffers, spec.operands(), strict=True)
        ]
        self.across = [f.ceil_div(n, plan.m) for n in self.out]
        self.panels = -(-spec.outputs // plan.nr)
        held = plan.points * plan.block * plan.pitch * 4
        self.scratch = held + plan.points * plan.block * plan.nr * 4
        self.turned, self.sums = entry.scratch, f.offset(entry.scratch, held)
        self.products: dict[tuple[int, int], Function] = {}

    def size(self, size: Size) -> Value:
        return integer(size) if isinstance(size, int) else self.entry.dims[size.index]

    def run(self) -> None:
        f, spec, plan = self.f, self.spec, self.plan
        if any(s == 0 for s in (spec.batch, spec.outputs, *spec.out_sizes)):
            f.ret(0)
            return
        each = f.mul(*self.across)
        tiles, panels = self.split(f.mul(self.size(spec.batch), each))
        into = {edge: self.data_function(edge) for edge in (False, True)}
        with f.range(*tiles, plan.block, outer=True) as first:
            count = f.smin(f.sub(tiles[1], first), plan.block)
            with f.range(0, count, outer=True) as i:
                self.transform(into, f.add(first, i), each, i)
            with f.range(*panels, outer=True) as panel:
                for channels in widths(f, panel, spec.outputs, plan.nr):
                    self.panel(first, count, each, panel, channels)
        f.ret(0)

    def split(self, tiles: Value) -> tuple[tuple[Value, Value], tuple[Value, Value]]:
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

    def place(self, tile: Value, each: Value) -> tuple[Value, Value, Value]:
        """Image, first row and first column of a tile."""
        f, m = self.f, self.plan.m
        inside = f.urem(tile, each)
        row, column = f.udiv(inside, self.across[1]), f.urem(inside, self.across[1])
        return f.udiv(tile, each), f.mul(row, m), f.mul(column, m)

    # -- data ---------------------------------------------------------------------------------

    def transform(self, into: dict[bool, Function], tile: Value, each: Value, index: Value) -> None:
        """One tile's data into scratch."""
        f, plan = self.f, self.plan
        batch, row, column = self.place(tile, each)
        strides = [self.size(s) for s in self.spec.data.strides]
        y, x = f.sub(row, self.pads[0]), f.sub(column, self.pads[1])
        at = f.add(f.mul(batch, strides[0]), f.add(f.mul(y, strides[3]), f.mul(x, strides[4])))
        data = f.at(self.pointers[0], at, F32)
        to = f.at(self.turned, f.mul(index, plan.pitch), F32)
        fits = f.icmp("sge", f.smin(y, x), 0)
        room = [f.sub(n, f.add(p, plan.side)) for n, p in zip(self.data, (y, x), strict=True)]
        fits = f.and_(fits, f.icmp("sge", f.smin(*room), 0))
        with f.if_(fits) as branch:
            f.call_function(into[False], self.frame, data, to, y, x)
            branch.else_()
            f.call_function(into[True], self.frame, data, to, y, x)

    def data_function(self, edge: bool) -> Function:
        """data(frame, data, to, y, x): the square at `data`, whose place in the image is (y, x),
        transformed for all channels. At an edge what lies outside the image is zero."""
        g, plan, spec = self.g, self.plan, self.spec
        f = g.module.function(
            g.module.unique("data"),
            [("ptr noalias", "frame"), ("ptr noalias readonly", "data"), ("ptr noalias", "to")]
            + [(I64, "y"), (I64, "x")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p, side, lanes = f.params, plan.side, plan.lanes
        steps = [g.size(f, p["frame"], s) for s in spec.data.strides[3:]]
        sizes = [g.size(f, p["frame"], s) for s in spec.in_sizes[1:]]
        inside = [
            [f.icmp("ult", f.add(p[name], i), size) for i in range(side)]
            for name, size in zip(("y", "x"), sizes, strict=True)
        ]

        def square(c: Value, part: Part | None) -> None:
            rows: list[list[Value]] = []
            for i in range(side):
                row: list[Value] = []
                for j in range(side):
                    at = f.add(f.add(f.mul(steps[0], i), f.mul(steps[1], j)), c)
                    place = f.at(p["data"], at, F32)
                    if not edge:
                        row.append(load_part(f, g.vector, place, part))
                        continue
                    value = f.var(g.vector, 0)
                    with f.if_(f.and_(inside[0][i], inside[1][j])):
                        value.set(load_part(f, g.vector, place, part))
                    row.append(value.get())
                rows.append(row)
            for i, row in enumerate(both_ways(f, DATA[plan.m], rows)):
                for j, value in enumerate(row):
                    at = f.add(c, (i * side + j) * plan.block * plan.pitch)
                    f.store(value, f.at(p["to"], at, F32), 4)

        for c, part in in_parts(f, spec.channels, lanes):
            square(c, part)
        return f

    # -- products and results -----------------------------------------------------------------

    def panel(self, first: Value, count: Value, each: Value, panel: Value, channels: int) -> None:
        """One panel of output channels of a block's tiles."""
        f, plan, spec = self.f, self.plan, self.spec
        vectors = -(-channels // plan.lanes)
        matrix = self.panels * plan.nr * spec.channels
        weights = f.at(self.pointers[1], f.mul(panel, plan.nr * spec.channels), F32)
        product = self.product(vectors)
        strips = f.ceil_div(count, plan.rows)
        with f.range(0, plan.points, outer=True) as point:
            data = f.at(self.turned, f.mul(point, plan.block * plan.pitch), F32)
            sums = f.at(self.sums, f.mul(point, plan.block * plan.nr), F32)
            b = f.at(weights, f.mul(point, matrix), F32)
            with f.range(0, strips, outer=True) as strip:
                row = f.mul(strip, plan.rows)
                a = f.at(data, f.mul(row, plan.pitch), F32)
                f.call_function(product, a, b, f.at(sums, f.mul(row, plan.nr), F32))
        parts = [min(plan.lanes, channels - v * plan.lanes) for v in range(vectors)]
        result = {n: self.result_function(n) for n in dict.fromkeys(parts)}
        with f.range(0, count, unroll=1) as i:
            batch, row, column = self.place(f.add(first, i), each)
            left = [f.sub(n, at) for n, at in zip(self.out, (row, column), strict=True)]
            sums = f.at(self.sums, f.mul(i, plan.nr), F32)
            for v, n in enumerate(parts):
                channel = f.add(f.mul(panel, plan.nr), v * plan.lanes)
                walked = zip(self.pointers[2:], self.g.walked, strict=True)
                for k, (pointer, o) in enumerate(walked):
                    at = integer(0)
                    spot = (batch, channel, integer(0), row, column)
                    for index, stride in zip(spot, o.strides, strict=True):
                        at = f.add(at, f.mul(index, self.size(stride)))
                    self.g.set_base(f, self.frame, k, f.at(pointer, at, ELEMENT[o.dtype.value]))
                place = f.at(sums, v * plan.lanes, F32)
                f.call_function(result[n], self.frame, place, *left)

    def product(self, vectors: int) -> Function:
        """product(a, b, to): `rows` tiles times one panel at one point."""
        g, plan = self.g, self.plan
        if (plan.rows, vectors) in self.products:
            return self.products[plan.rows, vectors]
        f = g.module.function(
            g.module.unique("product"),
            [("ptr noalias readonly", "a"), ("ptr noalias readonly", "b"), ("ptr noalias", "to")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p, lanes, depth = f.params, plan.lanes, self.spec.channels
        sums = [[f.var(g.vector, 0) for _ in range(vectors)] for _ in range(plan.rows)]

        def step(k: Value) -> None:
            at = f.at(p["b"], f.mul(k, plan.nr), F32)
            right = [f.load(g.vector, f.at(at, v * lanes, F32)) for v in range(vectors)]
            column = f.at(p["a"], k, F32)
            for i, row in enumerate(sums):
                x = f.splat(f.load(F32, f.at(column, i * plan.pitch, F32)), lanes)
                for s, y in zip(row, right, strict=True):
                    s.set(f.fma(x, y, s.get()))

        # As in micro.py: tall tiles have no registers for a second step's loads.
        unroll = min(_UNROLL, 24 // (plan.rows * vectors) + 1)
        whole = depth // unroll * unroll
        with f.range(0, whole, unroll, unroll=1) as k:
            for u in range(unroll):
                step(f.add(k, u))
        for k in range(whole, depth):
            step(integer(k))
        for i, row in enumerate(sums):
            for v, s in enumerate(row):
                f.store(s.get(), f.at(p["to"], i * plan.nr + v * lanes, F32))
        self.products[plan.rows, vectors] = f
        return f

    def result_function(self, channels: int) -> Function:
        """result(frame, sums, height, width): one tile's sums of up to a vector of channels
        transformed back and finished. At an edge fewer places than m x m exist."""
        g, plan = self.g, self.plan
        name = f"result_{channels}"
        made = g.module.once(name, lambda module, n: self._make_result(n, channels))
        assert made.name == name and plan.m
        return made

    def _make_result(self, name: str, channels: int) -> Function:
        g, plan = self.g, self.plan
        f = g.module.function(
            name,
            [("ptr noalias", "frame"), ("ptr noalias readonly", "sums")]
            + [(I64, "height"), (I64, "width")],
            attributes="nounwind noinline",
            linkage="internal",
        )
        p, (part,) = f.params, g.parts(f, channels)
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
        epilogue = Epilogue(g, f, p["frame"])
        epilogue.share([(0, part)])
        buffer = None if g.short else f.stack(plan.m * plan.m * g.lanes * 4)
        rows = both_ways(f, RESULT[plan.m], square)

        def finish(i: Value, j: Value, value: Value) -> None:
            epilogue.finish(value, Spot(i, j, 0, part))

        if buffer is not None:
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    f.store(value, f.offset(buffer, (i * plan.m + j) * g.lanes * 4))
            with (
                f.range(0, f.smin(p["height"], plan.m), unroll=1) as i,
                f.range(0, f.smin(p["width"], plan.m), unroll=1) as j,
            ):
                at = f.mul(f.add(f.mul(i, plan.m), j), g.lanes * 4)
                finish(i, j, f.load(g.vector, f.offset(buffer, at)))
            return f
        least = f.smin(p["height"], p["width"])
        with f.if_(f.icmp("sge", least, plan.m)) as branch:
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
