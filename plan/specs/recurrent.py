"""The spec of recurrent layers: the recurrence, without the products of the inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program
from ...ir.scalar.verify import verify_program
from ..packing.layouts import PackedGates
from ..packing.panel_params import cell_depth
from ..ranges import COUNT, MAX_CHANNELS, Range
from ..target import Target
from .base import Operand, PackedOperand, Resolve, Size, Spec, resolver
from .checks import require_types, spec_error, types_of

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
    product_name: ClassVar[str] = "recurrent layers"
    ranges: ClassVar[Mapping[str, Range]] = {
        "batch": COUNT,
        "time": COUNT,
        "hidden": (1, MAX_CHANNELS),
    }

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

    def phases(self, at: Resolve, parts: int) -> int:
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

    def packed_operands(self) -> dict[int, PackedOperand]:
        count, k, n = self.matrices
        return {1: PackedOperand(self.packed, k, n, count)}

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        d, state = len(self.reverse), (self.batch, len(self.reverse), self.hidden)
        found: list[tuple[Size, ...]] = [
            (self.batch, self.time, d, self.gates * self.hidden),
            (d * self.packed.size(self.hidden),),
            *[state] * len(self.states),
        ]
        found += [(self.batch,)] if self.lengths is not None else []
        found += [(d, self.hidden)] * len(self.vectors)
        return [*found, (self.batch, d, self.time, self.hidden), *[state] * len(self.states)]

    def verify(self, target: Target) -> None:
        where, gates = self.where, self.gates
        directions = self.reverse in ((False,), (True,), (False, True))
        if not 1 <= gates <= MAX_GATES or self.hidden < 1 or not directions:
            got = f"{gates} gates, hidden {self.hidden}, reverse {self.reverse}"
            expected = f"1..{MAX_GATES} gates"
            raise spec_error("a recurrent layer of an unknown kind", where, got, expected)
        if self.packed.nr != (nr := gates * target.lanes(32)):
            raise spec_error("packed panels have another width", where, self.packed.nr, nr)
        if not self.states or len(self.outs) != len(self.states) + 1:
            got, expected = len(self.states), len(self.outs) - 1
            raise spec_error("states do not fit the outputs", where, got, expected)
        self._verify_programs()
        if self.lengths is not None and self.lengths.dtype not in (DType.i32, DType.i64):
            raise spec_error("lengths are not integers", where, self.lengths.dtype, "i32 or i64")
        fits = self.compute_dtype in (None, DType.bf16)
        if not fits or self.packed.kr != cell_depth(target, self.compute_dtype):
            got = f"{self.compute_dtype} by {self.packed.kr}"
            what = "factors that no kernel rounds so"
            raise spec_error(what, where, got, "bf16 in the unit's cells")
        self._verify_rows()

    def _verify_programs(self) -> None:
        given = [DType.f32] * self.program_inputs
        results = verify_program(self.step, given, self.where)
        require_types(results, types_of(self.states), self.where)
        if self.early is None:
            return
        require_types(verify_program(self.early, given, self.where), [DType.f32] * 2, self.where)
        last = self.gates - 1
        if any(i.op == "input" and i.args[0] == last for i in self.early.instrs):
            raise spec_error("a product is read before it is made", self.where, last, None)

    def _verify_rows(self) -> None:
        for operand in self.operands():
            stored = self.compute_dtype or DType.f32
            wanted = stored if operand is self.weights else DType.f32
            plain = operand.dtype is wanted and operand.strides[-1] == 1
            if operand is not self.lengths and not plain:
                got = f"{operand.dtype}, {operand.strides}"
                expected = f"{wanted}, last stride 1"
                raise spec_error("an operand is not a plain row", self.where, got, expected)

    def flops(self, dims: Sequence[int]) -> int:
        at = resolver(dims)
        cells = len(self.reverse) * at(self.batch) * at(self.time) * self.hidden
        return cells * 2 * self.gates * self.hidden

    def compute_unit(self) -> str:
        return str(self.compute_dtype) if self.compute_dtype else super().compute_unit()
