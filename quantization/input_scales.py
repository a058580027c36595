"""Factors that move range between an activation's channels and the weights that read them.

An activation is divided by them and the weights are multiplied: the product stays as it is.
SmoothQuant (Xiao et al., 2023) chooses them for int8 activations, AWQ (Lin et al., 2024) for
weights in groups. Layers that read one activation share one set of factors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..ir.graph import Value
from ..ir.op import Array
from .layers import Layer
from .observers import InputMoments
from .weights import CLIP_RATIOS, quantize_groups

# Exponents of the activation's magnitude that AWQ tries: every other one, then the neighbours of
# the best.
_EXPONENTS: Sequence[float] = tuple(n / 10 for n in range(11))
# Shares of a group's range that are tried for each exponent.
_RATIOS = CLIP_RATIOS[1::3]
# Outputs of a layer, and rows of its input, whose errors are computed for each exponent.
_SAMPLED_OUTPUTS = 128
SAMPLED_ROWS = 2048
# The largest ratio of a factor to the factors' geometric mean.
_MAX_FACTOR = 1e4


def by_activation(layers: Sequence[Layer]) -> dict[Value, list[Layer]]:
    """Matrix products by the activation that they read."""
    found: dict[Value, list[Layer]] = {}
    for layer in layers:
        if layer.is_matrix_product:
            found.setdefault(layer.data, []).append(layer)
    return found


def scale_weight(layer: Layer, factors: Array | None) -> Array:
    """The layer's weight with each channel of its input multiplied by its factor."""
    if factors is None:
        return layer.weight
    if layer.is_depthwise:
        return layer.weight * factors.reshape(-1, *[1] * (layer.weight.ndim - 1))
    shape = [-1 if axis == layer.depth else 1 for axis in range(2)]
    return layer.weight * factors.reshape(shape)


def smooth_factors(
    layers: Sequence[Layer], moments: Mapping[Value, InputMoments], strength: float
) -> dict[Value, Array]:
    """max|x|^strength / max|w|^(1 - strength) by channel, for each activation."""
    found: dict[Value, Array] = {}
    for value, readers in by_activation(layers).items():
        weight = np.maximum.reduce(
            [np.abs(r.weight).max(axis=1 - r.depth) for r in readers if r.depth is not None]
        )
        found[value] = normalize_factors(
            moments[value].largest ** strength / np.maximum(weight, 1e-8) ** (1 - strength)
        )
    return found


def awq_factors(
    readers: Sequence[Layer],
    seen: InputMoments,
    kind: str,
    group: int,
    num_threads: int | None = None,
) -> Array:
    """The power of the mean |x| by channel with which rounding the weights of one activation's
    readers changes the products least. num_threads: None for all CPUs."""
    mean = seen.magnitude / max(1, seen.rows)
    gram = seen.sample.T @ seen.sample
    costs: dict[float, float] = {}

    def round_rows(rows: Array, importance: Array) -> Array:
        return quantize_groups(rows, 1, group, kind, importance, _RATIOS, num_threads).dequantize()

    def find_cost(exponent: float) -> float:
        if exponent not in costs:
            factors = normalize_factors(mean**exponent)
            errors = (_output_error(r, factors, seen.squares, gram, round_rows) for r in readers)
            costs[exponent] = sum(errors)
        return costs[exponent]

    best = min(_EXPONENTS[::2], key=find_cost)
    at = _EXPONENTS.index(best)
    best = min(_EXPONENTS[max(0, at - 1) : at + 2], key=find_cost)
    return normalize_factors(mean**best)


def _output_error(
    layer: Layer,
    factors: Array,
    squares: Array,
    gram: Array,
    round_rows: Callable[[Array, Array], Array],
) -> float:
    """The squared error of the layer's products after rounding of its scaled weight, of outputs
    that are spread evenly. gram: sums of x x^T of sampled inputs x; squares: of all x^2.
    round_rows: takes rows of the weight and weights of their squared errors."""
    assert layer.depth is not None
    rows = layer.weight if layer.depth == 1 else layer.weight.T
    rows = rows[:: -(-len(rows) // _SAMPLED_OUTPUTS)]
    error = round_rows(rows * factors, squares / factors**2) / factors - rows
    return float(np.einsum("nk,nk->", error, error @ gram)) / len(rows) * layer.weight.size


def normalize_factors(factors: Array) -> Array:
    """Positive factors whose geometric mean is 1, float32."""
    positive = np.where(factors > 0, factors, np.nan)
    if np.isnan(positive).all():
        return np.ones(len(factors), np.float32)
    mean = np.exp(np.nanmean(np.log(positive)))
    limited = np.clip(np.nan_to_num(positive / mean, nan=1.0), 1 / _MAX_FACTOR, _MAX_FACTOR)
    return limited.astype(np.float32)
