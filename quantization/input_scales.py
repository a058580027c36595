"""Factors that move range between an activation's channels and the weights that read them.

An activation is divided by them and the weights are multiplied: the product stays as it is.
SmoothQuant (Xiao et al., 2023) chooses them for int8 activations, AWQ (Lin et al., 2024) for
weights in groups. Layers that read one activation share one set of factors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..ir.graph import Value
from ..ir.op import Array
from .layers import Layer
from .observers import InputMoments
from .weights import CLIP_RATIOS, quantize_groups

# Exponents of the activation's magnitude that AWQ tries.
_EXPONENTS = np.linspace(0.0, 1.0, 11)
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
    layers: Sequence[Layer], moments: Mapping[Value, InputMoments], kind: str, group: int
) -> dict[Value, Array]:
    """The power of the mean |x| by channel with which rounding the weights changes the products
    least, for each activation."""
    found: dict[Value, Array] = {}
    for value, readers in by_activation(layers).items():
        seen = moments[value]
        mean = seen.magnitude / max(1, seen.rows)
        tried = [normalize_factors(mean**exponent) for exponent in _EXPONENTS]
        costs = [
            sum(_output_error(layer, factors, seen, kind, group) for layer in readers)
            for factors in tried
        ]
        found[value] = tried[int(np.argmin(costs))]
    return found


def _output_error(layer: Layer, factors: Array, seen: InputMoments, kind: str, group: int) -> float:
    """The squared error of the layer's products with sampled inputs, after rounding of its scaled
    weight, of outputs that are spread evenly."""
    assert layer.depth is not None
    rows = layer.weight if layer.depth == 1 else layer.weight.T
    rows = rows[:: -(-len(rows) // _SAMPLED_OUTPUTS)]
    cost = seen.squares / factors**2
    rounded = quantize_groups(rows * factors, 1, group, kind, cost, _RATIOS).dequantize()
    error = (rounded / factors - rows) @ seen.sample.T
    return float(np.square(error).sum()) / len(rows) * layer.weight.size


def normalize_factors(factors: Array) -> Array:
    """Positive factors whose geometric mean is 1, float32."""
    positive = np.where(factors > 0, factors, np.nan)
    if np.isnan(positive).all():
        return np.ones(len(factors), np.float32)
    mean = np.exp(np.nanmean(np.log(positive)))
    limited = np.clip(np.nan_to_num(positive / mean, nan=1.0), 1 / _MAX_FACTOR, _MAX_FACTOR)
    return limited.astype(np.float32)
