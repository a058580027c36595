"""onnxruntime's GatherBlockQuantized (domain com.microsoft): rows of a quantized embedding table.

Rows of packed bytes are gathered, then unpacked and dequantized, so the table keeps its size.
Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.op import Array
from ......ir.ops import (
    BitwiseAnd,
    BitwiseRightShift,
    Concat,
    Dequantize,
    Gather,
    Multiply,
    Reshape,
    ShapeOf,
    Slice,
    Subtract,
    Unsqueeze,
)
from ..elementary import convert_value
from .matmul_nbits import unpack_codes

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def gather_block_quantized(n: ImportContext) -> Value:
    """(code - zero point) * scale of the gathered codes; an index out of range gives zeros."""
    data, scales = n.constant_of(n.input(0)), n.constant_of(n.input(2))
    given = n.optional(3)
    zeros = None if given is None else n.constant_of(given)
    if data is None or scales is None or (given is not None and zeros is None):
        raise n.unsupported_error("GatherBlockQuantized of a table that is not constant")
    kind, rank = n.dtype(n.input(0)), data.ndim
    gathered = n.axis(n.integer("gather_axis", 0), rank)
    axis = n.axis(n.integer("quantize_axis", 1), rank)
    bits = n.integer("bits", 4) if kind is DType.u8 else kind.bits
    block = n.integer("block_size", 128) or data.shape[axis]
    if bits not in (2, 4, 8) or block < 1 or scales.ndim != rank:
        raise n.type_error("GatherBlockQuantized counts no codes", got=(bits, block, scales.ndim))
    if kind.is_float:
        zero: Array | None = None
    elif zeros is not None:
        zero = _codes(zeros, kind, bits, scales.shape[-1])
    else:
        zero = np.full(scales.shape, 1 << bits - 1 if kind is DType.u8 else 0, np.int16)
    width = data.shape[-1] * (8 // bits if kind is DType.u8 else 1)
    _check(n, (*data.shape[:-1], width), scales.shape, axis, block, scaled_by_row=kind.is_float)
    if gathered == 0 and axis == rank - 1 and rank > 1 and width % block == 0:
        return _by_row(n, data, zero, bits, block)
    if kind.is_float:
        raise n.unsupported_error("GatherBlockQuantized of floats along this axis")
    assert zero is not None
    codes = _codes(data, kind, bits, width)
    wide = np.int8 if kind is DType.i4 else np.uint8
    table = n.add(
        Dequantize(axis, block),
        n.constant(codes.astype(wide), DType.from_numpy(np.dtype(wide))),
        n.input(2),
        n.constant(zero.astype(wide), DType.from_numpy(np.dtype(wide))),
    )
    return n.add(Gather(), table, n.input(1), n.int_value(gathered))


def _codes(data: Array, kind: DType, bits: int, width: int) -> Array:
    """Codes of a few bits each as integers; bytes hold several along the last axis."""
    if kind is not DType.u8:
        return data.astype(np.int16)
    rows = int(np.prod(data.shape[:-1], dtype=np.int64))
    return unpack_codes(data, bits, rows, width).astype(np.int16).reshape(*data.shape[:-1], width)


def _check(
    n: ImportContext,
    shape: tuple[int, ...],
    scales: tuple[int, ...],
    axis: int,
    block: int,
    *,
    scaled_by_row: bool,
) -> None:
    """One scale per block, and of floats also one for all rows of an axis."""
    expected = tuple(-(-d // block) if i == axis else d for i, d in enumerate(shape))
    fits = all(
        have == want or (scaled_by_row and have == 1)
        for have, want in zip(scales, expected, strict=True)
    )
    if not fits:
        raise n.type_error(
            "GatherBlockQuantized has another number of scales", got=scales, expected=expected
        )


def _by_row(n: ImportContext, data: Array, zero: Array | None, bits: int, block: int) -> Value:
    """Whole rows of the table, whose blocks are along the last axis."""
    kind, table = n.dtype(n.input(0)), n.input(0)
    if kind in (DType.u4, DType.i4) and data.shape[-1] % 2 == 0:
        # Two codes a byte, the first in the low bits; signed codes about the middle are unsigned.
        assert zero is not None
        shift = 8 if kind is DType.i4 else 0
        codes, zero = (data.astype(np.int16) + shift).astype(np.uint8), zero + shift
        table = n.constant(codes[..., ::2] | codes[..., 1::2] << 4, DType.u8)
    elif kind is not DType.u8:
        bits = 8
    dtype, scales = n.dtype(n.input(2)), n.input(2)
    rows = _rows(n, table)
    codes = rows if bits == 8 else _unpack_codes(n, rows, bits)
    shape = n.add(ShapeOf(DType.i64), codes)
    lead = [n.ints_value([v]) for v in (0, -1, 1)]
    blocks = n.add(Concat(axis=0), n.add(Slice(), shape, *lead), n.ints_value([-1, block]))
    found = n.add(Reshape(), convert_value(n, codes, dtype), blocks)
    last = n.ints_value([-1])
    if zero is not None:
        shown = _rows(n, n.constant(zero, dtype)) if np.ptp(zero) else None
        point = (
            n.like(found, float(zero.flat[0])) if shown is None else n.add(Unsqueeze(), shown, last)
        )
        found = n.add(Subtract(), found, point)
    found = n.add(Multiply(), found, n.add(Unsqueeze(), _rows(n, scales), last))
    return n.add(Reshape(), found, shape)


def _rows(n: ImportContext, table: Value) -> Value:
    """The rows of a table that the indices name; of one row for all, that row."""
    shape = n.shape(table)
    assert shape is not None
    index = n.input(1)
    if shape[0] == 1 and n.shape(n.input(0)) != shape:
        index = n.add(Multiply(), index, n.like(index, 0))
    return n.add(Gather(), table, index, n.int_value(0))


def _unpack_codes(n: ImportContext, rows: Value, bits: int) -> Value:
    """[..., K / (8 / bits)] bytes as [..., K] codes."""
    last, mask = n.ints_value([-1]), n.constant((1 << bits) - 1, DType.u8)
    parts: list[Value] = []
    for at in range(0, 8, bits):
        part = n.add(BitwiseRightShift(), rows, n.constant(at, DType.u8)) if at else rows
        part = part if at + bits == 8 else n.add(BitwiseAnd(), part, mask)
        parts.append(n.add(Unsqueeze(), part, last))
    joined = n.add(Concat(axis=-1), *parts)
    shape = n.add(ShapeOf(DType.i64), rows)
    lead = n.add(Slice(), shape, *(n.ints_value([v]) for v in (0, -1, 1)))
    return n.add(Reshape(), joined, n.add(Concat(axis=0), lead, last))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    "com.microsoft::GatherBlockQuantized": {1: gather_block_quantized},
}
