"""Register tiles of a recurrence's products: some rows of states by some panels of all gates.

Sums are stored in memory, where the cell's program reads them: the code of activations is long and
would be emitted once per vector of a tile. Factors are used as they are stored, or both are rounded
to bf16. Rounded states are copied, of few rows once per step and else once per panel, in the layout
of the dot-product unit: cells of two neighbours. Without such a unit copies are f32, and denormals
are flushed as the unit flushes them (runtime/kernels/gemm/bf16_rounding.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.lazy_dataclass import dataclass
from ....plan.specs.recurrent import RecurrentSpec
from ....plan.target import Target
from ...llvmir.builder import Function, Module
from ...llvmir.values import BF16, ELEMENT, F32, I32, Value, bytes_of, integer, vec
from ..emit.dot_units import UNITS
from ..emit.strided_loops import masked_load
from ..emit.tail_mask import tail_mask
from ..gemm.bf16_rounding import flush_to_zero, neighbours, round_to_bf16

# Sums in flight that keep two multiply-adds per cycle busy, and the most rows of a tile: as many
# read four vectors of weights for 16 multiply-adds, which the second cache gives in time.
_MIN_CHAINS, _MAX_ROWS = 8, 4
# Rows whose rounded states are kept from panel to panel.
_MAX_KEPT_ROWS = 64


@dataclass(frozen=True)
class StateTileShape:
    """A tile: rows and panels."""

    rows: int
    panels: int

    @property
    def variants(self) -> tuple[int, ...]:
        """Numbers of rows that have code of their own, ascending; the last is `rows`."""
        return tuple(sorted({-(-self.rows // 2), self.rows}))


def shapes(
    spec: RecurrentSpec, target: Target, gates: int
) -> tuple[StateTileShape, StateTileShape]:
    """Tiles of one row and of several, for so many gates at once."""
    panels, budget = -(-spec.hidden // target.lanes(32)), target.registers * 3 // 4
    rows = max(1, min(_MAX_ROWS, budget // gates))
    one = min(panels, max(1, _MIN_CHAINS // gates))
    return StateTileShape(1, one), StateTileShape(rows, min(panels, budget // (gates * rows)))


class StateTiles:
    """The products of `spec`'s states, tile by tile."""

    def __init__(self, f: Function, spec: RecurrentSpec, scratch: Value) -> None:
        self.f, self.spec, self.scratch = f, spec, scratch
        self.lanes = f.target.lanes(32)
        self.panels = -(-spec.hidden // self.lanes)
        self.kr, self.rounds = spec.packed.kr, spec.compute_dtype is not None
        unit = spec.compute_dtype if self.kr > 1 else None
        self.unit = UNITS[unit, self.kr, self.lanes] if unit else None
        self.vector = vec(F32, self.lanes)
        self.stored = ELEMENT[spec.weights.dtype.value]
        # One row's copy in cells of 32 bits: whole vectors of them.
        wide = self.lanes * self.kr
        self.pitch = -(-spec.hidden // wide) * self.lanes
        self.steps = -(-spec.hidden // self.kr)
        # Of a small batch of known size every row has a copy of its own, made once per step. One
        # row has none: reading an address that was just written is faster.
        batch = spec.batch if isinstance(spec.batch, int) else 1
        self.keeps = 1 < batch <= _MAX_KEPT_ROWS
        copies = batch if self.keeps else _MAX_ROWS
        self.bytes = 4 * copies * self.pitch if self.rounds else 0
        self.buffer = f.stack(bytes_of(self.vector) * f.target.registers)
        # Workers' panels begin at multiples of it: half of the largest tile of one row.
        most = shapes(spec, f.target, 1 if spec.early else spec.gates)[0].panels
        self.grain = max(1, most // 2)

    def sums(self, tile_panel: Value, gates: range) -> list[Value]:
        """The sums of these gates, by tile_panel: row * panels + panel of the last tile."""
        f, size = self.f, bytes_of(self.vector)
        first = f.mul(tile_panel, len(gates))
        return [
            f.load(self.vector, f.offset(self.buffer, f.mul(f.add(first, i), size)), size)
            for i in range(len(gates))
        ]

    def multiply(
        self,
        states: Sequence[tuple[Value, Value]],
        weights: Value,
        panel: Value,
        among: tuple[Value, Value],
        shape: StateTileShape,
        gates: range,
    ) -> None:
        """states (by row) * some panels of a direction's weights, step by step of the state in
        ascending order, into the buffer; of panels `among` [lo, hi), lo first, fewer at the end."""
        f, (lo, hi) = self.f, among
        first = f.icmp("eq", panel, lo)
        rows = [self._factor(i, b, h, first) for i, (b, h) in enumerate(states)]
        left, below = f.sub(hi, panel), 0
        for count in self._counts(shape):
            fits = f.icmp("sgt", left, below)
            below = count
            if count < shape.panels:
                fits = f.and_(fits, f.icmp("sle", left, count))
            with f.if_(fits):
                self._call(rows, weights, panel, count, shape, gates)

    def _counts(self, shape: StateTileShape) -> list[int]:
        """How many panels a tile may have left, ascending: workers' bounds are multiples of the
        grain, where rows come singly, or the ends."""
        bounds = [0, self.panels]
        if shape.rows == 1:
            bounds += range(0, self.panels, self.grain)
        left = {(hi - lo) % shape.panels for hi in bounds for lo in bounds if lo < hi}
        return [*sorted(left - {0}), shape.panels]

    def _call(
        self,
        states: Sequence[Value],
        weights: Value,
        panel: Value,
        count: int,
        shape: StateTileShape,
        gates: range,
    ) -> None:
        """The tile of so many panels: a function of its own, whose sums have all registers."""
        f, packed, rows = self.f, self.spec.packed, len(states)
        name = f"tile.{rows}.{count}.{gates[0]}.{len(gates)}.{shape.panels}"
        first = f.at(weights, f.mul(panel, self.steps * packed.nr * self.kr), self.stored)

        def write(module: Module, name: str) -> Function:
            pointers = [("ptr", n) for n in ("weights", "sums", *(f"h{r}" for r in range(rows)))]
            made = module.function(
                name, pointers, attributes="nounwind noinline", linkage="internal"
            )
            self._write(made, rows, count, shape.panels * len(gates), gates)
            return made

        f.call_function(f.module.define_once(name, write), first, self.buffer, *states)

    def _write(self, f: Function, rows: int, count: int, pitch: int, gates: range) -> None:
        """The tile's body; sums of one row after the other, `pitch` vectors apart."""
        cells, p = self.spec.packed.nr * self.kr, f.params
        states = [p[f"h{r}"] for r in range(rows)]
        across, size = count * len(gates), bytes_of(self.vector)
        bases = [f.at(p["weights"], n * self.steps * cells, self.stored) for n in range(count)]
        sums = [[f.var(self.vector, 0.0) for _ in range(across)] for _ in states]
        with flush_to_zero(f, self.rounds and self.unit is None):
            with f.range(0, self.steps, unroll=2) as k:
                at = f.mul(k, cells)

                def weight(i: int) -> Value:
                    gate = gates[i % len(gates)]
                    offset = f.add(at, gate * self.lanes * self.kr)
                    return self._weight(f, f.at(bases[i // len(gates)], offset, self.stored))

                def add(r: int, i: int, state: Value, weight: Value) -> None:
                    s = sums[r][i]
                    s.set(self._multiply_add(f, state, weight, s.get()))

                # The shorter side waits in registers.
                if rows <= across:
                    operands = [self._state(f, h, k) for h in states]
                    for i in range(across):
                        one = weight(i)
                        for r, state in enumerate(operands):
                            add(r, i, state, one)
                else:
                    operands = [weight(i) for i in range(across)]
                    for r, h in enumerate(states):
                        one = self._state(f, h, k)
                        for i, other in enumerate(operands):
                            add(r, i, one, other)
            for r, row in enumerate(sums):
                for i, s in enumerate(row):
                    f.store(s.get(), f.offset(p["sums"], (r * pitch + i) * size), size)
        f.ret()

    def _state(self, f: Function, h: Value, k: Value) -> Value:
        element = F32 if self.unit is None else I32
        return f.splat(f.load(element, f.at(h, k, element)), self.lanes)

    def _weight(self, f: Function, address: Value) -> Value:
        if self.unit is not None:
            return f.load(vec(I32, self.lanes), address, 4)
        x = f.load(vec(self.stored, self.lanes), address)
        return f.cast(x, F32) if self.stored == BF16 else x

    def _multiply_add(self, f: Function, a: Value, b: Value, c: Value) -> Value:
        if self.unit is None:
            return f.fma(a, b, c)
        pair = [f.bitcast(x, self.unit.factors) for x in (a, b)]
        return f.call(self.unit.intrinsic, self.vector, c, *pair)

    def _factor(self, i: int, b: Value, h: Value, first: Value) -> Value:
        """What a tile reads as the state at `h` of row b, the tile's i-th; of the first panels?"""
        f = self.f
        if not self.rounds:
            return h
        slot = b if self.keeps else integer(i)
        to = f.at(self.scratch, f.mul(slot, self.pitch), I32)
        with f.if_(first if self.keeps else True):
            self._copy(h, to)
        return to

    def _copy(self, h: Value, to: Value) -> None:
        """A state, rounded, in cells, zeros behind its end."""
        f, hidden, lanes = self.f, self.spec.hidden, self.lanes
        wide = lanes * self.kr
        vector_end = hidden // wide * wide

        def read(first: Value, left: int) -> Value:
            if left <= 0:
                return f.as_value(0.0, self.vector)
            tail = None if left >= lanes else tail_mask(f, lanes, integer(left))
            return masked_load(f, self.vector, f.at(h, first, F32), tail)

        def copy(i: Value, left: int) -> None:
            halves = [read(f.add(i, n * lanes), left - n * lanes) for n in range(self.kr)]
            cells = neighbours(f, *halves) if self.unit else round_to_bf16(f, halves[0])
            f.store(cells, f.at(to, f.udiv(i, self.kr), I32), 4)

        with f.range(0, vector_end, wide, unroll=1) as i:
            copy(i, wide)
        if vector_end < hidden:
            copy(integer(vector_end), hidden - vector_end)
