"""Recurrent kernels: the loop over time of LSTM, GRU and RNN, with the inputs' products given.

A step multiplies the state by packed weights, all gates of some hidden elements at once, and
applies the cell's program to the sums; nothing but the new state is stored. The state of the step
before is read where it was written, in the output. Where the last gate multiplies something else
(a plain GRU's reset state), that waits in the last state's memory, and the number next to it in the
output, until the second pass. Rows of the batch and directions are independent: workers share
them; where they are too few, workers share the elements of each step instead, a phase per pass. No
split changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Program
from ....plan.specs.base import Operand
from ....plan.specs.recurrent import RecurrentSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.kernel_entry import BufferAssumptions, open_kernel, share
from ...llvmir.values import ELEMENT, F32, I1, I64, Value, integer, number, vec
from ..emit.contract import Kernel
from ..emit.scalar_program import emit_program
from ..emit.strided_loops import RuntimeSizes, base_pointer, masked_load, masked_store
from ..emit.tail_mask import TailMask, tail_mask
from .state_products import StateTiles, StateTileShape, shapes


def generate(spec: RecurrentSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a recurrent spec."""
    module = Module(target)
    operands = spec.operands()
    reads = len(operands) - len(spec.outs)
    buffers = [BufferAssumptions(writes=k >= reads, noalias=False) for k in range(len(operands))]
    k = open_kernel(module, symbol, buffers, spec.runtime_dims)
    f, sizes = k.function, RuntimeSizes(k.function, k.dims)
    placed = [Array(f, sizes, p, o) for p, o in zip(k.buffers, operands, strict=True)]
    made = RecurrentKernel(f, spec, sizes, placed, k.scratch)
    made.write(k.worker, k.workers)
    f.ret(0)
    return Kernel(symbol, module.text(), made.tiles.bytes)


class Array:
    """One operand in memory: the address of an element by its indices."""

    def __init__(self, f: Function, sizes: RuntimeSizes, pointer: Value, operand: Operand) -> None:
        self.f, self.element = f, ELEMENT[operand.dtype.value]
        self.base = base_pointer(f, sizes, pointer, operand)
        self.strides = [sizes.value(s) for s in operand.strides]

    def at(self, *indices: Value | int) -> Value:
        offset: Value = integer(0)
        for index, stride in zip(indices, self.strides, strict=True):
            offset = self.f.add(offset, self.f.mul(index, stride))
        return self.f.at(self.base, offset, self.element)


@dataclass(frozen=True)
class SequenceStep:
    """One sequence at one step: its number, whether the step counts, the time step that it
    reads and writes, the addresses of the states before it, and the factor of the product."""

    b: Value
    alive: Value | None
    time: Value
    states: tuple[Value, ...]
    factor: Value


class RecurrentKernel:
    """Writes one layer's loops into an open kernel."""

    def __init__(
        self,
        f: Function,
        spec: RecurrentSpec,
        sizes: RuntimeSizes,
        placed: Sequence[Array],
        scratch: Value,
    ) -> None:
        self.f, self.spec, self.target = f, spec, f.target
        self.batch, self.time = sizes.value(spec.batch), sizes.value(spec.time)
        rest = list(placed)
        self.x, self.weights = rest.pop(0), rest.pop(0)
        self.first = [rest.pop(0) for _ in spec.states]
        self.lengths = rest.pop(0) if spec.lengths is not None else None
        self.vectors = [rest.pop(0) for _ in spec.vectors]
        self.out, self.last = rest[0], rest[1:]
        self.lanes = self.target.lanes(32)
        self.type = vec(F32, self.lanes)
        self.tiles = StateTiles(f, spec, scratch)
        # The direction at hand, and the panels [lo, hi) of it.
        self.d: Value = integer(0)
        self.phased: Value = integer(0, I1)
        self.panels: tuple[Value, Value] = integer(0), integer(self.tiles.panels)

    # -- loops --------------------------------------------------------------------------------

    def write(self, worker: Value, workers: Value) -> None:
        """A worker's rows and directions; or its elements of all of them, in one phase."""
        f, directions = self.f, len(self.spec.reverse)
        phased = f.icmp("sge", worker, workers)
        phase, index = f.sub(f.udiv(worker, workers), 1), f.urem(worker, workers)
        # Rows are shared but in phases that are passes.
        passes = f.mul(self.time, self.spec.passes)
        is_pass = f.and_(phased, f.icmp("slt", phase, passes))
        lo, hi = share(f, f.mul(self.batch, directions), index, workers)
        panels, grain = self.tiles.panels, self.tiles.grain
        grains = -(-panels // grain)
        bounds = share(f, directions * grains, index, workers)
        with f.range(0, directions, outer=True) as d:

            def clamp_to_batch(at: Value, size: Value | int, d: Value = d) -> Value:
                return f.smin(f.smax(f.sub(at, f.mul(d, size)), 0), size)

            begin = f.select(is_pass, 0, clamp_to_batch(lo, self.batch))
            end = f.select(is_pass, self.batch, clamp_to_batch(hi, self.batch))
            first, last = (
                f.smin(f.mul(clamp_to_batch(at, grains), grain), panels) for at in bounds
            )
            self.panels = f.select(is_pass, first, 0), f.select(is_pass, last, panels)
            self.d, self.phased = d, phased
            with f.if_(f.and_(f.icmp("slt", begin, end), f.icmp("slt", *self.panels))):
                self.direction(begin, end, phased, phase)

    def direction(self, begin: Value, end: Value, phased: Value, phase: Value) -> None:
        """All steps of rows begin..end, then their last states and the zeros behind their ends; or
        of that what the phase is for."""
        f, spec = self.f, self.spec
        t, pass_ = f.udiv(phase, spec.passes), f.urem(phase, spec.passes)
        steps = self.steps(begin, end)
        until = f.select(phased, f.smin(steps, f.add(t, 1)), steps)
        with f.range(f.select(phased, t, 0), until, outer=True) as t:
            stop = self.last_row(t, begin, end)
            if spec.early is not None:
                with f.if_(f.or_(f.xor(phased, 1), f.icmp("eq", pass_, 0))):
                    self.apply(t, begin, stop, range(spec.gates - 1), spec.early, early=True)
                with f.if_(f.or_(f.xor(phased, 1), f.icmp("eq", pass_, 1))):
                    self.apply(t, begin, stop, range(spec.gates - 1, spec.gates), spec.step)
            else:
                self.apply(t, begin, stop, range(spec.gates), spec.step)
        passes = f.mul(self.time, spec.passes)
        with f.if_(f.or_(f.xor(phased, 1), f.icmp("eq", phase, passes))):
            with f.range(begin, end, outer=True) as b:
                self.finish(b)

    def steps(self, begin: Value, end: Value) -> Value:
        """How many steps the longest of rows begin..end takes."""
        if self.lengths is None:
            return self.time
        longest = self.f.var(I64, 0)
        with self.f.range(begin, end, unroll=1) as b:
            longest.set(self.f.smax(longest.get(), self.length(b)))
        return longest.get()

    def last_row(self, t: Value, begin: Value, end: Value) -> Value:
        """One more than the last of rows begin..end whose sequence has step t. Packed sequences are
        sorted, the longest first, so that steps compute fewer rows from end to end."""
        if self.lengths is None or self.batch.known == 1:
            return end
        stop = self.f.var(I64, begin)
        with self.f.range(begin, end, unroll=1) as b:
            takes = self.f.icmp("slt", t, self.length(b))
            stop.set(self.f.select(takes, self.f.add(b, 1), stop.get()))
        return stop.get()

    def apply(
        self,
        t: Value,
        begin: Value,
        end: Value,
        gates: range,
        program: Program,
        early: bool = False,
    ) -> None:
        """One pass over all elements of some rows: products of these gates, then the program."""
        f = self.f
        one, several = shapes(self.spec, self.target, len(gates))

        def emit_tile(shape: StateTileShape) -> None:
            with (
                f.range(*self.panels, shape.panels, outer=True) as panel,
                f.range(begin, end, shape.rows, outer=True) as low,
            ):
                high = f.smin(f.add(low, shape.rows), end)
                self.block(t, (low, high), panel, shape, gates, program, early=early)

        with f.if_(self.phased):
            # Other workers wrote most of the states: prefetch all of them at once.
            with f.range(begin, end, outer=True) as b:
                factor = self.row(b, t, again=self.spec.early is not None and not early).factor
                with f.range(0, self.spec.hidden, 64 // 4, unroll=4) as i:
                    f.prefetch(f.at(factor, i, F32))
        # Elements are shared where there are few rows.
        single = f.or_(self.phased, f.icmp("eq", f.sub(end, begin), 1))
        with f.if_(True if self.batch.known == 1 else single) as branch:
            emit_tile(one)
            branch.else_()
            emit_tile(several)

    def block(
        self,
        t: Value,
        rows: tuple[Value, Value],
        panel: Value,
        shape: StateTileShape,
        gates: range,
        program: Program,
        *,
        early: bool,
    ) -> None:
        """The products of a block of rows and some panels, and the program on each vector."""
        f, tiles, (low, high) = self.f, self.tiles, rows
        again = self.spec.early is not None and not early
        last = f.sub(high, 1)
        left, below = f.sub(high, low), 0
        for count in shape.variants:
            # The rows beyond the last one repeat it.
            fits = f.and_(f.icmp("sgt", left, below), f.icmp("sle", left, count))
            below = count
            with f.if_(True if shape.rows == 1 else fits):
                sequences = [f.smin(f.add(low, r), last) for r in range(count)]
                found = [self.row(b, t, again=again) for b in sequences]
                alive = [row.alive for row in found if row.alive is not None]
                some = alive[0] if alive else integer(1, I1)
                for other in alive[1:]:
                    some = f.or_(some, other)
                with f.if_(some):
                    size = self.spec.packed.size(self.spec.hidden)
                    weights = self.weights.at(f.mul(self.d, size))
                    factors = [(row.b, row.factor) for row in found]
                    self.fetch(found, panel, shape.panels, gates)
                    tiles.multiply(factors, weights, panel, self.panels, shape, gates)
        with f.range(low, high, outer=True) as b:
            row = self.row(b, t, again=again)
            with self.counts(row):
                stop = f.smin(f.add(panel, shape.panels), self.panels[1])
                with f.range(panel, stop, outer=True) as p:
                    at = f.add(f.mul(f.sub(b, low), shape.panels), f.sub(p, panel))
                    self.run_program(program, row, tiles.sums(at, gates), p, gates, early=early)

    def row(self, b: Value, t: Value, *, again: bool) -> SequenceStep:
        """Sequence b at step t. One that has ended reads its last time step again."""
        f, d = self.f, self.d
        length = self.length(b)
        alive = None if self.lengths is None else f.icmp("slt", t, length)
        # An ended row still takes part in the products: it reads what is there.
        now = t if alive is None else f.smin(t, f.smax(f.sub(length, 1), 0))
        mirrored = f.smax(f.sub(f.sub(length, 1), now), 0)
        time = f.select(self.backwards(), mirrored, now)
        begins = f.icmp("eq", now, 0)
        # At the first step there is no time step before it in the array: none is read then.
        before = f.select(self.backwards(), f.add(time, 1), f.sub(time, 1))
        before = f.select(begins, time, before)
        states = [f.select(begins, self.first[0].at(b, d, 0), self.out.at(b, d, before, 0))]
        for first, last in zip(self.first[1:], self.last[1:], strict=True):
            states.append(f.select(begins, first.at(b, d, 0), last.at(b, d, 0)))
        factor = self.last[0].at(b, d, 0) if again else states[0]
        return SequenceStep(b, alive, time, tuple(states), factor)

    def backwards(self) -> Value:
        """Whether the direction at hand runs from the sequence's end; of two, the second does."""
        if len(self.spec.reverse) == 1:
            return integer(self.spec.reverse[0], I1)
        return self.f.icmp("eq", self.d, 1)

    def length(self, b: Value) -> Value:
        """The row's length inside 0..time."""
        f = self.f
        if self.lengths is None:
            return self.time
        given = f.cast(f.load(self.lengths.element, self.lengths.at(b)), I64)
        return f.smin(f.smax(given, 0), self.time)

    @contextmanager
    def counts(self, row: SequenceStep) -> Iterator[None]:
        """The body where the step counts for the row."""
        if row.alive is None:
            yield
            return
        with self.f.if_(row.alive):
            yield

    def finish(self, b: Value) -> None:
        """The last states of a row, zeros where its sequence is empty or has ended."""
        f, d = self.f, self.d
        length = self.length(b)
        with f.if_(f.icmp("sgt", length, 0)) as branch:
            end = f.select(self.backwards(), 0, f.sub(length, 1))
            self.copy(self.out.at(b, d, end, 0), self.last[0].at(b, d, 0))
            branch.else_()
            for last in self.last:
                self.copy(None, last.at(b, d, 0))
        if self.lengths is not None:
            with f.range(length, self.time, unroll=1) as t:
                self.copy(None, self.out.at(b, d, t, 0))

    def copy(self, source: Value | None, to: Value) -> None:
        """One state; zeros without a source."""
        f, hidden, lanes = self.f, self.spec.hidden, self.lanes
        vector_end = hidden // lanes * lanes

        def move(i: Value, tail: TailMask | None) -> None:
            value = number(0.0, self.type)
            if source is not None:
                value = masked_load(f, self.type, f.at(source, i, F32), tail)
            masked_store(f, value, f.at(to, i, F32), tail)

        with f.range(0, vector_end, lanes, unroll=1) as i:
            move(i, None)
        if vector_end != hidden:
            move(integer(vector_end), tail_mask(f, lanes, integer(hidden - vector_end)))

    def fetch(self, rows: Sequence[SequenceStep], panel: Value, panels: int, gates: range) -> None:
        """Ask for the inputs' shares that the program reads after the products."""
        f = self.f
        for row in rows:
            share = self.x.at(row.b, row.time, self.d, f.mul(panel, self.lanes))
            for gate in gates:
                for p in range(panels):
                    f.prefetch(f.at(share, gate * self.spec.hidden + p * self.lanes, F32))

    # -- programs -----------------------------------------------------------------------------

    def run_program(
        self,
        program: Program,
        row: SequenceStep,
        sums: Sequence[Value],
        panel: Value,
        gates: range,
        *,
        early: bool,
    ) -> None:
        """A program on one vector of elements of a row."""
        f, spec, d = self.f, self.spec, self.d
        j = f.mul(panel, self.lanes)
        tail = None
        if spec.hidden % self.lanes:
            tail = tail_mask(f, self.lanes, f.sub(spec.hidden, j))
        out = self.out.at(row.b, d, row.time, 0)
        reads = {i.args[0] for i in program.instrs if i.op == "input"}

        def load_input(n: int) -> Value | None:
            """Input n of the program."""
            count = spec.gates
            if n not in reads:
                return None
            if n < count:
                return sums[n - gates[0]] if n in gates else self.load(out, j, tail)
            if n < 2 * count:
                column = f.add(j, (n - count) * spec.hidden)
                return self.load(self.x.at(row.b, row.time, d, column), integer(0), tail)
            if n < 2 * count + len(row.states):
                return self.load(row.states[n - 2 * count], j, tail)
            return self.load(self.vectors[n - 2 * count - len(row.states)].at(d, 0), j, tail)

        inputs = [load_input(n) for n in range(spec.program_inputs)]
        results = emit_program(f, program, inputs, lanes=self.lanes)
        last = [a.at(row.b, d, 0) for a in self.last]
        addresses = [last[0], out] if early else [out, *last[1:]]
        for result, address in zip(results, addresses, strict=True):
            masked_store(f, result, f.at(address, j, F32), tail)

    def load(self, pointer: Value, j: Value, tail: TailMask | None) -> Value:
        return masked_load(self.f, self.type, self.f.at(pointer, j, F32), tail)
