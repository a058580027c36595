"""Recurrent kernels: the loop over time of LSTM, GRU and RNN, with the inputs' products given.

A step multiplies the state by packed weights, all gates of one panel of hidden elements at once,
so that the gates' functions work on registers and nothing but the new state is stored. The state
of the step before is read where it was written, in the output; a plain GRU, whose last product
needs the reset gate of all elements, keeps that in the last state's memory and the update gate in
the output until the second pass. Rows of the batch and directions are independent: workers share
them, and no split changes a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ...ir.specs import Operand
from ...ir.specs_recurrent import RecurrentSpec
from ...ir.target import Target
from ...ir.tiles import packed_size
from ..codegen import math
from ..codegen.emit import Function, Module, Variable
from ..codegen.kernel import Buffer, open_kernel, share
from ..codegen.llvm import BRIEF
from ..codegen.values import ELEMENT, F32, I64, Value, bytes_of, integer, number, vec
from .contract import Kernel
from .recurrent_factors import Factors
from .walk import Part, Sizes, base_pointer, load_part, part_of, store_part

_MAX_ROWS = 4


def generate(spec: RecurrentSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a recurrent spec."""
    module = Module(target)
    operands = spec.operands()
    reads = len(operands) - len(spec.outs)
    buffers = [Buffer(writes=k >= reads, noalias=False) for k in range(len(operands))]
    k = open_kernel(module, symbol, buffers, spec.dim_args)
    f, sizes = k.function, Sizes(k.function, k.dims)
    placed = [Array(f, sizes, p, o) for p, o in zip(k.buffers, operands, strict=True)]
    made = Layer(f, spec, sizes, placed, k.scratch)
    tasks = f.mul(made.batch, len(spec.reverse))
    lo, hi = share(f, tasks, k.worker, k.workers)
    for d in range(len(spec.reverse)):
        first = f.mul(made.batch, d)
        begin = f.smin(f.smax(f.sub(lo, first), 0), made.batch)
        end = f.smin(f.smax(f.sub(hi, first), 0), made.batch)
        with f.if_(f.icmp("slt", begin, end)):
            made.direction(d, begin, end)
    f.ret(0)
    return Kernel(symbol, module.text() + BRIEF, made.factors.bytes)


class Array:
    """One operand in memory: the address of an element by its indices."""

    def __init__(self, f: Function, sizes: Sizes, pointer: Value, operand: Operand) -> None:
        self.f, self.element = f, ELEMENT[operand.dtype.value]
        self.base = base_pointer(f, sizes, pointer, operand)
        self.strides = [sizes.value(s) for s in operand.strides]

    def at(self, *indices: Value | int) -> Value:
        offset: Value = integer(0)
        for index, stride in zip(indices, self.strides, strict=True):
            offset = self.f.add(offset, self.f.mul(index, stride))
        return self.f.at(self.base, offset, self.element)


@dataclass(frozen=True)
class Row:
    """One sequence at one step: its number, whether the step counts, the place in time that the
    step reads and writes, and where the state before it and the cell state before it lie."""

    b: Value
    alive: Value | None
    place: Value
    h: Value
    c: Value


@dataclass(frozen=True)
class Tile:
    """A panel's vectors for one row: gate by gate, vector by vector."""

    sums: list[list[Variable]]


class Layer:
    """Writes one layer's loops into an open kernel."""

    def __init__(
        self,
        f: Function,
        spec: RecurrentSpec,
        sizes: Sizes,
        placed: Sequence[Array],
        scratch: Value,
    ) -> None:
        self.f, self.spec, self.target = f, spec, f.target
        self.batch, self.time = sizes.value(spec.batch), sizes.value(spec.time)
        rest = list(placed)
        self.x, self.weights = rest.pop(0), rest.pop(0)
        self.first = [rest.pop(0) for _ in spec.states]
        self.lengths = rest.pop(0) if spec.lengths is not None else None
        self.bias = rest.pop(0) if spec.bias is not None else None
        self.out, self.last = rest[0], rest[1:]
        self.lanes = self.target.lanes(32)
        self.vectors = spec.packed.nr // self.lanes
        self.type = vec(F32, self.lanes)
        self.block = packed_size(spec.hidden, spec.hidden, spec.packed.nr, spec.packed.kr)
        self.factors = Factors(f, spec, scratch, _MAX_ROWS)
        self.d = 0

    # -- loops --------------------------------------------------------------------------------

    def direction(self, d: int, begin: Value, end: Value) -> None:
        """All steps of rows begin..end, then their last states and the zeros behind their ends."""
        f, spec = self.f, self.spec
        self.d = d
        with f.range(0, self.time, outer=True) as t:
            if spec.cell == "gru":
                self.panels(t, begin, end, [0, 1], self.gru_gates)
                self.panels(t, begin, end, [2], self.gru_state, reset=True)
            else:
                self.panels(t, begin, end, range(spec.gates), self.store_state)
        with f.range(begin, end, outer=True) as b:
            self.finish(b)

    def panels(
        self,
        t: Value,
        begin: Value,
        end: Value,
        gates: Sequence[int],
        store: Callable[[Row, Tile, Sequence[int], Value, list[Part | None]], None],
        *,
        reset: bool = False,
    ) -> None:
        """Every panel of hidden elements times every row: the products, then `store`."""
        f, hidden, nr = self.f, self.spec.hidden, self.spec.packed.nr
        whole, left = divmod(hidden, nr)
        for start, stop, size in ((0, whole, nr), (whole, whole + 1, left)):
            if size == 0:
                continue
            with f.range(start, stop, outer=True) as panel:
                parts = self.parts(size)
                j = f.mul(panel, nr)
                for (low, high), count in self.row_blocks(begin, end, len(gates)):
                    with f.range(low, high, count, outer=True) as b:
                        rows = [self.row(f.add(b, r), t, reset=reset) for r in range(count)]
                        tiles = [self.start(row, gates, j, parts) for row in rows]
                        self.multiply(rows, tiles, gates, panel)
                        for r, tile in self.in_turn(tiles):
                            row = self.row(f.add(b, r), t, reset=reset)
                            with self.counts(row):
                                store(row, tile, gates, j, parts)

    def in_turn(self, tiles: Sequence[Tile]) -> Iterator[tuple[Value, Tile]]:
        """The tiles of rows 0, 1, ...: several in a loop, through memory, because activations are
        long and would stand once per row."""
        f, size = self.f, bytes_of(self.type)
        if len(tiles) == 1:
            yield integer(0), tiles[0]
            return
        sums = [[s for line in tile.sums for s in line] for tile in tiles]
        pitch = size * len(sums[0])
        buffer = f.stack(pitch * len(tiles))
        for r, some in enumerate(sums):
            for i, s in enumerate(some):
                f.store(s.get(), f.offset(buffer, r * pitch + i * size), size)
        with f.range(0, len(tiles), outer=True) as r:
            place = f.offset(buffer, f.mul(r, pitch))
            for i, s in enumerate(sums[0]):
                s.set(f.load(self.type, f.offset(place, i * size), size))
            yield r, tiles[0]

    def parts(self, left: int) -> list[Part | None]:
        """What of each vector of a panel with `left` elements there is."""
        found: list[Part | None] = []
        for v in range(self.vectors):
            here = left - v * self.lanes
            if here > 0:
                whole = here >= self.lanes
                found.append(None if whole else part_of(self.f, self.lanes, integer(here)))
        return found

    def row_blocks(
        self, begin: Value, end: Value, gates: int
    ) -> list[tuple[tuple[Value, Value], int]]:
        """Ranges of rows, and how many at once: as many as registers hold, then one by one."""
        f = self.f
        wide = max(1, min(_MAX_ROWS, (self.target.registers - 6) // (gates * self.vectors)))
        if wide == 1 or self.batch.known == 1:
            return [((begin, end), 1)]
        middle = f.add(begin, f.mul(f.udiv(f.sub(end, begin), wide), wide))
        return [((begin, middle), wide), ((middle, end), 1)]

    def row(self, b: Value, t: Value, *, reset: bool) -> Row:
        """Where row b stands at step t. A row that has ended looks at its last place again."""
        f, d = self.f, self.d
        length = self.length(b)
        alive = None if self.lengths is None else f.icmp("slt", t, length)
        # An ended row still takes part in the products: it reads what is there.
        now = t if alive is None else f.smin(t, f.smax(f.sub(length, 1), 0))
        backwards = self.spec.reverse[d]
        place = f.smax(f.sub(f.sub(length, 1), now), 0) if backwards else now
        begins = f.icmp("eq", now, 0)
        # The place before is no place of the array at the first step: it is not looked at then.
        before = f.add(place, 1) if backwards else f.sub(place, 1)
        before = f.select(begins, place, before)
        h = f.select(begins, self.first[0].at(b, d, 0), self.out.at(b, d, before, 0))
        c = h
        if len(self.first) > 1:
            c = f.select(begins, self.first[1].at(b, d, 0), self.last[1].at(b, d, 0))
        if reset:
            return Row(b, alive, place, self.last[0].at(b, d, 0), h)
        return Row(b, alive, place, h, c)

    def length(self, b: Value) -> Value:
        """The row's length inside 0..time."""
        f = self.f
        if self.lengths is None:
            return self.time
        given = f.cast(f.load(self.lengths.element, self.lengths.at(b)), I64)
        return f.smin(f.smax(given, 0), self.time)

    @contextmanager
    def counts(self, row: Row) -> Iterator[None]:
        """The body where the step counts for the row."""
        if row.alive is None:
            yield
            return
        with self.f.if_(row.alive):
            yield

    def finish(self, b: Value) -> None:
        """The last states of a row, and zeros where its sequence has ended."""
        f, d = self.f, self.d
        length = self.length(b)
        with f.if_(f.icmp("sgt", length, 0)) as branch:
            end = integer(0) if self.spec.reverse[d] else f.sub(length, 1)
            self.copy(self.out.at(b, d, end, 0), self.last[0].at(b, d, 0))
            branch.else_()
            for first, last in zip(self.first, self.last, strict=True):
                self.copy(first.at(b, d, 0), last.at(b, d, 0))
        if self.lengths is not None:
            with f.range(length, self.time, unroll=1) as t:
                self.copy(None, self.out.at(b, d, t, 0))

    def copy(self, source: Value | None, to: Value) -> None:
        """One state; zeros without a source."""
        f, hidden, lanes = self.f, self.spec.hidden, self.lanes
        whole = hidden // lanes * lanes

        def move(i: Value, part: Part | None) -> None:
            value = number(0.0, self.type)
            if source is not None:
                value = load_part(f, self.type, f.at(source, i, F32), part)
            store_part(f, value, f.at(to, i, F32), part)

        with f.range(0, whole, lanes, unroll=1) as i:
            move(i, None)
        if whole != hidden:
            move(integer(whole), part_of(f, lanes, integer(hidden - whole)))

    # -- products -----------------------------------------------------------------------------

    def start(self, row: Row, gates: Sequence[int], j: Value, parts: Sequence[Part | None]) -> Tile:
        """The sums begin with the inputs' share; where the reset gate comes later, with bias."""
        f, spec = self.f, self.spec
        sums: list[list[Variable]] = []
        for gate in gates:
            line: list[Variable] = []
            for v, part in enumerate(parts):
                if spec.cell == "gru_linear" and gate == 2:
                    value = number(0.0, self.type)
                    if self.bias is not None:
                        at = self.bias.at(self.d, f.add(j, v * self.lanes))
                        value = load_part(f, self.type, at, part)
                else:
                    value = self.given(row, gate, j, v, part)
                line.append(f.var(self.type, value))
            sums.append(line)
        return Tile(sums)

    def given(self, row: Row, gate: int, j: Value, v: int, part: Part | None) -> Value:
        """The inputs' share of a gate."""
        f = self.f
        column = f.add(j, gate * self.spec.hidden + v * self.lanes)
        return load_part(f, self.type, self.x.at(row.b, row.place, self.d, column), part)

    def multiply(
        self, rows: Sequence[Row], tiles: Sequence[Tile], gates: Sequence[int], panel: Value
    ) -> None:
        """sums += state * weights."""
        f, packed = self.f, self.spec.packed
        depth = -(-self.spec.hidden // packed.kr) * packed.kr
        inside = f.mul(panel, depth * packed.nr)
        bases = [
            self.weights.at(f.add(inside, (self.d * self.spec.gates + gate) * self.block))
            for gate in gates
        ]
        self.factors.multiply([row.h for row in rows], bases, [tile.sums for tile in tiles])

    # -- gates --------------------------------------------------------------------------------

    def gate(self, n: int, x: Value) -> Value:
        """Activation n of what goes into a gate, clipped before."""
        clip = self.spec.clip
        return self.activate(n, self.f.clamp(x, -clip, clip) if clip > 0 else x)

    def activate(self, n: int, x: Value) -> Value:
        name = self.spec.activations[n]
        if name == "relu":
            return self.f.maximum(x, 0.0)
        return math.UNARY[name](self.f, x)

    def load(self, pointer: Value, j: Value, v: int, part: Part | None) -> Value:
        at = self.f.at(pointer, self.f.add(j, v * self.lanes), F32)
        return load_part(self.f, self.type, at, part)

    def store(self, x: Value, pointer: Value, j: Value, v: int, part: Part | None) -> None:
        at = self.f.at(pointer, self.f.add(j, v * self.lanes), F32)
        store_part(self.f, x, at, part)

    def store_state(
        self, row: Row, tile: Tile, gates: Sequence[int], j: Value, parts: list[Part | None]
    ) -> None:
        """The new state of an LSTM, an RNN or a GRU with a linear reset gate."""
        f, cell = self.f, self.spec.cell
        out = self.out.at(row.b, self.d, row.place, 0)
        for v, part in enumerate(parts):
            sums = [line[v].get() for line in tile.sums]
            if cell == "lstm":
                forget, take, new, show = sums
                kept = f.fmul(self.gate(0, forget), self.load(row.c, j, v, part))
                c = f.fma(self.gate(0, take), self.gate(1, new), kept)
                self.store(c, self.last[1].at(row.b, self.d, 0), j, v, part)
                h = f.fmul(self.gate(0, show), self.activate(2, c))
            elif cell == "rnn":
                h = self.gate(0, sums[0])
            else:
                z, reset = self.gate(0, sums[0]), self.gate(0, sums[1])
                given = self.given(row, 2, j, v, part)
                new = self.gate(1, f.fma(reset, sums[2], given))
                h = self.blend(z, new, self.load(row.h, j, v, part))
            self.store(h, out, j, v, part)

    def blend(self, z: Value, new: Value, old: Value) -> Value:
        """(1 - z) new + z old."""
        return self.f.fma(z, old, self.f.fmul(self.f.fsub(1.0, z), new))

    def gru_gates(
        self, row: Row, tile: Tile, gates: Sequence[int], j: Value, parts: list[Part | None]
    ) -> None:
        """First pass of a plain GRU: z waits in the output, the reset state in the last state."""
        z_at = self.out.at(row.b, self.d, row.place, 0)
        reset_at = self.last[0].at(row.b, self.d, 0)
        for v, part in enumerate(parts):
            self.store(self.gate(0, tile.sums[0][v].get()), z_at, j, v, part)
            reset = self.gate(0, tile.sums[1][v].get())
            self.store(self.f.fmul(reset, self.load(row.h, j, v, part)), reset_at, j, v, part)

    def gru_state(
        self, row: Row, tile: Tile, gates: Sequence[int], j: Value, parts: list[Part | None]
    ) -> None:
        """Second pass of a plain GRU: the new state. `row.c` is the state before."""
        out = self.out.at(row.b, self.d, row.place, 0)
        for v, part in enumerate(parts):
            new = self.gate(1, tile.sums[0][v].get())
            h = self.blend(self.load(out, j, v, part), new, self.load(row.c, j, v, part))
            self.store(h, out, j, v, part)
