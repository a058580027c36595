"""onnxruntime's MatMulNBits (domain com.microsoft): products whose weights are packed integers.

The weights become codes and scales as Dequantize has them, which kernels read compressed.
Source: docs/ContribOperators.md of onnxruntime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.op import Array
from ......ir.ops import Add, Dequantize, Gather, MatMul, Multiply, Subtract
from ..elementary import convert_value

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction

# Codes of 2 bits are kept in 4.
_CODES = {2: ml_dtypes.uint4, 4: ml_dtypes.uint4, 8: np.uint8}


def unpack_codes(data: Array, bits: int, rows: int, count: int) -> Array:
    """[rows, count] numbers of a few bits each, the first in the low bits of a byte; every row
    begins with a byte."""
    each, packed = 8 // bits, data.astype(np.uint8, copy=False).reshape(rows, -1)
    codes = np.empty((*packed.shape, each), np.uint8)
    for i in range(each):
        np.right_shift(packed, i * bits, out=codes[..., i])
    codes &= (1 << bits) - 1
    return codes.reshape(rows, -1)[:, :count]


def _constant(n: ImportContext, port: int, count: int, what: str) -> Array:
    """The elements of a constant input, of which there must be so many."""
    found = n.constant_of(n.input(port))
    if found is None:
        raise n.unsupported_error(f"MatMulNBits with {what} that are not constants")
    if found.size != count:
        raise n.type_error(f"MatMulNBits has other {what} than K, N and block_size say",
                       got=found.size, expected=count)  # fmt: skip
    return found


def _order_of_rows(n: ImportContext, k: int, block: int) -> Array | None:
    """The order that makes the rows of each block adjacent: GPTQ with act-order quantizes them in
    another order, and g_idx holds the block of each row. None: they are adjacent."""
    given = n.optional(4)
    if given is None:
        return None
    groups = n.constant_of(given)
    if groups is None:
        raise n.unsupported_error("MatMulNBits with a g_idx that is not constant")
    # Exporters pad K to a multiple of the block.
    groups, adjacent = groups.reshape(-1)[:k], np.arange(k) // block
    order = np.argsort(groups, kind="stable")
    if not np.array_equal(groups[order], adjacent):
        raise n.unsupported_error(
            f"MatMulNBits with a g_idx that does not give each block {block} of the K = {k} rows"
        )
    return None if np.array_equal(groups, adjacent) else order


def matmul_nbits(n: ImportContext) -> Value:
    """a x W + bias, W[k, n] = (code - zero point) * scale, by blocks of K."""
    a, k, columns = n.input(0), n.integer("K"), n.integer("N")
    bits, block = n.integer("bits", 4), n.integer("block_size")
    n.has("accuracy_level")  # irc computes in a's type: at least as exact as any level
    if bits not in _CODES:
        raise n.unsupported_error(f"MatMulNBits of {bits} bits")
    if min(k, columns) < 1 or block < 8 // bits or block % (8 // bits):
        raise n.type_error("MatMulNBits counts no weights", got=(k, columns, block))
    blocks = -(-k // block)
    packed = _constant(n, 1, columns * blocks * block * bits // 8, "weights")
    codes = unpack_codes(packed, bits, columns, k).view(_CODES[bits])
    order = _order_of_rows(n, k, block)
    if order is not None:
        codes = np.ascontiguousarray(codes[:, order])
        a = n.add(Gather(), a, n.constant(order, DType.i64), n.constant(np.int64(-1), DType.i64))
    dtype = DType.from_numpy(codes.dtype)
    _constant(n, 2, columns * blocks, "scales")
    scale = n.constant(np.asarray(n.constant_of(n.input(2))).reshape(columns, blocks), n.dtype(a))
    given = n.optional(3)
    if given is not None and n.dtype(given).is_float:
        weight = _dequantize_float_zeros(n, codes, scale, block, columns * blocks)
    elif given is None:
        # Codes about the middle are signed numbers, which need no zero point.
        kind = DType.i8 if bits == 8 else DType.i4
        signed = codes.view(np.uint8)
        signed -= np.uint8(1 << bits - 1)  # in its own memory: codes may be large
        weight = n.add(Dequantize(1, block), n.constant(signed.view(kind.numpy), kind), scale)
    else:
        size = columns * -(-blocks * bits // 8)
        zero = unpack_codes(_constant(n, 3, size, "zero points"), bits, columns, blocks)
        shift = n.constant(zero.astype(codes.dtype), dtype)
        weight = n.add(Dequantize(1, block), n.constant(codes, dtype), scale, shift)
    product = n.add(MatMul(transpose_b=True), a, weight)
    bias = n.optional(5)
    return product if bias is None else n.add(Add(), product, bias)


def _dequantize_float_zeros(
    n: ImportContext, codes: Array, scale: Value, block: int, count: int
) -> Value:
    """Weights with zero points that are not integers: in plain operations."""
    k, dtype = codes.shape[1], n.dtype(scale)

    def repeat_blocks(value: Array) -> Array:
        return np.repeat(value.reshape(codes.shape[0], -1), block, 1)[:, :k]

    zero, factor = _constant(n, 3, count, "zero points"), n.constant_of(scale)
    assert factor is not None
    wide = convert_value(n, n.constant(codes, DType.from_numpy(codes.dtype)), dtype)
    shifted = n.add(Subtract(), wide, n.constant(repeat_blocks(zero), dtype))
    return n.add(Multiply(), shifted, n.constant(repeat_blocks(factor), dtype))


IMPORTERS: dict[str, dict[int, ImportFunction]] = {"com.microsoft::MatMulNBits": {1: matmul_nbits}}
