"""Rows of floats as codes of 8 or 4 bits: each row carries its own scales and minima.

A row of `size` values is stored as bytes: the codes, then an f16 pair (scale, minimum) per group of
values. Codes of 8 bits are one byte per value in order, and the row is one group. Codes of 4 bits
are two per byte, value i in the low half of byte i and value i + size / 2 in its high half, and a
group is 32 values. A value is code * scale + minimum. The product of a code and an f16 scale is
exact in f32, so that a fused multiply-add gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...op import Array, Fact, Op, Port
from ...types import Type
from ..shape_inference import require_dtype, tensor

# Values of a row are a multiple of it, by bits of a code: no vector of up to 16 values crosses
# the end of a group, or the middle of a row of 4-bit codes.
ROW_MULTIPLE: Final = {8: 16, 4: 32}
_GROUP_OF_4_BITS: Final = 32


@dataclass(frozen=True)
class RowCodes:
    """The layout of one row of `size` values in codes of `bits`."""

    size: int
    bits: int

    @property
    def group(self) -> int:
        """Values that share a scale and a minimum."""
        return self.size if self.bits == 8 else _GROUP_OF_4_BITS

    @property
    def groups(self) -> int:
        """Pairs of scale and minimum of a row."""
        return self.size // self.group

    @property
    def code_bytes(self) -> int:
        """Bytes of the codes, which the pairs follow."""
        return self.size * self.bits // 8

    @property
    def nbytes(self) -> int:
        """Bytes of a row."""
        return self.code_bytes + 4 * self.groups

    @property
    def is_valid(self) -> bool:
        """Whether rows of this size have codes of these bits."""
        multiple = ROW_MULTIPLE.get(self.bits)
        return multiple is not None and self.size > 0 and self.size % multiple == 0

    @classmethod
    def of_bytes(cls, nbytes: int, bits: int) -> RowCodes | None:
        """The layout whose rows have this many bytes."""
        if bits == 8:
            found = cls(nbytes - 4, bits)
        else:
            found = cls(nbytes // (_GROUP_OF_4_BITS // 2 + 4) * _GROUP_OF_4_BITS, bits)
        return found if found.is_valid and found.nbytes == nbytes else None


def quantize_rows(values: Array, layout: RowCodes) -> Array:
    """f32 [..., size] as u8 [..., nbytes]. A group that is not finite in f16 reads as NaN."""
    lead = values.shape[:-1]
    x = values.reshape(*lead, layout.groups, layout.group)
    levels = np.float32((1 << layout.bits) - 1)
    with np.errstate(all="ignore"):
        # NaN and infinite values make the sum NaN, and with it the minimum.
        broken = np.isnan(np.sum(x * np.float32(0), axis=-1, dtype=np.float32))
        low, high = np.min(x, axis=-1), np.max(x, axis=-1)
        pairs = np.stack([(high - low) / levels, low], axis=-1)
        pairs = np.where(broken[..., None], np.float32(np.nan), pairs).astype(np.float16)
        inverse = np.float32(1) / pairs[..., :1].astype(np.float32)
        inverse = np.where(np.isfinite(inverse), inverse, np.float32(0))
        steps = (x - pairs[..., 1:].astype(np.float32)) * inverse
        steps = np.where(steps > 0, steps, np.float32(0))
        codes = np.rint(np.minimum(steps, levels)).astype(np.uint8)
    codes = codes.reshape(*lead, layout.size)
    if layout.bits == 4:
        half = layout.size // 2
        codes = codes[..., :half] | codes[..., half:] << 4
    tail = np.ascontiguousarray(pairs.astype("<f2")).view(np.uint8)
    return np.concatenate([codes, tail.reshape(*lead, 4 * layout.groups)], axis=-1)


def dequantize_rows(rows: Array, layout: RowCodes) -> Array:
    """u8 [..., nbytes] as f32 [..., size]."""
    lead = rows.shape[:-1]
    codes = rows[..., : layout.code_bytes]
    if layout.bits == 4:
        codes = np.concatenate([codes & 15, codes >> 4], axis=-1)
    tail = np.ascontiguousarray(rows[..., layout.code_bytes :]).view("<f2")
    pairs = tail.reshape(*lead, layout.groups, 1, 2).astype(np.float32)
    x = codes.reshape(*lead, layout.groups, layout.group).astype(np.float32)
    with np.errstate(all="ignore"):
        x = x * pairs[..., 0] + pairs[..., 1]
    return x.reshape(*lead, layout.size)


@dataclass(frozen=True)
class QuantizeRows(Op):
    """Rows [..., size] of f32 along the last axis as rows [..., nbytes] of codes, u8 (dialect)."""

    kind: ClassVar[str] = "QuantizeRows"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("values"),)
    bits: int

    def layout(self, size: int) -> RowCodes:
        """The layout of rows of this size. ShapeError where there is none."""
        found = RowCodes(size, self.bits)
        if not found.is_valid:
            raise ShapeError(
                f"rows of this size have no codes of {self.bits} bits",
                got=size,
                expected=f"a multiple of {ROW_MULTIPLE.get(self.bits, '16, and 8 or 4 bits')}",
            )
        return found

    def infer(self, values: Fact) -> tuple[Type, ...]:
        require_dtype(values, "values", (DType.f32,), "f32")
        shape = values.tensor.shape
        if shape is None:
            return (tensor(DType.u8, None),)
        if not shape or not isinstance(shape[-1], int):
            raise ShapeError("rows need a size that is known", got=values.type, expected="[..., n]")
        return (tensor(DType.u8, (*shape[:-1], self.layout(shape[-1]).nbytes)),)

    def evaluate(self, values: Array) -> tuple[Array, ...]:
        return (quantize_rows(values, self.layout(values.shape[-1])),)


@dataclass(frozen=True)
class DequantizeRows(Op):
    """Rows [..., nbytes] of codes, u8, as rows [..., size] of f32: what QuantizeRows made
    (dialect)."""

    kind: ClassVar[str] = "DequantizeRows"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("rows"),)
    bits: int

    def layout(self, nbytes: int) -> RowCodes:
        """The layout of rows of so many bytes. ShapeError where there is none."""
        found = RowCodes.of_bytes(nbytes, self.bits)
        if found is None:
            raise ShapeError(
                f"rows of this size are not codes of {self.bits} bits",
                got=f"{nbytes} bytes",
                expected="codes and their scales, as QuantizeRows makes them",
            )
        return found

    def infer(self, rows: Fact) -> tuple[Type, ...]:
        require_dtype(rows, "rows", (DType.u8,), "u8")
        shape = rows.tensor.shape
        if shape is None:
            return (tensor(DType.f32, None),)
        if not shape or not isinstance(shape[-1], int):
            raise ShapeError("rows need a size that is known", got=rows.type, expected="[..., n]")
        return (tensor(DType.f32, (*shape[:-1], self.layout(shape[-1]).size)),)

    def evaluate(self, rows: Array) -> tuple[Array, ...]:
        return (dequantize_rows(rows, self.layout(rows.shape[-1])),)
