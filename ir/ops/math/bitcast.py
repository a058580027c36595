"""BitCast: the same bits read as another element type (dialect)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type


@dataclass(frozen=True)
class BitCast(Op):
    """The input's bits, little endian, as elements of a type of that width (ONNX BitCast 26)."""

    kind: ClassVar[str] = "BitCast"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    to: DType

    def infer(self, data: Fact) -> tuple[Type, ...]:
        given = data.tensor
        if given.dtype is not DType.dynamic and given.dtype.bits != self.to.bits:
            raise ShapeError(
                "BitCast needs element types of one width", got=given.dtype, expected=str(self.to)
            )
        return (TensorType(self.to, given.shape),)

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        target = self.to.numpy
        if self.to.bits >= 8:
            bits = np.array(data, order="C").view(f"u{target.itemsize}")
            if self.to is DType.boolean:
                return (bits != 0,)
            return (bits.view(target),)
        # Narrow types have one element per byte, their bits at the low end, signs extended.
        mask, sign = (1 << self.to.bits) - 1, 1 << (self.to.bits - 1)
        codes = np.array(data, order="C").view(np.uint8) & mask
        if self.to.is_int and self.to.is_signed:
            codes = (codes ^ sign) - np.uint8(sign)
        return (codes.view(target),)
