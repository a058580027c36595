"""Arguments of trigonometric functions as x = n pi/2 + r with |r| <= pi/4, of f32 and f64 lanes.

Up to 2**20 by three parts of pi/2 whose products with n are exact in f64; beyond, lane by lane, by
a product of the mantissa with the bits of 2/pi that matter (Payne and Hanek's method), which is
right for every finite number.
"""

from __future__ import annotations

import math

from ..llvmir.builder import Function, Module, StackVariable
from ..llvmir.values import F32, F64, I1, I32, I64, PTR, Value, integer, vec
from .formats import INFINITY, SINGLE, format_of, round_scaled

# pi/2 in parts: 33 bits, 33 bits, the rest.
_HALF_PI = (
    float.fromhex("0x1.921fb54400000p+0"),
    float.fromhex("0x1.0b4611a600000p-34"),
    float.fromhex("0x1.3198a2e037073p-69"),
)
_TWO_OVER_PI_BITS = 224
_TWO_OVER_PI_DIGITS = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163AB  # 2/pi * 2**224
_WORDS_BITS = 1280  # bits of 2/pi after the point: enough for the largest exponent of f64
_FRACTION_BITS = 190  # bits of the product after the point
_MIN_LARGE_EXPONENT = 20
_WIDE = "i128"


def reduce_argument(f: Function, x: Value) -> tuple[Value, Value]:
    """(n modulo 4 in the low bits of i64 lanes, r in f64 lanes)."""
    wide = f.cast(x, F64) if format_of(x) is SINGLE else x
    n, low = round_scaled(f, wide, 2 / math.pi)
    r = wide
    for part in _HALF_PI:
        r = f.fma(n, -part, r)
    magnitude = f.fabs(x)
    large = f.and_(
        f.fcmp("oge", magnitude, 2.0**_MIN_LARGE_EXPONENT), f.fcmp("olt", magnitude, INFINITY)
    )
    quadrant, rest = f.var(low.type, low), f.var(r.type, r)
    some = large if large.lanes == 1 else f.intrinsic("vector.reduce.or", large, returns=I1)
    with f.if_(some):
        _repair(f, x, quadrant, rest)
    return quadrant.get(), rest.get()


def _repair(f: Function, x: Value, quadrant: StackVariable, rest: StackVariable) -> None:
    """Put exact reductions into the lanes whose argument is large."""
    lanes, fmt = x.lanes, format_of(x)
    size = 4 if fmt is SINGLE else 8
    arguments, quadrants, rests = (f.stack(max(64, n * lanes)) for n in (size, 8, 8))
    f.store(x, arguments, 64)
    f.store(quadrant.get(), quadrants, 64)
    f.store(rest.get(), rests, 64)
    name, write = _REDUCTIONS[fmt.element]
    callee = f.module.define_once(name, write)
    most = 2 * fmt.bias + 1
    with f.range(0, lanes, unroll=1) as i:
        word = f.load(fmt.integer, f.at(arguments, i, fmt.integer))
        exponent = f.and_(f.lshr(word, fmt.mantissa), most)
        above = f.icmp("uge", exponent, fmt.bias + _MIN_LARGE_EXPONENT)
        with f.if_(f.and_(above, f.icmp("ult", exponent, most))):
            r = f.call_function(callee, word, f.at(quadrants, i, I64))
            f.store(r, f.at(rests, i, F64))
    quadrant.set(f.load(vec(I64, lanes), quadrants, 64))
    rest.set(f.load(vec(F64, lanes), rests, 64))


def _write_single_reduction(module: Module, name: str) -> Function:
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


def _two_over_pi() -> list[int]:
    """2/pi * 2**_DIGITS in words of 64 bits, least first, with zeros above; Machin's formula."""
    one = 1 << _WORDS_BITS + 64

    def arctan_of_inverse(n: int) -> int:
        total, power, k = 0, one // n, 1
        while power:
            total += power // k if k % 4 == 1 else -(power // k)
            power, k = power // (n * n), k + 2
        return total

    pi = 4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))
    number_ = 2 * one * (1 << _WORDS_BITS) // pi
    return [number_ >> 64 * i & (1 << 64) - 1 for i in range(_WORDS_BITS // 64 + 6)]


def _write_double_reduction(module: Module, name: str) -> Function:
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
    skip = f.sub(_WORDS_BITS - _FRACTION_BITS, exponent)
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
    r = f.fmul(fraction, math.pi / 2)
    negative = f.icmp("slt", x, 0)
    f.store(f.select(negative, f.sub(integer(0), quadrant), quadrant), f.params["q"])
    f.ret(f.select(negative, f.fneg(r), r))
    return f


_REDUCTIONS = {
    F32: ("irc.reduce_large", _write_single_reduction),
    F64: ("irc.reduce_double", _write_double_reduction),
}
