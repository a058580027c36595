"""The spec of numbers that follow from sizes: a range, a shape that is read as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Operand, Size, Spec


@dataclass(frozen=True)
class IotaSpec(Spec):
    """out[i] = start + i * step for i in 0..count, in i64, then converted to out's type (an
    integer type of at least 32 bits wraps; f32 rounds). Buffers: out."""

    family: ClassVar[str] = "iota"

    count: Size
    start: Size
    step: Size
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.out,)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        return [(self.count,)]
