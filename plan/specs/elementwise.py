"""Specs of elementwise kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program, compares_floats
from ...ir.scalar.verify import verify_program
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Size, Spec, count_instructions, describe_sizes, resolver
from .checks import require_types, types_of


@dataclass(frozen=True)
class ElementwiseSpec(Spec):
    """Every output element from the input elements at the same index of the iteration space.

    With a program of one "input" and one result this is a strided copy: a transpose, a slice, a
    broadcast, a piece of a concatenation.
    """

    family: ClassVar[str] = "elementwise"
    ranges: ClassVar[Mapping[str, Range]] = {"axes": COUNT}

    axes: tuple[Size, ...]
    inputs: tuple[Operand, ...]
    outs: tuple[Operand, ...]
    program: Program

    def operands(self) -> tuple[Operand, ...]:
        return (*self.inputs, *self.outs)

    def output_count(self) -> int:
        return len(self.outs)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [self.axes] * len(self.operands())

    def may_alias_output(self, operand: int) -> bool:
        return True

    def computes_in_place(self) -> bool:
        return len(self.outs) == 1

    def distinguishes_denormals(self) -> bool:
        return compares_floats(self.program)

    def verify(self, target: Target) -> None:
        given = types_of(self.inputs)
        results = verify_program(self.program, given, self.where)
        require_types(results, types_of(self.outs), self.where)

    def flops(self, dims: Sequence[int]) -> int | None:
        elements = math.prod(map(resolver(dims), self.axes))
        return elements * count_instructions(self.program) or None

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes(self.axes, size)
