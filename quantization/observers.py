"""Observers: what calibration keeps of an activation, and the range that follows from it.

An observer's memory does not depend on how many values it has seen. Its result does not depend on
how the values are split into batches, except for the rounding of sums (`InputMoments`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from ..ir.dtype import DType
from ..ir.op import Array
from .plan import ActivationParams

METHODS = ("minmax", "percentile", "mse", "entropy")
# Bins of a histogram over [-limit, limit). An even number: a range that doubles merges pairs.
_BINS = 8192
# "entropy" compares distributions in bins that are so many times as wide: each needs values.
_ENTROPY_WIDTH = 4
# The share of values inside the range of "percentile".
_PERCENTILE = 0.9999
# Shares of the observed range that "mse" and "entropy" try.
_SHARES = np.concatenate([np.linspace(1.0, 0.5, 51), np.geomspace(0.49, 0.004, 50)])


@dataclass
class RangeObserver:
    """The least and the largest value and, if `bins`, a histogram whose range grows by doubling."""

    bins: bool
    low: float = math.inf
    high: float = -math.inf
    limit: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64))

    def observe(self, values: Array) -> None:
        """Take a tensor's values into account."""
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        if self.bins:
            self._grow(max(-low, high))
            scaled = (values.astype(np.float64).reshape(-1) + self.limit) * (
                _BINS / (2 * self.limit)
            )
            indices = np.clip(scaled.astype(np.int64), 0, _BINS - 1)
            self.counts += np.bincount(indices, minlength=_BINS)

    def _grow(self, reach: float) -> None:
        if not self.counts.size:
            self.counts = np.zeros(_BINS, np.int64)
            self.limit = 2.0 ** math.ceil(math.log2(max(reach, 2.0**-100)))
        while reach > self.limit:
            quarter = _BINS // 4
            merged = np.zeros(_BINS, np.int64)
            merged[quarter : 3 * quarter] = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts, self.limit = merged, self.limit * 2

    @property
    def centres(self) -> Array:
        """The middle of each bin."""
        return (np.arange(_BINS) + 0.5) * (2 * self.limit / _BINS) - self.limit


def choose_params(seen: RangeObserver, dtype: DType, method: str) -> ActivationParams:
    """The parameters of an activation by a calibration method."""
    low, high = min(seen.low, 0.0), max(seen.high, 0.0)
    if method == "minmax" or not low < high:
        return make_params(low, high, dtype)
    if method == "percentile":
        total = np.cumsum(seen.counts)
        tail = (1 - _PERCENTILE) / 2 * total[-1]
        width = 2 * seen.limit / _BINS
        least = np.searchsorted(total, tail, side="right") * width - seen.limit
        most = (np.searchsorted(total, total[-1] - tail) + 1) * width - seen.limit
        return make_params(max(low, min(least, 0.0)), min(high, max(most, 0.0)), dtype)
    loss = _squared_error if method == "mse" else _divergence
    tried = [make_params(low * share, high * share, dtype) for share in _SHARES]
    costs = [loss(seen, params) for params in tried]
    return tried[int(np.argmin(costs))]


def make_params(low: float, high: float, dtype: DType) -> ActivationParams:
    """Parameters whose codes cover [low, high], which holds 0. u8: with a zero point; i8: without,
    the same range on both sides."""
    if dtype is DType.i8:
        return ActivationParams(_round_up(max(-low, high) / 127), 0, dtype)
    scale = _round_up((high - low) / 255)
    return ActivationParams(scale, int(np.clip(np.rint(-low / scale), 0, 255)), dtype)


def _round_up(scale: float) -> float:
    """The next float32 with 16 significant bits: products with 8-bit integers are exact."""
    if not scale > 2.0**-100:
        return 1.0
    bits = int(np.float32(scale).view(np.uint32))
    return float(np.uint32((bits + 0xFF) & ~0xFF).view(np.float32))


def _squared_error(seen: RangeObserver, params: ActivationParams) -> float:
    """The squared error of what was seen. A bin that is wider than a step has the mean error of
    rounding."""
    values = seen.centres
    error = (params.fake_quantize(values) - values) ** 2
    if params.scale < 2 * seen.limit / _BINS:
        low, high = params.limits
        inside = (values >= low) & (values <= high)
        error = np.where(inside, params.scale**2 / 12, error)
    return float((seen.counts * error).sum())


def _divergence(seen: RangeObserver, params: ActivationParams) -> float:
    """Kullback-Leibler divergence of the distribution whose tails are cut to the range, from that
    of the codes spread over the bins that were seen (TensorRT's calibration)."""
    low, high = params.limits
    values = seen.centres.reshape(-1, _ENTROPY_WIDTH).mean(axis=1)
    counts = seen.counts.reshape(-1, _ENTROPY_WIDTH).sum(axis=1).astype(np.float64)
    inside = (values >= low - params.scale / 2) & (values <= high + params.scale / 2)
    inside_counts = np.where(inside, counts, 0.0)
    retained = np.flatnonzero(inside)
    if not retained.size:
        return math.inf
    cut = inside_counts.copy()
    cut[retained[0]] += counts[: retained[0]].sum()
    cut[retained[-1]] += counts[retained[-1] + 1 :].sum()
    codes = np.rint(values[inside] / params.scale).astype(np.int64)
    codes -= codes.min()
    present = (inside_counts[inside] > 0).astype(np.float64)
    sums = np.bincount(codes, inside_counts[inside])
    spread = np.maximum(np.bincount(codes, present), 1)
    made = (sums / spread)[codes] * present
    p, q = cut[inside] / cut.sum(), made / max(made.sum(), 1.0)
    both = (p > 0) & (q > 0)
    lost = p[(p > 0) & (q == 0)].sum()
    return float((p[both] * np.log(p[both] / q[both])).sum() + lost * 50)


@dataclass
class InputMoments:
    """Statistics of a layer's input by channel: sums of |x|, of x^2 and, if `products`, of x x^T;
    the largest |x|; and, of all rows, `sample_size` that are drawn at random."""

    products: bool
    sample_size: int = 0
    rows: int = 0
    gram: Array = field(default_factory=lambda: np.zeros((0, 0)))
    magnitude: Array = field(default_factory=lambda: np.zeros(0))
    squares: Array = field(default_factory=lambda: np.zeros(0))
    largest: Array = field(default_factory=lambda: np.zeros(0))
    sample: Array = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    # A random number for each sampled row, which has the least ones of all rows.
    _keys: Array = field(default_factory=lambda: np.zeros(0))
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    @staticmethod
    def bytes_of(width: int, products: bool, sample_size: int) -> int:
        """What the statistics of so many channels take."""
        return 8 * width**2 * products + 4 * width * sample_size + 24 * width

    def observe(self, values: Array, axis: int) -> None:
        """Take a tensor into account; `axis` holds its channels."""
        rows = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
        if not rows.size:
            return
        if not self.rows:
            width = rows.shape[1]
            self.magnitude, self.squares, self.largest = (np.zeros(width) for _ in range(3))
            self.gram = np.zeros((width, width) if self.products else (0, 0))
            self.sample = np.zeros((0, width), np.float32)
        size = np.abs(rows)
        self.rows += len(rows)
        self.magnitude += size.sum(axis=0, dtype=np.float64)
        self.largest = np.maximum(self.largest, size.max(axis=0))
        if self.products:
            self.gram += (rows.T @ rows).astype(np.float64)
            self.squares = self.gram.diagonal()
        else:
            self.squares += np.square(size, out=size).sum(axis=0, dtype=np.float64)
        if self.sample_size:
            self._draw(rows)

    def _draw(self, rows: Array) -> None:
        keys = self._random.random(len(rows))
        if len(self._keys) == self.sample_size:
            fit = np.flatnonzero(keys < self._keys.max())
            keys, rows = keys[fit], rows[fit]
        keys = np.concatenate([self._keys, keys])
        kept = np.argsort(keys)[: self.sample_size]
        self._keys = keys[kept]
        self.sample = np.concatenate([self.sample, rows])[kept]


@dataclass
class ChannelMeans:
    """The mean of an activation by channel."""

    rows: int = 0
    total: Array = field(default_factory=lambda: np.zeros(0))

    def observe(self, values: Array, axis: int) -> None:
        """Take a tensor into account; `axis` holds its channels."""
        others = tuple(i for i in range(values.ndim) if i != axis % values.ndim)
        sums = values.sum(axis=others, dtype=np.float64)
        self.total = self.total + sums if self.rows else sums
        self.rows += values.size // max(1, values.shape[axis])

    @property
    def means(self) -> Array:
        """One mean per channel, float64."""
        return self.total / max(1, self.rows)
