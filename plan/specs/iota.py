"""The spec of numbers that follow from sizes: a range, a shape that is read as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, I64, Range
from ..target import Target
from .base import Operand, Size, Spec
from .checks import spec_error


@dataclass(frozen=True)
class IotaSpec(Spec):
    """out[i] = start + i * step for i in 0..count, in i64, then converted to out's type (an
    integer type of at least 32 bits wraps; f32 rounds). Buffers: out."""

    family: ClassVar[str] = "iota"
    ranges: ClassVar[Mapping[str, Range]] = {"count": COUNT, "start": I64, "step": I64}

    count: Size
    start: Size
    step: Size
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.out,)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [(self.count,)]

    def verify(self, target: Target) -> None:
        dtype = self.out.dtype
        if dtype not in (DType.i32, DType.i64, DType.f32):
            raise spec_error("no kernel writes numbers of this type", self.where, dtype, None)
