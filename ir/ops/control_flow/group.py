"""The dialect's Group: a chain of elementwise operations as one scalar program."""

from __future__ import annotations

from typing import ClassVar

from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...scalar.builder import evaluate_program
from ...scalar.program import Program
from ...types import TensorType, Type, broadcast_shapes


@dataclass(frozen=True)
class Group(Op):
    """Every output is a result of `program`, of the shape to which all inputs broadcast.

    Input i of the node is operand i of the program.
    """

    kind: ClassVar[str] = "Group"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("inputs", variadic=True),)
    program: Program

    def output_count(self) -> int:
        return len(self.program.results)

    def infer(self, facts: tuple[Fact, ...]) -> tuple[Type, ...]:
        for instr in self.program.instrs:
            if instr.op != "input":
                continue
            number = instr.args[0]
            got = facts[number].tensor.dtype if number < len(facts) else "no such input"
            if got is not instr.dtype:
                raise ShapeError(
                    f"input {number} of a group has another type", got=got, expected=instr.dtype
                )
        shape = broadcast_shapes(*(f.tensor.shape for f in facts))
        types = (self.program.instrs[r].dtype for r in self.program.results)
        return tuple(TensorType(dtype, shape) for dtype in types)

    def evaluate(self, arrays: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(evaluate_program(self.program, arrays))
