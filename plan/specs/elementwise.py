"""Specs of elementwise kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ir.scalar.program import Program, compares_floats
from .base import Operand, Size, Spec


@dataclass(frozen=True)
class ElementwiseSpec(Spec):
    """Every output element from the input elements at the same place of the iteration space.

    With a program of one "input" and one result this is a strided copy: a transpose, a slice, a
    broadcast, a piece of a concatenation.
    """

    family: ClassVar[str] = "elementwise"

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    program: Program

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)

    def distinguishes_denormals(self) -> bool:
        return compares_floats(self.program)
