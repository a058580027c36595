"""Vector hyperbolic and inverse functions of f32 and f64.

They are rare in models, so they are composed of the f64 exp and log rather than fitted. f32 is
computed in f64 lanes and rounded once; f64 lies within 6 ulp, and takes another way where its
squares or exponentials would overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..llvmir.builder import Function
from ..llvmir.values import F32, F64, Value, number, vec
from .exp import exp, expm1
from .formats import INFINITY, NAN, SINGLE, Format, MathFunction, format_of, horner
from .log import log, log1p

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
# atan(t) / t of f64 by t**2 on [0, tan(pi/16)]: Taylor's.
_ATAN_DOUBLE = [(-1) ** k / (2 * k + 1) for k in range(14)]
_LN2 = math.log(2)
# sinh and cosh leave f32 at 89.4; below the other one, e**x of f64 is finite.
_MAX_SINGLE_ARGUMENT, _MAX_DOUBLE_ARGUMENT = 100.0, 709.0
# From here on asinh x and acosh x are log 2x; squares up to the other one are finite.
_MIN_FAR_ARGUMENT, _MAX_SQUARED_ARGUMENT = 2.0**400, 2.0**500


def _in_double(body: Callable[[Function, Value, Value, Format], Value]) -> MathFunction:
    """The function of f32 and f64 of a body that gets (f, x in f64, |x|, the format of x)."""

    def function(f: Function, x: Value) -> Value:
        fmt = format_of(x)
        wide = f.cast(x, F64) if fmt is SINGLE else x
        y = body(f, wide, f.fabs(wide), fmt)
        return f.cast(y, x.element) if fmt is SINGLE else y

    function.__name__, function.__doc__ = body.__name__, body.__doc__
    return function


@_in_double
def sinh(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """(m + m / (m + 1)) / 2 with m = e**|x| - 1; at most 0.51 ulp of f32."""
    m = expm1(f, f.min_or(_max_argument(fmt), a))
    near = f.fmul(f.fadd(m, f.fdiv(m, f.fadd(m, 1.0))), 0.5)
    return f.copysign(_or_half_exp(f, a, near, fmt), x)


@_in_double
def cosh(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """(e + 1 / e) / 2 with e = e**|x|; at most 0.51 ulp of f32."""
    e = exp(f, f.min_or(_max_argument(fmt), a))
    return _or_half_exp(f, a, f.fmul(f.fadd(e, f.fdiv(1.0, e)), 0.5), fmt)


def _max_argument(fmt: Format) -> float:
    return _MAX_SINGLE_ARGUMENT if fmt is SINGLE else _MAX_DOUBLE_ARGUMENT


def _or_half_exp(f: Function, a: Value, near: Value, fmt: Format) -> Value:
    """`near`, or, near the overflow of f64, e**a / 2 by its square root."""
    if fmt is SINGLE:
        return near
    half = exp(f, f.fmul(a, 0.5))
    far = f.fmul(f.fmul(half, 0.5), half)
    return f.select(f.fcmp("ogt", a, _MAX_DOUBLE_ARGUMENT - 1), far, near)


@_in_double
def asinh(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """log1p(a + a**2 / (1 + sqrt(a**2 + 1))); at most 0.51 ulp of f32."""
    b = a if fmt is SINGLE else f.min_or(_MAX_SQUARED_ARGUMENT, a)
    square = f.fmul(b, b)
    root = f.sqrt(f.fadd(square, 1.0))
    near = log1p(f, f.fadd(b, f.fdiv(square, f.fadd(root, 1.0))))
    if fmt is SINGLE:
        return f.copysign(f.select(f.fcmp("oeq", a, INFINITY), a, near), x)
    return f.copysign(_or_log_of_double(f, a, near), x)


@_in_double
def acosh(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """log1p(t + sqrt(t (x + 1))), t = x - 1; NaN below 1; at most 0.51 ulp of f32."""
    b = x if fmt is SINGLE else f.min_or(_MAX_SQUARED_ARGUMENT, x)
    t = f.fsub(b, 1.0)
    above = f.fadd(b, 1.0) if fmt is SINGLE else f.fadd(t, 2.0)
    y = log1p(f, f.fadd(t, f.sqrt(f.fmul(t, above))))
    if fmt is not SINGLE:
        y = _or_log_of_double(f, x, y)
    return f.select(f.fcmp("ult", x, 1.0), number(NAN, x.type), y)


def _or_log_of_double(f: Function, a: Value, near: Value) -> Value:
    """`near`, or log 2a of an a whose square overflows f64."""
    return f.select(f.fcmp("ogt", a, _MIN_FAR_ARGUMENT), f.fadd(log(f, a), _LN2), near)


@_in_double
def atanh(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """log1p(2 a / (1 - a)) / 2; infinite at +-1, NaN beyond; at most 0.51 ulp of f32."""
    y = log1p(f, f.fdiv(f.fadd(a, a), f.fsub(1.0, a)))
    return f.copysign(f.fmul(y, 0.5), x)


@_in_double
def atan(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """atan x, at most 0.51 ulp of f32."""
    return f.copysign(_atan(f, a, fmt), x)


@_in_double
def asin(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """atan(a / sqrt((1 - a) (1 + a))); NaN beyond +-1; at most 0.51 ulp of f32."""
    cosine = f.sqrt(f.fmul(f.fsub(1.0, a), f.fadd(a, 1.0)))
    return f.copysign(_atan(f, f.fdiv(a, cosine), fmt), x)


@_in_double
def acos(f: Function, x: Value, a: Value, fmt: Format) -> Value:
    """2 atan(sqrt((1 - x) / (1 + x))); NaN beyond +-1; at most 0.51 ulp of f32."""
    half = _atan(f, f.sqrt(f.fdiv(f.fsub(1.0, x), f.fadd(x, 1.0))), fmt)
    return f.fadd(half, half)


def _atan(f: Function, a: Value, fmt: Format) -> Value:
    """atan of a >= 0 (or NaN) in f64 lanes, good to the precision of `fmt`."""
    return _atan_single(f, a) if fmt is SINGLE else _atan_double(f, a)


def _atan_single(f: Function, a: Value) -> Value:
    """atan of a >= 0 (or NaN) in f64 lanes to 2**-39, by one division.

    Up to tan(pi/8) as it is, up to tan(3 pi/8) as pi/4 + atan((a-1)/(a+1)), else as
    pi/2 - atan(1/a).
    """
    middle = f.fcmp("ogt", a, 0.41421356237309503)
    high = f.fcmp("ogt", a, 2.414213562373095)
    one = number(1.0, a.type)
    above = f.select(high, number(-1.0, a.type), f.select(middle, f.fsub(a, 1.0), a))
    below = f.select(high, a, f.select(middle, f.fadd(a, 1.0), one))
    base = f.select(
        high, number(math.pi / 2, a.type), f.select(middle, number(math.pi / 4, a.type), 0.0)
    )
    t = f.fdiv(above, below)
    return f.fma(t, horner(f, f.fmul(t, t), _ATAN), base)


def _atan_double(f: Function, a: Value) -> Value:
    """atan of a >= 0 (or NaN): c + atan((b - tan c) / (1 + b tan c)), b = a or 1 / a, c in 0, pi/8,
    pi/4."""
    steep = f.fcmp("ogt", a, 1.0)
    b = f.select(steep, f.fdiv(1.0, a), a)
    zero = number(0.0, a.type)
    tangent, base, low = zero, zero, zero
    for limit, c in (
        (math.tan(math.pi / 16), math.pi / 8),
        (math.tan(3 * math.pi / 16), math.pi / 4),
    ):
        beyond = f.fcmp("ogt", b, limit)
        tangent = f.select(
            beyond, number(1.0 if c == math.pi / 4 else math.sqrt(2) - 1, a.type), tangent
        )
        base = f.select(beyond, number(c, a.type), base)
        # What the rounded pi leaves out, 1.2e-16 of it.
        low = f.select(beyond, number(c / math.pi * 1.2246467991473532e-16, a.type), low)
    t = f.fdiv(f.fsub(b, tangent), f.fma(b, tangent, 1.0))
    z = f.fmul(t, t)
    rest = f.fma(f.fmul(t, z), horner(f, z, _ATAN_DOUBLE[1:]), low)
    y = f.fadd(base, f.fadd(t, rest))
    turned = f.fadd(f.fsub(math.pi / 2, y), 6.123233995736766e-17)
    return f.select(steep, turned, y)


def atan2(f: Function, y: Value, x: Value) -> Value:
    """The angle of (x, y), C's special cases; within 3 ulp."""
    ax, ay = f.fabs(x), f.fabs(y)
    steep = f.fcmp("ogt", ay, ax)
    small, large = f.select(steep, ax, ay), f.select(steep, ay, ax)
    t = f.fdiv(small, large)
    t = f.select(f.fcmp("oeq", large, 0.0), number(0.0, x.type), t)
    t = f.select(f.fcmp("oeq", small, INFINITY), number(1.0, x.type), t)
    angle = atan(f, t)
    angle = f.select(steep, f.fsub(math.pi / 2, angle), angle)
    bits = vec("i32" if x.element == F32 else "i64", x.lanes)
    left = f.icmp("slt", f.bitcast(x, bits), number(0, bits))
    angle = f.copysign(f.select(left, f.fsub(math.pi, angle), angle), y)
    return f.select(f.fcmp("uno", x, y), number(NAN, x.type), angle)
