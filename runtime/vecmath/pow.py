"""Vector pow for f32, computed in f64 lanes as 2**(y log2 |x|) and rounded once at the end.

y log2|x| goes up to 150, so log2 must be good to 2**-35: f64 gives that at two vectors per f32
vector, cheaper than pairs of f32. Coefficients: minimax (Remez, 60 decimal digits), rounded to f64.
"""

from __future__ import annotations

from ..llvmir.builder import Function
from ..llvmir.values import F32, F64, I1, Value, number
from .formats import DOUBLE, INFINITY, bits, horner, power_of_two, round_scaled
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


def pow_(f: Function, x: Value, y: Value) -> Value:
    """x**y of f32 lanes with C's special cases: x**0 = 1 and 1**y = 1 even for NaN, negative x
    with whole y gets its sign, with other y NaN. Results that f32 holds exactly are exact.
    """
    if x.element != F32 or y.element != F32:
        raise TypeError(f"pow of {x.type} and {y.type}; only float")
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

    whole, odd = _parity(f, wide_y)
    negative = f.and_(odd, f.icmp("slt", bits(f, wide_x), 0))
    power = f.select(negative, f.fneg(power), power)
    fractional = f.not_(whole)
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


def _parity(f: Function, y: Value) -> tuple[Value, Value]:
    """(y is an integer, y is odd). f32 values from 2**24 on are even."""
    large = f.fcmp("oge", f.fabs(y), 2.0**24)
    shifted = f.fadd(y, DOUBLE.magic)
    whole = f.fcmp("oeq", f.fsub(shifted, DOUBLE.magic), y)
    low = f.cast(bits(f, shifted), I1)
    small = f.not_(large)
    odd = f.and_(whole, low)
    odd = f.and_(odd, small)
    return f.or_(whole, large), odd
