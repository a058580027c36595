"""Ranges of activations: independent of batches, exact scales, each method as it is defined."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.quantization.observers import (
    METHODS,
    InputMoments,
    RangeObserver,
    choose_params,
    make_params,
)

RNG = np.random.default_rng(0)


def observed(values: np.ndarray, parts: int = 1) -> RangeObserver:
    seen = RangeObserver(bins=True)
    for part in np.array_split(values, parts):
        seen.observe(part)
    return seen


def test_a_histogram_does_not_depend_on_batches() -> None:
    values = (RNG.standard_normal(5000) * np.linspace(0.01, 30, 5000)).astype(np.float32)
    whole, parts = observed(values), observed(values, 17)
    assert (whole.low, whole.high, whole.limit) == (parts.low, parts.high, parts.limit)
    np.testing.assert_array_equal(whole.counts, parts.counts)
    assert whole.counts.sum() == 5000
    wanted = np.histogram(values, len(whole.counts), (-whole.limit, whole.limit))[0]
    assert np.abs(wanted - whole.counts).sum() <= 4  # edges in f32 and f64


@pytest.mark.parametrize("dtype", [DType.u8, DType.i8])
def test_codes_times_scales_are_exact(dtype: DType) -> None:
    """Limits in f32 give the scale and zero point back: FakeQuantize and QDQ are one function."""
    for _ in range(200):
        low, high = -RNG.uniform(0, 5), RNG.uniform(0, 5)
        params = make_params(low, high, dtype)
        bottom, top = (np.float32(v) for v in params.limits)
        assert (float(bottom), float(top)) == params.limits
        assert (float(top) - float(bottom)) / 255 == params.scale
        assert params.limits[0] <= low + params.scale and params.limits[1] >= high - params.scale
        (zero,) = params.fake_quantize(np.zeros(1, np.float32))
        assert zero == 0


def test_a_constant_zero_has_a_scale() -> None:
    assert make_params(0.0, 0.0, DType.u8).scale == 1.0


def test_percentile_and_entropy_cut_outliers() -> None:
    values = RNG.standard_normal(200_000).astype(np.float32)
    values[7] = 1000.0
    seen = observed(values)
    error = {}
    for method in METHODS:
        params = choose_params(seen, DType.i8, method)
        inside = params.fake_quantize(values[100:]) - values[100:]
        error[method] = float((inside**2).mean())
    assert max(error["percentile"], error["entropy"]) < error["minmax"] / 10


@pytest.mark.parametrize("method", METHODS)
def test_methods_keep_a_plain_distribution(method: str) -> None:
    values = RNG.standard_normal(100_000).astype(np.float32)
    for data in (values, np.maximum(values, 0)):
        params = choose_params(observed(data), DType.u8, method)
        noise = params.fake_quantize(data) - data
        assert 10 * np.log10((data**2).sum() / (noise**2).sum()) > 30


def test_mse_is_the_least_error_of_all_shares() -> None:
    values = RNG.laplace(size=50_000).astype(np.float32)
    seen = observed(values)

    def error(method: str) -> float:
        noise = choose_params(seen, DType.i8, method).fake_quantize(values) - values
        return float((noise**2).mean())

    assert error("mse") <= min(error(m) for m in METHODS) * 1.001


def test_moments_are_sums_over_batches() -> None:
    x = RNG.standard_normal((6, 5, 4)).astype(np.float32)
    whole, parts = InputMoments(products=True), InputMoments(products=True)
    whole.observe(x, axis=-1)
    for part in np.array_split(x, 3):
        parts.observe(part, axis=-1)
    rows = x.reshape(-1, 4).astype(np.float64)
    np.testing.assert_allclose(whole.gram, rows.T @ rows, rtol=1e-5)
    np.testing.assert_allclose(parts.gram, whole.gram, rtol=1e-5)
    np.testing.assert_allclose(parts.squares, (rows**2).sum(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(parts.largest, np.abs(rows).max(axis=0))
    assert parts.rows == 30


@pytest.mark.parametrize("products", [False, True])
def test_sampled_rows_do_not_depend_on_batches(products: bool) -> None:
    rows = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    whole, parts = (InputMoments(products, sample_size=64) for _ in range(2))
    whole.observe(rows, axis=-1)
    for part in np.array_split(rows, 7):
        parts.observe(part, axis=-1)
    np.testing.assert_array_equal(whole.sample, parts.sample)
    numbers = np.sort(whole.sample[:, 0] / 4)
    assert len(set(numbers)) == 64 and set(map(tuple, whole.sample)) <= set(map(tuple, rows))
    assert 400 < numbers.mean() < 600, "drawn evenly"
    np.testing.assert_allclose(parts.squares, np.square(rows, dtype=np.float64).sum(0), rtol=1e-5)
