"""QuantizeRows and DequantizeRows: rows of floats as codes, and back (ir/row_codes.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...row_codes import ROW_MULTIPLE, RowCodes
from ...types import TensorType, Type
from ..shape_inference import require_dtype, tensor


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

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        """Steps, and what is compared and limited, in f32."""
        source = inputs[0]
        return 14 * source.elements if source is not None and source.is_static else 0

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

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        """Codes as bytes and as f32, and their products with scales."""
        return 10 * outputs[0].elements if outputs[0].is_static else 0

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
