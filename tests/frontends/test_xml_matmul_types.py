"""MatMul-1 of every numeric type of the format, from XML through the compiler.

Small integers bit for bit (docs/numerics.md): integers modulo 2^n; floats accumulate in f32 and are
rounded once.
"""

from __future__ import annotations

from typing import Any

import irc
import numpy as np
import pytest
from irc import ops
from irc.compiler.export.xml import to_xml_text
from irc.ir.dtype import DType

CODES = {DType.u1, DType.u3, DType.u6, DType.nf4}
NUMERIC = [t for t in DType if (t.is_int or t.is_float) and t not in CODES]
SHAPES = [
    ((3, 5), (5, 4), False, False),
    ((5, 3), (4, 5), True, True),
    ((2, 3, 5), (5, 4), False, False),
    ((5,), (5, 4), False, False),
    ((3, 5), (5,), False, False),
    ((2, 0), (0, 3), False, False),
    ((2, 0), (0, 3), False, False),
]


def products(cases: list[tuple[Any, Any, bool, bool]], dtype: DType) -> list[Any]:
    """Each a x b by one model's XML; every second b is a constant."""
    feeds: dict[str, Any] = {}
    outputs: list[ops.Tensor] = []
    for i, (a, b, transpose_a, transpose_b) in enumerate(cases):
        feeds[f"a{i}"] = a
        y = ops.constant(b)
        if i % 2:
            feeds[f"b{i}"], y = b, ops.parameter(f"b{i}", b.shape, dtype)
        x = ops.parameter(f"a{i}", a.shape, dtype)
        outputs.append(ops.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b))
    text, weights = to_xml_text(ops.model(outputs).graph, dialect=True)
    return list(irc.compile_model(irc.read_model(text.encode(), weights), num_threads=1)(feeds))


def product(a: Any, b: Any, dtype: DType) -> Any:
    return products([(a, b, False, False)], dtype)[0]


def small(shape: tuple[int, ...], dtype: DType, seed: int) -> Any:
    """Whole numbers that the type holds: -3 to 3, or 1 and 2 where it has neither sign nor 0."""
    r = np.random.default_rng([seed, *shape])
    low, high = (-3, 4) if dtype.is_signed else (0, 4)
    if dtype is DType.i2:
        low, high = -2, 2
    if dtype is DType.f8e8m0:
        low, high = 1, 3
    return r.integers(low, high, shape).astype(dtype.numpy)


def exact(a: Any, b: Any, dtype: DType) -> Any:
    if dtype.is_int:
        wide = np.matmul(a.astype(np.int64), b.astype(np.int64))
        low = int(dtype.min)
        return ((wide - low) % (1 << min(dtype.bits, 62)) + low) if dtype.bits < 62 else wide
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_small_integers_are_exact(dtype: DType) -> None:
    cases = [
        (small(left, dtype, 1), small(right, dtype, 2), ta, tb) for left, right, ta, tb in SHAPES
    ]
    for (a, b, ta, tb), got in zip(cases, products(cases, dtype), strict=True):
        assert got.dtype == dtype.numpy
        want = exact(a.T if ta else a, b.T if tb else b, dtype)
        if dtype.is_int:
            np.testing.assert_array_equal(got.astype(np.int64), want)
        else:
            rounded = want.astype(np.float32).astype(dtype.numpy)
            np.testing.assert_array_equal(got.astype(np.float64), rounded.astype(np.float64))


WRAPPING = [t for t in NUMERIC if t.is_int and t.bits >= 4]


@pytest.mark.parametrize("dtype", WRAPPING, ids=str)
def test_integers_wrap(dtype: DType) -> None:
    """The largest number squared, three times: 3 * (2^(n-1) - 1)^2, or 3 * (2^n - 1)^2."""
    most = int(dtype.max)
    a = np.full((2, 3), most, dtype.numpy)
    b = np.full((3, 2), most, dtype.numpy)
    want = 3 * most * most
    low = int(dtype.min)
    want = (want - low) % (1 << dtype.bits) + low
    assert [int(v) for v in product(a, b, dtype).reshape(-1)] == [want] * 4


@pytest.mark.parametrize("dtype", [DType.f16, DType.bf16, DType.f8e4m3, DType.f8e5m2], ids=str)
def test_small_floats_are_rounded_once(dtype: DType) -> None:
    r = np.random.default_rng(4)
    a, b = (r.uniform(-1, 1, s).astype(dtype.numpy) for s in ((4, 9), (9, 5)))
    got = product(a, b, dtype)
    wide = np.matmul(a.astype(np.float64), b.astype(np.float64))
    nearest = wide.astype(np.float32).astype(dtype.numpy)
    # Sums in f32 may round to the other neighbour where the exact sum lies between the two.
    same = np.mean(got.astype(np.float32) == nearest.astype(np.float32))
    assert same > 0.9


@pytest.mark.parametrize("dtype", sorted(CODES, key=str), ids=str)
def test_types_that_only_store_numbers_are_refused(dtype: DType) -> None:
    x = ops.parameter("a", [2, 2], dtype)
    with pytest.raises(irc.ShapeError, match="needs numbers"):
        ops.matmul(x, x)
