"""Calibrate a model's layers and choose how each of them is quantized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..ir.errors import Error
from ..ir.graph import Graph, Value
from ..ir.op import Array
from ..ir.ops import Gemm
from .calibration import Observe, Step, calibrate
from .gptq import quantize_gptq
from .graph_form import reciprocal
from .input_scales import (
    SAMPLED_ROWS,
    awq_factors,
    by_activation,
    normalize_factors,
    scale_weight,
    smooth_factors,
)
from .layers import Layer, find_bias, find_last_layers
from .observers import ChannelMeans, InputMoments, RangeObserver, choose_params
from .plan import ActivationParams, LayerPlan, QuantizationPlan
from .quantize_options import LAST_WEIGHTS, QuantizeOptions
from .samples import Samples
from .weights import quantize_channels, quantize_groups

# Statistics of inputs that calibration holds at once; more layers take another run over the data.
MAX_MOMENT_BYTES = 1 << 30


def make_plan(
    graph: Graph, layers: list[Layer], samples: Samples | None, options: QuantizeOptions, step: Step
) -> QuantizationPlan:
    """The plan for all of the layers. samples: None where weights are rounded alone."""
    if options.activation_dtype is None:
        return _plan_weights(graph, layers, samples, options, step)
    assert samples is not None
    factors = _choose_factors(graph, layers, samples, options, step)
    means = {layer.data: ChannelMeans() for layer in layers if find_bias(graph, layer)}
    params = _observe_ranges(graph, layers, samples, factors, means, options, step)
    made: dict[str, LayerPlan] = {}
    for number, layer in enumerate(layers):
        own, mean = factors.get(layer.name), means.get(layer.data)
        made[layer.name] = _plan_layer(graph, layer, params[layer.name], own, mean)
        step("quantizing weights", number + 1, len(layers))
    return QuantizationPlan(made)


def _plan_layer(
    graph: Graph,
    layer: Layer,
    activation: ActivationParams,
    factors: Array | None,
    seen: ChannelMeans | None,
) -> LayerPlan:
    """How a layer of 8-bit activations is quantized. seen: None where it has no bias."""
    weight, found = scale_weight(layer, factors), find_bias(graph, layer)
    bias = None if found is None else found[1]
    codes = quantize_channels(layer, weight, activation, bias)
    if bias is not None and seen is not None and _adds_once(graph, layer):
        means = seen.means if factors is None else seen.means / factors
        bias = _correct_bias(layer, bias, weight - codes.dequantize(), means)
    else:
        bias = None
    return LayerPlan(layer.name, codes, activation, factors, bias)


def _plan_weights(
    graph: Graph, layers: list[Layer], samples: Samples | None, options: QuantizeOptions, step: Step
) -> QuantizationPlan:
    made: dict[str, LayerPlan] = {}
    last = find_last_layers(graph, layers) if options.weights != "int8" else frozenset[str]()
    for part in _split_layers(layers, options.algorithm):
        moments: dict[Value, InputMoments] = {}
        factors: dict[Value, Array] = {}
        if options.algorithm != "rtn":
            assert samples is not None
            moments = _observe_moments(graph, part, samples, options, step)
        if options.algorithm in ("awq", "awq-gptq"):
            step("choosing factors", len(made), len(layers))
            scaled = by_activation([layer for layer in part if layer.name not in last])
            factors = {
                value: awq_factors(
                    readers, moments[value], options.weights, options.group, options.num_threads
                )
                for value, readers in scaled.items()
            }
        for layer in part:
            seen, kind = moments.get(layer.data), options.weights
            if layer.name in last:
                kind, seen = LAST_WEIGHTS, None
            own = factors.get(layer.data)
            made[layer.name] = _plan_weight(layer, own, seen, kind, options)
            step("quantizing weights", len(made), len(layers))
    return QuantizationPlan(made)


def _split_layers(layers: Sequence[Layer], algorithm: str) -> Iterator[list[Layer]]:
    """The layers in parts whose inputs' statistics fit into MAX_MOMENT_BYTES; those of one
    activation are in one part."""
    readers: dict[Value, list[Layer]] = {}
    for layer in layers:
        readers.setdefault(layer.data, []).append(layer)
    part: list[Layer] = []
    part_bytes = 0
    for group in readers.values():
        size = InputMoments.bytes_of(group[0].sum_length, *_moments_of(algorithm))
        if part and part_bytes + size > MAX_MOMENT_BYTES:
            yield part
            part, part_bytes = [], 0
        part += group
        part_bytes += size
    yield part


def _moments_of(algorithm: str) -> tuple[bool, int]:
    """Whether the algorithm reads sums of x x^T, and how many rows of an input."""
    return "gptq" in algorithm, SAMPLED_ROWS if "awq" in algorithm else 0


def _plan_weight(
    layer: Layer,
    factors: Array | None,
    seen: InputMoments | None,
    kind: str,
    options: QuantizeOptions,
) -> LayerPlan:
    """How a layer's weight alone is quantized. seen: None where it is rounded."""
    assert layer.depth is not None
    weight = scale_weight(layer, factors)
    divisors = np.ones(1) if factors is None else factors
    if seen is not None and "gptq" in options.algorithm:
        gram = seen.gram / np.outer(divisors, divisors)
        codes = quantize_gptq(weight, layer.depth, options.group, kind, gram, options.num_threads)
    else:
        importance = None if seen is None else seen.squares / divisors**2
        codes = quantize_groups(
            weight, layer.depth, options.group, kind, importance, num_threads=options.num_threads
        )
    return LayerPlan(layer.name, codes, None, factors)


def _choose_factors(
    graph: Graph, layers: list[Layer], samples: Samples, options: QuantizeOptions, step: Step
) -> dict[str, Array]:
    """What activations are divided by, by layer: of depthwise convolutions, whose channels have
    scales of their own in the weight, the largest magnitude of each channel, so that all channels
    use all codes; of matrix products SmoothQuant's factors where wanted."""
    moments: dict[tuple[Value, int], InputMoments] = {}
    observers: dict[Value, list[Observe]] = {}
    for layer in layers:
        key = (layer.data, -1 if layer.is_matrix_product else 1)
        wanted = layer.is_depthwise or (layer.is_matrix_product and options.smooth is not None)
        if wanted and key not in moments:
            moments[key] = InputMoments(products=False)
            observers.setdefault(layer.data, []).append(partial(moments[key].observe, axis=key[1]))
    if not observers:
        return {}
    calibrate(graph, samples, observers, options.num_threads, step)
    found: dict[str, Array] = {}
    if options.smooth is not None:
        products = {value: seen for (value, axis), seen in moments.items() if axis == -1}
        chosen = smooth_factors(layers, products, options.smooth)
        found = {r.name: chosen[r.data] for r in layers if r.is_matrix_product}
    for layer in layers:
        if layer.is_depthwise:
            found[layer.name] = normalize_factors(moments[layer.data, 1].largest)
    return found


def _adds_once(graph: Graph, layer: Layer) -> bool:
    """Whether a layer is its product plus its bias, neither multiplied by a factor."""
    op = graph.op(layer.node)
    return not isinstance(op, Gemm) or (op.alpha, op.beta) == (1.0, 1.0)


def _correct_bias(layer: Layer, bias: Array, error: Array, means: Array) -> Array:
    """The bias with the mean error of the outputs taken away that an error of the weight makes.

    error: the weight minus what its codes are. means: of the layer's input, one per channel. Zeros
    around an image count as means (Nagel et al., Data-Free Quantization Through Weight Equalization
    and Bias Correction, 2019, section 4.2, with means of calibration data).
    """
    if layer.depth is not None:
        lost = np.moveaxis(error, layer.depth, -1) @ means
    else:
        # Output channels by input channels, of each group.
        kept = error.sum(axis=tuple(range(len(layer.outputs) + 1, error.ndim)), dtype=np.float64)
        groups = means.reshape(kept.shape[0], -1) if len(layer.outputs) == 2 else means
        subscripts = "goi,gi->go" if len(layer.outputs) == 2 else "oi,i->o"
        lost = np.einsum(subscripts, kept, groups)
    return (bias + lost.reshape(bias.shape)).astype(np.float32)


def _observe_moments(
    graph: Graph, layers: list[Layer], samples: Samples, options: QuantizeOptions, step: Step
) -> dict[Value, InputMoments]:
    found: dict[Value, InputMoments] = {}
    observers: dict[Value, list[Observe]] = {}
    for layer in layers:
        if layer.is_matrix_product and layer.data not in found:
            found[layer.data] = InputMoments(*_moments_of(options.algorithm))
            observers[layer.data] = [partial(found[layer.data].observe, axis=-1)]
    if observers:
        calibrate(graph, samples, observers, options.num_threads, step)
    return found


def _observe_ranges(
    graph: Graph,
    layers: list[Layer],
    samples: Samples,
    factors: dict[str, Array],
    means: dict[Value, ChannelMeans],
    options: QuantizeOptions,
    step: Step,
) -> dict[str, ActivationParams]:
    """The parameters of each layer's activation; those of one activation are the same. `means`
    observe the layers' inputs in the same run."""
    dtype = options.activation_dtype
    assert dtype is not None
    seen: dict[tuple[Value, bytes], RangeObserver] = {}
    observers: dict[Value, list[Observe]] = {}
    keys: dict[str, tuple[Value, bytes]] = {}
    for layer in layers:
        own = factors.get(layer.name)
        value = layer.data if own is not None else graph.input(*layer.use)
        key = keys[layer.name] = (value, b"" if own is None else own.tobytes())
        if key in seen:
            continue
        observer = seen[key] = RangeObserver(options.calibrate != "minmax")
        observers.setdefault(value, []).append(_make_observe(observer, layer, own))
    for layer in {each.data: each for each in layers if each.data in means}.values():
        observe = partial(means[layer.data].observe, axis=-1 if layer.is_matrix_product else 1)
        observers.setdefault(layer.data, []).append(observe)
    calibrate(graph, samples, observers, options.num_threads, step)
    params = {k: choose_params(o, dtype, options.calibrate) for k, o in seen.items()}
    for layer in layers:
        if not seen[keys[layer.name]].low <= seen[keys[layer.name]].high:
            raise Error(
                "calibration gave a layer no values", where=layer.name,
                expected="data for which the layer runs", fix="keep it in float (--keep)",
            )  # fmt: skip
    return {name: params[key] for name, key in keys.items()}


def _make_observe(observer: RangeObserver, layer: Layer, factors: Array | None) -> Observe:
    """An observer of the activation divided by the factors."""
    if factors is None:
        return observer.observe
    inverse = reciprocal(factors)
    if not layer.is_matrix_product:
        inverse = inverse.reshape(-1, *[1] * (layer.weight.ndim - len(layer.outputs) - 1))
    return lambda array: observer.observe(array * inverse)
