"""Which products of f32 multiply three bf16 numbers per factor, on tiles of AMX."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ....ir.dims import Dim
from ....ir.dims.polynomial import terms_of
from ....ir.dtype import DType
from ....ir.graph import Value
from ....plan.packing.panel_params import multiplies_bf16
from ..build.region_lowering import RegionLowering

# Sizes from which on six products on tiles take less time than one of vectors, measured
# (docs/dev/tuning/f32-products-amx.md): rows share an expanded panel, columns a split row.
_MIN_ROWS: Final = 32
_MIN_COLUMNS: Final = 128
_MIN_DEPTH: Final = 128
# The largest weight: bf16 rounds those near the largest number to infinity.
_MAX_WEIGHT: Final = 2.0**127


def multiplies_bf16x3(
    lowering: RegionLowering, weights: Value, dtype: DType, sizes: tuple[Dim, Dim, Dim]
) -> bool:
    """Whether a product of factors of `dtype`, of `sizes` (M, N, K), does so. weights: its right
    operand. Denormals must be flushed, as tiles flush them, and weights be finite: an infinity
    times a lower number of A, which may be zero, would be NaN."""
    target, (m, n, k) = lowering.target, sizes
    if dtype is not DType.f32 or lowering.options.denormals == "keep":
        return False
    if not multiplies_bf16(target):
        return False
    if not isinstance(n, int) or not isinstance(k, int) or n < _MIN_COLUMNS or k < _MIN_DEPTH:
        return False
    if least_rows(m) < _MIN_ROWS:
        return False
    op = lowering.constant_op(weights)
    if op is None or op.data.size == 0:
        return False
    # A NaN is the least and the largest number.
    return bool(-_MAX_WEIGHT <= np.min(op.data) and np.max(op.data) <= _MAX_WEIGHT)


def least_rows(m: Dim) -> int:
    """How many rows there are at least, if there are any: a dynamic number of matrices of 32 rows
    each, say, has 32."""
    return math.gcd(*terms_of(m).values())
