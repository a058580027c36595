"""Rounding to bytes, and bytes as numbers again, in fewer words than their scalar programs have.

A quantised value is saturate(round(x) + zero). Both limits are integers, so that x may be
limited before it is rounded: to [low - zero, high - zero], one instruction each, and the rest
converts to 32 bits by the instruction that rounds to nearest even. The sum is then one of integers,
and who wants the byte as a number less its zero point, as a residual sum does, needs no sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.program import Program
from ....plan.packing.panel_params import BYTES
from ...llvmir.builder import Function
from ...llvmir.values import F32, I32, Value, number, vec

# Quotients that become bytes are looked at up to this size; how far divisors may be from 1.
_MAX_QUOTIENT = 1024.0
_MAX_DIVISOR = 2.0**60


@dataclass(frozen=True)
class Rounded:
    """saturate(round_even(x) + zero) as a byte: x is the program's value number `ratio`."""

    ratio: int
    zero: int
    dtype: DType


def rounded_byte(program: Program, index: int) -> Rounded | None:
    """What instruction `index` is, if it quantises a value of f32; NaN gives `zero`."""
    instrs = program.instrs
    last = instrs[index]
    if last.op != "cast" or last.dtype not in BYTES or instrs[last.args[0]].dtype is not DType.f32:
        return None
    inner = instrs[last.args[0]]
    if inner.op == "round_even":
        return Rounded(inner.args[0], 0, last.dtype)
    if inner.op != "select":
        return None
    test, zero, total = (instrs[i] for i in inner.args)
    if test.op != "isnan" or total.op != "add" or total.args[1] != inner.args[1]:
        return None
    near, value = instrs[total.args[0]], zero.value
    if near.op != "round_even" or test.args[0] not in (near.args[0], total.args[0]):
        return None
    if zero.op != "const" or value is None or not last.dtype.min <= value <= last.dtype.max:
        return None
    return Rounded(near.args[0], int(value), last.dtype) if value == int(value) else None


def read_byte(program: Program, index: int) -> int | None:
    """The value number of the rounded byte that instruction `index` reads as a number of f32, or as
    one less its zero point; None for what does not."""
    instrs = program.instrs
    instr = instrs[index]
    if instr.dtype is not DType.f32 or instr.op not in ("cast", "sub"):
        return None
    if instr.op == "cast":
        return instr.args[0] if rounded_byte(program, instr.args[0]) else None
    cast, zero = (instrs[i] for i in instr.args)
    if cast.op != "cast" or zero.op != "const":
        return None
    how = rounded_byte(program, cast.args[0])
    return cast.args[0] if how is not None and zero.value == how.zero else None


def round_to_int32(
    f: Function, x: Value, how: Rounded, constant: Callable[[float, str], Value]
) -> Value:
    """The byte less its zero point, in 32 bits. constant(x, element): in all lanes."""
    low, high = float(how.dtype.min - how.zero), float(how.dtype.max - how.zero)
    # The comparison with low is false for NaN, which then becomes low.
    limited = f.min_or(f.max_or(x, constant(low, F32)), constant(high, F32))
    if low:
        limited = f.select(f.fcmp("uno", x, x), number(0.0, x.type), limited)
    return f.intrinsic("lrint", limited, returns=vec(I32, x.lanes), by_result=True)


def quotient(f: Function, x: Value, by: float) -> Value:
    """x / by as `round_to_int32` needs it: rounded to f32 up to a size of 1024, and beyond it that.

    A product with the reciprocal, which two steps of Newton's method correct: the first leaves less
    than a unit in the last place, of which the remainder is exact, and the second then rounds as
    the division does (Markstein, "Computation of elementary functions on the IBM RISC System/6000
    processor", 1990). A division takes as long as a dozen of these.
    """
    if not f.target.fma or not 1 / _MAX_DIVISOR < abs(by) < _MAX_DIVISOR:
        return f.fdiv(x, number(by, x.type))
    most = abs(by) * _MAX_QUOTIENT
    inverse, x = 1.0 / by, f.clamp(x, -most, most)
    q = f.fmul(x, number(inverse, x.type))
    for _ in range(2):
        q = f.fma(f.fma(q, -by, x), inverse, q)
    return q


def divisor(program: Program, ratio: int) -> tuple[int, float] | None:
    """(value number of x, c) where a program's value is x / c, c a constant."""
    instr = program.instrs[ratio]
    if instr.op != "div" or instr.dtype is not DType.f32:
        return None
    by = program.instrs[instr.args[1]]
    if by.op != "const" or not by.value or not math.isfinite(by.value):
        return None
    return instr.args[0], float(by.value)
