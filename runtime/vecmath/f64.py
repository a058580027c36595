"""f64 forms of the functions that codegen's vector mathematics has for f32 only.

They are rare in models, so they are composed of f64 exp, expm1, log and log1p and of Taylor
series on short intervals (their coefficients are exact by definition), and lie within a few ulp.
"""

from __future__ import annotations

import math as real
from collections.abc import Callable
from functools import cache

from ..llvmir.builder import Function, Module, StackVariable
from ..llvmir.values import F64, I1, I64, PTR, Value, integer, number
from . import table as math
from .formats import DOUBLE, bits, horner, round_scaled
from .log import split_exponent

PI = real.pi
_NAN = float("nan")
_INFINITY = float("inf")
# pi/2 and ln 2 in parts: products of the leading parts with small integers are exact.
_HALF_PI = (
    float.fromhex("0x1.921fb54400000p+0"),
    float.fromhex("0x1.0b4611a600000p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
_MIN_LARGE_ARGUMENT = 2.0**20
_SIN = [(-1) ** k / real.factorial(2 * k + 1) for k in range(10)]
_COS = [(-1) ** k / real.factorial(2 * k) for k in range(10)]
_ATAN = [(-1) ** k / (2 * k + 1) for k in range(14)]


# -- hyperbolic -----------------------------------------------------------------------------------


def sinh(f: Function, x: Value) -> Value:
    """(m + m / (m + 1)) / 2 with m = e**|x| - 1; halves of x near the overflow."""
    a = f.fabs(x)
    m = math.expm1(f, f.min_or(709.0, a))
    near = f.fmul(f.fadd(m, f.fdiv(m, f.fadd(m, 1.0))), 0.5)
    return f.copysign(f.select(f.fcmp("ogt", a, 708.0), _half_exp(f, a), near), x)


def cosh(f: Function, x: Value) -> Value:
    """(e + 1 / e) / 2 with e = e**|x|; halves of x near the overflow."""
    a = f.fabs(x)
    e = math.exp(f, f.min_or(709.0, a))
    near = f.fmul(f.fadd(e, f.fdiv(1.0, e)), 0.5)
    return f.select(f.fcmp("ogt", a, 708.0), _half_exp(f, a), near)


def _half_exp(f: Function, a: Value) -> Value:
    """e**a / 2 without an early overflow."""
    half = math.exp(f, f.fmul(a, 0.5))
    return f.fmul(f.fmul(half, 0.5), half)


def asinh(f: Function, x: Value) -> Value:
    """log1p(a + a**2 / (1 + sqrt(a**2 + 1))); log 2a where the square overflows."""
    a = f.fabs(x)
    b = f.min_or(2.0**500, a)
    square = f.fmul(b, b)
    root = f.sqrt(f.fadd(square, 1.0))
    near = math.log1p(f, f.fadd(b, f.fdiv(square, f.fadd(root, 1.0))))
    far = f.fadd(math.log(f, a), real.log(2))
    return f.copysign(f.select(f.fcmp("ogt", a, 2.0**400), far, near), x)


def acosh(f: Function, x: Value) -> Value:
    """log1p(t + sqrt(t (x + 1))), t = x - 1; NaN below 1."""
    t = f.fsub(f.min_or(2.0**500, x), 1.0)
    near = math.log1p(f, f.fadd(t, f.sqrt(f.fmul(t, f.fadd(t, 2.0)))))
    far = f.fadd(math.log(f, x), real.log(2))
    y = f.select(f.fcmp("ogt", x, 2.0**400), far, near)
    return f.select(f.fcmp("ult", x, 1.0), number(_NAN, x.type), y)


def atanh(f: Function, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2."""
    a = f.fabs(x)
    y = math.log1p(f, f.fdiv(f.fadd(a, a), f.fsub(1.0, a)))
    return f.copysign(f.fmul(y, 0.5), x)


# -- inverse --------------------------------------------------------------------------------------


def atan(f: Function, x: Value) -> Value:
    """atan x = c + atan((b - tan c) / (1 + b tan c)), b = |x| or 1 / |x|, c in 0, pi/8, pi/4."""
    a = f.fabs(x)
    steep = f.fcmp("ogt", a, 1.0)
    b = f.select(steep, f.fdiv(1.0, a), a)
    zero = number(0.0, x.type)
    tangent, base, low = zero, zero, zero
    for limit, c in ((real.tan(PI / 16), PI / 8), (real.tan(3 * PI / 16), PI / 4)):
        beyond = f.fcmp("ogt", b, limit)
        tangent = f.select(
            beyond, number(1.0 if c == PI / 4 else real.sqrt(2) - 1, x.type), tangent
        )
        base = f.select(beyond, number(c, x.type), base)
        # What the rounded pi leaves out, 1.2e-16 of it.
        low = f.select(beyond, number(c / PI * 1.2246467991473532e-16, x.type), low)
    t = f.fdiv(f.fsub(b, tangent), f.fma(b, tangent, 1.0))
    z = f.fmul(t, t)
    rest = f.fma(f.fmul(t, z), horner(f, z, _ATAN[1:]), low)
    y = f.fadd(base, f.fadd(t, rest))
    turned = f.fadd(f.fsub(PI / 2, y), 6.123233995736766e-17)
    return f.copysign(f.select(steep, turned, y), x)


def asin(f: Function, x: Value) -> Value:
    """atan(x / sqrt((1 - x) (1 + x))); NaN beyond +-1."""
    return atan(f, f.fdiv(x, f.sqrt(f.fmul(f.fsub(1.0, x), f.fadd(x, 1.0)))))


def acos(f: Function, x: Value) -> Value:
    """2 atan(sqrt((1 - x) / (1 + x))); NaN beyond +-1."""
    half = atan(f, f.sqrt(f.fdiv(f.fsub(1.0, x), f.fadd(x, 1.0))))
    return f.fadd(half, half)


# -- trigonometric --------------------------------------------------------------------------------


def sin(f: Function, x: Value) -> Value:
    """sin x for every finite x; NaN at infinity."""
    quadrant, r = _reduce_argument(f, x)
    return f.select(f.fcmp("oeq", x, 0.0), x, _wave(f, quadrant, r))


def cos(f: Function, x: Value) -> Value:
    """cos x for every finite x; NaN at infinity."""
    quadrant, r = _reduce_argument(f, x)
    return _wave(f, f.add(quadrant, number(1, quadrant.type)), r)


def tan(f: Function, x: Value) -> Value:
    """tan x for every finite x; NaN at infinity."""
    quadrant, r = _reduce_argument(f, x)
    sine, cosine = _sin_cos(f, r)
    odd = f.cast(quadrant, I1)
    y = f.fdiv(f.select(odd, f.fneg(cosine), sine), f.select(odd, sine, cosine))
    return f.select(f.fcmp("oeq", x, 0.0), x, y)


def _sin_cos(f: Function, r: Value) -> tuple[Value, Value]:
    z = f.fmul(r, r)
    sine = f.fma(f.fmul(r, z), horner(f, z, _SIN[1:]), r)
    cosine = f.fma(z, horner(f, z, _COS[1:]), 1.0)
    return sine, cosine


def _wave(f: Function, quadrant: Value, r: Value) -> Value:
    """sin(quadrant pi/2 + r)."""
    sine, cosine = _sin_cos(f, r)
    y = f.select(f.cast(quadrant, I1), cosine, sine)
    second = f.cast(f.lshr(quadrant, number(1, quadrant.type)), I1)
    return f.select(second, f.fneg(y), y)


def _reduce_argument(f: Function, x: Value) -> tuple[Value, Value]:
    """(n modulo 4 in the low bits of i64 lanes, r): x = n pi/2 + r, |r| <= pi/4."""
    n, low = round_scaled(f, x, 2 / PI)
    r = x
    for part in _HALF_PI:
        r = f.fma(f.fneg(n), part, r)
    size = f.fabs(x)
    large = f.and_(f.fcmp("oge", size, _MIN_LARGE_ARGUMENT), f.fcmp("olt", size, _INFINITY))
    quadrant, rest = f.var(low.type, low), f.var(r.type, r)
    some = large if x.lanes == 1 else f.intrinsic("vector.reduce.or", large, returns=I1)
    with f.if_(some):
        _repair(f, x, large, quadrant, rest)
    return quadrant.get(), rest.get()


def _repair(
    f: Function, x: Value, large: Value, quadrant: StackVariable, rest: StackVariable
) -> None:
    """Put exact reductions into the lanes whose argument is large."""
    callee = f.module.define_once("irc.reduce_double", _write_reduction)
    place = f.stack(8)
    with f.range(0, x.lanes, unroll=1) as i:
        at = f.cast(i, "i32")
        with f.if_(f.extract(large, at)):
            word = f.extract(bits(f, x), at)
            r = f.call_function(callee, word, place)
            rest.set(f.insert(rest.get(), r, at))
            quadrant.set(f.insert(quadrant.get(), f.load(I64, place), at))


_TWO_OVER_PI_BITS = 1280  # bits of 2/pi after the point: enough for the largest exponent
_FRACTION_BITS = 190  # bits of the product after the point


@cache
def _two_over_pi() -> list[int]:
    """2/pi * 2**_DIGITS in words of 64 bits, least first, with zeros above; Machin's formula."""
    one = 1 << _TWO_OVER_PI_BITS + 64

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    number_ = 2 * one * (1 << _TWO_OVER_PI_BITS) // pi
    return [number_ >> 64 * i & (1 << 64) - 1 for i in range(_TWO_OVER_PI_BITS // 64 + 6)]


def _write_reduction(module: Module, name: str) -> Function:
    """double name(i64 bits of x, ptr quadrant) for 2**20 <= |x| < inf (Payne and Hanek).

    x = M 2**e. The product of M with the 192 bits of 2/pi from 2**(1 - e) down is x * 2/pi modulo
    4 with 137 bits of fraction good; the closest any double comes to a multiple of pi/2 leaves
    75 of them.
    """
    wide, half = "i256", "i192"
    f = module.function(
        name, [(I64, "x"), (PTR, "q")], F64, attributes="nounwind noinline", linkage="internal"
    )
    x = f.params["x"]
    mantissa = f.or_(f.and_(x, (1 << 52) - 1), 1 << 52)
    exponent = f.sub(f.and_(f.lshr(x, 52), 2047), 1075)
    skip = f.sub(_TWO_OVER_PI_BITS - _FRACTION_BITS, exponent)
    words = module.table(_two_over_pi(), I64)
    window = f.load(wide, f.at(words, f.lshr(skip, 6), I64), 8)
    shift = f.op(wide, f"zext {f.and_(skip, 63)} to {wide}")
    digits = f.op(half, f"trunc {f.op(wide, f'lshr {window}, {shift.text}')} to {half}")
    factor = f.op(half, f"zext {mantissa} to {half}")
    product = f.op(half, f"mul {factor}, {digits.text}")
    turn = f.op(half, f"shl {product}, 2")
    high = f.op(I64, f"trunc {f.op(half, f'lshr {turn}, 128')} to i64")
    low = f.op(I64, f"trunc {f.op(half, f'lshr {turn}, 64')} to i64")
    quadrant = f.op(I64, f"trunc {f.op(half, f'lshr {product}, 190')} to i64")
    quadrant = f.add(quadrant, f.lshr(high, 63))
    fraction = f.fma(
        f.cast(low, F64, signed_=False), 2.0**-128, f.fmul(f.cast(high, F64), 2.0**-64)
    )
    r = f.fmul(fraction, PI / 2)
    negative = f.icmp("slt", x, 0)
    f.store(f.select(negative, f.sub(integer(0), quadrant), quadrant), f.params["q"])
    f.ret(f.select(negative, f.fneg(r), r))
    return f


# -- powers ---------------------------------------------------------------------------------------


def pow_(f: Function, x: Value, y: Value) -> Value:
    """x**y = e**(y log |x|), the logarithm and the product as pairs of f64; C's special cases.

    Within 2 ulp for results between 1e-30 and 1e30, 12 at the ends of the range.
    """
    a = f.fabs(x)
    k, m = split_exponent(f, a)
    high, low = _log_pair(f, k, m)
    product = f.fmul(y, high)
    rest = f.fadd(_product_rest(f, y, high, product), f.fmul(y, low))
    tame = f.fcmp("olt", f.fabs(product), 2.0**11)
    e = math.exp(f, product)
    power = f.select(f.and_(tame, f.fcmp("olt", e, _INFINITY)), f.fma(e, rest, e), e)
    one, endless = number(1.0, x.type), f.fcmp("oeq", f.fabs(y), _INFINITY)

    # Bases without a logarithm, and infinite exponents: 0 or infinity by which side of 1.
    up = f.fcmp("ogt", y, 0.0)
    large = f.fcmp("ogt", a, 1.0)
    extreme = f.or_(f.or_(endless, f.fcmp("oeq", a, 0.0)), f.fcmp("oeq", a, _INFINITY))
    grows = f.not_(f.xor(up, large))
    power = f.select(extreme, f.select(grows, number(_INFINITY, x.type), 0.0), power)

    whole, odd = _parity(f, y)
    minus = f.and_(odd, f.icmp("slt", bits(f, x), number(0, bits(f, x).type)))
    power = f.select(minus, f.fneg(power), power)
    wrong = f.and_(f.fcmp("olt", x, 0.0), f.and_(f.not_(whole), f.fcmp("olt", a, _INFINITY)))
    power = f.select(wrong, number(_NAN, x.type), power)
    power = f.select(f.fcmp("uno", x, y), number(_NAN, x.type), power)
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


def _parity(f: Function, y: Value) -> tuple[Value, Value]:
    """(y is an integer, y is odd); values from 2**53 on are even."""
    size = f.fabs(y)
    near = f.select(f.fcmp("olt", size, 2.0**52), f.fsub(f.fadd(size, 2.0**52), 2.0**52), size)
    whole = f.fcmp("oeq", near, size)
    half = f.fmul(size, 0.5)
    near_half = f.fsub(f.fadd(half, 2.0**52), 2.0**52)
    near_half = f.select(f.fcmp("olt", half, 2.0**52), near_half, half)
    odd = f.and_(whole, f.fcmp("one", near_half, half))
    return whole, odd


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cos": cos,
    "cosh": cosh,
    "pow": pow_,
    "sin": sin,
    "sinh": sinh,
    "tan": tan,
}
