"""Vector hyperbolic and inverse functions for f32, computed in f64 lanes and rounded once.

They are rare in models, so they are composed of the f64 exp and log rather than fitted.
"""

from __future__ import annotations

from collections.abc import Callable

from ..llvmir.builder import Function
from ..llvmir.values import F32, F64, Value, number
from .exp import exp, expm1
from .formats import INFINITY, MathFunction, horner
from .log import log1p

# atan(t) / t by t**2 on [0, tan(pi/8)]: 2**-40.3 (Remez, 60 decimal digits, rounded to f64).
_ATAN = (
    0.9999999999992771,
    -0.3333333327871361,
    0.199999932186872,
    -0.1428539228390912,
    0.11103551692974566,
    -0.08993358093621885,
    0.0697759047792734,
    -0.03771128411854686,
)
_PI = 3.141592653589793
_MAX_ARGUMENT = 100.0  # sinh and cosh leave f32 at 89.4


def _in_double(body: Callable[[Function, Value, Value], Value]) -> MathFunction:
    """f32 function of a body that gets (f, x in f64, |x|)."""

    def function(f: Function, x: Value) -> Value:
        if x.element != F32:
            raise TypeError(f"{body.__name__} of {x.type}: only float")
        wide = f.cast(x, F64)
        return f.cast(body(f, wide, f.fabs(wide)), F32)

    function.__name__, function.__doc__ = body.__name__, body.__doc__
    return function


@_in_double
def sinh(f: Function, x: Value, a: Value) -> Value:
    """(m + m / (m + 1)) / 2 with m = e**|x| - 1; at most 0.51 ulp."""
    m = expm1(f, f.min_or(_MAX_ARGUMENT, a))
    return f.copysign(f.fmul(f.fadd(m, f.fdiv(m, f.fadd(m, 1.0))), 0.5), x)


@_in_double
def cosh(f: Function, x: Value, a: Value) -> Value:
    """(e + 1 / e) / 2 with e = e**|x|; at most 0.51 ulp."""
    e = exp(f, f.min_or(_MAX_ARGUMENT, a))
    return f.fmul(f.fadd(e, f.fdiv(1.0, e)), 0.5)


@_in_double
def asinh(f: Function, x: Value, a: Value) -> Value:
    """log1p(a + a**2 / (1 + sqrt(a**2 + 1))); at most 0.51 ulp."""
    square = f.fmul(a, a)
    root = f.sqrt(f.fadd(square, 1.0))
    y = log1p(f, f.fadd(a, f.fdiv(square, f.fadd(root, 1.0))))
    return f.copysign(f.select(f.fcmp("oeq", a, INFINITY), a, y), x)


@_in_double
def acosh(f: Function, x: Value, a: Value) -> Value:
    """log1p(t + sqrt(t (x + 1))), t = x - 1; NaN below 1; at most 0.51 ulp."""
    t = f.fsub(x, 1.0)
    y = log1p(f, f.fadd(t, f.sqrt(f.fmul(t, f.fadd(x, 1.0)))))
    return f.select(f.fcmp("ult", x, 1.0), number(float("nan"), x.type), y)


@_in_double
def atanh(f: Function, x: Value, a: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2; infinite at +-1, NaN beyond; at most 0.51 ulp."""
    y = log1p(f, f.fdiv(f.fadd(a, a), f.fsub(1.0, a)))
    return f.copysign(f.fmul(y, 0.5), x)


@_in_double
def atan(f: Function, x: Value, a: Value) -> Value:
    """atan x, at most 0.51 ulp."""
    return f.copysign(_atan(f, a), x)


@_in_double
def asin(f: Function, x: Value, a: Value) -> Value:
    """atan(a / sqrt((1 - a) (1 + a))); NaN beyond +-1; at most 0.51 ulp."""
    cosine = f.sqrt(f.fmul(f.fsub(1.0, a), f.fadd(a, 1.0)))
    return f.copysign(_atan(f, f.fdiv(a, cosine)), x)


@_in_double
def acos(f: Function, x: Value, a: Value) -> Value:
    """2 atan(sqrt((1 - x) / (1 + x))); NaN beyond +-1; at most 0.51 ulp."""
    half = _atan(f, f.sqrt(f.fdiv(f.fsub(1.0, x), f.fadd(x, 1.0))))
    return f.fadd(half, half)


def _atan(f: Function, a: Value) -> Value:
    """atan of a >= 0 (or NaN) in f64 lanes to 2**-39, by one division.

    Up to tan(pi/8) as it is, up to tan(3 pi/8) as pi/4 + atan((a-1)/(a+1)), else as
    pi/2 - atan(1/a).
    """
    middle = f.fcmp("ogt", a, 0.41421356237309503)
    high = f.fcmp("ogt", a, 2.414213562373095)
    one = number(1.0, a.type)
    above = f.select(high, number(-1.0, a.type), f.select(middle, f.fsub(a, 1.0), a))
    below = f.select(high, a, f.select(middle, f.fadd(a, 1.0), one))
    base = f.select(high, number(_PI / 2, a.type), f.select(middle, number(_PI / 4, a.type), 0.0))
    t = f.fdiv(above, below)
    return f.fma(t, horner(f, f.fmul(t, t), _ATAN), base)
