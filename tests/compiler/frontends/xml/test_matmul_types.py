"""MatMul-1 and Gemm of every numeric type of the format, from XML through the compiler.

Small integers bit for bit (docs/numerics.md): integers modulo 2^n; floats accumulate in f32 and are
rounded once. The types are those of the vocabulary: a new one is tested here or fails here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import openvino as ov
import pytest
from irc_compiler import ops
from irc_compiler.compiler.export.xml import to_xml_text
from irc_compiler.ir.dtype import DType
from openvino import opset13 as opset
from support.models.exact_int8 import OPENVINO_CONFIG

NUMERIC = [t for t in DType if t.is_int or t.is_float]
# QLoRA's table: sixteen quantiles of the normal distribution.
NF4 = np.array(
    [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
     -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
     0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
     0.7229568362236023, 1.0], np.float32,
)  # fmt: skip
REFUSED = [t for t in DType if t not in NUMERIC and t is not DType.dynamic]
SHAPES = [
    ((3, 5), (5, 4), False, False),
    ((5, 3), (4, 5), True, True),
    ((2, 3, 5), (5, 4), False, False),
    ((5,), (5, 4), False, False),
    ((3, 5), (5,), False, False),
    ((2, 0), (0, 3), False, False),
    ((2, 0), (0, 3), False, False),
    ((2, 1, 3, 5), (3, 5, 3), False, False),  # odd counts: the last byte is not full
    ((3, 1, 5, 3), (2, 3, 5), True, True),
    ((1, 1), (1, 1), False, True),
    ((1, 7), (7,), False, False),
    ((7,), (7,), True, True),
    ((3, 7), (5, 7), False, True),
]


def products(cases: list[tuple[Any, Any, bool, bool]], dtype: DType, make: Any) -> list[Any]:
    """Each a x b by one model's XML: b is a constant, a variable, or both are constants."""
    feeds: dict[str, Any] = {}
    outputs: list[ops.Tensor] = []
    for i, (a, b, *flags) in enumerate(cases):
        x, y = ops.constant(a, dtype), ops.constant(b, dtype)
        if i % 3 < 2:
            feeds[f"a{i}"], x = a, ops.parameter(f"a{i}", a.shape, dtype)
        if i % 3 == 1:
            feeds[f"b{i}"], y = b, ops.parameter(f"b{i}", b.shape, dtype)
        outputs.append(make(x, y, *flags))
    text, weights = to_xml_text(ops.model(outputs).graph, dialect=True)
    return list(irc.compile_model(irc.read_model(text.encode(), weights), num_threads=1)(feeds))


def product(a: Any, b: Any, dtype: DType) -> Any:
    return products([(a, b, False, False)], dtype, lambda x, y, *_: ops.matmul(x, y))[0]


def small(shape: tuple[int, ...], dtype: DType, seed: int) -> Any:
    """Integers that the type holds: -3 to 3, or 1 and 2 where it has neither sign nor 0."""
    r = np.random.default_rng([seed, *shape])
    low, high = (-3, 4) if dtype.is_signed else (0, 4)
    if dtype in (DType.i2, DType.u1):
        low, high = int(dtype.min), int(dtype.max) + 1
    if dtype is DType.f8e8m0:
        low, high = 1, 3
    if dtype is DType.nf4:  # the places of -1, 0 and 1 in its table
        return r.choice(np.array([0, 7, 15], np.uint8), shape).view(dtype.numpy)
    return r.integers(low, high, shape).astype(dtype.numpy)


def wide(array: Any, dtype: DType) -> Any:
    """The numbers of an array, in NumPy's widest type of their kind."""
    if dtype is DType.nf4:
        return NF4[array["nf4"]].astype(np.float64)
    return array.astype(np.int64 if dtype.is_int else np.float64)


def swapped(array: Any, transpose: bool) -> Any:
    return array.swapaxes(-1, -2) if transpose and array.ndim > 1 else array


def exact(a: Any, b: Any, dtype: DType) -> Any:
    """The product in NumPy on the unpacked numbers, as the type holds it."""
    product = np.matmul(wide(a, dtype), wide(b, dtype))
    if dtype is DType.nf4:
        return NF4[np.abs(product[..., None] - NF4).argmin(-1)]
    if dtype.is_float:
        return product.astype(np.float32).astype(dtype.numpy).astype(np.float64)
    low = int(dtype.min)
    return (product - low) % (1 << dtype.bits) + low if dtype.bits < 64 else product


@pytest.mark.slow
@pytest.mark.parametrize("make", [ops.matmul, ops.gemm], ids=["MatMul", "Gemm"])
@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_small_integers_are_exact(dtype: DType, make: Any) -> None:
    def product_of(x: Any, y: Any, first: bool, second: bool) -> Any:
        if make is ops.matmul:
            return ops.matmul(x, y, transpose_a=first, transpose_b=second)
        return ops.gemm(x, y, trans_a=first, trans_b=second)

    shapes = [s for s in SHAPES if make is ops.matmul or min(len(s[0]), len(s[1])) > 1]
    cases = [
        (small(left, dtype, 1), small(right, dtype, 2), ta, tb) for left, right, ta, tb in shapes
    ]
    for (a, b, ta, tb), got in zip(cases, products(cases, dtype, product_of), strict=True):
        assert got.dtype == dtype.numpy
        np.testing.assert_array_equal(
            wide(got, dtype), exact(swapped(a, ta), swapped(b, tb), dtype)
        )


WRAPPING = [t for t in NUMERIC if t.is_int]


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
    product_ = np.matmul(a.astype(np.float64), b.astype(np.float64))
    nearest = product_.astype(np.float32).astype(dtype.numpy)
    # Sums in f32 may round to the other neighbour where the exact sum lies between the two.
    same = np.mean(got.astype(np.float32) == nearest.astype(np.float32))
    assert same > 0.9


SMALL = [t for t in NUMERIC if t.bits < 8]


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_every_code_of_the_small_types(dtype: DType) -> None:
    """Numbers over the whole range, of an odd count."""
    r = np.random.default_rng(dtype.bits)
    a, b = (_of_codes(r.integers(0, 1 << dtype.bits, s, np.uint8), dtype) for s in ((5, 7), (7, 3)))
    np.testing.assert_array_equal(wide(product(a, b, dtype), dtype), exact(a, b, dtype))


def _of_codes(codes: Any, dtype: DType) -> Any:
    if dtype in (DType.nf4, DType.f4e2m1):
        return codes.view(dtype.numpy)
    return (codes.astype(np.int64) + int(dtype.min)).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", ["nf4", "f4e2m1"])
@pytest.mark.parametrize("constant", [True, False])
def test_small_floats_are_openvinos(dtype: str, constant: bool, tmp_path: Path) -> None:
    """The only types below a byte whose products OpenVINO gives in their own type."""
    raw = np.random.default_rng(8).integers(0, 256, (2, 24), np.uint8)
    kind = getattr(ov.Type, dtype)
    a, b = (ov.Tensor(r, ov.Shape(s), kind) for r, s in zip(raw, ([6, 8], [8, 6]), strict=True))
    left = opset.constant(a) if constant else opset.parameter([6, 8], kind, name="a")
    out = opset.convert(opset.matmul(left, opset.constant(b), False, False), "f32")
    net = ov.Model([opset.result(out)], [] if constant else [left], "m")
    path = tmp_path / "m.xml"
    ov.save_model(net, path, compress_to_fp16=False)
    exact_ = OPENVINO_CONFIG
    expected = ov.Core().compile_model(net, "CPU", exact_)([] if constant else [a])[0]
    codes = np.stack([raw[0][:24] & 15, raw[0][:24] >> 4], -1).reshape(6, 8)
    given = [] if constant else [codes.view(DType(dtype).numpy)]
    np.testing.assert_array_equal(irc.compile_model(path)(given)[0], expected)


@pytest.mark.parametrize("dtype", REFUSED, ids=str)
def test_what_is_no_number_is_refused(dtype: DType) -> None:
    x = ops.parameter("a", [2, 2], dtype)
    for make in (ops.matmul, ops.gemm):
        with pytest.raises(irc.ShapeError, match="needs numbers") as caught:
            make(x, x)
        assert caught.value.got is dtype
        allowed = str(caught.value.expected).partition(": ")[2].split(", ")
        assert set(allowed) == {str(t) for t in NUMERIC}
