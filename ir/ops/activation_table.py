"""Activation functions by name: parameters with defaults, and the formula as scalar instructions.

The one place for Gemm's fused activations, the elementwise activation operations and the
recurrent cells. Sources: DirectML's activation operators, ONNX, OpenVINO.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..dtype import DType
from ..errors import ShapeError, UnsupportedOperationError
from ..op import Array
from ..scalar import Builder, Ref, evaluate_program

_Formula = Callable[..., Ref]


@dataclass(frozen=True)
class Activation:
    """`formula(builder, x, *parameters)` writes the function; `parameters` are (name, default)."""

    formula: _Formula
    parameters: tuple[tuple[str, float], ...] = ()
    # Whether integers may pass through it.
    on_integers: bool = False


def _c(b: Builder, x: Ref, value: float) -> Ref:
    return b.const(value, x.dtype)


def identity(b: Builder, x: Ref) -> Ref:
    return x


def relu(b: Builder, x: Ref) -> Ref:
    return b.op("max", x, _c(b, x, 0))


def leaky_relu(b: Builder, x: Ref, alpha: float) -> Ref:
    return slope(b, x, _c(b, x, alpha))


def slope(b: Builder, x: Ref, factor: Ref) -> Ref:
    """x where positive, x * factor below 0 (PRelu)."""
    positive = b.op("ge", x, _c(b, x, 0))
    return b.op("select", positive, x, b.op("mul", x, factor))


def thresholded_relu(b: Builder, x: Ref, alpha: float) -> Ref:
    below = b.op("le", x, _c(b, x, alpha))  # so that NaN stays NaN
    return b.op("select", below, _c(b, x, 0), x)


def elu(b: Builder, x: Ref, alpha: float) -> Ref:
    below = b.op("mul", b.op("expm1", x), _c(b, x, alpha))
    return b.op("select", b.op("gt", x, _c(b, x, 0)), x, below)


def celu(b: Builder, x: Ref, alpha: float) -> Ref:
    grown = b.op("expm1", b.op("div", x, _c(b, x, alpha)))
    below = b.op("mul", grown, _c(b, x, alpha))
    zero = _c(b, x, 0)
    return b.op("add", b.op("max", x, zero), b.op("min", below, zero))


def scaled_elu(b: Builder, x: Ref, alpha: float, gamma: float) -> Ref:
    return b.op("mul", elu(b, x, alpha), _c(b, x, gamma))


def sigmoid(b: Builder, x: Ref) -> Ref:
    return b.op("sigmoid", x)


def hard_sigmoid(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    return b.op("clip", linear(b, x, alpha, beta), _c(b, x, 0), _c(b, x, 1))


def tanh(b: Builder, x: Ref) -> Ref:
    return b.op("tanh", x)


def scaled_tanh(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    return b.op("mul", b.op("tanh", b.op("mul", x, _c(b, x, beta))), _c(b, x, alpha))


def softplus(b: Builder, x: Ref, steepness: float) -> Ref:
    steep = b.op("mul", x, _c(b, x, steepness))
    return b.op("div", b.op("softplus", steep), _c(b, x, steepness))


def softsign(b: Builder, x: Ref) -> Ref:
    return b.op("div", x, b.op("add", b.op("abs", x), _c(b, x, 1)))


def linear(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    scaled = b.op("mul", x, _c(b, x, alpha))
    return scaled if beta == 0 else b.op("add", scaled, _c(b, x, beta))


def gelu(b: Builder, x: Ref) -> Ref:
    inner = b.op("erf", b.op("mul", x, _c(b, x, math.sqrt(0.5))))
    return b.op("mul", b.op("mul", x, _c(b, x, 0.5)), b.op("add", inner, _c(b, x, 1)))


def gelu_tanh(b: Builder, x: Ref) -> Ref:
    cube = b.op("mul", b.op("mul", x, x), b.op("mul", x, _c(b, x, 0.044715)))
    inner = b.op("mul", b.op("add", x, cube), _c(b, x, math.sqrt(2 / math.pi)))
    half = b.op("mul", x, _c(b, x, 0.5))
    return b.op("mul", half, b.op("add", b.op("tanh", inner), _c(b, x, 1)))


def swish(b: Builder, x: Ref, beta: float) -> Ref:
    return b.op("mul", x, b.op("sigmoid", b.op("mul", x, _c(b, x, beta))))


def hard_swish(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    return b.op("mul", x, hard_sigmoid(b, x, alpha, beta))


def mish(b: Builder, x: Ref) -> Ref:
    return b.op("mul", x, b.op("tanh", b.op("softplus", x)))


def clip(b: Builder, x: Ref, low: float, high: float) -> Ref:
    """Limits of integers are rounded inwards and kept within the type."""
    if x.dtype.is_int:
        floor, ceiling = int(x.dtype.min), int(x.dtype.max)
        least = floor if low <= floor else math.ceil(min(low, ceiling))
        most = ceiling if high >= ceiling else math.floor(max(high, floor))
        return b.op("clip", x, b.const(least, x.dtype), b.const(most, x.dtype))
    return b.op("clip", x, _c(b, x, low), _c(b, x, high))


_A, _INF = "alpha", math.inf
ACTIVATIONS: dict[str, Activation] = {
    "identity": Activation(identity, on_integers=True),
    "relu": Activation(relu, on_integers=True),
    "leaky_relu": Activation(leaky_relu, ((_A, 0.01),)),
    "thresholded_relu": Activation(thresholded_relu, ((_A, 1.0),)),
    "parametrised_relu": Activation(leaky_relu, (("slope", 0.25),)),
    "elu": Activation(elu, ((_A, 1.0),)),
    "celu": Activation(celu, ((_A, 1.0),)),
    "scaled_elu": Activation(
        scaled_elu, ((_A, 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))
    ),
    "sigmoid": Activation(sigmoid),
    "hard_sigmoid": Activation(hard_sigmoid, ((_A, 0.2), ("beta", 0.5))),
    "tanh": Activation(tanh),
    "scaled_tanh": Activation(scaled_tanh, ((_A, 1.0), ("beta", 0.5))),
    "softplus": Activation(softplus, (("steepness", 1.0),)),
    "softsign": Activation(softsign),
    "linear": Activation(linear, ((_A, 1.0), ("beta", 0.0))),
    "gelu": Activation(gelu),
    "gelu_tanh": Activation(gelu_tanh),
    "swish": Activation(swish, (("beta", 1.0),)),
    "hard_swish": Activation(hard_swish, ((_A, 1 / 6), ("beta", 0.5))),
    "mish": Activation(mish),
    "clip": Activation(clip, (("min", -_INF), ("max", _INF)), on_integers=True),
}


def find_activation(name: str) -> Activation:
    """The activation of a name. UnsupportedOperationError listing the names."""
    found = ACTIVATIONS.get(name)
    if found is None:
        raise UnsupportedOperationError(
            "unknown activation function", got=name[:80], expected=", ".join(ACTIVATIONS)
        )
    return found


def check_activation(name: str, parameters: Sequence[float], dtype: DType) -> None:
    """ShapeError where an activation does not fit its parameters or the element type."""
    found = find_activation(name)
    if len(parameters) > len(found.parameters):
        raise ShapeError(
            f"activation {name} has too many parameters",
            got=len(parameters),
            expected=f"at most {len(found.parameters)}",
        )
    if dtype.is_int and not found.on_integers:
        raise ShapeError(f"activation {name} needs floats", got=dtype, expected="a float type")


def apply_activation(b: Builder, name: str, parameters: Sequence[float], x: Ref) -> Ref:
    """Write an activation; parameters that are not given have their defaults."""
    found = find_activation(name)
    defaults = [value for _, value in found.parameters]
    return found.formula(b, x, *parameters, *defaults[len(parameters) :])


def activate(name: str, parameters: Sequence[float], x: Array) -> Array:
    """An activation of a float array, with NumPy."""
    dtype = DType.from_numpy(x.dtype)
    b = Builder()
    result = apply_activation(b, name, parameters, b.input(0, dtype))
    return evaluate_program(b.finish(result), [x])[0]
