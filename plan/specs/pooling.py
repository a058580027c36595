"""Specs of pooling kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.scalar.program import Program
from .base import Operand, Size, Spec
from .convolution import Window


@dataclass(frozen=True)
class PoolSpec(Spec):
    """out[b, c, p...] = epilogue(the largest or the sum of the window's elements of data, count).

    `kind`: max (propagates NaN; a window outside the data gives the lowest value) or sum. Input 1
    of
    `epilogue` is the number of elements that count, as a value of the accumulator's type:
    `counted` "window" for all taps, "data" for those inside the data, "padded" for those inside
    the data and `pads_end` and the window's own paddings. Buffers: data, out.
    """

    family: ClassVar[str] = "pool"

    kind: str
    batch: Size
    channels: Size
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    window: Window
    pads_end: tuple[Size, ...]
    counted: str
    data: Operand
    out: Operand
    acc: DType
    epilogue: Program

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        lead = (self.batch, self.channels)
        return [(*lead, *self.in_sizes), (*lead, *self.out_sizes)]
