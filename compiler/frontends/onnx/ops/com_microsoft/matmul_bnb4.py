"""onnxruntime's MatMulBnb4 (domain com.microsoft), products whose weights bitsandbytes packed into
FP4 or NF4, and MatMulInteger16.

Source: docs/ContribOperators.md of onnxruntime; the values are those of bitsandbytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import NF4_CODES, DType
from ......ir.graph import Value
from ......ir.op import Array
from ......ir.ops import Convert, MatMul, Multiply, Reshape
from ..elementary import convert_value

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction

# FP4 of bitsandbytes, which is not the float4 of other formats: one sign bit, then these.
_FP4 = (0.0, 0.0052083333, 0.6666667, 1.0, 0.33333334, 0.5, 0.16666667, 0.25)
_FLOAT4, _NORMAL_FLOAT4 = 0, 1


def matmul_bnb4(n: ImportContext) -> Value:
    """a x W^T (transB) or a x W; codes and largest magnitudes of blocks are those of W [N, K]."""
    columns, k, block = n.integer("N"), n.integer("K"), n.integer("block_size")
    kind, transposed = n.integer("quant_type"), n.flag("transB", True)
    n.has("training_mode")
    if kind not in (_FLOAT4, _NORMAL_FLOAT4):
        raise n.error("unknown quant_type", got=kind, expected="0 (FP4) or 1 (NF4)")
    packed = n.constant_of(n.input(1))
    if packed is None:
        raise n.unsupported_error("MatMulBnb4 with weights that are not constants")
    count = columns * k
    if min(columns, k, block) < 1 or packed.size != -(-count // 2):
        raise n.type_error("MatMulBnb4 has other weights than K and N say", got=packed.size)
    codes = np.stack([packed.reshape(-1) >> 4, packed.reshape(-1) & 15], 1).reshape(-1)[:count]
    largest, dtype = n.constant_of(n.input(2)), n.dtype(n.input(0))
    if largest is None:
        raise n.unsupported_error("MatMulBnb4 with scales that are not constants")
    if k % block:
        # Blocks go on across rows.
        sizes = [columns, k]
        factors = np.repeat(largest.reshape(-1), block)[:count].reshape(sizes)
    else:
        sizes = [columns, k // block, block]
        factors = largest.reshape(columns, -1, 1)
    scale = n.constant(factors, dtype)
    weight = n.add(Multiply(), _decode_values(n, codes.reshape(sizes), kind, dtype), scale)
    weight = n.add(Reshape(), weight, n.ints_value([columns, k]))
    return n.add(MatMul(transpose_b=transposed), n.input(0), weight)


def _decode_values(n: ImportContext, codes: Array, kind: int, dtype: DType) -> Value:
    """What the codes mean before they are scaled. NF4 stays packed in the graph and in files."""
    if kind == _NORMAL_FLOAT4:
        held = np.ascontiguousarray(codes, np.uint8).view(NF4_CODES)
        return n.add(Convert(dtype), n.constant(held, DType.nf4))
    table = np.array([*_FP4, *(-v for v in _FP4)], np.float32)
    return n.constant(table[codes], dtype)


def matmul_integer16(n: ImportContext) -> Value:
    """The product of i16 in i32, which wraps around."""
    return n.add(MatMul(), *(convert_value(n, n.input(i), DType.i32) for i in (0, 1)))


_MS = "com.microsoft::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_MS}MatMulBnb4": {1: matmul_bnb4},
    f"{_MS}MatMulInteger16": {1: matmul_integer16},
}
