"""Blocks of GGUF tensors as codes, scales and offsets. Layouts: ggml-common.h of ggml.

Every type here is a code times a scale plus an offset, in groups of 32 or 16 elements, so nothing
is rounded to another set of values: scales and offsets of K-quants, products of an f16 number with
a 6-bit or 8-bit integer, have all bits in f32.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.dtype import DType
from ...ir.op import Array
from ..architectures.matrix import FloatMatrix, GroupedMatrix, Matrix

# Values of 4-bit codes: of IQ4_NL and IQ4_XS, and twice those of MXFP4 (E2M1).
_IQ4_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
_E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
_LOW_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
_FLOATS = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": DType.bf16.numpy}


def read_matrix(kind: str, data: Array, shape: tuple[int, ...]) -> Matrix:
    """A tensor of two axes from its bytes."""
    if kind in _FLOATS:
        return FloatMatrix(data.view(_FLOATS[kind]).reshape(shape), kind)
    return _READERS[kind](data, shape)


def read_vector(kind: str, data: Array) -> Array:
    """A tensor of one axis in f32."""
    if kind in _FLOATS:
        return data.view(_FLOATS[kind]).astype(np.float32)
    return read_matrix(kind, data, (1, -1)).values().reshape(-1)


def _make(
    kind: str, codes: Array, dtype: DType, group: int, scale: Array, shape: tuple[int, ...],
    *, zero: int = 0, offset: Array | None = None,
) -> GroupedMatrix:  # fmt: skip
    rows = shape[0]
    return GroupedMatrix(
        codes.reshape(rows, -1),
        dtype,
        group,
        np.ascontiguousarray(scale, np.float32).reshape(rows, -1),
        f"{kind} as {dtype.value} by {group}",
        zero,
        None if offset is None else np.ascontiguousarray(offset, np.float32).reshape(rows, -1),
    )


def _split(data: Array, *widths: int) -> list[Array]:
    """Fields of every block, of so many bytes each."""
    blocks = data.reshape(-1, sum(widths))
    edges = np.cumsum((0, *widths))
    return [blocks[:, a:b] for a, b in zip(edges, edges[1:], strict=False)]


def _halves(field: Array) -> Array:
    """f16 numbers of a field in f32."""
    return field.view("<f2").astype(np.float32)


def _nibbles(quants: Array, width: int) -> Array:
    """Low halves of `width` bytes, then their high halves."""
    # NumPy takes as long for a row of `width` bytes as for two numbers, so rows are moved as one
    # number each, and halved side by side.
    row = np.dtype(f"V{width}")
    rows = np.ascontiguousarray(quants.view(row))
    data = rows.view(np.uint64)
    codes = np.empty((*rows.shape, 2), row)
    codes[..., 0] = (data & _LOW_HALVES).view(row)
    codes[..., 1] = (data >> np.uint64(4) & _LOW_HALVES).view(row)
    return codes.view(np.uint8).reshape(len(quants), -1)


def _fifth_bits(high: Array) -> Array:
    """The bits of 32 codes, one bit each, as 16."""
    bits = np.unpackbits(np.ascontiguousarray(high), axis=1, bitorder="little")
    return bits << np.uint8(4)


def _q4_0(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    scale, quants = _split(data, 2, 16)
    return _make("Q4_0", _nibbles(quants, 16), DType.u4, 32, _halves(scale), shape, zero=8)


def _q4_1(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    scale, least, quants = _split(data, 2, 2, 16)
    codes = _nibbles(quants, 16)
    return _make("Q4_1", codes, DType.u4, 32, _halves(scale), shape, offset=_halves(least))


def _q5_0(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    scale, high, quants = _split(data, 2, 4, 16)
    codes = _nibbles(quants, 16) | _fifth_bits(high)
    return _make("Q5_0", codes, DType.u8, 32, _halves(scale), shape, zero=16)


def _q5_1(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    scale, least, high, quants = _split(data, 2, 2, 4, 16)
    codes = _nibbles(quants, 16) | _fifth_bits(high)
    return _make("Q5_1", codes, DType.u8, 32, _halves(scale), shape, offset=_halves(least))


def _q8_0(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    scale, quants = _split(data, 2, 32)
    codes = np.ascontiguousarray(quants)
    return _make("Q8_0", codes, DType.i8, 32, _halves(scale), shape)


def _k_scales(packed: Array) -> tuple[Array, Array]:
    """8 scales and 8 offsets of 6 bits from 12 bytes: the first four of each are bits 0 to 5 of
    bytes 0 to 3 and 4 to 7; of the others, bytes 8 to 11 have 4 bits each, and bits 6 and 7 of the
    former bytes the upper two."""
    low, mid, top = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scale = np.concatenate([low & 63, (top & 15) | ((low >> 6) << 4)], 1)
    least = np.concatenate([mid & 63, (top >> 4) | ((mid >> 6) << 4)], 1)
    return scale.astype(np.float32), least.astype(np.float32)


def _q4_k(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    factor, floor, packed, quants = _split(data, 2, 2, 12, 128)
    scale, least = _k_scales(packed)
    scale, offset = _halves(factor) * scale, -_halves(floor) * least
    return _make("Q4_K", _nibbles(quants, 32), DType.u4, 32, scale, shape, offset=offset)


def _q5_k(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    factor, floor, packed, high, quants = _split(data, 2, 2, 12, 32, 128)
    scale, least = _k_scales(packed)
    scale, offset = _halves(factor) * scale, -_halves(floor) * least
    # Bit j of byte i is the fifth bit of element i of group j.
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    fifth = ((high[:, None, :] >> shifts) & 1) << np.uint8(4)
    codes = _nibbles(quants, 32) | fifth.reshape(len(high), -1)
    return _make("Q5_K", codes, DType.u8, 32, scale, shape, offset=offset)


def _q6_k(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    low, high, packed, factor = _split(data, 128, 64, 16, 2)
    # Each half of a block has 128 codes: four runs of 32, whose upper bits share 32 bytes.
    low, high = low.reshape(-1, 2, 64), high.reshape(-1, 2, 1, 32)
    nibbles = np.stack([low & 15, low >> 4], 2).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes = nibbles | ((high >> shifts) & 3) << np.uint8(4)
    signed = (codes.astype(np.int8) - np.int8(32)).view(np.uint8)
    scale = _halves(factor) * np.ascontiguousarray(packed).view(np.int8).astype(np.float32)
    return _make("Q6_K", signed, DType.i8, 16, scale, shape)


def _two_bits(quants: Array) -> Array:
    """Bits 0 and 1 of 32 bytes, then their bits 2 and 3, 4 and 5, 6 and 7; then of the next 32."""
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    return ((quants.reshape(len(quants), -1, 1, 32) >> shifts) & 3).reshape(len(quants), -1)


def _q2_k(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    packed, quants, factor, floor = _split(data, 16, 64, 2, 2)
    scale = _halves(factor) * (packed & 15).astype(np.float32)
    offset = -_halves(floor) * (packed >> 4).astype(np.float32)
    return _make("Q2_K", _two_bits(quants), DType.u8, 16, scale, shape, offset=offset)


def _q3_k(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    high, quants, packed, factor = _split(data, 32, 64, 12, 2)
    low, top = packed[:, None, :8], packed[:, None, 8:]
    low = (low >> np.array([0, 4], np.uint8)[:, None]).reshape(-1, 16) & 15
    top = (top >> np.array([0, 2, 4, 6], np.uint8)[:, None]).reshape(-1, 16) & 3
    scale = _halves(factor) * ((low | top << np.uint8(4)).astype(np.float32) - 32)
    # Bit j of byte i is the third bit of element i of the j-th 32 elements; 0 subtracts 4.
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    third = ((high[:, None, :] >> shifts) & 1).reshape(len(high), -1)
    signed = (_two_bits(quants) | third << np.uint8(2)).astype(np.int8) - np.int8(4)
    return _make("Q3_K", signed.view(np.uint8), DType.i8, 16, scale, shape)


def _iq4_nl(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    scale, quants = _split(data, 2, 16)
    codes = _IQ4_VALUES[_nibbles(quants, 16)].view(np.uint8)
    return _make("IQ4_NL", codes, DType.i8, 32, _halves(scale), shape)


def _iq4_xs(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    factor, high, low, quants = _split(data, 2, 2, 4, 128)
    upper = np.ascontiguousarray(high).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16)
    lower = (low[:, :, None] >> np.array([0, 4], np.uint8)).reshape(-1, 8) & 15
    scale = _halves(factor) * ((lower | (upper & 3) << 4).astype(np.float32) - 32)
    codes = _IQ4_VALUES[_nibbles(quants, 16)].view(np.uint8)
    return _make("IQ4_XS", codes, DType.i8, 32, scale, shape)


def _mxfp4(data: Array, shape: tuple[int, ...]) -> GroupedMatrix:
    exponent, quants = _split(data, 1, 16)
    # Half of 2^(x - 127): the codes are doubled.
    scale = np.ldexp(np.float32(1), exponent.astype(np.int32) - 128)
    codes = _E2M1_DOUBLED[_nibbles(quants, 16)].view(np.uint8)
    return _make("MXFP4", codes, DType.i8, 32, scale, shape)


_READERS: dict[str, Callable[[Array, tuple[int, ...]], GroupedMatrix]] = {
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs, "MXFP4": _mxfp4,
}  # fmt: skip
