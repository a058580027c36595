"""What is to be quantized, and how: parameters of activations, codes of weights, by layer.

A plan knows no format. `graph_form.py` makes a graph of it, `onnx_form.py` an ONNX model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ..ir.dtype import DType
from ..ir.op import Array
from .nf4 import NF4_TABLE


@dataclass(frozen=True)
class ActivationParams:
    """real = (code - zero) * scale. scale has at most 16 significant bits, so that the limits of a
    FakeQuantize, code * scale, are exact in float32."""

    scale: float
    zero: int
    dtype: DType  # u8 or i8

    @property
    def limits(self) -> tuple[float, float]:
        """The real values of the least and the largest code."""
        low, high = (-128, 127) if self.dtype is DType.i8 else (0, 255)
        return (low - self.zero) * self.scale, (high - self.zero) * self.scale

    def fake_quantize(self, values: Array) -> Array:
        """The values after quantization and dequantization, float32."""
        low, high = (-128, 127) if self.dtype is DType.i8 else (0, 255)
        codes = np.rint(values / np.float32(self.scale)) + np.float32(self.zero)
        return (np.clip(codes, low, high) - np.float32(self.zero)) * np.float32(self.scale)


@dataclass(frozen=True, eq=False)
class QuantizedWeight:
    """A weight as codes. scale and zero broadcast to the codes where group is 0; with groups along
    `axis` they have one element for each `group` codes of that axis. Codes of nf4 are positions in
    its table, in uint8."""

    codes: Array
    dtype: DType  # i8, u4 or nf4
    scale: Array  # float32
    zero: Array | None = None
    axis: int = 0
    group: int = 0

    def dequantize(self) -> Array:
        """The real values, float32."""
        if self.dtype is DType.nf4:
            values = NF4_TABLE[self.codes]
        else:
            values = self.codes.astype(np.float32)
            if self.zero is not None:
                values = values - self._repeat_groups(self.zero).astype(np.float32)
        return values * self._repeat_groups(self.scale)

    def _repeat_groups(self, values: Array) -> Array:
        if not self.group:
            return values
        return np.repeat(values, self.group, self.axis)


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """How one layer is quantized. activation: None for weight-only quantization. input_scale: a
    factor per channel that the activation is divided by and the weight's codes include
    (SmoothQuant, AWQ). bias: what is added in place of the layer's own bias, so that the mean of
    its output stays."""

    name: str
    weight: QuantizedWeight
    activation: ActivationParams | None = None
    input_scale: Array | None = None
    bias: Array | None = None


@dataclass(frozen=True)
class QuantizationPlan:
    """The layers that are quantized, by name. All others stay float."""

    layers: Mapping[str, LayerPlan]

    def only(self, names: Collection[str]) -> QuantizationPlan:
        """The plan for these layers alone."""
        return QuantizationPlan(
            {name: layer for name, layer in self.layers.items() if name in names}
        )
