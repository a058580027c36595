"""Vector sin, cos, tan for f32, computed in f64 lanes and rounded once.

x = n pi/2 + r with |r| <= pi/4. Up to 2**20 by three parts of pi/2 whose products with n are exact
in f64; beyond, lane by lane, by a product of the mantissa with the 96 bits of 2/pi that matter
(Payne and Hanek's method), which is right for every finite float.
Coefficients: minimax (Remez, 60 decimal digits), rounded to f64.
"""

from __future__ import annotations

from ..llvmir.builder import Function, Module, StackVariable
from ..llvmir.values import F32, F64, I1, I32, I64, PTR, Value, integer, number, vec
from .formats import INFINITY, horner, round_scaled

# pi/2 in parts: 33 bits, 33 bits, the rest.
_HALF_PI = (
    float.fromhex("0x1.921fb54400000p+0"),
    float.fromhex("0x1.0b4611a600000p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
_TWO_OVER_PI = float.fromhex("0x1.45f306dc9c883p-1")
_TWO_OVER_PI_BITS = 224
_TWO_OVER_PI_DIGITS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163AB  # 2/pi * 2**224

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
_MIN_LARGE_ARGUMENT = 2.0**20
_WIDE = "i128"


def sin(f: Function, x: Value) -> Value:
    """sin x, at most 0.51 ulp over all finite floats; keeps -0; NaN at infinity."""
    quadrant, r = _reduce_argument(f, x)
    return f.cast(_wave(f, quadrant, r), F32)


def cos(f: Function, x: Value) -> Value:
    """cos x, at most 0.51 ulp over all finite floats; NaN at infinity."""
    quadrant, r = _reduce_argument(f, x)
    return f.cast(_wave(f, f.add(quadrant, number(1, quadrant.type)), r), F32)


def tan(f: Function, x: Value) -> Value:
    """tan x, at most 0.51 ulp over all finite floats; keeps -0; NaN at infinity."""
    quadrant, r = _reduce_argument(f, x)
    z = f.fmul(r, r)
    sine, cosine = f.fmul(r, horner(f, z, _SIN)), horner(f, z, _COS)
    odd = f.cast(quadrant, I1)
    above = f.select(odd, f.fneg(cosine), sine)
    return f.cast(f.fdiv(above, f.select(odd, sine, cosine)), F32)


def _wave(f: Function, quadrant: Value, r: Value) -> Value:
    """sin(quadrant pi/2 + r) in f64."""
    z = f.fmul(r, r)
    sine, cosine = f.fmul(r, horner(f, z, _SIN)), horner(f, z, _COS)
    y = f.select(f.cast(quadrant, I1), cosine, sine)
    second = f.cast(f.lshr(quadrant, number(1, quadrant.type)), I1)
    return f.select(second, f.fneg(y), y)


def _reduce_argument(f: Function, x: Value) -> tuple[Value, Value]:
    """(n modulo 4 in the low bits of i64 lanes, r in f64 lanes)."""
    if x.element != F32:
        raise TypeError(f"no trigonometry for {x.type}")
    wide = f.cast(x, F64)
    n, low = round_scaled(f, wide, _TWO_OVER_PI)
    r = wide
    for part in _HALF_PI:
        r = f.fma(n, -part, r)
    magnitude = f.fabs(x)
    large = f.and_(
        f.fcmp("oge", magnitude, _MIN_LARGE_ARGUMENT), f.fcmp("olt", magnitude, INFINITY)
    )
    quadrant, rest = f.var(low.type, low), f.var(r.type, r)
    with f.if_(_any(f, large)):
        _repair(f, x, quadrant, rest)
    return quadrant.get(), rest.get()


def _any(f: Function, mask: Value) -> Value:
    return mask if mask.lanes == 1 else f.intrinsic("vector.reduce.or", mask, returns=I1)


def _repair(f: Function, x: Value, quadrant: StackVariable, rest: StackVariable) -> None:
    """Put exact reductions into the lanes whose argument is large."""
    lanes = x.lanes
    arguments, quadrants, rests = (f.stack(max(64, n * lanes)) for n in (4, 8, 8))
    f.store(x, arguments, 64)
    f.store(quadrant.get(), quadrants, 64)
    f.store(rest.get(), rests, 64)
    callee = f.module.define_once("irc.reduce_large", _write_reduction)
    with f.range(0, lanes, unroll=1) as i:
        word = f.load(I32, f.at(arguments, i, I32))
        exponent = f.and_(f.lshr(word, 23), 255)
        large = f.and_(f.icmp("uge", exponent, 127 + 20), f.icmp("ult", exponent, 255))
        with f.if_(large):
            r = f.call_function(callee, word, f.at(quadrants, i, I64))
            f.store(r, f.at(rests, i, F64))
    quadrant.set(f.load(vec(I64, lanes), quadrants, 64))
    rest.set(f.load(vec(F64, lanes), rests, 64))


def _write_reduction(module: Module, name: str) -> Function:
    """double name(i32 bits of x, ptr quadrant) for 2**20 <= |x| < inf.

    x = M 2**e with a 24-bit M. Entry e holds 2/pi * 2**e modulo 4 with 94 bits of fraction, so
    M times it modulo 4 is x * 2/pi with 70 bits good; the closest any float comes to a multiple
    of pi/2 leaves 40 of them.
    """
    least, most = -3, 254 - 150
    entries = [
        (_TWO_OVER_PI_DIGITS << 94 + e + 3 >> _TWO_OVER_PI_BITS + 3) % (1 << 96)
        for e in range(least, most + 1)
    ]
    f = module.function(
        name, [(I32, "x"), (PTR, "q")], F64, attributes="nounwind noinline", linkage="internal"
    )
    x = f.params["x"]
    mantissa = f.or_(f.and_(x, 0x7FFFFF), 0x800000)
    index = f.sub(f.and_(f.lshr(x, 23), 255), 150 + least)
    table = module.table(entries, _WIDE)
    factor = f.load(_WIDE, f.at(table, f.cast(index, I64), _WIDE), 16)
    turns = f.shl(f.mul(f.cast(mantissa, _WIDE), factor), 32)  # quadrant in the top two bits
    upper = f.cast(f.lshr(f.shl(turns, 2), 64), I64)  # the fraction, as a signed one
    quadrant = f.cast(f.lshr(turns, 126), I64)
    quadrant = f.add(quadrant, f.lshr(upper, 63))
    r = f.fmul(f.cast(upper, F64), 2.0**-64 * sum(_HALF_PI))
    negative = f.icmp("slt", x, 0)
    f.store(f.select(negative, f.sub(integer(0), quadrant), quadrant), f.params["q"])
    f.ret(f.select(negative, f.fneg(r), r))
    return f
