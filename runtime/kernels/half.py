"""Conversions to and from f16 where the instruction set has none, and from f64 with one rounding.

LLVM would call a library function there; kernels have no library.
"""

from __future__ import annotations

from ..codegen.emit import Function
from ..codegen.values import F16, F32, F64, I16, I32, Value, number, vec


def half_to_float(f: Function, x: Value) -> Value:
    """f16 -> f32, exact, NaN payloads kept."""
    n = x.lanes
    if f.target.has("f16c") or f.target.arch != "x86_64":
        return f.op(vec(F32, n), f"fpext {x} to {vec(F32, n)}")
    i32 = vec(I32, n)
    bits = f.cast(f.bitcast(x, vec(I16, n)), I32, signed_=False)
    sign = f.shl(f.and_(bits, number(0x8000, i32)), number(16, i32))
    rest = f.shl(f.and_(bits, number(0x7FFF, i32)), number(13, i32))
    # As a float the exponent is 112 too small; multiplying also normalises f16's denormals.
    scaled = f.fmul(f.bitcast(rest, vec(F32, n)), 2.0**112)
    special = f.icmp("uge", rest, number(0x7C00 << 13, i32))
    infinite = f.or_(rest, number(0x7F800000, i32))
    found = f.select(special, infinite, f.bitcast(scaled, i32))
    return f.bitcast(f.or_(found, sign), vec(F32, n))


def float_to_half(f: Function, x: Value) -> Value:
    """f32 or f64 -> f16, rounded once to nearest even."""
    if x.element == F64:
        x = round_to_odd(f, x)
    n = x.lanes
    if f.target.has("f16c") or f.target.arch != "x86_64":
        return f.op(vec(F16, n), f"fptrunc {x} to {vec(F16, n)}")
    i32 = vec(I32, n)
    bits = f.bitcast(x, i32)
    sign = f.lshr(f.and_(bits, number(0x80000000, i32)), number(16, i32))
    rest = f.and_(bits, number(0x7FFFFFFF, i32))
    # Normal results: rebias, then round by adding half of what is cut off (ties to even).
    odd = f.and_(f.lshr(rest, number(13, i32)), number(1, i32))
    rounded = f.add(f.add(rest, number(0xFFF - (112 << 23), i32)), odd)
    normal = f.lshr(rounded, number(13, i32))
    # Denormal results: adding 0.5 leaves the rounded multiple of 2**-24 in the low bits.
    shifted = f.bitcast(f.fadd(f.bitcast(rest, vec(F32, n)), 0.5), i32)
    denormal = f.sub(shifted, number(0x3F000000, i32))
    small = f.icmp("slt", rest, number(113 << 23, i32))
    large = f.icmp("sge", rest, number(143 << 23, i32))
    is_nan = f.icmp("sgt", rest, number(0x7F800000, i32))
    quiet = f.or_(f.lshr(rest, number(13, i32)), number(0x7E00, i32))
    found = f.select(small, denormal, normal)
    found = f.select(large, number(0x7C00, i32), found)
    found = f.select(is_nan, f.and_(quiet, number(0x7FFF, i32)), found)
    word = f.cast(f.or_(found, sign), I16)
    return f.bitcast(word, vec(F16, n))


def round_to_odd(f: Function, x: Value) -> Value:
    """f64 -> f32 rounded to odd: rounding once more then gives the nearest of x itself."""
    near = f.cast(x, F32)
    i32 = vec(I32, x.lanes)
    bits = f.bitcast(near, i32)
    back = f.cast(near, F64)
    even = f.icmp("eq", f.and_(bits, number(1, i32)), number(0, i32))
    fix = f.op(even.type, f"and {f.fcmp('one', back, x)}, {even.text}")
    far = f.fcmp("ogt", f.fabs(back), f.fabs(x))
    step = f.select(far, number(-1, i32), number(1, i32))
    return f.bitcast(f.select(fix, f.add(bits, step), bits), vec(F32, x.lanes))
