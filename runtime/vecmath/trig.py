"""Vector sin, cos, tan of f32 and f64: f32 is computed in f64 lanes and rounded once.

Coefficients of f32: minimax (Remez, 60 decimal digits), rounded to f64; of f64: Taylor's, which
lie within a few ulp on [0, pi/4].
"""

from __future__ import annotations

import math

from ..llvmir.builder import Function
from ..llvmir.values import I1, Value, number
from .formats import SINGLE, Format, format_of, horner
from .trig_reduction import reduce_argument

# sin r / r and cos r by r**2 on [0, pi/4]: 2**-47.6, 2**-43.8.
_SIN = (
    0.9999999999999954,
    -0.16666666666614424,
    0.008333333323575413,
    -0.00019841263156593662,
    2.7555244805336528e-06,
    -2.475474903370466e-08,
)
_COS = (
    0.9999999999999343,
    -0.49999999999270545,
    0.041666666533585445,
    -0.0013888879928873367,
    2.479884312006599e-05,
    -2.7167900314571973e-07,
)
_SIN_DOUBLE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(10)]
_COS_DOUBLE = [(-1) ** k / math.factorial(2 * k) for k in range(10)]


def sin(f: Function, x: Value) -> Value:
    """sin x of every finite x, of f32 at most 0.51 ulp; keeps -0; NaN at infinity."""
    quadrant, r = reduce_argument(f, x)
    return _round(f, x, _wave(f, quadrant, r, format_of(x)), odd=True)


def cos(f: Function, x: Value) -> Value:
    """cos x of every finite x, of f32 at most 0.51 ulp; NaN at infinity."""
    quadrant, r = reduce_argument(f, x)
    quadrant = f.add(quadrant, number(1, quadrant.type))
    return _round(f, x, _wave(f, quadrant, r, format_of(x)), odd=False)


def tan(f: Function, x: Value) -> Value:
    """tan x of every finite x, of f32 at most 0.51 ulp; keeps -0; NaN at infinity."""
    quadrant, r = reduce_argument(f, x)
    sine, cosine = _sin_cos(f, r, format_of(x))
    odd = f.cast(quadrant, I1)
    above = f.select(odd, f.fneg(cosine), sine)
    return _round(f, x, f.fdiv(above, f.select(odd, sine, cosine)), odd=True)


def _round(f: Function, x: Value, y: Value, *, odd: bool) -> Value:
    """y, computed in f64, in x's format. `odd`: of a function that keeps -0."""
    if format_of(x) is SINGLE:
        return f.cast(y, x.element)
    return f.select(f.fcmp("oeq", x, 0.0), x, y) if odd else y


def _sin_cos(f: Function, r: Value, fmt: Format) -> tuple[Value, Value]:
    """sin r and cos r for |r| <= pi/4, good to the precision of `fmt`."""
    z = f.fmul(r, r)
    if fmt is SINGLE:
        return f.fmul(r, horner(f, z, _SIN)), horner(f, z, _COS)
    sine = f.fma(f.fmul(r, z), horner(f, z, _SIN_DOUBLE[1:]), r)
    return sine, f.fma(z, horner(f, z, _COS_DOUBLE[1:]), 1.0)


def _wave(f: Function, quadrant: Value, r: Value, fmt: Format) -> Value:
    """sin(quadrant pi/2 + r) in f64."""
    sine, cosine = _sin_cos(f, r, fmt)
    y = f.select(f.cast(quadrant, I1), cosine, sine)
    second = f.cast(f.lshr(quadrant, number(1, quadrant.type)), I1)
    return f.select(second, f.fneg(y), y)
