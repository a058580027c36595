"""Vector exp, sigmoid, tanh. One reduction serves them: x = n ln 2 + r, |r| <= ln 2 / 2.

Coefficients: minimax (Remez, 60 decimal digits) fits of q in e**r = 1 + r + r**2 q(r), weighted
for the relative error of e**r, then rounded to the format, lowest power first.
"""

from __future__ import annotations

from ..llvmir.builder import Function
from ..llvmir.values import F32, I16, I32, Value, bits_of, integer, number
from .formats import (
    LOG2E,
    SINGLE,
    Format,
    format_of,
    horner,
    power_of_two,
    round_scaled,
)

# Error of the fit relative to e**r: 2**-28.2 and 2**-60.3.
_Q_SINGLE = (
    0.4999999403953552,
    0.16666516661643982,
    0.04166810214519501,
    0.008369192481040955,
    0.0013838905142620206,
)
_Q_DOUBLE = (
    0.5,
    0.16666666666666682,
    0.041666666666666095,
    0.008333333333317027,
    0.00138888888891155,
    0.00019841269896399223,
    2.4801586926909572e-05,
    2.755723484803557e-06,
    2.755758158647497e-07,
    2.5112041329674253e-08,
    2.0826715253141862e-09,
)


def reduced_expm1(f: Function, x: Value) -> tuple[Value, Value, Value]:
    """(p, n, low): e**x = 2**n (1 + p); n as float, low as integer lanes.

    |p| < 0.42. x must be finite and of moderate size (|x| < 2**12).
    """
    fmt = format_of(x)
    n, low = round_scaled(f, x, LOG2E)
    r = f.fma(n, -fmt.ln2_high, x)
    r = f.fma(n, -fmt.ln2_low, r)
    q = horner(f, r, _Q_SINGLE if fmt is SINGLE else _Q_DOUBLE)
    return f.fma(f.fmul(r, r), q, r), n, low


def exp(f: Function, x: Value) -> Value:
    """e**x, at most 1.1 ulp, denormal results included; +inf and 0 beyond the range."""
    fmt = format_of(x)
    # Beyond these bounds the answer is infinity and zero all the same; NaN passes through.
    low, high = (-105.0, 89.0) if fmt is SINGLE else (-746.0, 710.0)
    p, n, k = reduced_expm1(f, f.clamp(x, low, high))
    return scale_by_power(f, f.fadd(p, 1.0), n, k, fmt)


def exp_falling(f: Function, x: Value) -> Value:
    """e**x for x <= 0 or NaN, a softmax's exponentials: the bits of exp, and 0 where that comes
    near the smallest normal number or below. Sums of them never meet a denormal."""
    fmt = format_of(x)
    lowest = -87.3365 if fmt is SINGLE else -708.3964  # a bit above ln 2**-126 and ln 2**-1022
    p, n, k = reduced_expm1(f, f.max_or(lowest, x))
    y = f.fadd(p, 1.0)
    y = _scalef(f, y, n) if _has_scalef(f, y) else f.fmul(y, power_of_two(f, k, fmt))
    return f.select(f.fcmp("olt", x, lowest), number(0.0, x.type), y)


def exp_of_sum(f: Function, x: Value, more: Value, factor: Value) -> Value:
    """e**(x + more) * factor for x <= 0 and a smaller `more`, rounded once where the result is
    denormal; |factor| is near 1, x at least -120 (f64: -770)."""
    fmt = format_of(x)
    n, k = round_scaled(f, f.fadd(x, more), LOG2E)
    r = f.fma(n, -fmt.ln2_high, x)
    r = f.fadd(f.fma(n, -fmt.ln2_low, r), more)
    q = horner(f, r, _Q_SINGLE if fmt is SINGLE else _Q_DOUBLE)
    p = f.fma(f.fmul(r, r), q, r)
    return scale_by_power(f, f.fma(p, factor, factor), n, k, fmt)


def scale_by_power(f: Function, y: Value, n: Value, k: Value, fmt: Format) -> Value:
    """y * 2**n for y near 1, rounded once where the result is denormal; overflows to infinity."""
    if _has_scalef(f, y):
        return _scalef(f, y, n)
    half = f.ashr(k, number(1, k.type))
    part = f.fmul(y, power_of_two(f, half, fmt))
    return f.fmul(part, power_of_two(f, f.sub(k, half), fmt))


def _has_scalef(f: Function, y: Value) -> bool:
    return f.target.has("avx512vl") and y.lanes * bits_of(y.type) in (128, 256, 512)


def _scalef(f: Function, y: Value, n: Value) -> Value:
    """The instruction that does exactly that; the same bits."""
    width = y.lanes * bits_of(y.type)
    kind = "ps" if y.element == F32 else "pd"
    mask = integer(-1, I16 if y.lanes == 16 else "i8")
    args = [y, n, number(0.0, y.type), mask]
    if width == 512:
        args.append(integer(4, I32))  # the current rounding mode
    return f.call(f"llvm.x86.avx512.mask.scalef.{kind}.{width}", y.type, *args)


def sigmoid(f: Function, x: Value) -> Value:
    """1 / (1 + e**-x), at most 2.4 ulp (f64: 2.0), right down to denormal results."""
    e = exp(f, f.fneg(f.fabs(x)))
    # e**-|x| <= 1 is the numerator for negative x: the small result keeps its relative precision.
    above = f.select(f.fcmp("ogt", x, 0.0), number(1.0, x.type), e)
    return _divide_exact(f, above, e, 1.0)


def tanh(f: Function, x: Value) -> Value:
    """tanh x, at most 2.6 ulp (f64: 2.3); exact signs of zero, +-1 at infinity.

    m / (m + 2) with m = e**(2|x|) - 1: no cancellation anywhere.
    """
    m = _expm1_within(f, *_double_clamped(f, x))
    return f.copysign(_divide_exact(f, m, m, 2.0), x)


def _double_clamped(f: Function, x: Value) -> tuple[Value, Format]:
    """2|x| with |x| limited to where tanh rounds to 1 (9.02 in f32, 19.07 in f64)."""
    fmt = format_of(x)
    a = f.min_or(number(9.1 if fmt is SINGLE else 20.0, x.type), f.fabs(x))
    return f.fadd(a, a), fmt


def _expm1_within(f: Function, x: Value, fmt: Format) -> Value:
    """e**x - 1 where 2**n is a normal number."""
    p, _, k = reduced_expm1(f, x)
    scale = power_of_two(f, k, fmt)
    return f.fma(p, scale, f.fsub(scale, 1.0))


def _divide_exact(f: Function, above: Value, x: Value, c: float) -> Value:
    """above / (x + c) for x >= 0; in f64 the divisor's rounding is made good."""
    below = f.fadd(x, c)
    quotient = f.fdiv(above, below)
    if format_of(x) is SINGLE:
        return quotient
    lost = f.fsub(x, f.fsub(below, c))
    return f.fsub(quotient, f.fmul(quotient, f.fdiv(lost, below)))


def expm1(f: Function, x: Value) -> Value:
    """e**x - 1, at most 2.0 ulp; keeps -0, -1 at -inf."""
    fmt = format_of(x)
    low, high = (-20.0, 88.8) if fmt is SINGLE else (-40.0, 709.9)
    inside = f.clamp(x, low, high)
    p, _, k = reduced_expm1(f, inside)
    # Half the scale twice: 2**128 (2**1024) itself is not a number, its product may be one.
    half = power_of_two(f, f.sub(k, number(1, k.type)), fmt)
    y = f.fma(p, half, f.fsub(half, 0.5))
    y = f.fadd(y, y)
    # x itself where it is tiny (for -0 and denormals), infinity where the bound cut it off.
    y = f.select(f.fcmp("olt", f.fabs(x), 2.0 ** -(fmt.mantissa + 2)), x, y)
    return f.select(f.fcmp("ogt", x, high), number(float("inf"), x.type), y)


def exp2(f: Function, x: Value) -> Value:
    """2**x, at most 1.1 ulp; exact for integers inside the range."""
    fmt = format_of(x)
    low, high = (-151.0, 129.0) if fmt is SINGLE else (-1076.0, 1025.0)
    x = f.clamp(x, low, high)
    n, k = round_scaled(f, x, 1.0)
    r = f.fmul(f.fsub(x, n), _LN2)
    q = horner(f, r, _Q_SINGLE if fmt is SINGLE else _Q_DOUBLE)
    return scale_by_power(f, f.fadd(f.fma(f.fmul(r, r), q, r), 1.0), n, k, fmt)


_LN2 = 0.6931471805599453
