"""Measure how much faster the quantized model is on this machine, by layer and in all."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..api import CompiledModel
from ..ir.op import Array
from .layers import Layer

_PROFILE_RUNS = 9
# Seconds that the runs of both models take together, and runs of each at least.
_SECONDS, _MIN_RUNS = 1.0, 5
# Below this ratio of times, or above this share, the reason is named.
_NO_GAIN, _NAMED_SHARE = 1.1, 0.3


@dataclass(frozen=True)
class Times:
    """Median microseconds of a run of the float and the quantized model; of the steps of each
    layer in both; and the shares of the float model's time by what stays float, and depthwise."""

    float_us: float
    quantized_us: float
    layers: Mapping[str, tuple[float, float]]
    other_share: float
    depthwise_share: float

    @property
    def speedup(self) -> float:
        """How many times as fast the quantized model is."""
        return self.float_us / self.quantized_us

    def describe(self) -> list[str]:
        """The result in one sentence, and where there is no gain, why."""
        lines = [
            f"the quantized model takes {self.quantized_us:.0f} us here, "
            f"the float model {self.float_us:.0f} us: {self.speedup:.2f} times as fast"
        ]
        if self.speedup < _NO_GAIN:
            lines.append(f"8 bits do not help this model on this machine{self._reason()}")
        return lines

    def _reason(self) -> str:
        if self.depthwise_share > _NAMED_SHARE:
            return f": {self.depthwise_share:.0%} of the float time is depthwise convolutions"
        if self.other_share > _NAMED_SHARE:
            return f": {self.other_share:.0%} of the float time is operations that stay float"
        return ""


def measure_times(
    plain: CompiledModel,
    quantized: CompiledModel,
    batch: Mapping[str, Array],
    layers: Sequence[Layer],
) -> Times:
    """Time both models on one batch, turn by turn."""
    ordered = [batch[port.name] for port in plain.inputs]
    before, after = _step_times(plain, ordered, layers), _step_times(quantized, ordered, layers)
    total = sum(before.values()) or 1.0
    depthwise = sum(before.get(layer.name, 0.0) for layer in layers if layer.is_depthwise)
    runs: tuple[list[float], list[float]] = ([], [])
    started = time.perf_counter()
    while len(runs[0]) < _MIN_RUNS or time.perf_counter() - started < _SECONDS:
        for net, taken in zip((plain, quantized), runs, strict=True):
            start = time.perf_counter()
            net(ordered)
            taken.append(time.perf_counter() - start)
    medians = [float(np.median(taken)) * 1e6 for taken in runs]
    by_layer = {
        layer.name: (before[layer.name], after[layer.name])
        for layer in layers
        if layer.name in before and layer.name in after
    }
    other = before.get("", 0.0)
    return Times(medians[0], medians[1], by_layer, other / total, depthwise / total)


def _step_times(
    net: CompiledModel, inputs: Sequence[Array], layers: Sequence[Layer]
) -> dict[str, float]:
    """Median microseconds of each layer's steps; of all other steps under ""."""
    names = {layer.name for layer in layers}
    taken = [net.session.profile(list(inputs)) for _ in range(_PROFILE_RUNS)]
    found: dict[str, float] = {}
    for column in zip(*taken, strict=True):
        own = [n for n in (column[0].name, *column[0].sources) if n in names]
        spent = float(np.median([entry.seconds for entry in column])) * 1e6
        key = own[0] if own else ""
        found[key] = found.get(key, 0.0) + spent
    return found
