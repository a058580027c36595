"""Specs of scans (cumulative sum and product) and of top-k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Operand, Size, Spec


@dataclass(frozen=True)
class ScanSpec(Spec):
    """out[p, i] = the sum (or product) of data[p, 0..i], `exclusive`: of data[p, 0..i - 1],
    `reverse`: from the end of the axis. Floats add up in f64, integers in their own type.
    Both operands walk (axes..., size). Buffers: data, out.
    """

    family: ClassVar[str] = "scan"

    axes: tuple[Size, ...]
    size: Size
    data: Operand
    out: Operand
    product: bool = False
    exclusive: bool = False
    reverse: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.out)

    def walks(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        return [(*self.axes, self.size)] * 2


@dataclass(frozen=True)
class TopKSpec(Spec):
    """The `count` largest (or smallest) of data[p, 0..size] and where they stand, the best first
    or, with `by_index`, in their own order. Of equal elements the first is the better one; NaN is
    larger than every number.

    data walks (axes..., size), the others (axes..., count), which is at most `size`: what is
    beyond it is not written. Buffers: data, values, indices.
    """

    family: ClassVar[str] = "rank"

    axes: tuple[Size, ...]
    size: Size
    count: Size
    data: Operand
    values: Operand
    indices: Operand
    largest: bool = True
    by_index: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.values, self.indices)

    def output_count(self) -> int:
        return 2

    def distinguishes_denormals(self) -> bool:
        return True

    def walks(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        best = (*self.axes, self.count)
        return [(*self.axes, self.size), best, best]
