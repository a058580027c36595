"""Vector log. x = 2**k m with m in [sqrt(1/2), sqrt 2), f = m - 1 exact, log x = k ln 2 + log1p f.

Coefficients: minimax (Remez, 60 decimal digits) fits weighted for the relative error of log1p f,
then rounded to the format.
"""

from __future__ import annotations

from ..llvmir.builder import Function
from ..llvmir.values import Value, number, vec
from .exp import exp
from .formats import INFINITY, SINGLE, Format, bits, format_of, horner

# log1p f = f - f**2/2 + f**3 P(f) on [sqrt(1/2) - 1, sqrt 2 - 1]: 2**-29.3.
_P_SINGLE = (
    0.3333331346511841,
    -0.2500016689300537,
    0.20002222061157227,
    -0.1665937304496765,
    0.1420963704586029,
    -0.12549546360969543,
    0.12107880413532257,
    -0.10917317867279053,
    0.053430840373039246,
)
# log((1 + s) / (1 - s)) = 2 s + s**3 R(s**2) with s = f / (2 + f), |s| <= 0.1716: 2**-59.3.
_R_DOUBLE = (
    0.6666666666666711,
    0.39999999999536345,
    0.2857142871975278,
    0.22222200601653863,
    0.18183469737856714,
    0.1531626214034103,
    0.14775457889107338,
)


def split_exponent(f: Function, x: Value) -> tuple[Value, Value]:
    """(k, m): x = 2**k m, m in [sqrt(1/2), sqrt 2), k as a float; for positive finite x.

    Denormals are scaled up first.
    """
    fmt = format_of(x)
    shift = fmt.mantissa + 2
    tiny = f.fcmp("olt", x, fmt.tiny)
    i = bits(f, f.select(tiny, f.fmul(x, 2.0**shift), x))
    i = f.sub(i, number(fmt.half_root_bits, i.type))
    k = f.ashr(i, number(fmt.mantissa, i.type))
    fraction = f.and_(i, number((1 << fmt.mantissa) - 1, i.type))
    m = f.bitcast(f.add(fraction, number(fmt.half_root_bits, i.type)), x.type)
    exponent = _to_float(f, k, fmt)
    return f.fsub(exponent, f.select(tiny, number(float(shift), x.type), 0.0)), m


def _to_float(f: Function, k: Value, fmt: Format) -> Value:
    """Small integers to floats by the magic addend: 64-bit ones have no instruction before
    AVX-512.
    """
    if fmt is SINGLE:
        return f.cast(k, fmt.element)
    wide = f.bitcast(f.add(k, number(fmt.magic_bits, k.type)), vec(fmt.element, k.lanes))
    return f.fsub(wide, fmt.magic)


def log(f: Function, x: Value) -> Value:
    """Natural logarithm, at most 0.9 ulp; denormals right, log(+-0) = -inf, NaN below zero."""
    k, m = split_exponent(f, x)
    y = _add_terms(f, k, f.fsub(m, 1.0), None)
    return _specials(f, x, y)


def log1p(f: Function, x: Value) -> Value:
    """log(1 + x), at most 1.0 ulp; keeps -0, -inf at -1, NaN below."""
    u = f.fadd(x, 1.0)
    # What the sum lost, in units of the mantissa: 1 + x = u + lost.
    k, m = split_exponent(f, u)
    small = f.fcmp("olt", f.fabs(x), 1.0)
    lost = f.select(small, f.fsub(x, f.fsub(u, 1.0)), f.fsub(1.0, f.fsub(u, x)))
    correction = f.fdiv(lost, u)
    y = _add_terms(f, k, f.fsub(m, 1.0), correction)
    y = _specials(f, u, y)
    # x - x**2 / 2 rounds to x below 2**-24 (2**-53) already.
    return f.select(f.fcmp("olt", f.fabs(x), 2.0 ** -(format_of(x).mantissa + 2)), x, y)


def softplus(f: Function, x: Value) -> Value:
    """log(1 + e**x) = max(x, 0) + log1p(e**-|x|), at most 1.8 ulp; no overflow."""
    tail = log1p(f, exp(f, f.fneg(f.fabs(x))))
    return f.fadd(f.max_or(0.0, x), tail)


def _add_terms(f: Function, k: Value, d: Value, more: Value | None) -> Value:
    """k ln 2 + log1p(d) + more, smallest parts first."""
    fmt = format_of(d)
    square = f.fmul(d, d)
    if fmt is SINGLE:
        low = f.fma(f.fmul(d, square), horner(f, d, _P_SINGLE), f.fmul(square, -0.5))
        low = f.fma(k, fmt.ln2_low, low)
        if more is not None:
            low = f.fadd(low, more)
        return f.fma(k, fmt.ln2_high, f.fadd(low, d))
    half = f.fmul(square, 0.5)
    s = f.fdiv(d, f.fadd(d, 2.0))
    z = f.fmul(s, s)
    rest = f.fmul(z, horner(f, z, _R_DOUBLE))
    # d - (half - s (half + rest)): the two leading terms carry no rounding error of s.
    low = f.fma(s, f.fadd(half, rest), f.fmul(k, fmt.ln2_low))
    if more is not None:
        low = f.fadd(low, more)
    return f.fma(k, fmt.ln2_high, f.fsub(d, f.fsub(half, low)))


def _specials(f: Function, x: Value, y: Value) -> Value:
    y = f.select(f.fcmp("oeq", x, INFINITY), x, y)
    y = f.select(f.fcmp("oeq", x, 0.0), number(-INFINITY, x.type), y)
    return f.select(f.fcmp("ult", x, 0.0), number(float("nan"), x.type), y)  # also NaN
