"""Errors by layer, the metric, and which layers stay float so that it holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..api import CompiledModel, Model, compile_model
from ..ir.errors import Error, UsageError
from ..ir.graph import Graph
from ..ir.op import Array
from .calibration import Step
from .graph_form import apply_to_graph
from .layers import Layer
from .plan import QuantizationPlan
from .quantize_options import Metric, QuantizeOptions
from .samples import Samples
from .timing import Times, measure_times

# Decibels of a layer without error.
_EXACT = 200.0


@dataclass(frozen=True)
class LayerResult:
    """One layer: what it is, the signal-to-quantization-noise ratio of the model's outputs with
    this layer alone quantized (dB), microseconds of its steps before and after, and the verdict:
    "int8" and so on, or "float" with the reason."""

    name: str
    kind: str
    shape: tuple[int, ...]
    sqnr: float
    float_us: float | None
    quantized_us: float | None
    verdict: str


@dataclass
class Evaluation:
    """What was measured. metrics and times are None where they were not requested."""

    plan: QuantizationPlan
    layers: list[LayerResult] = field(default_factory=list[LayerResult])
    float_metric: float | None = None
    quantized_metric: float | None = None
    times: Times | None = None


class _Variants:
    """Compiles the model with some of its layers quantized."""

    def __init__(
        self, graph: Graph, layers: list[Layer], plan: QuantizationPlan, options: QuantizeOptions
    ) -> None:
        self._graph, self._layers, self._plan = graph, layers, plan
        self._threads = options.num_threads

    def compile(self, names: Sequence[str]) -> CompiledModel:
        made = apply_to_graph(self._graph, self._layers, self._plan.only(names))
        return compile_model(Model(made), num_threads=self._threads, progress=False)

    def metric(self, names: Sequence[str], metric: Metric) -> float:
        with self.compile(names) as net:
            return measure_metric(metric, net)


def measure_metric(metric: Metric, net: Callable[[Any], Any]) -> float:
    """The metric of a model. Error where it raises, or returns no finite number."""
    name = getattr(metric, "__name__", type(metric).__name__)
    try:
        value = float(metric(net))
    except Error:
        raise
    except Exception as error:
        raise Error(
            "the metric raises an error",
            where=name,
            got=f"{type(error).__name__}: {str(error)[:200]}",
            expected="a function of a model (inputs by name -> outputs) that returns a number",
        ) from error
    if not math.isfinite(value):
        raise Error("the metric is not finite", where=name, got=value, expected="a finite number")
    return value


def evaluate(
    graph: Graph,
    layers: list[Layer],
    plan: QuantizationPlan,
    samples: Samples | None,
    options: QuantizeOptions,
    baseline: float | None,
    step: Step,
    *,
    analyze: bool,
) -> Evaluation:
    """Measure errors and times, and return layers to float until the metric holds. Errors are
    measured on the first batch."""
    variants = _Variants(graph, layers, plan, options)
    names = [layer.name for layer in layers]
    result = Evaluation(plan, float_metric=baseline)
    errors: dict[str, float] = {}
    if analyze:
        if samples is None:
            raise UsageError("a report needs data", got="none", expected="data= (--data)")
        errors = _layer_errors(variants, names, samples, step)
    if options.metric is not None:
        quantized_layers = names
        result.quantized_metric = variants.metric(names, options.metric)
        if options.max_drop is not None and baseline is not None:
            least = baseline - options.max_drop
            if result.quantized_metric < least:
                assert samples is not None
                errors = errors or _layer_errors(variants, names, samples, step)
                order = sorted(names, key=lambda n: errors[n])
                quantized_layers, result.quantized_metric = _restore_layers(
                    variants, names, order, options.metric, least, step
                )
        result.plan = plan.only(quantized_layers)
    if analyze:
        assert samples is not None
        step("measuring times", 0, 0)
        batch = samples.first()
        with variants.compile([]) as plain, variants.compile(list(result.plan.layers)) as net:
            result.times = measure_times(plain, net, batch, layers)
        result.layers = _results(layers, result, errors, options)
    return result


def _layer_errors(
    variants: _Variants, names: Sequence[str], samples: Samples, step: Step
) -> dict[str, float]:
    """The SQNR of the outputs with each layer alone quantized."""
    batch = samples.first()
    with variants.compile([]) as net:
        wanted = _float_outputs(net, batch)
    found: dict[str, float] = {}
    for number, name in enumerate(names):
        with variants.compile([name]) as net:
            found[name] = sqnr(_float_outputs(net, batch), wanted)
        step("measuring errors", number + 1, len(names))
    return found


def _float_outputs(net: CompiledModel, batch: Mapping[str, Array]) -> list[Array]:
    arrays = net([batch[port.name] for port in net.inputs])
    found = [np.array(a, np.float64) for a in arrays if a.dtype.kind == "f"]
    return found or [np.array(a, np.float64) for a in arrays]


def sqnr(got: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The least signal-to-quantization-noise ratio of several outputs, in dB, at most 200."""
    ratios = [_EXACT]
    for a, b in zip(got, wanted, strict=True):
        signal = float((b**2).sum())
        noise = float(((a - b) ** 2).sum()) if a.shape == b.shape else math.inf
        if noise > 0:
            ratios.append(
                10 * math.log10(max(signal, 1e-30) / noise) if noise < math.inf else -_EXACT
            )
    return min(ratios)


def _restore_layers(
    variants: _Variants,
    names: Sequence[str],
    order: Sequence[str],
    metric: Metric,
    least: float,
    step: Step,
) -> tuple[list[str], float]:
    """The layers that stay quantized and the metric with them. The worst layers of `order` go back
    to float: 1, 2, 4 and so on, then as few as a binary search finds."""
    known: dict[int, float] = {}

    def holds(count: int) -> bool:
        kept = [n for n in names if n not in order[:count]]
        known[count] = variants.metric(kept, metric)
        step("searching layers", len(known), 0)
        return known[count] >= least

    low, high = 0, 1
    while high < len(order) and not holds(high):
        low, high = high, high * 2
    high = min(high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    if high not in known:
        holds(high)
    return [n for n in names if n not in order[:high]], known[high]


def _results(
    layers: list[Layer], result: Evaluation, errors: Mapping[str, float], options: QuantizeOptions
) -> list[LayerResult]:
    assert result.times is not None
    found: list[LayerResult] = []
    for layer in layers:
        before, after = result.times.layers.get(layer.name, (None, None))
        quantized = layer.name in result.plan.layers
        verdict = options.weights if quantized else "float: the metric falls too far"
        if quantized and before and after and after > before:
            verdict += " (slower here)"
        found.append(
            LayerResult(
                layer.name,
                layer.kind,
                layer.weight.shape,
                errors[layer.name],
                before,
                after,
                verdict,
            )
        )
    return found
