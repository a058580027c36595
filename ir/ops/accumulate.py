"""The types in which operations compute: f16, bf16 and float8 in f32, with one rounding per output
(docs/numerics.md)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtype import NF4_CODES, DType
from ..op import Array
from ..scalar.evaluate import cast_array
from ..types import TensorType

_SMALL_FLOATS = frozenset(t for t in DType if t.is_float and t not in (DType.f32, DType.f64))


def computing_dtype(dtype: DType) -> DType:
    """f32 for the smaller floats, else the type itself."""
    return DType.f32 if dtype in _SMALL_FLOATS else dtype


def is_small_float(array: Array) -> bool:
    """Whether the array's type is a float smaller than f32 (NumPy's or ml_dtypes')."""
    return array.dtype == np.float16 or (array.dtype.kind == "V" and _is_float(array.dtype))


def _is_float(dtype: np.dtype[Any]) -> bool:
    try:
        return DType.from_numpy(dtype) in _SMALL_FLOATS
    except TypeError:
        return False


def widen_array(array: Array) -> Array:
    """The array in its computing type; no copy where it already is."""
    if array.dtype == NF4_CODES:
        return cast_array(array, DType.f32)
    return array.astype(np.float32) if is_small_float(array) else array


def computing_bytes(dtype: DType) -> int:
    """Bytes of an element in the computing type."""
    return computing_dtype(dtype).numpy.itemsize


def widened_bytes(*types: TensorType | None) -> int:
    """Bytes of the copies that `widen_array` makes of arrays of these types."""
    return sum(4 * t.elements for t in types if t is not None and t.dtype in _SMALL_FLOATS)


def narrow_array(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array in a float or integer type that holds results; integers wrap."""
    if array.dtype == dtype:
        return array
    if dtype == NF4_CODES:
        return cast_array(array, DType.nf4)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def multiply_matrices(a: Array, b: Array) -> Array:
    """np.matmul in the computing type: f32 for small floats, modulo 2^n for integers.

    Products of integers up to 16 bits go through f64, where their sums are exact.
    """
    dtype = DType.from_numpy(a.dtype)
    if dtype.is_int and dtype.bits <= 16 and a.shape[-1] <= 1 << 53 - 2 * dtype.bits:
        exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
        return exact.astype(np.int64).astype(a.dtype)
    with np.errstate(all="ignore"):
        return np.matmul(widen_array(a), widen_array(b))
