"""Which products of f32 multiply three bf16 numbers per factor, on tiles of AMX."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ....ir.dims import Dim
from ....ir.dims.polynomial import terms_of
from ....ir.dtype import DType
from ....ir.op import Array
from ....ir.ops import Constant
from ....plan.packing.panel_params import multiplies_bf16
from ....plan.target import Target
from ...options import Options

# Sizes from which on six products on tiles take less time than one of vectors, measured
# (docs/dev/tuning/f32-products-amx.md): rows share an expanded panel, columns a split row.
MIN_ROWS: Final = 96
# Of as many weights as _MANY_WEIGHTS, and of a dynamic number of matrices with so many rows each.
_MIN_ROWS_OF_MANY_WEIGHTS: Final = 48
_MIN_ROWS_OF_MATRICES: Final = 32
_MANY_WEIGHTS: Final = 1 << 19
_MIN_COLUMNS: Final = 96
_MIN_DEPTH: Final = 64
# The largest weight: bf16 rounds those near the largest number to infinity.
_MAX_WEIGHT: Final = 2.0**127
# Weights that are compared twice, which are in L2 the second time.
_CHECKED_AT_ONCE: Final = 1 << 17


def multiplies_bf16x3(
    target: Target,
    options: Options,
    weights: Constant | None,
    dtype: DType,
    sizes: tuple[Dim, Dim, Dim],
) -> bool:
    """Whether a product of factors of `dtype`, of `sizes` (M, N, K), does so. weights: its right
    operand, if that is a constant. Denormals must be flushed, as tiles flush them, and weights be
    finite: an infinity times a lower number of A, which may be zero, would be NaN."""
    m, n, k = sizes
    if dtype is not DType.f32 or weights is None or options.denormals == "keep":
        return False
    if not multiplies_bf16(target):
        return False
    if not isinstance(n, int) or not isinstance(k, int) or n < _MIN_COLUMNS or k < _MIN_DEPTH:
        return False
    return has_rows_for_tiles(m, n * k) and _are_small(weights.data)


def has_rows_for_tiles(m: Dim, weights: int) -> bool:
    """Whether six products on tiles take less time for M rows by so many weights."""
    if not isinstance(m, int):
        return least_rows(m) >= _MIN_ROWS_OF_MATRICES
    return m >= (_MIN_ROWS_OF_MANY_WEIGHTS if weights >= _MANY_WEIGHTS else MIN_ROWS)


def _are_small(weights: Array) -> bool:
    """Whether all are finite and at most _MAX_WEIGHT: a NaN is the least and the largest number."""
    flat = weights.reshape(-1)
    for at in range(0, flat.size, _CHECKED_AT_ONCE):
        some = flat[at : at + _CHECKED_AT_ONCE]
        if not (-_MAX_WEIGHT <= np.min(some) and np.max(some) <= _MAX_WEIGHT):
            return False
    return True


def least_rows(m: Dim) -> int:
    """How many rows a dynamic M has at least, if it has any: a number of matrices of 32 rows each,
    say, has 32."""
    return math.gcd(*terms_of(m).values())
