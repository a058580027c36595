"""Vector pow. f32 is computed in f64 lanes as 2**(y log2 |x|) and rounded once at the end; f64 by
pairs of f64.

Of f32, y log2|x| goes up to 150, so log2 must be good to 2**-35: f64 gives that at two vectors
per f32 vector, cheaper than pairs of f32. Coefficients: minimax (Remez, 60 decimal digits), rounded
to f64.
"""

from __future__ import annotations

from ..llvmir.builder import Function
from ..llvmir.values import BF16, F16, F32, F64, I1, Value, number
from .exp import exp
from .formats import (
    DOUBLE,
    INFINITY,
    SINGLE,
    bits,
    format_of,
    horner,
    power_of_two,
    round_scaled,
)
from .log import split_exponent

# log2(1 + f) / f on [sqrt(1/2) - 1, sqrt 2 - 1]: 2**-38.5, relative.
_LOG2 = (
    1.4426950408865806,
    -0.7213475203275763,
    0.48089834880209154,
    -0.36067379313403974,
    0.2885387957100156,
    -0.24044643347597586,
    0.2061071242103028,
    -0.18043676026511465,
    0.16021666673372278,
    -0.14249847904610308,
    0.13027529460328946,
    -0.13462987492436101,
    0.13251451446241108,
    -0.06974133833589059,
)
# 2**r on [-1/2, 1/2]: 2**-34.5.
_EXP2 = (
    0.9999999999615771,
    0.6931471807287504,
    0.24022651198952308,
    0.05550410352909419,
    0.009618027153264937,
    0.0013333922737418437,
    0.00015469322362729574,
    1.5201934721579039e-05,
)


def pow(f: Function, x: Value, y: Value) -> Value:
    """x**y with C's special cases: x**0 = 1 and 1**y = 1 even for NaN, negative x with whole y gets
    its sign, with other y NaN. f32: at most 0.51 ulp, half types through f32; f64: within 2 ulp for
    results between 1e-30 and 1e30, 12 at the ends of the range."""
    if x.element in (F16, BF16):
        return f.cast(_pow_single(f, f.cast(x, F32), f.cast(y, F32)), x.element)
    return _pow_single(f, x, y) if format_of(x) is SINGLE else _pow_double(f, x, y)


def _pow_single(f: Function, x: Value, y: Value) -> Value:
    """x**y of f32 lanes with C's special cases: x**0 = 1 and 1**y = 1 even for NaN, negative x
    with whole y gets its sign, with other y NaN. Results that f32 holds exactly are exact.
    """
    wide_x, wide_y = f.cast(x, F64), f.cast(y, F64)
    one = number(1.0, wide_x.type)
    a = f.fabs(wide_x)

    # f32 denormals are normal in f64; zero and infinity get their logarithms by hand.
    exponent, m = split_exponent(f, a)
    d = f.fsub(m, 1.0)
    log2 = f.fma(d, horner(f, d, _LOG2), exponent)
    log2 = f.select(f.fcmp("oeq", a, 0.0), number(-INFINITY, a.type), log2)
    log2 = f.select(f.fcmp("oeq", a, INFINITY), a, log2)

    # +-300 is beyond f32's range on both sides; NaN passes.
    t = f.clamp(f.fmul(wide_y, log2), -300.0, 300.0)
    n, k = round_scaled(f, t, 1.0)
    power = f.fmul(horner(f, f.fsub(t, n), _EXP2), power_of_two(f, k, DOUBLE))

    integral, odd = _parity_single(f, wide_y)
    negative = f.and_(odd, f.icmp("slt", bits(f, wide_x), 0))
    power = f.select(negative, f.fneg(power), power)
    fractional = f.not_(integral)
    below = f.fcmp("olt", wide_x, 0.0)
    finite = f.fcmp("ogt", wide_x, -INFINITY)
    wrong = f.and_(below, fractional)
    wrong = f.and_(wrong, finite)
    power = f.select(wrong, number(float("nan"), power.type), power)
    # NaN bases or exponents arrive here as NaN through the product, except where C says 1.
    power = f.select(f.fcmp("uno", wide_x, wide_y), f.fadd(wide_x, wide_y), power)
    minus_one = f.fcmp("oeq", a, 1.0)
    endless = f.fcmp("oeq", f.fabs(wide_y), INFINITY)
    unit = f.and_(minus_one, endless)
    unit = f.or_(unit, f.fcmp("oeq", wide_x, 1.0))
    unit = f.or_(unit, f.fcmp("oeq", wide_y, 0.0))
    return f.cast(f.select(unit, one, power), F32)


def _parity_single(f: Function, y: Value) -> tuple[Value, Value]:
    """(y is an integer, y is odd). f32 values from 2**24 on are even."""
    large = f.fcmp("oge", f.fabs(y), 2.0**24)
    shifted = f.fadd(y, DOUBLE.magic)
    integral = f.fcmp("oeq", f.fsub(shifted, DOUBLE.magic), y)
    low = f.cast(bits(f, shifted), I1)
    small = f.not_(large)
    odd = f.and_(integral, low)
    odd = f.and_(odd, small)
    return f.or_(integral, large), odd


def _pow_double(f: Function, x: Value, y: Value) -> Value:
    """x**y = e**(y log |x|), the logarithm and the product as pairs of f64; C's special cases.

    Within 2 ulp for results between 1e-30 and 1e30, 12 at the ends of the range.
    """
    a = f.fabs(x)
    k, m = split_exponent(f, a)
    high, low = _log_pair(f, k, m)
    product = f.fmul(y, high)
    rest = f.fadd(_product_rest(f, y, high, product), f.fmul(y, low))
    tame = f.fcmp("olt", f.fabs(product), 2.0**11)
    e = exp(f, product)
    power = f.select(f.and_(tame, f.fcmp("olt", e, INFINITY)), f.fma(e, rest, e), e)
    one, endless = number(1.0, x.type), f.fcmp("oeq", f.fabs(y), INFINITY)

    # Bases without a logarithm, and infinite exponents: 0 or infinity by which side of 1.
    up = f.fcmp("ogt", y, 0.0)
    large = f.fcmp("ogt", a, 1.0)
    extreme = f.or_(f.or_(endless, f.fcmp("oeq", a, 0.0)), f.fcmp("oeq", a, INFINITY))
    grows = f.not_(f.xor(up, large))
    power = f.select(extreme, f.select(grows, number(INFINITY, x.type), 0.0), power)

    integral, odd = _parity_double(f, y)
    minus = f.and_(odd, f.icmp("slt", bits(f, x), number(0, bits(f, x).type)))
    power = f.select(minus, f.fneg(power), power)
    wrong = f.and_(f.fcmp("olt", x, 0.0), f.and_(f.not_(integral), f.fcmp("olt", a, INFINITY)))
    power = f.select(wrong, number(float("nan"), x.type), power)
    power = f.select(f.fcmp("uno", x, y), number(float("nan"), x.type), power)
    unit = f.or_(f.and_(f.fcmp("oeq", a, 1.0), endless), f.fcmp("oeq", x, 1.0))
    return f.select(f.or_(unit, f.fcmp("oeq", y, 0.0)), one, power)


def _log_pair(f: Function, k: Value, m: Value) -> tuple[Value, Value]:
    """k ln 2 + log m as a pair: log m = 2 (s + s**3/3 + s**5/5 ...), s = (m - 1) / (m + 1)."""
    d = f.fsub(m, 1.0)
    t = f.fadd(d, 2.0)
    t_low = f.fsub(d, f.fsub(t, 2.0))
    s = f.fdiv(d, t)
    product = f.fmul(s, t)
    remainder = f.fsub(f.fsub(d, product), _product_rest(f, s, t, product))
    s_low = f.fdiv(f.fsub(remainder, f.fmul(s, t_low)), t)
    z = f.fmul(s, s)
    series = horner(f, z, [2 / (2 * j + 3) for j in range(14)])
    rest = f.fma(s_low, 2.0, f.fmul(f.fmul(s, z), series))
    rest = f.fma(k, DOUBLE.ln2_low, rest)
    first, second = f.fmul(k, DOUBLE.ln2_high), f.fadd(s, s)
    high = f.fadd(first, second)
    # |first| >= |second| unless it is 0: the sum's rounding error is then exact.
    low = f.fadd(f.fadd(f.fsub(first, high), second), rest)
    total = f.fadd(high, low)
    return total, f.fadd(f.fsub(high, total), low)


def _product_rest(f: Function, a: Value, b: Value, product: Value) -> Value:
    """a * b - product, exact, for product = a * b rounded."""
    if f.target.fma:
        return f.fma(a, b, f.fneg(product))

    def halves(v: Value) -> tuple[Value, Value]:
        shifted = f.fmul(v, 2.0**27 + 1)
        high = f.fsub(shifted, f.fsub(shifted, v))
        return high, f.fsub(v, high)

    (ah, al), (bh, bl) = halves(a), halves(b)
    inner = f.fadd(f.fadd(f.fsub(f.fmul(ah, bh), product), f.fmul(ah, bl)), f.fmul(al, bh))
    return f.fadd(inner, f.fmul(al, bl))


def _parity_double(f: Function, y: Value) -> tuple[Value, Value]:
    """(y is an integer, y is odd); values from 2**53 on are even."""
    size = f.fabs(y)
    near = f.select(f.fcmp("olt", size, 2.0**52), f.fsub(f.fadd(size, 2.0**52), 2.0**52), size)
    integral = f.fcmp("oeq", near, size)
    half = f.fmul(size, 0.5)
    near_half = f.fsub(f.fadd(half, 2.0**52), 2.0**52)
    near_half = f.select(f.fcmp("olt", half, 2.0**52), near_half, half)
    odd = f.and_(integral, f.fcmp("one", near_half, half))
    return integral, odd
