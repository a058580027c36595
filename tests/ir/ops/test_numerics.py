"""What docs/numerics.md promises, on evaluate: wrapping, NaN, small floats, Gemm, activations."""

from __future__ import annotations

import math
from typing import Any

import irc_compiler.ir.ops as o
import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import Error, ExecutionError, ShapeError
from irc_compiler.ir.op import Fact, Op
from irc_compiler.ir.types import TensorType
from support.formulas import sigmoid

BF16 = ml_dtypes.bfloat16


def run(op: Op, *arrays: Any) -> Any:
    listed = [None if a is None else np.asarray(a) for a in arrays]
    (out,) = op.evaluate(*op.slots(listed))
    return out


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint32, np.uint64])
def test_matmul_of_integers_wraps(dtype: Any) -> None:
    top = np.iinfo(dtype).max
    a, b = np.array([[top, top, 3]], dtype), np.array([[top], [2], [5]], dtype)
    exact = int(top) * int(top) + int(top) * 2 + 15
    bits = np.iinfo(dtype).bits
    got = run(o.MatMul(), a, b)
    assert got.dtype == dtype
    assert int(got[0, 0]) % (1 << bits) == exact % (1 << bits)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_small_floats_accumulate_in_f32_and_round_once(dtype: Any) -> None:
    # 2048 + 1 is 2048 in f16: a sum kept in f16 would never grow by ones.
    a = np.ones((1, 4096), dtype)
    assert float(run(o.MatMul(), a, a.T)[0, 0]) == 4096
    x = np.array([1.001], dtype)
    exact = dtype(np.float32(x[0]) * np.float32(x[0]) + np.float32(0))
    assert run(o.Multiply(), x, x)[0] == exact


def test_zero_times_infinity_is_nan_and_padding_does_not_matter() -> None:
    a = np.array([[0, 1]], np.float32)
    b = np.array([[np.inf], [1]], np.float32)
    assert np.isnan(run(o.MatMul(), a, b)[0, 0])
    assert (run(o.MatMul(), np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)) == 0).all()


def test_gemm_does_not_read_c_where_beta_is_zero() -> None:
    a, c = np.eye(2, dtype=np.float32), np.full((2, 2), np.nan, np.float32)
    np.testing.assert_array_equal(run(o.Gemm(beta=0.0), a, a, c), a)
    assert np.isnan(run(o.Gemm(beta=1.0), a, a, c)).all()


def test_gemm_with_alpha_zero_keeps_nan() -> None:
    a = np.full((1, 1), np.nan, np.float32)
    assert np.isnan(run(o.Gemm(alpha=0.0), a, a)[0, 0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_gemm_of_integers(dtype: Any) -> None:
    a = np.array([[3, 5]], dtype)
    b = np.array([[7], [2]], dtype)
    c = np.array([[9]], dtype)
    assert run(o.Gemm(alpha=3.0, beta=2.0), a, b, c)[0, 0] == 3 * 31 + 18
    assert run(o.Gemm(alpha=0.5, beta=0.5), a, b, c)[0, 0] == 20  # 15.5 + 4.5
    assert run(o.Gemm(alpha=0.5, beta=0.0), a, b, c)[0, 0] == 15  # truncated
    top = np.iinfo(dtype).max
    big = np.array([[top]], dtype)
    bits = np.iinfo(dtype).bits
    wrapped = int(run(o.Gemm(), big, big)[0, 0]) % (1 << bits)
    assert wrapped == int(top) * int(top) % (1 << bits)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("c_shape", [(), (1,), (5,), (1, 5), (4, 1), (4, 5), (3, 1, 5), (3, 4, 5)])
def test_gemm_broadcasts_c(transpose_a: bool, transpose_b: bool, c_shape: Any) -> None:
    random = np.random.default_rng(3)
    a = random.integers(-4, 5, (3, 6, 4) if transpose_a else (3, 4, 6)).astype(np.float32)
    b = random.integers(-4, 5, (5, 6) if transpose_b else (6, 5)).astype(np.float32)
    c = random.integers(-4, 5, c_shape).astype(np.float32)
    left = a.swapaxes(1, 2) if transpose_a else a
    right = b.T if transpose_b else b
    op = o.Gemm(alpha=2.0, beta=-1.0, transpose_a=transpose_a, transpose_b=transpose_b)
    np.testing.assert_array_equal(run(op, a, b, c), 2 * (left @ right) - c)


def _erf(x: Any) -> Any:
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


FORMULAS: dict[str, tuple[tuple[float, ...], Any]] = {
    "identity": ((), lambda x: x),
    "relu": ((), lambda x: np.maximum(x, 0)),
    "leaky_relu": ((0.2,), lambda x: np.where(x >= 0, x, 0.2 * x)),
    "thresholded_relu": ((0.7,), lambda x: np.where(x > 0.7, x, 0)),
    "parametrised_relu": ((0.3,), lambda x: np.where(x >= 0, x, 0.3 * x)),
    "elu": ((0.8,), lambda x: np.where(x >= 0, x, 0.8 * (np.exp(x) - 1))),
    "celu": ((0.8,), lambda x: np.maximum(x, 0) + np.minimum(0, 0.8 * (np.exp(x / 0.8) - 1))),
    "scaled_elu": ((1.5, 1.1), lambda x: 1.1 * np.where(x > 0, x, 1.5 * np.exp(x) - 1.5)),
    "sigmoid": ((), sigmoid),
    "hard_sigmoid": ((0.3, 0.4), lambda x: np.clip(0.3 * x + 0.4, 0, 1)),
    "tanh": ((), np.tanh),
    "scaled_tanh": ((1.7, 0.6), lambda x: 1.7 * np.tanh(0.6 * x)),
    "softplus": ((2.0,), lambda x: np.log(1 + np.exp(2 * x)) / 2),
    "softsign": ((), lambda x: x / (1 + np.abs(x))),
    "linear": ((2.0, -1.0), lambda x: 2 * x - 1),
    "gelu": ((), lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2)))),
    "gelu_tanh": (
        (),
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    "swish": ((1.5,), lambda x: x * sigmoid(1.5 * x)),
    "hard_swish": ((1 / 6, 0.5), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "mish": ((), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "clip": ((-0.5, 0.75), lambda x: np.clip(x, -0.5, 0.75)),
}


def test_every_activation_has_a_formula_here() -> None:
    assert set(FORMULAS) == set(o.ACTIVATIONS)


@pytest.mark.parametrize("name", FORMULAS)
def test_activations(name: str) -> None:
    parameters, formula = FORMULAS[name]
    x = np.random.default_rng(1).standard_normal((4, 5)) * 2
    expected = formula(x)
    a = x.astype(np.float32)
    got = run(o.Gemm(activation=name, activation_params=parameters), a, np.eye(5, dtype=np.float32))
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(run(o.Activation(name, parameters), x), expected, rtol=1e-12)


def test_activation_defaults_fill_in() -> None:
    x = np.array([-1.0, 3.0])
    np.testing.assert_array_equal(run(o.Activation("leaky_relu"), x), [-0.01, 3])
    np.testing.assert_array_equal(run(o.Activation("linear", (2.0,)), x), [-2, 6])


@pytest.mark.parametrize(
    "op", [o.Relu(), o.Clamp(-1.0, 1.0), o.Elu(1.0), o.PRelu(), o.Sign(), o.Sigmoid(), o.Gelu()]
)
def test_nan_stays_nan(op: Op) -> None:
    x = np.array([np.nan], np.float32)
    arrays = [x, np.array([0.5], np.float32)][: len(op.inputs)]
    assert np.isnan(run(op, *arrays)[0])


def test_nan_in_extremes() -> None:
    nan, one = np.array([np.nan, 1], np.float32), np.array([1, np.nan], np.float32)
    assert np.isnan(run(o.Maximum(), nan, one)).all()
    assert np.isnan(run(o.Minimum(), nan, one)).all()
    assert np.isnan(run(o.ReduceMax(), nan, np.array([0])))


def test_convert_saturates() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 2.9, -2.9], np.float32)
    low, high = -(2**31), 2**31 - 1
    assert run(o.Convert(DType.i32), x).tolist() == [0, high, low, high, low, 2, -2]
    assert run(o.Convert(DType.u8), x).tolist() == [0, 255, 0, 255, 0, 2, 0]
    assert run(o.Convert(DType.boolean), x).all()
    assert run(o.Convert(DType.i8), np.array([300, -129])).tolist() == [44, 127]


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [True, False])
def test_conversion_to_powers_of_two(mode: str, saturate: bool) -> None:
    from onnx.numpy_helper import to_float8e8m0

    x = np.random.default_rng(0).standard_normal(500) * np.logspace(-46, 38, 500)
    listed = [0, 1, 1.5, 1.4, 1.6, 3.4e38, np.inf, np.nan, -2, 2.0**-127, 1e-45, 2.0**127]
    a = np.concatenate([x, listed]).astype(np.float32)
    expected = to_float8e8m0(a, saturate, mode).view(np.uint8)
    np.testing.assert_array_equal(run(o.ConvertE8M0(mode, saturate), a).view(np.uint8), expected)


def test_integer_division() -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    assert run(o.Divide(), a, b).tolist() == [3, -4, -4, 3]
    assert run(o.Divide(m_pythondiv=False), a, b).tolist() == [3, -3, -3, 3]
    assert run(o.FloorMod(), a, b).tolist() == [1, 1, -1, -1]
    assert run(o.Mod(), a, b).tolist() == [1, -1, 1, -1]
    least = np.array([-(2**31)], np.int32)
    for op in (o.Divide(), o.Divide(m_pythondiv=False)):
        assert run(op, least, np.array([-1], np.int32))[0] == least[0]
        with pytest.raises(ExecutionError, match="divided by zero"):
            run(op, a, np.zeros(4, int))
        assert run(op, np.zeros((2, 0), int), np.zeros((2, 1), int)).shape == (2, 0)


@pytest.mark.parametrize("exponent", [0.5, [0.5, 0.5]])
def test_power_is_no_square_root(exponent: Any) -> None:
    """Where the same exponent is for all, NumPy makes one."""
    base = np.array([-np.inf, -0.0], np.float32)
    (found,) = o.Power().evaluate(base, np.array(exponent, np.float32))
    assert found.tolist() == [np.inf, 0.0] and not np.signbit(found[1])


def test_gather_out_of_range() -> None:
    x, index, axis = np.arange(1.0, 4), np.array([0, -3, 3, -4]), np.array(0)
    assert run(o.Gather(), x, index, axis).tolist() == [1, 1, 0, 0]
    with pytest.raises(ExecutionError) as caught:
        run(o.Gather(out_of_range="error"), x, index, axis)
    assert "element 2" in str(caught.value) and "-3..2" in str(caught.value)
    empty = run(o.Gather(), np.zeros((2, 0)), np.array([1]), np.array(1))
    assert empty.tolist() == [[0], [0]]


def test_reductions_of_nothing() -> None:
    x, axes = np.zeros((2, 0), np.float32), np.array([1])
    assert run(o.ReduceSum(), x, axes).tolist() == [0, 0]
    assert run(o.ReduceProd(), x, axes).tolist() == [1, 1]
    assert run(o.ReduceMax(), x, axes).tolist() == [-np.inf] * 2
    assert run(o.ReduceMin(), x.astype(np.int32), axes).tolist() == [2**31 - 1] * 2
    assert np.isnan(run(o.ReduceMean(), x, axes)).all()


def test_reductions_of_integers_wrap_and_truncate() -> None:
    x = np.array([100, 100], np.int8)
    assert run(o.ReduceSum(), x, np.array([0])) == -56
    assert run(o.ReduceMean(), np.array([-3, -4]), np.array([0])) == -3
    empty = np.zeros((2, 2), np.int8)
    np.testing.assert_array_equal(run(o.ReduceSum(), empty, np.array([], np.int64)), empty)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
def test_softmax_and_norms_round_once(dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal((3, 7)).astype(dtype)
    wide = x.astype(np.float64)
    grown = np.exp(wide - wide.max(-1, keepdims=True))
    exact = (grown / grown.sum(-1, keepdims=True)).astype(dtype)
    np.testing.assert_array_equal(run(o.Softmax(-1), x), exact)
    centred = wide - wide.mean(-1, keepdims=True)
    norm = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    scale, bias = np.arange(7).astype(dtype), np.ones(7, dtype)
    expected = (norm * scale.astype(np.float64) + bias.astype(np.float64)).astype(dtype)
    np.testing.assert_array_equal(run(o.LayerNorm(), x, scale, bias), expected)
    rms = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_array_equal(run(o.RMSNorm(), x), rms.astype(dtype))


def test_softmax_of_a_masked_row() -> None:
    x = np.array([[-np.inf, 0, -np.inf], [-np.inf] * 3], np.float32)
    got = run(o.Softmax(-1), x)
    assert got[0].tolist() == [0, 1, 0]
    assert np.isnan(got[1]).all()


def test_attention_with_a_boolean_mask() -> None:
    random = np.random.default_rng(2)
    q, k, v = (random.standard_normal((2, 3, 4)).astype(np.float32) for _ in range(3))
    mask = np.array([[True, False, True]])
    got = run(o.ScaledDotProductAttention(), q, k, v, mask)
    scores = np.where(mask, q @ k.swapaxes(1, 2) / 2, -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(got, weights @ v, rtol=1e-5, atol=1e-6)


def test_local_response_with_bias() -> None:
    x = np.random.default_rng(2).standard_normal((1, 5, 2)).astype(np.float32)
    padded = np.pad(x.astype(float) ** 2, ((0, 0), (1, 1), (0, 0)))
    sums = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    expected = x / (1.5 + 0.5 / 3 * sums) ** 0.75
    np.testing.assert_allclose(run(o.LRN(0.5, 0.75, 1.5, 3), x, [1]), expected, rtol=1e-5)


def test_average_pool_ceil_torch_leaves_out_what_is_beyond_the_padding() -> None:
    x = np.ones((1, 1, 6), np.float32)
    pool = {"strides": (2,), "kernel": (3,), "pads_begin": (1,), "pads_end": (0,)}
    got = run(o.AvgPool14(**pool, rounding_type="ceil_torch"), x)
    np.testing.assert_allclose(got[0, 0], [2 / 3, 1, 1])
    got = run(o.AvgPool14(**pool, rounding_type="ceil_torch"), np.ones((1, 1, 7), np.float32))
    np.testing.assert_allclose(got[0, 0], [2 / 3, 1, 1, 1])  # its last window has 2 elements


def test_linear_resize_with_antialias() -> None:
    """OpenVINO's CPU plugin ignores the attribute; this is its specification's formula."""
    x = np.random.default_rng(4).standard_normal((7,))
    op = o.Interpolate("linear", "sizes", antialias=True)
    got = run(op, x, np.array([3]), np.array([0]))
    scale = float(np.float32(3) / np.float32(7))
    for place in range(3):
        middle = (place + 0.5) / scale - 0.5
        weights = np.maximum(0, 1 - np.abs(scale * (middle - np.arange(7))))
        np.testing.assert_allclose(got[place], (weights * x).sum() / weights.sum(), rtol=1e-5)


def test_region_maximum_is_of_weighted_corners() -> None:
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    op = o.ROIAlign(1, 1, 1, 1.0, "max", "asymmetric")
    # One sample in the middle of pixels 5, 6, 9, 10, each with a weight of 1/4.
    got = run(op, x, np.array([[1, 1, 2, 2.0]]), np.array([0]))
    np.testing.assert_allclose(got.ravel(), [10 / 4])


def test_real_transform_of_a_longer_signal() -> None:
    x = np.random.default_rng(4).standard_normal((2, 6))
    got = run(o.RDFT(), x, np.array([1]), np.array([8]))
    expected = np.fft.rfft(np.pad(x, ((0, 0), (0, 2))))
    np.testing.assert_allclose(got, np.stack([expected.real, expected.imag], -1), atol=1e-12)


def test_real_transform_without_axes_is_refused() -> None:
    with pytest.raises(ShapeError, match="one axis or more"):
        o.RDFT().evaluate(np.ones((2, 3)), np.array([], np.int64))


def test_random_values_are_the_same_for_the_same_seeds() -> None:
    ends = np.array(2.0, np.float32), np.array(3.0, np.float32)
    seeded = o.RandomUniform(DType.f32, 1, 7)
    first, second = (run(seeded, np.array([50]), *ends) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.dtype == np.float32 and ((first >= 2) & (first < 3)).all()
    assert (run(o.RandomUniform(DType.f32, 1, 8), np.array([50]), *ends) != first).any()


def test_top_k_puts_nan_first_and_keeps_ties_in_order() -> None:
    x = np.array([1, np.nan, 3, 3, 0], np.float32)
    values, indices = o.TopK(0, "max", "value").evaluate(x, np.array(4))
    assert np.isnan(values[0]) and indices.tolist() == [1, 2, 3, 0]
    assert o.TopK(0, "min", "value").evaluate(x, np.array(2))[1].tolist() == [4, 0]


def test_comparison_of_strings() -> None:
    a, b = np.array(["x", "y"], object), np.array(["x", "z"], object)
    assert run(o.Equal(), a, b).tolist() == [True, False]


def test_group_evaluates_its_program() -> None:
    from irc_compiler.ir.scalar.builder import Builder

    build = Builder()
    x, y = build.input(0, DType.f32), build.input(1, DType.f32)
    total = build.op("add", x, y)
    group = o.Group(build.finish(total, build.op("max", total, build.const(0, DType.f32))))
    a, b = np.array([[1, -5]], np.float32), np.array([[1], [2]], np.float32)
    first, second = group.evaluate((a, b))
    assert first.tolist() == [[2, -4], [3, -3]] and second.tolist() == [[2, 0], [3, 0]]


def test_state_by_itself_starts_anew() -> None:
    start = np.ones(2, np.float32)
    assert run(o.ReadValue("v", DType.f32, "?"), start).tolist() == [1, 1]
    assert o.ReadValue("v", DType.f32, "2,?,3..").evaluate(None)[0].shape == (2, 0, 3)
    assert run(o.Assign("v"), start).tolist() == [1, 1]
    with pytest.raises(Error, match="neither an initial value"):
        o.ReadValue("v").evaluate(None)


def test_a_roll_along_no_axes_moves_nothing() -> None:
    none = np.zeros(0, np.int64)
    data = np.arange(6).reshape(2, 3)
    for shift in (none, np.array([2])):
        np.testing.assert_array_equal(o.Roll().evaluate(data, shift, none)[0], data)


def test_c_never_broadcasts_a_product_of_one_column() -> None:
    a, b, c = np.ones((3, 2), np.float32), np.ones((2, 1), np.float32), np.ones(5, np.float32)
    with pytest.raises(ShapeError, match="C does not broadcast"):
        o.Gemm().evaluate(a, b, c)


def test_buckets_are_a_list() -> None:
    facts = [Fact(TensorType(DType.f32, s)) for s in ((2, 3), (4, 1))]
    with pytest.raises(ShapeError, match="'buckets' has the wrong rank"):
        o.Bucketize().infer(*facts)


def test_a_region_of_five_coordinates_is_refused() -> None:
    data, numbers = TensorType(DType.f32, (1, 2, 5, 5)), TensorType(DType.i64, (3,))
    op = o.ROIAlign(2, 2, 1, 1.0, "avg")
    for count, is_region in ((4, True), (5, False)):
        facts = [Fact(data), Fact(TensorType(DType.f32, (3, count))), Fact(numbers)]
        if is_region:
            assert op.infer(*facts)[0] == TensorType(DType.f32, (3, 2, 2, 2))
        else:
            with pytest.raises(ShapeError, match="a region has four coordinates"):
                op.infer(*facts)


def test_a_one_hot_of_less_than_nothing_is_refused() -> None:
    numbers = [np.array([0, 1]), np.array(-3), np.array(1.0), np.array(0.0)]
    with pytest.raises(ShapeError, match="depth is 0 or more"):
        o.OneHot(0).evaluate(*numbers)


def test_an_index_out_of_range_names_its_operation() -> None:
    with pytest.raises(ExecutionError) as refused:
        run(o.Gather(0, "error"), np.arange(3), np.array([0, 7]), np.array(0))
    assert refused.value.where is None and "7 (element 1" in str(refused.value)
