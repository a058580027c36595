"""Types that NumPy has no numbers of: u1, u3 and u6, held in uint8, and nf4, held as codes."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import irc_compiler.ir.ops as o
import numpy as np
import openvino as ov
import pytest
from irc_compiler import ops
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.infer import infer_graph
from irc_compiler.ir.interpret import interpret
from irc_compiler.ir.op import Op
from irc_compiler.ir.scalar.builder import cast_array
from openvino import opset13 as opset
from support.models.exact_int8 import OPENVINO_CONFIG

INTEGERS = [DType.u1, DType.u3, DType.u6]


def results(output: ops.Tensor, *given: Any) -> list[Any]:
    """By the compiler, and by the oracle."""
    model = ops.model([output])
    return [irc.compile_model(model)(*given)[0], interpret(model.graph, given)[0]]


@pytest.mark.slow
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


SMALL = [*INTEGERS, DType.u2, DType.u4, DType.i2, DType.i4]
FUNCTIONS = [o.Exp, o.Sinh, o.Cosh, o.Tan, o.Acos, o.Sqrt]
EXACT = [o.Abs, o.Negative, o.BitwiseNot, o.Add, o.Subtract, o.Multiply, o.Divide, o.Mod]
EXACT += [o.FloorMod, o.Power, o.Maximum, o.BitwiseAnd, o.BitwiseXor]
EXACT += [o.BitwiseLeftShift, o.BitwiseRightShift]


def of_all_numbers(op: Op, dtype: DType, *, constant: bool = False) -> tuple[list[Any], Any]:
    """What the compiler and the oracle give for every number, or pair of numbers, of a type; and
    what the oracle gives for them in 64 bits."""
    every = np.arange(int(dtype.min), int(dtype.max) + 1)
    numbers = [v.reshape(-1) for v in np.meshgrid(*[every] * len(op.inputs))]
    if isinstance(op, o.Divide | o.Mod | o.FloorMod):
        numbers = [v[numbers[1] != 0] for v in numbers]
    found: list[Any] = []
    for element in (DType.i64 if dtype.is_signed else DType.u64, dtype):
        given = [v.astype(element.numpy) for v in numbers]
        graph = Graph()
        nodes = [
            o.Constant.of(v, element) if constant else o.Parameter(element, v.shape) for v in given
        ]
        made = graph.add(op, [Value(graph.add(node)) for node in nodes])
        graph.add(o.Result(), [Value(made)])
        infer_graph(graph)
        fed = [] if constant else given
        found.append([irc.compile_model(irc.Model(graph))(fed)[0], interpret(graph, fed)[0]])
    return found[1], found[0][1]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SMALL, ids=str)
@pytest.mark.parametrize("constant", [True, False])
def test_functions_of_few_bits_round_and_saturate(dtype: DType, constant: bool) -> None:
    for op in FUNCTIONS:
        found, wide = of_all_numbers(op(), dtype, constant=constant)
        for got in found:
            assert got.dtype == dtype.numpy
            want = np.clip(wide, int(dtype.min), int(dtype.max))
            np.testing.assert_array_equal(got.astype(np.int64), want, str(op))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_what_is_exact_wraps_in_few_bits(dtype: DType) -> None:
    low = int(dtype.min)
    for op in EXACT:
        found, wide = of_all_numbers(op(), dtype)
        for got in found:
            assert got.dtype == dtype.numpy
            want = (wide.astype(np.int64) - low) % (1 << dtype.bits) + low
            np.testing.assert_array_equal(got.astype(np.int64), want, str(op))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("floor", [True, False])
def test_quotients_at_the_ends_of_signed_integers(bits: int, floor: bool) -> None:
    dtype = DType(f"i{bits}")
    low, high = int(dtype.min), int(dtype.max)
    pairs = [(low, 3), (low, -3), (low, 1), (low, high), (high, low), (high, -2), (low + 1, -1)]
    pairs += [(low, -1), (-7, 2), (7, -2), (-7, -2), (-6, 3), (0, -5)]
    want = [a // b if floor else abs(a) // abs(b) * (1 if a * b > 0 else -1) for a, b in pairs]
    given = [np.array(column, dtype.numpy) for column in zip(*pairs, strict=True)]
    graph = Graph()
    nodes = [Value(graph.add(o.Parameter(dtype, v.shape))) for v in given]
    graph.add(o.Result(), [Value(graph.add(o.Divide(m_pythondiv=floor), nodes))])
    infer_graph(graph)
    for got in (irc.compile_model(irc.Model(graph))(given)[0], interpret(graph, given)[0]):
        # The one quotient that the type does not hold wraps.
        assert got.tolist() == [low if w > high else w for w in want]


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
    exact = OPENVINO_CONFIG
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
