"""Blocks of GGUF tensors as codes, scales and offsets. Layouts: ggml-common.h of ggml.

Every type here is a code times a scale plus an offset, in groups of 32 or 16 elements, so nothing
is rounded to another set of values: scales and offsets of K-quants, products of an f16 number with
a 6-bit or 8-bit integer, have all bits in f32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from ...ir.deferred_array import DeferredArray
from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ...ir.op import Array
from ..architectures.matrix import FloatMatrix, GroupedMatrix, Matrix

# Elements of a tensor that are converted at a time.
_PIECE_ELEMENTS: Final = 1 << 20
# Values of 4-bit codes: of IQ4_NL and IQ4_XS, and twice those of MXFP4 (E2M1).
_IQ4_VALUES = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)
_E2M1_DOUBLED = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8)
_LOW_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
_FLOATS = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": DType.bf16.numpy}


# Gives the bytes of rows, from the first to the last, which is not among them.
ReadRows: TypeAlias = Callable[[int, int], Array]
Scaling: TypeAlias = tuple[Array, Array | None]


@dataclass(frozen=True)
class _Blocks:
    """Blocks of a type. codes: makes their bytes [blocks, ...], of u4 two codes in each, the first
    in the low half. scaling: makes scales and offsets of groups, in f32 or what f32 has."""

    dtype: DType
    group: int
    codes: Callable[[], Array]
    scaling: Callable[[], Scaling]
    zero: int = 0


def read_matrix(kind: str, read: ReadRows, shape: tuple[int, ...]) -> Matrix:
    """A tensor of two axes. read: gives the bytes of rows; codes are read when they are needed."""
    rows, columns = shape
    if kind in _FLOATS:
        return FloatMatrix(read(0, rows).view(_FLOATS[kind]).reshape(shape), kind)
    divide = _READERS[kind]
    blocks = divide(read(0, 1))
    scale, *offset = _collect_rows(read, shape, lambda data: divide(data).scaling())

    def make_codes() -> Array:
        return _collect_rows(read, shape, lambda data: (divide(data).codes(),))[0]

    width = scale.shape[1] * blocks.group // (2 if blocks.dtype is DType.u4 else 1)
    return GroupedMatrix(
        DeferredArray(DType.u8, (rows, width), make_codes),
        blocks.dtype,
        blocks.group,
        scale,
        f"{kind} as {blocks.dtype.value} by {blocks.group}",
        blocks.zero,
        offset[0] if offset else None,
    )


def _collect_rows(
    read: ReadRows,
    shape: tuple[int, ...],
    make: Callable[[Array], Sequence[Array | None]],
) -> list[Array]:
    """Arrays [N, ...] of all rows. make: gives those of some rows from their bytes. Rows are read
    and converted piece by piece, so that little memory is needed besides."""
    rows, columns = shape
    step, found = max(1, _PIECE_ELEMENTS // columns), list[Array]()
    for first in range(0, rows, step):
        last = min(rows, first + step)
        made = [x.reshape(last - first, -1) for x in make(read(first, last)) if x is not None]
        found = found or [np.empty((rows, x.shape[1]), x.dtype) for x in made]
        for whole, x in zip(found, made, strict=True):
            whole[first:last] = x
    return found


def read_vector(kind: str, data: Array) -> Array:
    """A tensor of one axis in f32."""
    if kind in _FLOATS:
        return data.view(_FLOATS[kind]).astype(np.float32)
    return read_matrix(kind, lambda first, last: data, (1, data.size)).values().reshape(-1)


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


def _pairs(quants: Array, width: int) -> Array:
    """The same codes, two in a byte, the first in the low half."""
    rows = np.ascontiguousarray(quants).view(np.uint16).reshape(len(quants), -1, width // 2)
    codes = np.empty((len(rows), rows.shape[1], 2, width // 2), np.uint8)
    for half in range(2):
        # Two codes of a number, of which each is half a byte, side by side.
        found = rows >> np.uint16(4 * half) & np.uint16(0x0F0F)
        codes[:, :, half] = found | found >> np.uint16(4)
    return codes.reshape(len(quants), -1)


def _fifth_bits(high: Array) -> Array:
    """The bits of 32 codes, one bit each, as 16."""
    bits = np.unpackbits(np.ascontiguousarray(high), axis=1, bitorder="little")
    return bits << np.uint8(4)


def _five_bits(quants: Array, high: Array) -> Array:
    return _nibbles(quants, 16) | _fifth_bits(high)


def _look_up(values: Array, quants: Array) -> Array:
    """The values that nibbles denote, as bytes."""
    return values[_nibbles(quants, 16)].view(np.uint8)


def _read_scales(scale: Array, least: Array | None = None) -> Scaling:
    """f16 numbers of each block."""
    return _halves(scale), None if least is None else _halves(least)


def _q4_0(data: Array) -> _Blocks:
    scale, quants = _split(data, 2, 16)
    return _Blocks(DType.u4, 32, partial(_pairs, quants, 16), partial(_read_scales, scale), 8)


def _q4_1(data: Array) -> _Blocks:
    scale, least, quants = _split(data, 2, 2, 16)
    return _Blocks(DType.u4, 32, partial(_pairs, quants, 16), partial(_read_scales, scale, least))


def _q5_0(data: Array) -> _Blocks:
    scale, high, quants = _split(data, 2, 4, 16)
    codes = partial(_five_bits, quants, high)
    return _Blocks(DType.u8, 32, codes, partial(_read_scales, scale), 16)


def _q5_1(data: Array) -> _Blocks:
    scale, least, high, quants = _split(data, 2, 2, 4, 16)
    codes = partial(_five_bits, quants, high)
    return _Blocks(DType.u8, 32, codes, partial(_read_scales, scale, least))


def _q8_0(data: Array) -> _Blocks:
    scale, quants = _split(data, 2, 32)
    codes = partial(np.ascontiguousarray, quants)
    return _Blocks(DType.i8, 32, codes, partial(_read_scales, scale))


def _k_scaling(factor: Array, floor: Array, packed: Array) -> Scaling:
    """8 scales and 8 offsets of 6 bits from 12 bytes: the first four of each are bits 0 to 5 of
    bytes 0 to 3 and 4 to 7; of the others, bytes 8 to 11 have 4 bits each, and bits 6 and 7 of the
    former bytes the upper two."""
    low, mid, top = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scale = np.concatenate([low & 63, (top & 15) | ((low >> 6) << 4)], 1).astype(np.float32)
    least = np.concatenate([mid & 63, (top >> 4) | ((mid >> 6) << 4)], 1).astype(np.float32)
    return _halves(factor) * scale, -_halves(floor) * least


def _q4_k(data: Array) -> _Blocks:
    factor, floor, packed, quants = _split(data, 2, 2, 12, 128)
    scaling = partial(_k_scaling, factor, floor, packed)
    return _Blocks(DType.u4, 32, partial(_pairs, quants, 32), scaling)


def _q5_k(data: Array) -> _Blocks:
    factor, floor, packed, high, quants = _split(data, 2, 2, 12, 32, 128)
    scaling = partial(_k_scaling, factor, floor, packed)
    return _Blocks(DType.u8, 32, partial(_q5_k_codes, quants, high), scaling)


def _q5_k_codes(quants: Array, high: Array) -> Array:
    # Bit j of byte i is the fifth bit of element i of group j.
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    fifth = ((high[:, None, :] >> shifts) & 1) << np.uint8(4)
    return _nibbles(quants, 32) | fifth.reshape(len(high), -1)


def _q6_k(data: Array) -> _Blocks:
    low, high, packed, factor = _split(data, 128, 64, 16, 2)
    scaling = partial(_q6_k_scaling, factor, packed)
    return _Blocks(DType.i8, 16, partial(_q6_k_codes, low, high), scaling)


def _q6_k_codes(low: Array, high: Array) -> Array:
    # Each half of a block has 128 codes: four runs of 32, whose upper bits share 32 bytes.
    low, high = low.reshape(-1, 2, 64), high.reshape(-1, 2, 1, 32)
    nibbles = np.stack([low & 15, low >> 4], 2).reshape(-1, 2, 4, 32)
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    codes = nibbles | ((high >> shifts) & 3) << np.uint8(4)
    return (codes.astype(np.int8) - np.int8(32)).view(np.uint8)


def _q6_k_scaling(factor: Array, packed: Array) -> Scaling:
    numbers = np.ascontiguousarray(packed).view(np.int8)
    return _halves(factor) * numbers.astype(np.float32), None


def _two_bits(quants: Array) -> Array:
    """Bits 0 and 1 of 32 bytes, then their bits 2 and 3, 4 and 5, 6 and 7; then of the next 32."""
    shifts = np.array([0, 2, 4, 6], np.uint8)[:, None]
    return ((quants.reshape(len(quants), -1, 1, 32) >> shifts) & 3).reshape(len(quants), -1)


def _q2_k(data: Array) -> _Blocks:
    packed, quants, factor, floor = _split(data, 16, 64, 2, 2)
    scaling = partial(_q2_k_scaling, factor, floor, packed)
    return _Blocks(DType.u8, 16, partial(_two_bits, quants), scaling)


def _q2_k_scaling(factor: Array, floor: Array, packed: Array) -> Scaling:
    scale = _halves(factor) * (packed & 15).astype(np.float32)
    return scale, -_halves(floor) * (packed >> 4).astype(np.float32)


def _q3_k(data: Array) -> _Blocks:
    high, quants, packed, factor = _split(data, 32, 64, 12, 2)
    scaling = partial(_q3_k_scaling, factor, packed)
    return _Blocks(DType.i8, 16, partial(_q3_k_codes, quants, high), scaling)


def _q3_k_codes(quants: Array, high: Array) -> Array:
    # Bit j of byte i is the third bit of element i of the j-th 32 elements; 0 subtracts 4.
    shifts = np.arange(8, dtype=np.uint8)[None, :, None]
    third = ((high[:, None, :] >> shifts) & 1).reshape(len(high), -1)
    signed = (_two_bits(quants) | third << np.uint8(2)).astype(np.int8) - np.int8(4)
    return signed.view(np.uint8)


def _q3_k_scaling(factor: Array, packed: Array) -> Scaling:
    low, top = packed[:, None, :8], packed[:, None, 8:]
    low = (low >> np.array([0, 4], np.uint8)[:, None]).reshape(-1, 16) & 15
    top = (top >> np.array([0, 2, 4, 6], np.uint8)[:, None]).reshape(-1, 16) & 3
    return _halves(factor) * ((low | top << np.uint8(4)).astype(np.float32) - 32), None


def _iq4_nl(data: Array) -> _Blocks:
    scale, quants = _split(data, 2, 16)
    codes = partial(_look_up, _IQ4_VALUES, quants)
    return _Blocks(DType.i8, 32, codes, partial(_read_scales, scale))


def _iq4_xs(data: Array) -> _Blocks:
    factor, high, low, quants = _split(data, 2, 2, 4, 128)
    scaling = partial(_iq4_xs_scaling, factor, high, low)
    return _Blocks(DType.i8, 32, partial(_look_up, _IQ4_VALUES, quants), scaling)


def _iq4_xs_scaling(factor: Array, high: Array, low: Array) -> Scaling:
    upper = np.ascontiguousarray(high).view("<u2") >> np.arange(0, 16, 2, dtype=np.uint16)
    lower = (low[:, :, None] >> np.array([0, 4], np.uint8)).reshape(-1, 8) & 15
    return _halves(factor) * ((lower | (upper & 3) << 4).astype(np.float32) - 32), None


def _mxfp4(data: Array) -> _Blocks:
    exponent, quants = _split(data, 1, 16)
    codes = partial(_look_up, _E2M1_DOUBLED, quants)
    return _Blocks(DType.i8, 32, codes, partial(_mxfp4_scaling, exponent))


def _mxfp4_scaling(exponent: Array) -> Scaling:
    # Half of 2^(x - 127): the codes are doubled.
    return np.ldexp(np.float32(1), exponent.astype(np.int32) - 128), None


_READERS: dict[str, Callable[[Array], _Blocks]] = {
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl, "IQ4_XS": _iq4_xs, "MXFP4": _mxfp4,
}  # fmt: skip
