"""Element types as LLVM sees them in memory and in programs, and casts between them.

In memory a boolean is a byte, inside a program an i1; every other type is its own LLVM element.
"""

from __future__ import annotations

from ....ir.dtype import DType
from ....ir.errors import UnsupportedOperationError
from ...llvmir.builder import Function
from ...llvmir.values import BF16, ELEMENT, F32, F64, I1, I8, I32, LLVM_BF16, Value, number, vec


def element_type(dtype: DType) -> str:
    """The LLVM element a value of `dtype` has inside a program."""
    if dtype is DType.boolean:
        return I1
    return memory_type(dtype)


def memory_type(dtype: DType) -> str:
    """The LLVM element of `dtype` in memory. UnsupportedOperationError where there is none."""
    found = ELEMENT.get(dtype.value)
    if found is None:
        raise UnsupportedOperationError("no kernel computes with this element type", got=dtype)
    return found


def from_memory(f: Function, value: Value, dtype: DType) -> Value:
    """A loaded value as the program sees it: any byte but 0 is true."""
    return f.icmp("ne", value, 0) if dtype is DType.boolean else value


def to_memory(f: Function, value: Value, dtype: DType) -> Value:
    """The reverse of from_memory: true is 1."""
    return f.cast(value, I8) if dtype is DType.boolean else value


def cast(f: Function, x: Value, source: DType, to: DType) -> Value:
    """The "cast" operation between any two types a kernel knows."""
    if source is to:
        return x
    if to is DType.boolean:
        x = f.cast(x, F32) if source.is_float and source.bits == 16 else x
        return f.fcmp("une", x, 0.0) if source.is_float else f.icmp("ne", x, 0)
    if source.is_float and to.is_int and to.bits <= 16:
        return _to_narrow(f, x, to)
    return f.cast(
        x, element_type(to), signed_=to.is_signed if source.is_float else source.is_signed
    )


def _to_narrow(f: Function, x: Value, to: DType) -> Value:
    """Float to an integer of 8 or 16 bits: limited as a float, then truncated through i32.

    LLVM's saturating conversion takes several times as many instructions here.
    """
    x = f.cast(x, F32) if x.element not in (F32, F64) else x
    low, high = float(to.min), float(to.max)
    # The comparison with low is false for NaN, which then becomes low: right where low is 0.
    limited = f.min_or(f.max_or(x, low), high)
    if low:
        limited = f.select(f.fcmp("uno", x, x), number(0.0, x.type), limited)
    integers = f.op(vec(I32, x.lanes), f"fptosi {limited} to {vec(I32, x.lanes)}")
    return f.cast(integers, element_type(to))


def flush_denormals(f: Function, x: Value) -> Value:
    """f32 lanes whose denormals are zeros of their sign."""
    return f.select(f.fcmp("olt", f.fabs(x), 2.0**-126), f.copysign(0.0, x), x)


def bfloat_of_flushed(f: Function, x: Value) -> Value:
    """f32 lanes, `flush_denormals`, as bf16: nearest even, NaN stays NaN."""
    if x.lanes != 16 or not f.target.has("avx512bf16"):
        return f.cast(flush_denormals(f, x), BF16)
    name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
    return f.bitcast(f.call(name, vec(LLVM_BF16, 16), x), vec(BF16, 16))
