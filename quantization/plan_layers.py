"""Calibrate a model's layers and choose how each of them is quantized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from ..ir.errors import Error
from ..ir.graph import Graph, Value
from ..ir.op import Array
from ..ir.ops import Add, Gemm
from .calibration import Observe, Step, calibrate
from .gptq import quantize_gptq
from .graph_form import reciprocal
from .input_scales import awq_factors, scale_weight, smooth_factors
from .layers import Layer, constant_array, find_last_layers
from .observers import InputMoments, RangeObserver, choose_params
from .plan import ActivationParams, LayerPlan, QuantizationPlan
from .quantize_options import LAST_WEIGHTS, QuantizeOptions
from .samples import Samples
from .weights import quantize_channels, quantize_groups

# Sums of x x^T that calibration holds at once; more layers take another run over the data.
MAX_GRAM_BYTES = 1 << 30


def make_plan(
    graph: Graph, layers: list[Layer], samples: Samples | None, options: QuantizeOptions, step: Step
) -> QuantizationPlan:
    """The plan for all of the layers. samples: None where weights are rounded alone."""
    if options.activation_dtype is None:
        return _plan_weights(graph, layers, samples, options, step)
    assert samples is not None
    factors: dict[Value, Array] = {}
    if options.smooth is not None:
        moments = _observe_moments(graph, layers, samples, options, step)
        factors = smooth_factors(layers, moments, options.smooth)
    params = _observe_ranges(graph, layers, samples, factors, options, step)
    made: dict[str, LayerPlan] = {}
    for number, layer in enumerate(layers):
        own, activation = _factors_of(layer, factors), params[layer.name]
        weight = scale_weight(layer, own)
        codes = quantize_channels(layer, weight, activation, _bias(graph, layer))
        made[layer.name] = LayerPlan(layer.name, codes, activation, own)
        step("quantizing weights", number + 1, len(layers))
    return QuantizationPlan(made)


def _plan_weights(
    graph: Graph, layers: list[Layer], samples: Samples | None, options: QuantizeOptions, step: Step
) -> QuantizationPlan:
    made: dict[str, LayerPlan] = {}
    last = find_last_layers(graph, layers) if options.weights != "int8" else frozenset[str]()
    for part in _split_layers(layers) if options.algorithm != "rtn" else [layers]:
        moments: dict[Value, InputMoments] = {}
        factors: dict[Value, Array] = {}
        if options.algorithm != "rtn":
            assert samples is not None
            moments = _observe_moments(graph, part, samples, options, step)
        if options.algorithm in ("awq", "awq-gptq"):
            step("choosing factors", len(made), len(layers))
            scaled = [layer for layer in part if layer.name not in last]
            factors = awq_factors(scaled, moments, options.weights, options.group)
        for layer in part:
            seen, kind = moments.get(layer.data), options.weights
            if layer.name in last:
                kind, seen = LAST_WEIGHTS, None
            own = factors.get(layer.data)
            made[layer.name] = _plan_weight(layer, own, seen, kind, options)
            step("quantizing weights", len(made), len(layers))
    return QuantizationPlan(made)


def _split_layers(layers: Sequence[Layer]) -> Iterator[list[Layer]]:
    """The layers in parts whose inputs' sums fit into MAX_GRAM_BYTES; those of one activation are
    in one part."""
    readers: dict[Value, list[Layer]] = {}
    for layer in layers:
        readers.setdefault(layer.data, []).append(layer)
    part: list[Layer] = []
    part_bytes = 0
    for group in readers.values():
        size = group[0].sum_length ** 2 * 8
        if part and part_bytes + size > MAX_GRAM_BYTES:
            yield part
            part, part_bytes = [], 0
        part += group
        part_bytes += size
    yield part


def _plan_weight(
    layer: Layer,
    factors: Array | None,
    seen: InputMoments | None,
    kind: str,
    options: QuantizeOptions,
) -> LayerPlan:
    """How a layer's weight alone is quantized. seen: None where it is rounded."""
    assert layer.depth is not None
    weight, gram = scale_weight(layer, factors), None
    if seen is not None:
        gram = seen.gram if factors is None else seen.gram / np.outer(factors, factors)
    if gram is not None and options.algorithm in ("gptq", "awq-gptq"):
        codes = quantize_gptq(weight, layer.depth, options.group, kind, gram)
    else:
        importance = None if gram is None else gram.diagonal()
        codes = quantize_groups(weight, layer.depth, options.group, kind, importance)
    return LayerPlan(layer.name, codes, None, factors)


def _factors_of(layer: Layer, factors: dict[Value, Array]) -> Array | None:
    return factors.get(layer.data) if layer.is_matrix_product else None


def _bias(graph: Graph, layer: Layer) -> Array | None:
    """The constant that is added per output channel."""
    op, value = graph.op(layer.node), None
    if isinstance(op, Gemm):
        inputs = graph.inputs(layer.node)
        value = inputs[2] if len(inputs) > 2 else None
    else:
        reader = graph.only_reader(Value(layer.node))
        if reader is not None and isinstance(graph.op(reader), Add):
            value = next((v for v in graph.inputs(reader) if v and v.node != layer.node), None)
    found = None if value is None else constant_array(graph, value)
    channels = 1
    for axis in layer.outputs:
        channels *= layer.weight.shape[axis]
    return found if found is not None and found.size == channels else None


def _observe_moments(
    graph: Graph, layers: list[Layer], samples: Samples, options: QuantizeOptions, step: Step
) -> dict[Value, InputMoments]:
    products = options.algorithm != "rtn"
    found: dict[Value, InputMoments] = {}
    observers: dict[Value, list[Observe]] = {}
    for layer in layers:
        if layer.is_matrix_product and layer.data not in found:
            found[layer.data] = InputMoments(products)
            observers[layer.data] = [partial(found[layer.data].observe, axis=-1)]
    if observers:
        calibrate(graph, samples, observers, options.num_threads, step)
    return found


def _observe_ranges(
    graph: Graph,
    layers: list[Layer],
    samples: Samples,
    factors: dict[Value, Array],
    options: QuantizeOptions,
    step: Step,
) -> dict[str, ActivationParams]:
    """The parameters of each layer's activation; those of one activation are the same."""
    dtype = options.activation_dtype
    assert dtype is not None
    seen: dict[tuple[Value, bool], RangeObserver] = {}
    observers: dict[Value, list[Observe]] = {}
    keys: dict[str, tuple[Value, bool]] = {}
    for layer in layers:
        own = _factors_of(layer, factors)
        value = layer.data if own is not None else graph.input(*layer.use)
        key = keys[layer.name] = (value, own is not None)
        if key in seen:
            continue
        observer = seen[key] = RangeObserver(options.calibrate != "minmax")
        observers.setdefault(value, []).append(_make_observe(observer, own))
    calibrate(graph, samples, observers, options.num_threads, step)
    params = {k: choose_params(o, dtype, options.calibrate) for k, o in seen.items()}
    for layer in layers:
        if not seen[keys[layer.name]].low <= seen[keys[layer.name]].high:
            raise Error(
                "calibration gave a layer no values", where=layer.name,
                expected="data for which the layer runs", fix="keep it in float (--keep)",
            )  # fmt: skip
    return {name: params[key] for name, key in keys.items()}


def _make_observe(observer: RangeObserver, factors: Array | None) -> Observe:
    """An observer of the activation divided by the factors."""
    if factors is None:
        return observer.observe
    inverse = reciprocal(factors)
    return lambda array: observer.observe(array * inverse)
