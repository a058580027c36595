"""The vector mathematics by name: what elementwise kernels look up.

Every function takes float vectors of any lane count, or scalars; f32 and f64 in their own
precision, half types through f32. A lane's result depends on that lane alone and is the same for
every lane count of an instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .emit import Function
from .formats import MathFunction, widened
from .math_erf import erf as _erf
from .math_exp import exp as _exp
from .math_exp import exp2 as _exp2
from .math_exp import expm1 as _expm1
from .math_exp import sigmoid as _sigmoid
from .math_exp import tanh as _tanh
from .math_log import log as _log
from .math_log import log1p as _log1p
from .math_log import softplus as _softplus
from .math_pow import pow_ as _pow
from .values import BF16, F16, F32, Value

exp: MathFunction = widened(_exp)
exp2: MathFunction = widened(_exp2)
expm1: MathFunction = widened(_expm1)
log1p: MathFunction = widened(_log1p)
softplus: MathFunction = widened(_softplus)
sigmoid: MathFunction = widened(_sigmoid)
tanh: MathFunction = widened(_tanh)
log: MathFunction = widened(_log)
erf: MathFunction = widened(_erf)
sqrt: MathFunction = widened(lambda f, x: f.sqrt(x))


def pow(f: Function, x: Value, y: Value) -> Value:
    """x**y of f32 or half lanes, C's special cases, at most 0.51 ulp of f32."""
    if x.element in (F16, BF16):
        return f.cast(_pow(f, f.cast(x, F32), f.cast(y, F32)), x.element)
    return _pow(f, x, y)


MATH: Final[dict[str, Callable[..., Any]]] = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "softplus": softplus,
    "tanh": tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "sqrt": sqrt,
    "pow": pow,
}
