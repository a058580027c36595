"""The spec of recurrent layers: the recurrence, without the products of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.scalar.program import Program
from ..packing.layouts import PackedGates
from .base import Operand, Size, Spec

# More gates than these no cell has, and no register tile holds.
MAX_GATES: Final = 4


@dataclass(frozen=True)
class RecurrentSpec(Spec):
    """A cell over the time axis, in one or two directions (`reverse`: per direction).

    x[b, t, d, gate * hidden + j] holds the inputs' share of every gate, biases included; a step
    multiplies the state by weights[d, gate] and applies `step` to every element j. Inputs of the
    program: each gate's product, each gate's share of x, the states before, and vectors[d, j];
    results: the new states, the first of which is multiplied in the next step.

    Where the last gate multiplies something else than the state, `early` says so: it runs first,
    without the last gate's product; its results are what that gate multiplies, and a number for
    every element that `step` finds in place of the other gates' products.

    `lengths`[b] is held inside 0..time; without it all are `time`. A product is one chain in
    ascending order. `compute_dtype` bf16: states are rounded for the products, weights are stored
    so. Last strides are 1 but for lengths'. Buffers: x, weights (panels of all gates of some
    elements), the first states, lengths?, vectors; out[b, d, t, j] (0 beyond a sequence's length),
    the last states.
    """

    family: ClassVar[str] = "recurrent"

    reverse: tuple[bool, ...]
    batch: Size
    time: Size
    hidden: int
    x: Operand
    weights: Operand
    packed: PackedGates
    states: tuple[Operand, ...]
    lengths: Operand | None
    vectors: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    step: Program
    early: Program | None = None
    compute_dtype: DType | None = None

    def operands(self) -> tuple[Operand, ...]:
        lengths = () if self.lengths is None else (self.lengths,)
        return (self.x, self.weights, *self.states, *lengths, *self.vectors, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)

    def phases(self, at: Callable[[Size], int], parts: int) -> int:
        """Rows of the batch and directions are independent. Where they are fewer than threads,
        these share the elements of each step: a phase per step and program, and the last states.
        """
        if at(self.batch) * len(self.reverse) >= parts:
            return 0
        return at(self.time) * self.passes + 1

    @property
    def passes(self) -> int:
        """Programs that a step applies one after the other."""
        return 1 if self.early is None else 2

    @property
    def gates(self) -> int:
        """Gates of the cell."""
        return self.packed.gates

    @property
    def program_inputs(self) -> int:
        """How many inputs its programs have."""
        return 2 * self.gates + len(self.states) + len(self.vectors)

    @property
    def matrices(self) -> tuple[int, int, int]:
        """(matrices, K, N) of the packed weights."""
        return len(self.reverse), self.hidden, self.packed.columns(self.hidden)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        d, state = len(self.reverse), (self.batch, len(self.reverse), self.hidden)
        found: list[tuple[Size, ...]] = [
            (self.batch, self.time, d, self.gates * self.hidden),
            (d * self.packed.size(self.hidden),),
            *[state] * len(self.states),
        ]
        found += [(self.batch,)] if self.lengths is not None else []
        found += [(d, self.hidden)] * len(self.vectors)
        return [*found, (self.batch, d, self.time, self.hidden), *[state] * len(self.states)]
