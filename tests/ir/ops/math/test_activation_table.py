"""Gated activations at infinities and in the far negative tail, in native code and evaluation,
against mpmath."""

from __future__ import annotations

import math

import irc_compiler as irc
import irc_compiler.ir.ops as o
import mpmath
import numpy as np
import onnxruntime
import pytest
from onnx import helper

INF, NAN = math.inf, math.nan
ATTRIBUTES = {"gelu": ("Gelu", {}), "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
              "mish": ("Mish", {}), "swish": ("QuickGelu", {"alpha": 1.0}),
              "hard_swish": ("HardSwish", {}), "hard_sigmoid": ("HardSigmoid", {}),
              "softplus": ("Softplus", {}), "elu": ("Elu", {}), "softsign": ("Softsign", {}),
              "thresholded_relu": ("ThresholdedRelu", {"alpha": -7.0})}  # fmt: skip


def model(name: str, type_: int) -> bytes:
    kind, attributes = ATTRIBUTES[name]
    domain = "com.microsoft" if kind == "QuickGelu" else ""
    node = helper.make_node(kind, ["x"], ["y"], domain=domain, **attributes)
    ports = [helper.make_tensor_value_info(n, type_, ["N"]) for n in "xy"]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


TYPES = {np.float32: 1, np.float16: 10, np.float64: 11}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "mish", "swish", "hard_swish"])
def test_gated_activations_have_their_limits_at_infinity(name: str, dtype: type) -> None:
    x = np.array([-INF, INF, NAN, 0.0], dtype)
    net = irc.compile_model(model(name, TYPES[dtype]))
    (y,) = net(x=x)
    want = np.array([0, INF, NAN, 0], dtype)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(o.Activation(name).evaluate(x)[0], want)


def test_thresholded_relu_of_nan_is_zero_as_in_onnxruntime() -> None:
    x = np.array([NAN, -INF, INF, -8, -7, -6, 0], np.float32)
    text = model("thresholded_relu", 1)
    (want,) = onnxruntime.InferenceSession(text).run(None, {"x": x})
    (y,) = irc.compile_model(text)(x=x)
    np.testing.assert_array_equal(y, want)
    assert y[0] == 0


def far_negative_floats() -> np.ndarray:
    """Every 20011th float from -105 to -2**-149."""
    first, last = (np.float32(v).view(np.uint32) for v in (-(2.0**-149), -105))
    return np.arange(first, last, 20011, dtype=np.uint32).view(np.float32)


def ulps(y: np.ndarray, want: np.ndarray) -> np.ndarray:
    exponent = np.maximum(np.frexp(np.abs(want))[1] - 1, -126)
    return np.abs(y - want) / np.ldexp(1.0, exponent - 23)


def test_mish_stays_within_6_ulp_over_the_negative_floats() -> None:
    x = far_negative_floats()
    wide = x.astype(np.float64)
    e = np.exp(wide)
    want = wide * e * (e + 2) / (e * (e + 2) + 2)
    with mpmath.workdps(40):
        for at in range(0, x.size, x.size // 50):
            v = mpmath.mpf(float(x[at]))
            exact = float(v * mpmath.tanh(mpmath.log1p(mpmath.exp(v))))
            assert math.isclose(exact, want[at], rel_tol=1e-12, abs_tol=1e-300)
    (y,) = irc.compile_model(model("mish", 1))(x=x)
    error = ulps(y, want)
    at = int(np.argmax(error))
    assert error[at] <= 6, (x[at], y[at], want[at])
    assert np.max(ulps(o.Mish().evaluate(x)[0], want)) <= 6


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    """The argument of tanh, on which the error of Gelu's tanh form depends."""
    return math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)


# The exact function in f64, and how far an f32 result below 0 may be off, in units in the last
# place: docs/numerics.md.
EXACT = {
    "gelu": (
        lambda x: np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x.tolist()]),
        lambda x: 5,
    ),
    "gelu_tanh": (
        lambda x: x * _sigmoid(2 * _gelu_slope(x)),
        lambda x: 3 * (1 + 2 * np.abs(_gelu_slope(x))),
    ),
    # Below -87 the sigmoid is denormal, and x times as far off.
    "swish": (lambda x: x * _sigmoid(x), lambda x: np.where(x > -87, 3, 53)),
    "softplus": (lambda x: np.log1p(np.exp(x)), lambda x: 2),
    "elu": (np.expm1, lambda x: 2),
    "softsign": (lambda x: x / (1 + np.abs(x)), lambda x: 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(EXACT))
def test_activations_over_the_negative_floats(name: str) -> None:
    x = far_negative_floats()
    exact, bound = EXACT[name]
    wide = x.astype(np.float64)
    want = exact(wide)
    net = irc.compile_model(model(name, 1), denormals="keep")
    for y in (net(x=x)[0], o.Activation(name).evaluate(x)[0]):
        excess = ulps(y, want) - bound(wide)
        at = int(np.argmax(excess))
        assert excess[at] <= 0, (x[at], y[at], want[at])


@pytest.mark.parametrize("name", ["hard_sigmoid", "hard_swish"])
def test_gates_of_straight_lines_have_an_absolute_error(name: str) -> None:
    """Near its zero a line in f32 cancels."""
    x = np.linspace(-4, 4, 100_001, dtype=np.float32)
    wide = x.astype(np.float64)
    slope = float(np.float32(0.2)) if name == "hard_sigmoid" else 1 / 6
    want = np.clip(slope * wide + 0.5, 0, 1) * (1 if name == "hard_sigmoid" else wide)
    (y,) = irc.compile_model(model(name, 1))(x=x)
    assert np.max(np.abs(y - want) / np.maximum(1, np.abs(wide))) <= 2.0**-23
