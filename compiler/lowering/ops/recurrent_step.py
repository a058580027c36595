"""What recurrent cells do with their gates, as scalar programs (RecurrentSpec says of what)."""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....ir.ops import GRUSequence, LSTMSequence, PeepholeLSTM, RNNSequence
from ....ir.ops.math.activation_table import apply_activation
from ....ir.scalar.builder import Builder, Ref
from ....ir.scalar.program import Program

Sequence = LSTMSequence | PeepholeLSTM | GRUSequence | RNNSequence


@dataclass(frozen=True)
class Programs:
    """RecurrentSpec's `step` and `early`."""

    step: Program
    early: Program | None = None


def programs_of(op: Sequence, vectors: int) -> Programs:
    """The cell's programs, where there are so many vectors besides the gates: the state's bias of
    the last gate (GRU, reset after the product), or peepholes of input, output and forget gate."""
    if isinstance(op, RNNSequence):
        cell = _StepBuilder(op)
        return Programs(cell.builder.finish(cell.f(0, cell.gate(0))))
    if not isinstance(op, GRUSequence):
        return Programs(_lstm(op, vectors))
    return Programs(_build_linear_gru(op, vectors)) if op.linear_before_reset else _gru(op)


class _StepBuilder:
    """The inputs of a cell's program."""

    def __init__(self, op: Sequence) -> None:
        self.op, self.builder = op, Builder()

    def product(self, gate: int) -> Ref:
        return self.builder.input(gate, DType.f32)

    def share(self, gate: int) -> Ref:
        """The inputs' share of a gate."""
        return self.builder.input(self.op.gates + gate, DType.f32)

    def gate(self, gate: int) -> Ref:
        return self.builder.op("add", self.product(gate), self.share(gate))

    def state(self, n: int) -> Ref:
        return self.builder.input(2 * self.op.gates + n, DType.f32)

    def vector(self, n: int) -> Ref:
        return self.state(self.op.states + n)

    def f(self, number: int, x: Ref) -> Ref:
        """Activation `number`, clipped before."""
        b, clip = self.builder, self.op.clip
        if clip > 0:
            x = b.op("clip", x, b.const(-clip, x.dtype), b.const(clip, x.dtype))
        return self.activate_unclipped(number, x)

    def activate_unclipped(self, number: int, x: Ref) -> Ref:
        return apply_activation(self.builder, *self.op.activation(number), x)

    def rest(self, x: Ref) -> Ref:
        """1 - x."""
        return self.builder.op("sub", self.builder.const(1, x.dtype), x)

    def blend(self, z: Ref, new: Ref) -> Ref:
        """(1 - z) new + z h."""
        b = self.builder
        return b.op("fma", z, self.state(0), b.op("mul", self.rest(z), new))


def _lstm(op: LSTMSequence | PeepholeLSTM, vectors: int) -> Program:
    cell = _StepBuilder(op)
    b, c = cell.builder, cell.state(1)
    coupled = isinstance(op, PeepholeLSTM) and op.coupled

    def add_peephole(gate: int, peephole: int, state: Ref) -> Ref:
        x = cell.gate(gate)
        return b.op("fma", cell.vector(peephole), state, x) if vectors else x

    opened = cell.f(0, add_peephole(1, 0, c))
    kept = cell.rest(opened) if coupled else cell.f(0, add_peephole(0, 2, c))
    fresh = b.op("fma", opened, cell.f(1, cell.gate(2)), b.op("mul", kept, c))
    # The clip belongs to the gates, not to the cell state.
    shown = b.op("mul", cell.f(0, add_peephole(3, 1, fresh)), cell.activate_unclipped(2, fresh))
    return b.finish(shown, fresh)


def _build_linear_gru(op: GRUSequence, vectors: int) -> Program:
    cell = _StepBuilder(op)
    b, inner = cell.builder, cell.product(2)
    z, reset = (cell.f(0, cell.gate(n)) for n in (0, 1))
    if vectors:
        inner = b.op("add", inner, cell.vector(0))
    new = cell.f(1, b.op("fma", reset, inner, cell.share(2)))
    return b.finish(cell.blend(z, new))


def _gru(op: GRUSequence) -> Programs:
    first, cell = _StepBuilder(op), _StepBuilder(op)
    z, reset = (first.f(0, first.gate(n)) for n in (0, 1))
    early = first.builder.finish(first.builder.op("mul", reset, first.state(0)), z)
    new = cell.f(1, cell.gate(2))
    return Programs(cell.builder.finish(cell.blend(cell.product(0), new)), early)
