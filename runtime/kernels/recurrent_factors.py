"""The factors of a recurrence's products: numbers as they lie, or both rounded to bf16.

Rounded states are copied for the rows at hand, so that they are rounded once per panel and lie as
a unit wants them: a cell of two neighbours each. Without such a unit copies are numbers again, and
denormals are flushed as the unit flushes them (gemm/rounding.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.specs_recurrent import RecurrentSpec
from ..codegen.emit import Function, Variable
from ..codegen.values import BF16, ELEMENT, F32, I32, Value, integer, vec
from .gemm.rounding import flushing, neighbours, rounded
from .units import UNITS
from .walk import load_part, part_of


class Factors:
    """How the products of `spec`'s states read their factors; `most` rows are copied at once."""

    def __init__(self, f: Function, spec: RecurrentSpec, scratch: Value, most: int) -> None:
        self.f, self.spec, self.scratch = f, spec, scratch
        self.lanes = f.target.lanes(32)
        self.kr, self.rounds = spec.packed.kr, spec.factors is not None
        unit = spec.factors if self.kr > 1 else None
        self.unit = UNITS[unit, self.kr, self.lanes] if unit else None
        self.vector = vec(F32, self.lanes)
        self.stored = ELEMENT[spec.weights.dtype.value]
        # One row's copy in cells of 32 bits: whole vectors of them.
        wide = self.lanes * self.kr
        self.pitch = -(-spec.hidden // wide) * self.lanes
        self.steps = -(-spec.hidden // self.kr)
        # Sums wait behind the copies while denormals are flushed.
        tile = spec.gates * spec.packed.nr
        waiting = most * tile if self.rounds and self.unit is None else 0
        self.bytes = 4 * (most * self.pitch + waiting) if self.rounds else 0
        self.waiting = f.offset(scratch, 4 * most * self.pitch)

    def multiply(
        self, states: Sequence[Value], bases: Sequence[Value], sums: Sequence[list[list[Variable]]]
    ) -> None:
        """sums[row][gate][vector] += states[row] * the panel at bases[gate], step by step of the
        state in ascending order."""
        f, nr = self.f, self.spec.packed.nr
        if self.rounds:
            states = [self._copied(h, i) for i, h in enumerate(states)]
        flushes = self.rounds and self.unit is None
        with flushing(f, flushes):
            with f.range(0, self.steps, unroll=2) as k:
                left = [self._state(h, k) for h in states]
                at = f.mul(k, nr * self.kr)
                for gate, base in enumerate(bases):
                    for v in range(len(sums[0][gate])):
                        place = f.at(base, f.add(at, v * self.lanes * self.kr), self.stored)
                        weight = self._weight(place)
                        for state, row in zip(left, sums, strict=True):
                            s = row[gate][v]
                            s.set(self._multiply_add(state, weight, s.get()))
            kept = [s for row in sums for gate in row for s in gate]
            places = [f.at(self.waiting, i * self.lanes, F32) for i in range(len(kept))]
            for s, place in zip(kept, places, strict=True):
                if flushes:
                    f.store(s.get(), place, 4)
        if flushes:
            for s, place in zip(kept, places, strict=True):
                s.set(f.load(self.vector, place, 4))

    def _state(self, h: Value, k: Value) -> Value:
        if self.unit is None:
            return self.f.splat(self.f.load(F32, self.f.at(h, k, F32)), self.lanes)
        return self.f.splat(self.f.load(I32, self.f.at(h, k, I32)), self.lanes)

    def _weight(self, place: Value) -> Value:
        f = self.f
        if self.unit is not None:
            return f.load(vec(I32, self.lanes), place, 4)
        x = f.load(vec(self.stored, self.lanes), place)
        return f.cast(x, F32) if self.stored == BF16 else x

    def _multiply_add(self, a: Value, b: Value, c: Value) -> Value:
        f = self.f
        if self.unit is None:
            return f.fma(a, b, c)
        pair = [f.bitcast(x, self.unit.factors) for x in (a, b)]
        return f.call(self.unit.intrinsic, self.vector, c, *pair)

    def _copied(self, h: Value, row: int) -> Value:
        """A state's copy: rounded, in cells, zeros behind its end."""
        f, hidden, lanes = self.f, self.spec.hidden, self.lanes
        to = f.at(self.scratch, row * self.pitch, I32)
        wide = lanes * self.kr
        whole = hidden // wide * wide

        def read(first: Value, left: int) -> Value:
            if left <= 0:
                return f.as_value(0.0, self.vector)
            part = None if left >= lanes else part_of(f, lanes, integer(left))
            return load_part(f, self.vector, f.at(h, first, F32), part)

        def copy(i: Value, left: int) -> None:
            halves = [read(f.add(i, n * lanes), left - n * lanes) for n in range(self.kr)]
            cells = neighbours(f, *halves) if self.unit else rounded(f, halves[0])
            f.store(cells, f.at(to, f.udiv(i, self.kr), I32), 4)

        with f.range(0, whole, wide, unroll=1) as i:
            copy(i, wide)
        if whole < hidden:
            copy(integer(whole), hidden - whole)
        return to
