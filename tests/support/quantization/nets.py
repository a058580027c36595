"""Small float models to quantize, and batches for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from support.models import quantized
from support.models.onnx_graph import OnnxGraph

Batches = list[dict[str, np.ndarray[Any, Any]]]


def convnet() -> tuple[onnx.ModelProto, Batches]:
    """Residual blocks, a depthwise convolution, batch normalization, a Gemm."""
    rng = np.random.default_rng(0)
    shape = (2, 3, 20, 20)
    data = [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(6)]
    return quantized.network(), data


def mlp(outliers: bool = False) -> tuple[onnx.ModelProto, Batches]:
    """MatMul and Add, LayerNorm, two products of one value, Gemm; N rows of 64. With outliers some
    channels of the input are 50 times as large, as in transformers."""
    rng = np.random.default_rng(1)
    g = OnnxGraph(17, constants="initializers")
    factor = np.ones(64, np.float32)
    if outliers:
        factor[[3, 17, 40]] = 50
    x = g.input("x", ["N", 64])

    def weight(name: str, *shape: int) -> str:
        return g.weight(name, (rng.standard_normal(shape) / 8).astype(np.float32))

    y = g.op("Add", g.op("MatMul", x, weight("w1", 64, 96)), weight("b1", 96))
    y = g.op("Mul", g.op("Relu", y), g.weight("factor", np.resize(factor, 96)))
    left = g.op("Sigmoid", g.op("MatMul", y, weight("w2", 96, 64)))
    right = g.op("MatMul", y, weight("w3", 96, 64))
    y = g.op("Mul", left, right)
    g.output(g.op("Gemm", y, weight("w4", 20, 64), weight("b4", 20), result="y", transB=1))
    data = [{"x": rng.standard_normal((8, 64)).astype(np.float32)} for _ in range(4)]
    return g.model(), data
