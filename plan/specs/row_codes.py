"""The spec of rows of codes: floats quantized row by row, and the way back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...ir.row_codes import ROW_MULTIPLE, RowCodes
from ..ranges import COUNT, Range
from ..target import Target
from .attention import MAX_HEAD
from .base import Operand, Size, Spec, describe_sizes, resolver
from .checks import spec_error


@dataclass(frozen=True)
class RowCodesSpec(Spec):
    """Rows of `size` f32 values as u8 codes of `bits` with their scales
    (ir/row_codes.py), or with `dequantize` the values of such rows. Values walk
    (axes..., size), codes (axes..., bytes of a row); elements of a row are contiguous. Buffers:
    source, out."""

    family: ClassVar[str] = "row_codes"
    ranges: ClassVar[Mapping[str, Range]] = {
        "axes": COUNT,
        "size": (1, MAX_HEAD),
        "bits": (4, 8),
    }

    axes: tuple[Size, ...]
    size: int
    bits: int
    values: Operand
    codes: Operand
    dequantize: bool = False

    @property
    def layout(self) -> RowCodes:
        """The layout of a row."""
        return RowCodes(self.size, self.bits)

    def operands(self) -> tuple[Operand, ...]:
        both = (self.values, self.codes)
        return both[::-1] if self.dequantize else both

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        both = [(*self.axes, self.size), (*self.axes, self.layout.nbytes)]
        return both[::-1] if self.dequantize else both

    def verify(self, target: Target) -> None:
        if not self.layout.is_valid:
            got = f"{self.size} values of {self.bits} bits"
            raise spec_error("rows have no such codes", self.where, got, str(ROW_MULTIPLE))
        found = (self.values.dtype, self.codes.dtype)
        if found != (DType.f32, DType.u8):
            raise spec_error("no rows of codes of these types", self.where, found, "f32 and u8")
        for operand in self.operands():
            if operand.strides[-1] != 1:
                got = operand.strides
                raise spec_error("a row is not contiguous", self.where, got, "1 at the end")

    def flops(self, dims: Sequence[int]) -> int:
        return math.prod(map(resolver(dims), self.axes)) * self.size * 5

    def describe(self, size: Callable[[Size], str]) -> str:
        axes = describe_sizes((*self.axes, self.size), size)
        return f"{axes} {'from' if self.dequantize else 'to'} u{self.bits}"
