"""Conversions to and from f16 and bf16 that are the same on every instruction set.

bf16 goes by integer arithmetic: the bf16 instructions flush denormals, which only what is a factor
anyway may take (runtime/kernels/emit/casts.py). f16 uses the machine's conversion where there is
one (F16C, NEON); elsewhere LLVM would call a library that a kernel cannot reach.
"""

from __future__ import annotations

from ...plan.packing.panel_params import has_f16_conversion
from .arith import Arith
from .values import BF16, F16, F32, F64, I16, I32, LLVM_F16, Value, vec


def f32_from_f16(f: Arith, a: Value) -> Value:
    """f16 or bf16 lanes as f32; exact."""
    to = vec(F32, a.lanes)
    if a.element == F16 and has_f16_conversion(f.target):
        half = f.bitcast(a, vec(LLVM_F16, a.lanes))
        return f.op(to, f"fpext {half} to {to}")
    word = f.cast(f.bitcast(a, vec(I16, a.lanes)), I32, signed_=False)
    if a.element == BF16:
        return f.bitcast(f.shl(word, 16), to)  # a bfloat is the upper half of a float
    magnitude = f.shl(f.and_(word, 0x7FFF), 13)
    # The exponent's bias differs by 112; the product also normalises denormals.
    finite = f.bitcast(f.fmul(f.bitcast(magnitude, to), 2.0**112), word.type)
    special = f.icmp("ugt", magnitude, 0x7BFF << 13)
    bits = f.select(special, f.or_(magnitude, 0x7F800000), finite)
    return f.bitcast(f.or_(bits, f.shl(f.and_(word, 0x8000), 16)), to)


def f16_from_f32(f: Arith, a: Value) -> Value:
    """f32 lanes as f16: nearest even, overflow to infinity, NaN stays NaN."""
    to = vec(F16, a.lanes)
    if has_f16_conversion(f.target):
        if a.lanes == 1:
            # Else LLVM rounds the f64 that this was made of once more, by a library, for its sign.
            a = f.intrinsic("arithmetic.fence", a)
        half = vec(LLVM_F16, a.lanes)
        return f.bitcast(f.op(half, f"fptrunc {a} to {half}"), to)
    word = f.bitcast(a, vec(I32, a.lanes))
    magnitude = f.and_(word, 0x7FFFFFFF)
    odd = f.and_(f.lshr(magnitude, 13), 1)
    rebiased = f.add(magnitude, ((15 - 127) << 23) + 0xFFF)
    normal = f.lshr(f.add(rebiased, odd), 13)
    # Adding 1/2 leaves a denormal f16, rounded, in the low bits.
    shifted = f.fadd(f.bitcast(magnitude, a.type), 0.5)
    denormal = f.sub(f.bitcast(shifted, word.type), 0x3F000000)
    bits = f.select(f.icmp("ult", magnitude, 0x38800000), denormal, normal)
    bits = f.select(f.icmp("ugt", magnitude, 0x477FFFFF), 0x7C00, bits)
    nan = f.or_(f.and_(f.lshr(magnitude, 13), 0x3FF), 0x7E00)
    bits = f.select(f.icmp("ugt", magnitude, 0x7F800000), nan, bits)
    signed = f.or_(bits, f.and_(f.lshr(word, 16), 0x8000))
    return f.bitcast(f.cast(signed, I16), to)


def bf16_from_f32(f: Arith, a: Value) -> Value:
    """f32 lanes as bf16: nearest even, denormals kept, NaN stays NaN."""
    word = f.bitcast(a, vec(I32, a.lanes))
    odd = f.and_(f.lshr(word, 16), 1)
    rounded = f.lshr(f.add(word, f.add(odd, 0x7FFF)), 16)
    quiet = f.or_(f.lshr(word, 16), 0x40)
    is_nan = f.icmp("ugt", f.and_(word, 0x7FFFFFFF), 0x7F800000)
    bits = f.cast(f.select(is_nan, quiet, rounded), I16)
    return f.bitcast(bits, vec(BF16, a.lanes))


def f32_rounded_to_odd(f: Arith, a: Value) -> Value:
    """f64 -> f32 such that rounding the result once more, to a half type, is as from f64."""
    to = vec(F32, a.lanes)
    near = f.op(to, f"fptrunc {a} to {to}")
    word = f.bitcast(near, vec(I32, a.lanes))
    back = f.cast(near, F64)
    inexact = f.fcmp("one", back, a)
    even = f.icmp("eq", f.and_(word, 1), 0)
    # An inexact result with an even last bit moves to the odd neighbour on a's side.
    too_far = f.fcmp("ogt", f.fabs(back), f.fabs(a))
    moved = f.add(word, f.select(too_far, f.as_value(-1, word.type), 1))
    return f.bitcast(f.select(f.and_(inexact, even), moved, word), to)
