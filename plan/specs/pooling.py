"""Specs of pooling kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...ir.scalar.program import Program
from ...ir.scalar.verify import verify_program
from ..ranges import COUNT, OFFSET, Range
from ..target import Target
from .base import Operand, Resolve, Size, Spec
from .checks import require_types, require_widening, spec_error, types_of
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
    ranges: ClassVar[Mapping[str, Range]] = {
        **dict.fromkeys("batch channels in_sizes out_sizes".split(), COUNT),
        "pads_end": OFFSET,
    }

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
        lead = (self.batch, self.channels)
        return [(*lead, *self.in_sizes), (*lead, *self.out_sizes)]

    def verify(self, target: Target) -> None:
        where = self.where
        if self.kind not in ("max", "sum") or self.counted not in ("window", "data", "padded"):
            got = f"{self.kind}, {self.counted}"
            raise spec_error("a pooling of an unknown kind", where, got, "max, sum")
        self.window.verify(self.in_sizes, self.out_sizes, where)
        if len(self.pads_end) != len(self.window.pads):
            got = len(self.pads_end)
            raise spec_error("a window's paddings differ in number", where, got, None)
        require_widening(types_of([self.data]), self.acc, where)
        results = verify_program(self.epilogue, [self.acc, self.acc], where)
        require_types(results, [self.out.dtype], where)

    def verify_sizes(self, at: Resolve, where: str) -> None:
        self.window.verify_reach(self.out_sizes, self.pads_end, at, where)
