"""Squeeze-and-excite: means of an image's channels, two small products, and the channels scaled.

Four passes: sums of runs of pixels; means and states; gates; the scaling. A worker alone makes all
of them image after image, workers with fewer images than they are share each pass, as phases. What
one pass writes for the next is stored in memory; means are made by each worker for itself. An image
that is shared is summed and scaled by the same worker's runs of pixels, which it still has in its
cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ....ir.dtype import DType
from ....plan.specs.base import Operand
from ....plan.specs.squeeze_excite import CHUNKS, SqueezeExciteSpec
from ....plan.target import Target
from ...jit.llvm import BRIEF
from ...llvmir.builder import Module, StackVariable
from ...llvmir.kernel_entry import BufferAssumptions, open_kernel, share
from ...llvmir.kernel_entry import OpenKernel as Open
from ...llvmir.values import F32, Value, integer, number, vec
from ..emit.casts import cast
from ..emit.contract import Kernel
from ..emit.scalar_program import emit_program
from ..emit.strided_loops import Lane, RowCursor, RuntimeSizes, masked_load, masked_store
from ..emit.tail_mask import TailMask, tail_mask
from ..gemm.bf16_rounding import flush_to_zero
from ..recurrent.kernel import Array

Tails = Sequence[TailMask | None]
Sums = Sequence[Sequence[StackVariable]]
Tile = Sequence[Sums]

# Sums held at a time: as many as keep a unit of two additions a cycle and four cycles each busy.
_ACCUMULATORS = 8
# Panels that a row is multiplied by at a time: streams of weights that come in side by side.
_PANELS_PER_PASS = 4
# Vectors of a row that are scaled at a time.
_UNROLL = 4


def generate(spec: SqueezeExciteSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a squeeze-and-excite."""
    module = Module(target)
    count = len(spec.operands())
    reads = count - spec.output_count()
    buffers = [BufferAssumptions(writes=n >= reads, noalias=False) for n in range(count)]
    k = open_kernel(module, symbol, buffers, spec.runtime_dims)
    made = _Excite(spec, k)
    made.write(k.worker, k.workers)
    k.function.ret(0)
    return Kernel(symbol, module.text() + BRIEF, made.scratch_bytes)


class _Excite:
    def __init__(self, spec: SqueezeExciteSpec, k: Open) -> None:
        self.spec, self.f, self.scratch = spec, k.function, k.scratch
        f, self.sizes = self.f, RuntimeSizes(k.function, k.dims)
        self.lanes = f.target.lanes(32)
        self.vector = vec(F32, self.lanes)
        placed = [
            Array(f, self.sizes, p, o) for p, o in zip(k.buffers, spec.operands(), strict=True)
        ]
        self.data, self.down, self.up, *rest = placed
        self.sums, self.states, self.gates, self.out = rest[-4:]
        counts = [len(x) for x in (spec.squeeze_extras, spec.gate_extras, spec.epilogue_operands)]
        ends = [sum(counts[: n + 1]) for n in range(3)]
        self.squeezed, self.gated = rest[: ends[0]], rest[ends[0] : ends[1]]
        self.extras = rest[ends[1] : ends[2]]

    @property
    def scratch_bytes(self) -> int:
        """The means of an image, padded to whole vectors, and a product's sums."""
        return 4 * (self.scratch_elements + _PANELS_PER_PASS * 2 * self.lanes)

    @property
    def scratch_elements(self) -> int:
        """Elements of scratch that the means take."""
        return -(-self.spec.channels // self.lanes) * self.lanes

    def write(self, worker: Value, workers: Value) -> None:
        """A worker's images; or its part of all of them, in one phase."""
        f, spec = self.f, self.spec
        phased = f.icmp("sge", worker, workers)
        phase, index = f.sub(f.udiv(worker, workers), 1), f.urem(worker, workers)
        batch = self.sizes.value(spec.batch)
        lo, hi = share(f, batch, index, workers)

        def worker_range(count: int) -> tuple[Value, Value]:
            begin, end = share(f, count, index, workers)
            return f.select(phased, begin, 0), f.select(phased, end, count)

        @contextmanager
        def in_phase(n: int) -> Iterator[None]:
            with f.if_(f.or_(f.xor(phased, 1), f.icmp("eq", phase, n))):
                yield

        runs = worker_range(CHUNKS)
        begin, end = f.select(phased, 0, lo), f.select(phased, batch, hi)
        with f.range(begin, end, outer=True) as b:
            with in_phase(0), f.range(*runs, outer=True) as run:
                self.sum_run(b, run)
            with in_phase(1):
                panels = worker_range(self.panels(spec.hidden, spec.down_panels.nr))
                with f.if_(f.icmp("slt", *panels)):
                    self.squeeze(b, panels)
            with in_phase(2):
                self.open_gates(b, worker_range(self.panels(spec.channels, spec.up_panels.nr)))
            with in_phase(3):
                first, last = (self.run_start(n) for n in runs)
                self.scale(b, first, last)

    @staticmethod
    def panels(columns: int, width: int) -> int:
        return -(-columns // width)

    def run_start(self, run: Value) -> Value:
        """The pixel at which a run begins."""
        return self.f.udiv(self.f.mul(self.sizes.product(self.spec.places), run), CHUNKS)

    def blocks(
        self, count: int, width: int, first: Value, last: Value
    ) -> Iterator[tuple[Value, Value, Tails]]:
        """Write the body for whole blocks of `width` columns, and again for the last one."""
        f, whole = self.f, count // width
        with f.range(first, f.smin(last, whole), outer=True) as n:
            yield n, f.mul(n, width), [None] * (width // self.lanes)
        if left := count % width:
            with f.if_(f.icmp("eq", last, whole + 1)):
                tails: list[TailMask | None] = [None] * (left // self.lanes)
                if rest := left % self.lanes:
                    tails.append(tail_mask(f, self.lanes, integer(rest)))
                yield integer(whole), integer(whole * width), tails

    def rows(self, arrays: Sequence[tuple[Array, Operand]], b: Value) -> RowCursor:
        """The pixels of an image in several operands."""
        pointers = [a.at(b, *[0] * (len(o.strides) - 1)) for a, o in arrays]
        types = [o.dtype for _, o in arrays]
        steps = [o.strides[1:-1] for _, o in arrays]
        return RowCursor(self.f, self.sizes, self.spec.places, pointers, types, steps)

    def zeros(self, count: int) -> list[StackVariable]:
        zero = number(0.0, self.vector)
        return [self.f.var(self.vector, zero) for _ in range(count)]

    def add_pairwise(self, chains: Sequence[StackVariable]) -> Value:
        """The sum of some sums, pairs by pairs."""
        values = [c.get() for c in chains]
        while len(values) > 1:
            values = [self.f.fadd(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    # -- the passes ---------------------------------------------------------------------------

    def sum_run(self, b: Value, run: Value) -> None:
        """The sums of one run of pixels, a block of channels after the other."""
        f, spec = self.f, self.spec
        width = _ACCUMULATORS * self.lanes
        first, last = self.run_start(run), self.run_start(f.add(run, 1))
        blocks = self.panels(spec.channels, width)
        for _, c, tails in self.blocks(spec.channels, width, integer(0), integer(blocks)):
            deep = max(1, _ACCUMULATORS // len(tails))
            deep = 1 << (deep.bit_length() - 1)
            sums = [self.zeros(deep) for _ in tails]
            rows = self.rows([(self.data, spec.data)], b)
            rows.seek(first)

            def add(
                n: int,
                c: Value = c,
                tails: Tails = tails,
                sums: Sums = sums,
                rows: RowCursor = rows,
            ) -> None:
                (at,) = rows.pointers()
                for v, tail in enumerate(tails):
                    x = masked_load(f, self.vector, f.at(at, f.add(c, v * self.lanes), F32), tail)
                    sums[v][n].set(f.fadd(sums[v][n].get(), x))
                rows.advance()

            count = f.sub(last, first)
            whole = f.mul(f.udiv(count, deep), deep)
            with f.range(0, whole, deep, unroll=1):
                for n in range(deep):
                    add(n)
            if deep > 1:
                with f.range(whole, count, unroll=1):
                    add(0)
            for v, tail in enumerate(tails):
                at = self.sums.at(b, run, f.add(c, v * self.lanes))
                masked_store(f, self.add_pairwise(sums[v]), at, tail)

    def squeeze(self, b: Value, panels: tuple[Value, Value]) -> None:
        """The means of all channels, then some panels of states."""
        f, spec, lanes = self.f, self.spec, self.lanes
        count = f.splat(cast(f, self.sizes.product(spec.places), DType.i64, DType.f32), lanes)

        def mean(c: Value, tail: TailMask | None) -> None:
            held = self.zeros(CHUNKS)
            for n, one in enumerate(held):
                one.set(masked_load(f, self.vector, self.sums.at(b, n, c), tail))
            (y,) = emit_program(f, spec.mean, [self.add_pairwise(held), count], lanes=lanes)
            f.store(y, f.at(self.scratch, c, F32))

        whole = spec.channels // lanes * lanes
        with f.range(0, whole, lanes, unroll=1) as c:
            mean(c, None)
        if whole < spec.channels:
            mean(integer(whole), tail_mask(f, lanes, integer(spec.channels - whole)))
        self.product(b, self.scratch, spec.channels, spec.hidden, self.down, panels, True)

    def open_gates(self, b: Value, panels: tuple[Value, Value]) -> None:
        """Some panels of gates."""
        states, spec = self.states.at(b, 0), self.spec
        self.product(b, states, spec.hidden, spec.channels, self.up, panels, False)

    def product(
        self,
        b: Value,
        left: Value,
        depth: int,
        columns: int,
        weights: Array,
        panels: tuple[Value, Value],
        down: bool,
    ) -> None:
        """A row times some panels, and the program on what comes out of it."""
        f, spec, lanes = self.f, self.spec, self.lanes
        width = (spec.down_panels if down else spec.up_panels).nr
        first, last = panels
        vectors, together = width // lanes, min(_PANELS_PER_PASS, self.panels(columns, width))
        # By the number of all panels: whatever a worker's share, a sum has as many chains.
        deep = max(1, _ACCUMULATORS // (vectors * together))
        deep = 1 << (deep.bit_length() - 1)
        with f.range(first, last, together, outer=True) as n:
            sums = [[self.zeros(deep) for _ in range(vectors)] for _ in range(together)]
            # Beyond the last panel stands that panel again.
            at = [f.smin(f.add(n, u), f.sub(last, 1)) for u in range(together)]
            bases = [f.at(weights.base, f.mul(i, depth * width), weights.element) for i in at]

            def step(
                k: Value, chain: int, sums: Tile = sums, bases: Sequence[Value] = bases
            ) -> None:
                x = f.splat(f.load(F32, f.at(left, k, F32)), lanes)
                for base, panel in zip(bases, sums, strict=True):
                    row = f.at(base, f.mul(k, width), weights.element)
                    for v, chains in enumerate(panel):
                        here = f.at(row, v * lanes, weights.element)
                        w = f.cast(f.load(vec(weights.element, lanes), here), F32)
                        chains[chain].set(f.fma(x, w, chains[chain].get()))

            with flush_to_zero(f, spec.compute_dtype is not None):
                whole = depth // deep * deep
                with f.range(0, whole, deep, unroll=1) as k:
                    for chain in range(deep):
                        step(f.add(k, chain), chain)
                with f.range(whole, depth, unroll=1) as k:
                    step(k, 0)
                for u, panel in enumerate(sums):
                    for v, chains in enumerate(panel):
                        f.store(self.add_pairwise(chains), self.tile(u * width + v * lanes))
            begin, end = f.mul(n, width), f.mul(f.smin(f.add(n, together), last), width)

            def finish(c: Value, tail: TailMask | None, begin: Value = begin) -> None:
                value = f.load(self.vector, self.tile(f.sub(c, begin)))
                self.finish(b, value, c, tail, down=down)

            whole = columns // lanes * lanes
            with f.range(begin, f.smin(end, whole), lanes, unroll=1) as c:
                finish(c, None)
            if over := columns - whole:
                with f.if_(f.icmp("sgt", end, whole)):
                    finish(integer(whole), tail_mask(f, lanes, integer(over)))

    def tile(self, at: Value | int) -> Value:
        """Where a sum of the panels at hand lies."""
        return self.f.at(self.scratch, self.f.add(at, self.scratch_elements), F32)

    def finish(
        self, b: Value, value: Value, c: Value, tail: TailMask | None, *, down: bool
    ) -> None:
        """The program on a vector of a product's sums, stored."""
        f, spec = self.f, self.spec
        program = spec.squeeze if down else spec.gate
        given = self.squeezed if down else self.gated
        listed = spec.squeeze_extras if down else spec.gate_extras
        extras = [self.along(a, o, [b], c, tail) for a, o in zip(given, listed, strict=True)]
        (y,) = emit_program(f, program, [value, *extras], lanes=self.lanes)
        masked_store(f, y, (self.states if down else self.gates).at(b, c), tail)

    def along(
        self, array: Array, operand: Operand, lead: Sequence[Value], c: Value, tail: TailMask | None
    ) -> Value:
        """A vector of an extra operand."""
        line = Lane(self.f, self.sizes, operand.dtype, operand.strides[-1], self.lanes)
        line.begin(array.at(*lead, 0))
        return line.load(c, tail)

    def scale(self, b: Value, first: Value, last: Value) -> None:
        """The pixels of some runs."""
        f, spec, lanes = self.f, self.spec, self.lanes
        listed = [(self.data, spec.data), *zip(self.extras, spec.epilogue_operands, strict=True)]
        listed.append((self.out, spec.out))
        rows = self.rows(listed, b)
        lines = [Lane(f, self.sizes, o.dtype, o.strides[-1], lanes) for _, o in listed]
        gates = Lane(f, self.sizes, DType.f32, 1, lanes)
        gates.begin(self.gates.at(b, 0))

        def run(columns: Sequence[Value], tail: TailMask | None) -> None:
            x, *extras = lines[:-1]
            read = [
                [x.load(c, tail), gates.load(c, tail), *(e.load(c, tail) for e in extras)]
                for c in columns
            ]
            for c, values in zip(columns, read, strict=True):
                (y,) = emit_program(f, spec.scale, values, lanes=lanes)
                lines[-1].store(y, c, tail)

        with f.if_(f.icmp("slt", first, last)):
            rows.seek(first)
            with f.range(first, last, outer=True):
                for n, (line, at) in enumerate(zip(lines, rows.pointers(), strict=True)):
                    line.begin(at, reads=n < len(lines) - 1)
                block = lanes * _UNROLL
                blocks = spec.channels // block * block
                whole = spec.channels // lanes * lanes
                with f.range(0, blocks, block, unroll=1) as c:
                    run([f.add(c, u * lanes) for u in range(_UNROLL)], None)
                run([integer(c) for c in range(blocks, whole, lanes)], None)
                if left := spec.channels - whole:
                    run([integer(whole)], tail_mask(f, lanes, integer(left)))
                rows.advance()
