"""The vector mathematics by name: what elementwise kernels look up.

Every function takes float vectors of any lane count, or scalars; f32 and f64 in their own
precision, half types through f32. A lane's result depends on that lane alone and is the same for
every lane count of an instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..llvmir.builder import Function
from ..llvmir.values import BF16, F16, F32, Value
from . import erf as math_erf
from . import exp as math_exp
from . import gelu as math_gelu
from . import hyperbolic as math_hyper
from . import log as math_log
from . import pow as math_pow
from . import trig as math_trig
from .formats import MathFunction, widen_function

exp: MathFunction = widen_function(math_exp.exp)
exp2: MathFunction = widen_function(math_exp.exp2)
expm1: MathFunction = widen_function(math_exp.expm1)
sigmoid: MathFunction = widen_function(math_exp.sigmoid)
tanh: MathFunction = widen_function(math_exp.tanh)
log: MathFunction = widen_function(math_log.log)
log1p: MathFunction = widen_function(math_log.log1p)
softplus: MathFunction = widen_function(math_log.softplus)
erf: MathFunction = widen_function(math_erf.erf)
gelu: MathFunction = widen_function(math_gelu.gelu)


def _sqrt(f: Function, x: Value) -> Value:
    """Correctly rounded; NaN below zero, -0 for -0."""
    return f.sqrt(x)


sqrt: MathFunction = widen_function(_sqrt)


def pow(f: Function, x: Value, y: Value) -> Value:
    """x**y of f32 or half lanes, C's special cases, at most 0.51 ulp of f32."""
    if x.element in (F16, BF16):
        return f.cast(math_pow.pow_(f, f.cast(x, F32), f.cast(y, F32)), x.element)
    return math_pow.pow_(f, x, y)


# Functions of one argument, of f32, f64 and half lanes.
UNARY: Final[dict[str, MathFunction]] = {
    "erf": erf,
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "gelu": gelu,
    "log": log,
    "log1p": log1p,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "sqrt": sqrt,
    "tanh": tanh,
}
# Functions of one argument, of f32 and half lanes; TypeError for f64.
SINGLE_ONLY: Final[dict[str, MathFunction]] = {
    "acos": widen_function(math_hyper.acos),
    "acosh": widen_function(math_hyper.acosh),
    "asin": widen_function(math_hyper.asin),
    "asinh": widen_function(math_hyper.asinh),
    "atan": widen_function(math_hyper.atan),
    "atanh": widen_function(math_hyper.atanh),
    "cos": widen_function(math_trig.cos),
    "cosh": widen_function(math_hyper.cosh),
    "sin": widen_function(math_trig.sin),
    "sinh": widen_function(math_hyper.sinh),
    "tan": widen_function(math_trig.tan),
}
MATH: Final[dict[str, Callable[..., Any]]] = {**UNARY, **SINGLE_ONLY, "pow": pow}
