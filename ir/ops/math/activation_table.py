"""Activation functions by name: parameters with defaults, and the formula as scalar instructions.

The one table for Gemm's fused activations, the elementwise activation operations and the
recurrent cells. Sources: DirectML's activation operators, ONNX, OpenVINO.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...dtype import DType
from ...errors import ShapeError, UnsupportedOperationError
from ...lazy_dataclass import dataclass
from ...op import Array
from ...scalar.builder import Builder, Ref, evaluate_program

_Formula = Callable[..., Ref]


@dataclass(frozen=True)
class ActivationFormula:
    """`formula(builder, x, *parameters)` writes the function; `parameters` are (name, default)."""

    formula: _Formula
    parameters: tuple[tuple[str, float], ...] = ()
    # Whether integers may pass through it.
    on_integers: bool = False


def _constant_like(b: Builder, x: Ref, value: float) -> Ref:
    return b.const(value, x.dtype)


def identity(b: Builder, x: Ref) -> Ref:
    return x


def relu(b: Builder, x: Ref) -> Ref:
    return b.op("max", x, _constant_like(b, x, 0))


def leaky_relu(b: Builder, x: Ref, alpha: float) -> Ref:
    return slope(b, x, _constant_like(b, x, alpha))


def slope(b: Builder, x: Ref, factor: Ref) -> Ref:
    """x where positive, x * factor below 0 (PRelu)."""
    positive = b.op("ge", x, _constant_like(b, x, 0))
    return b.op("select", positive, x, b.op("mul", x, factor))


def thresholded_relu(b: Builder, x: Ref, alpha: float) -> Ref:
    above = b.op("gt", x, _constant_like(b, x, alpha))  # 0 for NaN, as ONNX writes it
    return b.op("select", above, x, _constant_like(b, x, 0))


def elu(b: Builder, x: Ref, alpha: float) -> Ref:
    below = b.op("mul", b.op("expm1", x), _constant_like(b, x, alpha))
    return b.op("select", b.op("gt", x, _constant_like(b, x, 0)), x, below)


def celu(b: Builder, x: Ref, alpha: float) -> Ref:
    grown = b.op("expm1", b.op("div", x, _constant_like(b, x, alpha)))
    below = b.op("mul", grown, _constant_like(b, x, alpha))
    zero = _constant_like(b, x, 0)
    return b.op("add", b.op("max", x, zero), b.op("min", below, zero))


def scaled_elu(b: Builder, x: Ref, alpha: float, gamma: float) -> Ref:
    return b.op("mul", elu(b, x, alpha), _constant_like(b, x, gamma))


def sigmoid(b: Builder, x: Ref) -> Ref:
    return b.op("sigmoid", x)


def hard_sigmoid(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    return b.op(
        "clip", emit_linear(b, x, alpha, beta), _constant_like(b, x, 0), _constant_like(b, x, 1)
    )


def tanh(b: Builder, x: Ref) -> Ref:
    return b.op("tanh", x)


def scaled_tanh(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    return b.op(
        "mul", b.op("tanh", b.op("mul", x, _constant_like(b, x, beta))), _constant_like(b, x, alpha)
    )


def softplus(b: Builder, x: Ref, steepness: float) -> Ref:
    steep = b.op("mul", x, _constant_like(b, x, steepness))
    return b.op("div", b.op("softplus", steep), _constant_like(b, x, steepness))


def softsign(b: Builder, x: Ref) -> Ref:
    return b.op("div", x, b.op("add", b.op("abs", x), _constant_like(b, x, 1)))


def emit_linear(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    scaled = b.op("mul", x, _constant_like(b, x, alpha))
    return scaled if beta == 0 else b.op("add", scaled, _constant_like(b, x, beta))


def gelu(b: Builder, x: Ref) -> Ref:
    return b.op("gelu", x)


def gelu_tanh(b: Builder, x: Ref) -> Ref:
    """x / 2 (1 + tanh u) as x sigmoid(2 u), which does not cancel where tanh u is near -1."""
    wide = _at_least(b, _widen(b, x), -24)
    cube = b.op(
        "mul", b.op("mul", wide, wide), b.op("mul", wide, _constant_like(b, wide, 0.044715))
    )
    argument = b.op("mul", b.op("add", wide, cube), _constant_like(b, wide, math.sqrt(8 / math.pi)))
    return _cast_like(b, b.op("mul", wide, b.op("sigmoid", argument)), x)


def swish(b: Builder, x: Ref, beta: float) -> Ref:
    return apply_gate(b, x, b.op("sigmoid", b.op("mul", x, _constant_like(b, x, beta))))


def apply_gate(b: Builder, x: Ref, gate: Ref) -> Ref:
    """x * gate; 0 where the gate is 0, also for an infinite x."""
    closed = b.op("eq", gate, _constant_like(b, gate, 0))
    return b.op("select", closed, gate, b.op("mul", x, gate))


def _at_least(b: Builder, x: Ref, low: float) -> Ref:
    """x, or `low` below it, where a gate is 0 already: the gate times -inf is not a number."""
    return b.op("max", x, _constant_like(b, x, low))


def _widen(b: Builder, x: Ref) -> Ref:
    """f16 and bf16 as f32, for formulas that round once."""
    return b.cast(x, DType.f32) if x.dtype.bits < 32 else x


def _cast_like(b: Builder, y: Ref, x: Ref) -> Ref:
    """y in the type of x."""
    return y if y.dtype is x.dtype else b.cast(y, x.dtype)


def hard_swish(b: Builder, x: Ref, alpha: float, beta: float) -> Ref:
    return apply_gate(b, x, hard_sigmoid(b, x, alpha, beta))


def mish(b: Builder, x: Ref) -> Ref:
    """x tanh(log(1 + e**x)) = x e (e + 2) / (e (e + 2) + 2) with e = h**2, h = e**(x / 2): e is
    denormal before the product is, and h is not."""
    wide = _widen(b, x)
    low = _at_least(b, wide, -110 if wide.dtype is DType.f32 else -760)
    h = b.op("exp", b.op("mul", low, _constant_like(b, wide, 0.5)))
    e = b.op("mul", h, h)
    more = b.op("add", e, _constant_like(b, wide, 2))
    below = b.op("add", b.op("mul", e, more), _constant_like(b, wide, 2))
    gated = b.op("mul", b.op("mul", low, h), b.op("div", b.op("mul", h, more), below))
    # The gate rounds to 1 in f64, too, before e overflows.
    large = b.op("gt", wide, _constant_like(b, wide, 20))
    return _cast_like(b, b.op("select", large, wide, gated), x)


def clip(b: Builder, x: Ref, low: float, high: float) -> Ref:
    """Limits of integers are rounded inwards and kept within the type."""
    if x.dtype.is_int:
        floor, ceiling = int(x.dtype.min), int(x.dtype.max)
        least = floor if low <= floor else math.ceil(min(low, ceiling))
        most = ceiling if high >= ceiling else math.floor(max(high, floor))
        return b.op("clip", x, b.const(least, x.dtype), b.const(most, x.dtype))
    return b.op("clip", x, _constant_like(b, x, low), _constant_like(b, x, high))


_A, _INF = "alpha", math.inf
ACTIVATIONS: dict[str, ActivationFormula] = {
    "identity": ActivationFormula(identity, on_integers=True),
    "relu": ActivationFormula(relu, on_integers=True),
    "leaky_relu": ActivationFormula(leaky_relu, ((_A, 0.01),)),
    "thresholded_relu": ActivationFormula(thresholded_relu, ((_A, 1.0),)),
    "parametrised_relu": ActivationFormula(leaky_relu, (("slope", 0.25),)),
    "elu": ActivationFormula(elu, ((_A, 1.0),)),
    "celu": ActivationFormula(celu, ((_A, 1.0),)),
    "scaled_elu": ActivationFormula(
        scaled_elu, ((_A, 1.67326319217681884765625), ("gamma", 1.05070102214813232421875))
    ),
    "sigmoid": ActivationFormula(sigmoid),
    "hard_sigmoid": ActivationFormula(hard_sigmoid, ((_A, 0.2), ("beta", 0.5))),
    "tanh": ActivationFormula(tanh),
    "scaled_tanh": ActivationFormula(scaled_tanh, ((_A, 1.0), ("beta", 0.5))),
    "softplus": ActivationFormula(softplus, (("steepness", 1.0),)),
    "softsign": ActivationFormula(softsign),
    "linear": ActivationFormula(emit_linear, ((_A, 1.0), ("beta", 0.0))),
    "gelu": ActivationFormula(gelu),
    "gelu_tanh": ActivationFormula(gelu_tanh),
    "swish": ActivationFormula(swish, (("beta", 1.0),)),
    "hard_swish": ActivationFormula(hard_swish, ((_A, 1 / 6), ("beta", 0.5))),
    "mish": ActivationFormula(mish),
    "clip": ActivationFormula(clip, (("min", -_INF), ("max", _INF)), on_integers=True),
}


def find_activation(name: str) -> ActivationFormula:
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
