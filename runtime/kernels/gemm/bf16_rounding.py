"""bf16 factors of f32 products: rounding to nearest even, denormals to zeros, cells of two.

A unit that multiplies pairs reads 32-bit cells: two neighbours along K, the lower one in the lower
half. Its conversion instructions and the integer arithmetic of all other machines agree in every
bit but a NaN's payload. It also takes denormal products and sums for zeros, and so do the others
while `flush_to_zero` is entered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import ml_dtypes
import numpy as np

from ...llvmir.builder import Function
from ...llvmir.values import F32, I16, I32, I64, LLVM_BF16, Value, vec
from ..emit.casts import bfloat_of_flushed

# The smallest magnitude that is not flushed.
MIN_NORMAL: Final = 2.0**-126
# Bits of x86's control register: denormal results, and denormal operands, are zeros.
_MXCSR_FLUSH_BITS: Final = 0x8040
# The bit of aarch64's for both.
_FPCR_FLUSH_BIT: Final = 1 << 24


@contextmanager
def flush_to_zero(f: Function, on: bool) -> Iterator[None]:
    """Arithmetic on floats written inside flushes denormals, if `on`.

    Its results must be stored before the end: the stores hold it in place.
    """
    if not on:
        yield
        return
    if f.target.arch != "x86_64":
        mode = f.call("llvm.aarch64.get.fpcr", I64)
        f.call("llvm.aarch64.set.fpcr", "void", f.or_(mode, _FPCR_FLUSH_BIT))
        yield
        f.call("llvm.aarch64.set.fpcr", "void", mode)
        return
    old, new = f.stack(4), f.stack(4)
    f.call("llvm.x86.sse.stmxcsr", "void", old)
    f.store(f.or_(f.load(I32, old), _MXCSR_FLUSH_BITS), new)
    f.call("llvm.x86.sse.ldmxcsr", "void", new)
    yield
    f.call("llvm.x86.sse.ldmxcsr", "void", old)


def round_to_bf16(f: Function, x: Value) -> Value:
    """f32 lanes rounded to bf16, as f32."""
    if x.lanes == 16 and f.target.has("avx512bf16"):
        return f.cast(bfloat_of_flushed(f, x), F32)
    return f.bitcast(_rounded_word(f, x), x.type)


def _rounded_word(f: Function, x: Value) -> Value:
    """The bits of f32 lanes rounded to bf16: the lower half is zero."""
    word = f.bitcast(x, vec(I32, x.lanes))
    magnitude = f.and_(word, 0x7FFFFFFF)
    odd = f.and_(f.lshr(word, 16), 1)
    near = f.and_(f.add(word, f.add(odd, 0x7FFF)), -0x10000)
    quiet = f.or_(f.and_(word, -0x10000), 0x400000)
    near = f.select(f.icmp("ugt", magnitude, 0x7F800000), quiet, near)
    return f.select(f.icmp("ult", magnitude, 0x800000), f.and_(word, -0x80000000), near)


def neighbours(f: Function, low: Value, high: Value) -> Value:
    """Cells of the f32 of two vectors, which follow one another along K."""
    if low.lanes != 16:
        even, odd = (range(i, 2 * low.lanes, 2) for i in range(2))
        return single_cell(f, f.shuffle(low, high, even), f.shuffle(low, high, odd))
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    return f.bitcast(f.call(name, vec(LLVM_BF16, 32), high, low), vec(I32, 16))


def interleave_k(f: Function, even: Value, odd: Value) -> Value:
    """Cells of a vector of f32 and of those that follow each of them along K."""
    if even.lanes != 16:
        return single_cell(f, even, odd)
    halves = f.bitcast(neighbours(f, even, odd), vec(I16, 32))
    order = [i // 2 + i % 2 * 16 for i in range(32)]
    return f.bitcast(f.shuffle(halves, None, order), vec(I32, 16))


def single_cell(f: Function, even: Value, odd: Value) -> Value:
    """The cell of two scalars, or of each lane of two vectors."""
    return f.or_(f.lshr(_rounded_word(f, even), 16), _rounded_word(f, odd))


def round_array(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An f32 array as bf16, rounded as the kernels round."""
    kept = np.where(np.abs(array) < MIN_NORMAL, np.copysign(np.float32(0), array), array)
    return kept.astype(ml_dtypes.bfloat16)
