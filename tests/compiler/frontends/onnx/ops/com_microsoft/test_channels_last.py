"""Operators whose channels are the last axis, against onnxruntime or the form with them second."""

from __future__ import annotations

from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from support.frontends.ml_models import compare, one_node

MS = "com.microsoft"
_R = np.random.default_rng(3)


def f(*shape: int) -> Any:
    return _R.standard_normal(shape).astype(np.float32)


def last(x: Any) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def run(op_type: str, inputs: list[Any], domain: str = MS, **attributes: Any) -> Any:
    model, feeds = one_node(op_type, inputs, ["y"], domain=domain, **attributes)
    return irc.compile_model(model)(feeds)[0]


WINDOWS = [
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 1, 1, 0]},
    {"kernel_shape": [3, 3], "dilations": [2, 2]},
    {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"},
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(window: dict[str, Any], groups: int) -> None:
    x, w, b = f(2, 4, 9, 9), f(6, 4 // groups, 3, 3), f(6)
    want = run("Conv", [x, w, b], "", group=groups, **window)
    got = run("NhwcConv", [last(x), w, b], group=groups, **window)
    np.testing.assert_allclose(got, last(want), rtol=1e-5, atol=1e-5)
    z = f(*want.shape)
    got = run("NhwcFusedConv", [last(x), w, b, last(z)], group=groups, activation="Relu", **window)
    np.testing.assert_allclose(got, last(np.maximum(want + z, 0)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("ceil", [0, 1])
def test_max_pool_of_bytes(kind: Any, ceil: int) -> None:
    x = _R.integers(-100 if kind is np.int8 else 0, 100, (2, 8, 8, 3)).astype(kind)
    how = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0], "ceil_mode": ceil}
    compare(*one_node("NhwcMaxPool", [x], ["y"], domain=MS, **how))


SCALE, ZERO = np.array(0.05, np.float32), np.array(7, np.uint8)


@pytest.mark.parametrize("flag", [0, 1])
def test_quantized_convolution(flag: int) -> None:
    x = _R.integers(0, 60, (1, 6, 6, 4) if flag else (1, 4, 6, 6)).astype(np.uint8)
    w = _R.integers(0, 60, (5, 4, 3, 3)).astype(np.uint8)
    inputs = [x, SCALE, ZERO, w, SCALE, ZERO, np.array(1.0, np.float32), ZERO]
    model = one_node("QLinearConv", inputs, ["y"], domain=MS, channels_last=flag)
    compare(*model)


@pytest.mark.parametrize("flag", [0, 1])
def test_quantized_average_pool(flag: int) -> None:
    x = _R.integers(0, 256, (1, 6, 6, 4) if flag else (1, 4, 6, 6)).astype(np.uint8)
    how = {"kernel_shape": [3, 3], "channels_last": flag}
    inputs = [x, SCALE, ZERO, SCALE, ZERO]
    compare(*one_node("QLinearAveragePool", inputs, ["y"], domain=MS, **how))


def normalized(x: Any, groups: int, gamma: Any, beta: Any, silu: int) -> Any:
    """[N, C, H, W], by NumPy."""
    parts = x.astype(np.float64).reshape(x.shape[0], groups, -1)
    parts = parts - parts.mean(-1, keepdims=True)
    parts = parts / np.sqrt((parts**2).mean(-1, keepdims=True) + 1e-5)
    y = parts.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    return y / (1 + np.exp(-y)) if silu else y


@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("silu", [0, 1])
def test_group_norm(flag: int, silu: int) -> None:
    """onnxruntime has no CPU kernel of it."""
    x, gamma, beta = f(2, 8, 4, 5), f(8), f(8)
    how = {"groups": 4, "activation": silu, "channels_last": flag}
    got = run("GroupNorm", [last(x) if flag else x, gamma, beta], **how)
    want = normalized(x, 4, gamma, beta, silu)
    np.testing.assert_allclose(got, last(want) if flag else want, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("flag", [0, 1])
@pytest.mark.parametrize("shape", [(2, 8, 4, 5), (2, 8, 1, 1), (2, 8)])
def test_group_norm_of_a_sum(flag: int, shape: tuple[int, ...]) -> None:
    x, gamma, beta, skip, bias = f(2, 8, 4, 5), f(8), f(8), f(*shape), f(8)
    whole = skip.reshape(*shape, *[1] * (4 - len(shape)))
    total = x + whole + bias[:, None, None]
    moved = last(skip) if flag and len(shape) == 4 else skip
    inputs = [last(x) if flag else x, gamma, beta, moved, bias]
    model, feeds = one_node(
        "SkipGroupNorm", inputs, ["y", "s"], domain=MS, groups=4, activation=0, channels_last=flag
    )
    found = irc.compile_model(model)(feeds)
    for got, want in zip(found, (normalized(total, 4, gamma, beta, 0), total), strict=True):
        np.testing.assert_allclose(got, last(want) if flag else want, rtol=1e-5, atol=1e-5)
