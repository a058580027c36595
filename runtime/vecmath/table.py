"""The vector mathematics by name, of f32, f64 and half lanes: what kernels look up.

Every function takes float vectors of any lane count, or scalars; f32 and f64 in their own
precision, half types through f32 (but fmod and atan2, which programs compute in f32). A lane's
result depends on that lane alone and is the same for every lane count of an instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..llvmir.builder import Function
from ..llvmir.values import Value
from . import erf, exp, gelu, hyperbolic, log, pow, remainder, trig
from .formats import MathFunction, widen_function


def _sqrt(f: Function, x: Value) -> Value:
    """Correctly rounded; NaN below zero, -0 for -0."""
    return f.sqrt(x)


# Functions of one argument.
UNARY: Final[dict[str, MathFunction]] = {
    name: widen_function(function)
    for name, function in {
        "acos": hyperbolic.acos,
        "acosh": hyperbolic.acosh,
        "asin": hyperbolic.asin,
        "asinh": hyperbolic.asinh,
        "atan": hyperbolic.atan,
        "atanh": hyperbolic.atanh,
        "cos": trig.cos,
        "cosh": hyperbolic.cosh,
        "erf": erf.erf,
        "exp": exp.exp,
        "exp2": exp.exp2,
        "expm1": exp.expm1,
        "gelu": gelu.gelu,
        "log": log.log,
        "log1p": log.log1p,
        "sigmoid": exp.sigmoid,
        "sin": trig.sin,
        "sinh": hyperbolic.sinh,
        "softplus": log.softplus,
        "sqrt": _sqrt,
        "tan": trig.tan,
        "tanh": exp.tanh,
    }.items()
}
# Functions of two.
BINARY: Final[dict[str, Callable[[Function, Value, Value], Value]]] = {
    "atan2": hyperbolic.atan2,
    "fmod": remainder.fmod,
    "pow": pow.pow,
}
MATH: Final[dict[str, Callable[..., Value]]] = {**UNARY, **BINARY}
