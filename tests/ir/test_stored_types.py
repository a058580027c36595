"""Types that NumPy has no numbers of: u1, u3 and u6, held in uint8, and nf4, held as codes."""

from __future__ import annotations

from typing import Any

import irc
import numpy as np
import openvino as ov
import pytest
from irc import ops
from irc.ir.dtype import DType
from irc.ir.interpret import interpret
from irc.ir.scalar import cast_array
from openvino import opset13 as opset

INTEGERS = [DType.u1, DType.u3, DType.u6]


def results(output: ops.Tensor, *given: Any) -> list[Any]:
    """By the compiler, and by the oracle."""
    model = ops.model([output])
    return [irc.compile_model(model)(*given)[0], interpret(model.graph, given)[0]]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["add", "multiply", "subtract"])
@pytest.mark.parametrize("count", [5, 100])
@pytest.mark.parametrize("constant", [True, False])
def test_integers_wrap_in_their_own_bits(
    dtype: DType, name: str, count: int, constant: bool
) -> None:
    """Few and many numbers: known values, folded constants, and what runs."""
    r = np.random.default_rng(count)
    a, b = (r.integers(0, int(dtype.max) + 1, count, np.uint8) for _ in "ab")
    x = ops.constant(a, dtype) if constant else ops.parameter("x", [count], dtype)
    want = getattr(np, name)(a.astype(np.int64), b) % (1 << dtype.bits)
    y = getattr(ops, name)(x, ops.constant(b, dtype))
    for got in results(y, *([] if constant else [a])):
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, want)
    # What reads the result reads numbers of the type.
    for got in results(ops.convert(y, "i32"), *([] if constant else [a])):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_bytes_become_narrower_integers(dtype: DType) -> None:
    given = np.arange(256, dtype=np.uint8)
    want = given % (1 << dtype.bits)
    np.testing.assert_array_equal(interpret(ops.model([ops.constant(given, dtype)]).graph)[0], want)
    for got in results(ops.convert(ops.parameter("x", [256], "u8"), dtype), given):
        np.testing.assert_array_equal(got, want)


def test_numbers_become_nf4_as_in_openvino() -> None:
    x = opset.parameter([-1], ov.Type.f32, name="x")
    net = ov.Model([opset.result(opset.convert(opset.convert(x, "nf4"), "f32"))], [x], "m")
    given = np.random.default_rng(0).uniform(-1.3, 1.3, 20_000).astype(np.float32)
    given[:4] = [np.inf, -np.inf, 5, -0.0]
    exact = {"INFERENCE_PRECISION_HINT": "f32"}
    want = ov.Core().compile_model(net, "CPU", exact)([given])[0]
    y = ops.convert(ops.convert(ops.parameter("x", [given.size]), "nf4"), "f32")
    for got in results(y, given):
        np.testing.assert_array_equal(got, want)


def test_nan_is_zero_in_nf4_and_between_two_numbers_the_lower_is_taken() -> None:
    codes = np.arange(16, dtype=np.uint8).view(DType.nf4.numpy)
    table = cast_array(codes, DType.f64)
    between = (table[1:] + table[:-1]) / 2
    y = ops.convert(ops.convert(ops.parameter("x", [16], "f64"), "nf4"), "f64")
    for got in results(y, np.array([np.nan, *between])):
        assert got[0] == 0
        np.testing.assert_array_equal(got[1:], table[:-1])


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_nf4_computes_with_its_numbers(name: str) -> None:
    codes = np.arange(16, dtype=np.uint8).view(DType.nf4.numpy)
    left, right = codes.reshape(16, 1), codes.reshape(1, 16)
    (table,) = interpret(ops.model([ops.convert(ops.constant(codes), "f32")]).graph)
    exact = getattr(np, name)(table[:, None].astype(np.float64), table)
    want = np.abs(exact[..., None] - table).argmin(-1)
    for got in results(getattr(ops, name)(ops.parameter("x", [16, 1], "nf4"), right), left):
        np.testing.assert_array_equal(got["nf4"], want)


def test_who_does_not_read_the_table_refuses_nf4() -> None:
    with pytest.raises(irc.ShapeError) as caught:
        ops.softmax(ops.parameter("x", [4], "nf4"))
    assert "f16, f32, f64" in str(caught.value.expected)
    assert "nf4" not in str(caught.value.expected)
