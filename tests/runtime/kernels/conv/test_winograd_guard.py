"""Winograd's transform of extreme data: what the direct convolution computes, tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from irc_compiler.runtime.kernels.conv.winograd_guard import MAX_RATIO, MAX_VALUE
from support.kernels.harness import ISAS, run, same_bits

from tests.runtime.kernels.conv.test_direct import Case, make

CASES = {
    "two": Case((16, 18), (3, 3), 16, 33, pads=(1, 1), winograd=2),
    "two edges": Case((9, 11), (3, 3), 20, 16, pads=(1, 1), batch=2, winograd=2),
    "two bare": Case((9, 8), (3, 3), 17, 8, winograd=2),
    "four": Case((28, 32), (3, 3), 16, 33, pads=(1, 1), winograd=4),
    "four edges": Case((29, 14), (3, 3), 20, 16, pads=(1, 1), batch=2, winograd=4),
    "four bare": Case((13, 12), (3, 3), 17, 70, winograd=4),
    "far": Case((11, 14), (3, 3), 16, 16, pads=(2, 3), winograd=4),
    "uneven": Case((12, 15), (3, 3), 16, 5, pads=(0, 1), pads_end=(1, 0), winograd=4),
    "volume": Case((4, 9, 12), (3, 3, 3), 17, 20, pads=(1, 1, 1), winograd=4),
    "slices": Case(
        (7, 9, 11), (3, 3, 3), 16, 16, strides=(2, 1, 1), dilations=(2, 1, 1), pads=(2, 1, 1),
        batch=2, winograd=2,
    ),
}  # fmt: skip
each_isa = pytest.mark.parametrize("isa", ISAS)
each_case = pytest.mark.parametrize("name", CASES)
Change = Callable[[np.ndarray], Any]


def computed(
    case: Case,
    isa: str,
    change: Change,
    workers: int = 1,
    at: str = "end",
    weights: Change | None = None,
) -> np.ndarray:
    """The convolution of random numbers that `change` changed, places last but for channels."""
    spec, inputs, dims, shape, _ = make(case, isa, floats=True)
    change(inputs[0])
    if weights is not None:
        weights(inputs[1])
    result = run(spec, inputs, [shape], isa=isa, dims=dims, workers=workers, at=at)
    assert result.status == 0
    return result.outs[0]


def direct(case: Case) -> Case:
    return replace(case, winograd=0)


def check(case: Case, isa: str, change: Change, workers: int = 1, at: str = "end") -> np.ndarray:
    """Compare with the direct convolution: the same values that are not finite, and errors that
    docs/numerics.md allows direct sums. Returns the places of outputs that are not finite."""
    found = computed(case, isa, change, workers, at)
    expected = computed(direct(case), isa, change)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(expected))
    np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))

    def absolute(x: np.ndarray) -> None:
        change(x)
        np.abs(x, out=x)

    sums = computed(direct(case), isa, absolute, weights=lambda w: np.abs(w, out=w))
    finite = np.isfinite(found)
    error = np.abs(found[finite].astype(np.float64) - expected[finite])
    limit = math.prod(case.kernel) * case.channels * 2.0**-24 * sums[finite].astype(np.float64)
    assert (error <= limit).all(), float((error / limit).max())
    return np.argwhere(~finite)


VALUES = [np.nan, np.inf, -np.inf, 1e38, -3e38, 1e25, 1e6, -1e4, 300.0]


@pytest.mark.slow
@each_isa
@each_case
def test_one_value_reaches_what_the_direct_convolution_lets_it_reach(name: str, isa: str) -> None:
    case, rng = CASES[name], np.random.default_rng([ord(c) for c in name + isa])
    for value in rng.choice(VALUES, 5, replace=False):
        at = (rng.integers(case.batch), *(rng.integers(n) for n in (*case.sizes, case.channels)))
        if rng.random() < 0.3:  # a corner of the image
            at = (at[0], *(n - 1 for n in case.sizes), at[-1])
        used = replace(case, dynamic=bool(rng.random() < 0.3))

        def change(x: np.ndarray, at: tuple[int, ...] = at, value: float = value) -> None:
            x[at] = value

        check(used, isa, change, int(rng.integers(1, 4)), str(rng.choice(["start", "end"])))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("m", [0, 2, 4])
def test_nan_reaches_the_windows_that_contain_it(m: int, isa: str) -> None:
    case = Case((16, 16), (3, 3), 16, 8, pads=(1, 1), winograd=m)

    def change(x: np.ndarray) -> None:
        x[0, 8, 7, 1] = np.nan

    bad = check(case, isa, change)
    assert len(bad) == 9 * 8 and np.abs(bad[:, 1:3] - (8, 7)).max() == 1


def scatter_extremes(seed: int) -> Change:
    """Backgrounds of one magnitude, zeros or noise, and values of any magnitude on top of it."""

    def change(x: np.ndarray) -> None:
        rng = np.random.default_rng(seed)
        x *= np.float32(rng.choice([0.0, 1.0, 1.0, 1e-20, 1e20]))
        if rng.random() < 0.3:
            x[:, : x.shape[1] // 2] = 0
        count = int(rng.integers(1, 6))
        places = tuple(rng.integers(0, n, count) for n in x.shape)
        with np.errstate(over="ignore"):
            numbers = np.exp2(rng.uniform(-40, 127.9, count)) * rng.choice([-1, 1], count)
            x[places] = numbers.astype(np.float32)
        if rng.random() < 0.4:
            x[tuple(p[0] for p in places)] = rng.choice([np.nan, np.inf, -np.inf])

    return change


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("seed", range(12))
def test_random_extremes(seed: int, isa: str) -> None:
    name = [*CASES][seed % len(CASES)]
    check(CASES[name], isa, scatter_extremes(seed), 1 + seed % 3)


def enlarge(x: np.ndarray) -> None:
    x *= np.float32(MAX_VALUE)


@pytest.mark.slow
@each_isa
@each_case
def test_direct_tiles_have_the_direct_convolution_s_bits(name: str, isa: str) -> None:
    """Of any epilogue, output order, dynamic sizes and number of workers."""
    for change in ({"epilogue": "residual"}, {"dynamic": True}, {"out_last": False}):
        case = replace(CASES[name], **change)
        expected = computed(direct(case), isa, enlarge)
        for workers in (1, 3):
            assert same_bits(computed(case, isa, enlarge, workers, "start"), expected)


def points(case: Case) -> int:
    return (case.winograd + 2) ** 2


def poison_taps(case: Case) -> Change:
    """Weights of the direct sums that are not numbers: outputs show which tiles are direct."""

    def change(w: np.ndarray) -> None:
        w.reshape(points(case) + 9, -1)[points(case) :] = np.nan

    return change


def poison_transformed(case: Case) -> Change:
    def change(w: np.ndarray) -> None:
        w.reshape(points(case) + 9, -1)[: points(case)] = np.nan

    return change


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", [n for n in CASES if n != "far"])
def test_ordinary_tiles_are_transformed(name: str, isa: str) -> None:
    case = CASES[name]

    def rectify(x: np.ndarray) -> None:
        np.maximum(x, 0, out=x)

    for change in (rectify, lambda x: None, lambda x: x.fill(-1), lambda x: x.fill(0)):
        out = computed(case, isa, change, weights=poison_taps(case))
        assert np.isfinite(out).all()
    extreme = computed(case, isa, enlarge, weights=poison_transformed(case))
    assert np.isfinite(extreme).all()


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("m", [2, 4])
def test_the_bounds(m: int, isa: str) -> None:
    """A tile is direct beyond the documented bounds only, and no other tile is."""
    case = Case((4 * m, 4 * m), (3, 3), 16, 16, pads=(1, 1), winograd=m)

    def tiles(background: float, value: float) -> set[tuple[int, int]]:
        def change(x: np.ndarray) -> None:
            x.fill(background)
            # The middle of the second tile in both directions, which no other tile reads.
            x[0, m + m // 2 : m + m // 2 + 1, m + m // 2 : m + m // 2 + 1, 3] = value

        out = computed(case, isa, change, weights=poison_taps(case))
        bad = np.argwhere(np.isnan(out).any(axis=-1))[:, 1:]
        return {(int(y) // m, int(x) // m) for y, x in bad}

    reached = {(1, 1)} if m == 4 else {(1, 1), (1, 2), (2, 1), (2, 2)}
    assert tiles(1.0, MAX_RATIO) == tiles(-1e-30, MAX_RATIO * 1e-30) == set()
    assert tiles(-1.0, np.nextafter(np.float32(MAX_RATIO), np.float32(np.inf))) == reached
    assert tiles(MAX_VALUE, MAX_VALUE) == tiles(MAX_VALUE, 0) == set()
    above = float(np.nextafter(np.float32(MAX_VALUE), np.float32(np.inf)))
    assert tiles(MAX_VALUE, above) == reached
    assert tiles(1.0, -np.inf) == tiles(0.0, np.nan) == tiles(0.0, 1.0) == reached


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("m", [2, 4])
@pytest.mark.parametrize("size", [5, 6, 7, 8, 9])
def test_pixels_outside_the_image_do_not_count(size: int, m: int, isa: str) -> None:
    case = Case((size, size + 2), (3, 3), 16, 16, pads=(1, 1), winograd=m)
    out = computed(case, isa, lambda x: x.fill(1), weights=poison_taps(case))
    assert np.isfinite(out).all()
