"""Biases that keep the mean of outputs, and channels of depthwise convolutions with scales of their
own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler.quantization.plan import QuantizationPlan
from support.models.exact_int8 import create_session
from support.models.onnx_graph import OnnxGraph
from support.quantization.nets import Batches

CHANNELS, SIZE = 8, 12


def build_layer(kind: str, ranges: np.ndarray[Any, Any] | None = None) -> tuple[Any, Batches]:
    """One layer with a bias, whose weights lose a part of their sums by rounding; inputs with a
    mean of 4 and, of a convolution, channels of the ranges."""
    rng = np.random.default_rng(0)
    g = OnnxGraph(17, constants="initializers")
    spatial = kind in ("conv", "depthwise")
    x = g.input("x", ["N", CHANNELS, SIZE, SIZE] if spatial else ["N", 64])
    bias = g.weight("b", rng.standard_normal(CHANNELS).astype(np.float32))
    if spatial:
        inputs = 1 if kind == "depthwise" else CHANNELS
        weight = rng.uniform(0.1, 0.4, (CHANNELS, inputs, 3, 3)).astype(np.float32)
        weight[:, :, 0, 0] = 40
        attributes = {"group": CHANNELS} if kind == "depthwise" else {}
        g.output(g.op("Conv", x, g.weight("w", weight), bias, result="y", **attributes))
        shape = (4, CHANNELS, SIZE, SIZE)
    else:
        weight = rng.uniform(0.1, 0.4, (64, CHANNELS)).astype(np.float32)
        weight[0] = 40
        w, shape = g.weight("w", weight), (16, 64)
        if kind == "gemm":
            g.output(g.op("Gemm", x, w, bias, result="y"))
        else:
            g.output(g.op("Add", g.op("MatMul", x, w), bias, result="y"))
    data = [rng.standard_normal(shape).astype(np.float32) + 4 for _ in range(4)]
    scales = 1 if ranges is None else ranges.reshape(-1, 1, 1).astype(np.float32)
    return g.model(), [{"x": x * scales} for x in data]


@pytest.mark.parametrize("kind", ["conv", "depthwise", "gemm", "matmul"])
def test_biases_keep_the_mean_of_outputs(kind: str) -> None:
    model, data = build_layer(kind)
    made = irc.quantize(model, data)
    batch = data[0]
    (wanted,) = irc.compile_model(model)(batch)
    axes = tuple(i for i in range(wanted.ndim) if i != 1)

    def shift(net: Any) -> float:
        return float(np.abs((net(batch)[0] - wanted).mean(axis=axes)).max())

    corrected = shift(irc.compile_model(made.model))
    as_onnx = made.to_onnx()
    assert shift(irc.compile_model(as_onnx)) == pytest.approx(corrected, abs=0.02)
    session = create_session(as_onnx.SerializeToString())
    assert shift(lambda feeds: session.run(None, feeds)) == pytest.approx(corrected, abs=0.02)
    plan = {k: replace(v, bias=None) for k, v in made.plan.layers.items()}
    made.plan = QuantizationPlan(plan)
    assert corrected < 0.2 * shift(irc.compile_model(made.model))


def test_a_product_with_a_factor_keeps_its_bias() -> None:
    g = OnnxGraph(17, constants="initializers")
    w = g.weight("w", np.full((64, 8), 0.3, np.float32))
    b = g.weight("b", np.ones(8, np.float32))
    g.output(g.op("Gemm", g.input("x", ["N", 64]), w, b, result="y", beta=0.5))
    data = [{"x": np.ones((8, 64), np.float32)}]
    (layer,) = irc.quantize(g.model(), data).plan.layers.values()
    assert layer.bias is None


def test_channels_of_a_depthwise_convolution_use_all_codes() -> None:
    model, data = build_layer("depthwise", np.geomspace(0.001, 1, CHANNELS))
    made = irc.quantize(model, data)
    (wanted,) = irc.compile_model(model)(data[0])
    net = irc.compile_model(made.model)
    for found in (net(data[0])[0], irc.compile_model(made.to_onnx())(data[0])[0]):
        error = np.abs(found - wanted).max(axis=(0, 2, 3)) / np.abs(wanted).max(axis=(0, 2, 3))
        assert error.max() < 0.02
    assert "1 of 1 convolutions multiply bytes" in net.report()
