"""The spec of recurrent layers: what is left of them once the inputs' products are taken out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .dtype import DType
from .layouts import PackedGates
from .specs import Operand, Size, Spec
from .tiles import packed_size

# Gates per cell, in the order of their rows, and how many activations a cell has.
GATES: dict[str, int] = {"lstm": 4, "gru": 3, "gru_linear": 3, "rnn": 1}
ACTIVATIONS: dict[str, int] = {"lstm": 3, "gru": 2, "gru_linear": 2, "rnn": 1}
ACTIVATION_NAMES = ("sigmoid", "tanh", "relu")


@dataclass(frozen=True)
class RecurrentSpec(Spec):
    """A cell over the time axis, in one or two directions (`reverse`: per direction).

    x[b, t, d, gate * hidden + j] holds the inputs' share of every gate, biases included; a step
    adds the state's share, state[b] * weights[d, gate], and applies the gates (ir/ops/recurrent.py
    says how; gates f i c o, z r h, or the only one). `cell`: lstm, gru, gru_linear (the reset gate
    applies to the product, to which `bias`[d, j] is added before), rnn. `clip` > 0 limits what
    goes into the gates. `lengths`[b] is held inside 0..time; without it all are `time`. Order of a
    sum: x, then the products in ascending order, one chain. `factors` bf16: states are rounded for
    the products, weights are stored so. Last strides are 1 but for lengths'.
    Buffers: x, weights (panels of K = N = hidden, one matrix per direction and gate), the first
    states, lengths?, bias?; out[b, d, t, j] (0 beyond a sequence's length), the last states.
    """

    family: ClassVar[str] = "recurrent"

    cell: str
    reverse: tuple[bool, ...]
    batch: Size
    time: Size
    hidden: int
    x: Operand
    weights: Operand
    packed: PackedGates
    states: tuple[Operand, ...]
    lengths: Operand | None
    bias: Operand | None
    outs: tuple[Operand, ...]
    activations: tuple[str, ...]
    clip: float = 0.0
    factors: DType | None = None

    def operands(self) -> tuple[Operand, ...]:
        optional = tuple(o for o in (self.lengths, self.bias) if o is not None)
        return (self.x, self.weights, *self.states, *optional, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)

    @property
    def gates(self) -> int:
        """Gates of the cell."""
        return GATES[self.cell]

    @property
    def matrices(self) -> tuple[int, int, int]:
        """(matrices, K, N) of the packed weights."""
        return len(self.reverse) * self.gates, self.hidden, self.hidden

    def walks(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        count, k, n = self.matrices
        d, state = len(self.reverse), (self.batch, len(self.reverse), self.hidden)
        found: list[tuple[Size, ...]] = [
            (self.batch, self.time, d, self.gates * self.hidden),
            (count * packed_size(k, n, self.packed.nr, self.packed.kr),),
            *[state] * len(self.states),
        ]
        found += [(self.batch,)] if self.lengths is not None else []
        found += [(d, self.hidden)] if self.bias is not None else []
        return [*found, (self.batch, d, self.time, self.hidden), *[state] * len(self.states)]
