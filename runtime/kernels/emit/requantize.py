"""Rounding to bytes, bytes as numbers again, and functions of one byte, in fewer words than their
scalar programs have.

A quantised value is saturate(round(x) + zero). Both limits are integers, so that x may be
limited before it is rounded: to [low - zero, high - zero], one instruction each, and the rest
converts to 32 bits by the instruction that rounds to nearest even. The sum is then one of integers,
and who wants the byte as a number less its zero point, as a residual sum does, needs no sum.

Networks that are quantised step by step round what a convolution makes to bytes, and again behind
each part of an activation: x * sigmoid(x) is then a polynomial, a division and three roundings
between two bytes. All of that is a function of the first byte, and vectors have instructions that
read tables in registers: of 128 bytes with VBMI, of 64 pairs with AVX-512, of 8 words with AVX2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from ....ir.dtype import DType
from ....ir.errors import ExecutionError
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar.builder import evaluate_program
from ....ir.scalar.program import Instr, Program
from ....plan.packing.panel_params import BYTES
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import F32, I8, I16, I32, Value, number, vec
from ...vecmath.table import MATH

# How far divisors of f32 may be from 1, so that nothing is below the smallest normal number.
_MAX_DIVISOR = 2.0**60
# Numbers of f32 tried on each side of half an integer: a quotient is rounded to one of two.
_NEIGHBOURS: Final = 3
# In units in the last place of f32, how near to the middle of two a sum of f64 is not certain.
_UNKNOWN_ULPS: Final = 2.0**-26
# Functions without polynomials that are shorter take no longer than the instructions that read a
# table: 6 with VBMI, 11 with AVX-512, 26 with AVX2.
_MIN_INSTRUCTIONS: Final = 8


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


def saturates_in_store(program: Program, index: int, how: Rounded, target: Target) -> bool:
    """Whether the instruction that narrows 32 bits limits the byte as well, as those of AVX-512 do:
    where no other instruction reads the byte, and nothing is added to it."""
    if target.isa != "avx512" or how.zero:
        return False
    return not any(index in instr.args for instr in program.instrs if instr.op != "input")


def round_to_int32(
    f: Function,
    x: Value,
    by: float | None,
    how: Rounded,
    constant: Callable[[float, str], Value],
    saturates: bool = False,
) -> Value:
    """The byte less its zero point, in 32 bits, where `x`, divided by `by` if there is one, is
    what is rounded. constant(x, element): in all lanes. saturates: `saturate` follows, so that u8
    needs no limit from above and i8 none from below: what 32 bits cannot hold is their lowest
    number, which is 2**31 without a sign."""
    low, high = float(how.dtype.min - how.zero), float(how.dtype.max - how.zero)
    factors = None
    if by is not None and f.target.fma:
        factors = split_reciprocal(by, int(low), int(high))
    quotient = x
    if factors is not None:
        assert by is not None
        # Beyond these x all bytes are the limits.
        low, high = (low - 0.25) * by, (high + 0.25) * by
    elif by is not None:
        quotient = f.fdiv(x, number(by, x.type))
    limited = quotient
    if how.dtype is DType.u8 or not saturates:
        # The comparison is false for NaN, which then becomes low.
        limited = f.max_or(limited, constant(low, F32))
    if how.dtype is DType.i8 or not saturates:
        limited = f.min_or(limited, constant(high, F32))
    if factors is not None:
        rest = f.fmul(limited, constant(factors[1], F32))
        limited = f.fma(limited, constant(factors[0], F32), rest)
    if how.dtype.min != how.zero:
        limited = f.select(f.fcmp("uno", x, x), number(0.0, x.type), limited)
    return f.intrinsic("lrint", limited, returns=vec(I32, x.lanes), by_result=True)


def saturate(f: Function, x: Value, dtype: DType) -> Value:
    """Numbers of 32 bits as bytes of a type, limited by what narrows them."""
    if dtype is DType.u8:
        return f.cast(f.intrinsic("umin", *f.pair(x, 255)), I8)
    return f.cast(f.smax(f.smin(x, 127), -128), I8)


@lru_cache(maxsize=256)
def split_reciprocal(by: float, low: int, high: int) -> tuple[float, float] | None:
    """Two numbers of f32 whose sum is nearly 1 / by, so that x * first + x * second, rounded twice,
    is as near to an integer as x / by is, for all x between low * by and high * by; or None.

    The sum differs from the quotient by 2**-47 of it, and rounded to f32 it may differ only where
    the quotient is that near to the middle of two numbers (Brisebarre, Muller, Raina, "Accelerating
    correctly rounded floating-point division when the divisor is known in advance", 2004). Only
    next to half an integer may that change what it is rounded to, so that a few numbers next to
    each of these are tried. A division takes as long as a dozen of these operations.
    """
    if not 1 / _MAX_DIVISOR < by < _MAX_DIVISOR or np.float32(by) != by:
        return None
    first = np.float32(1.0 / by)
    second = np.float32(1.0 / by - float(first))
    halves = (np.arange(low, high) + 0.5) * by
    bits = halves.astype(np.float32).view(np.int32)
    x = (bits[:, None] + np.arange(-_NEIGHBOURS, _NEIGHBOURS + 1, dtype=np.int32)).view(np.float32)
    exact = x.astype(np.float64) * float(first) + (x * second).astype(np.float64)
    rounded = exact.astype(np.float32)
    # The sum of f64 has been rounded: it says which number of f32 is nearer, but in the middle.
    ulps = np.abs(exact - rounded) / np.spacing(np.abs(rounded)).astype(np.float64)
    is_known = np.abs(ulps - 0.5) > _UNKNOWN_ULPS
    is_equal = np.rint(rounded) == np.rint(x / np.float32(by))
    return (float(first), float(second)) if np.all(is_known & is_equal) else None


def divisor(program: Program, ratio: int) -> tuple[int, float] | None:
    """(value number of x, c) where a program's value is x / c, c a constant."""
    instr = program.instrs[ratio]
    if instr.op != "div" or instr.dtype is not DType.f32:
        return None
    by = program.instrs[instr.args[1]]
    if by.op != "const" or not by.value or not math.isfinite(by.value):
        return None
    return instr.args[0], float(by.value)


def reads_tables(target: Target, lanes: int) -> bool:
    """Whether vectors of so many lanes read tables by instructions of the target."""
    return target.isa in ("avx512", "avx2") and lanes * 32 == target.vector_bits


# The value number of a byte, and for each of its 256 patterns of bits another byte, as i64 words.
ByteFunction: TypeAlias = tuple[int, tuple[int, ...]]


@lru_cache(maxsize=256)
def find_byte_functions(program: Program) -> Mapping[int, ByteFunction]:
    """The instructions that make a byte of nothing but another byte by many instructions, of those
    that the results are made of."""
    sources, found = _find_sources(program), dict[int, ByteFunction]()
    reached, waiting = set[int](), list(program.results)
    while waiting:
        index = waiting.pop()
        if index in reached:
            continue
        reached.add(index)
        function = _find_byte_function(program, index, sources[index])
        if function is not None:
            found[index] = function
            waiting.append(function[0])
        elif program.instrs[index].op != "input":
            waiting += program.instrs[index].args
    return found


def _find_byte_function(program: Program, index: int, source: int | None) -> ByteFunction | None:
    instrs = program.instrs
    if instrs[index].dtype not in BYTES or source is None:
        return None
    reached, waiting = {source}, [index]
    while waiting:
        at = waiting.pop()
        if at not in reached:
            reached.add(at)
            waiting += instrs[at].args
    real = [o for i in reached - {source} if (o := instrs[i].op) not in ("const", "cast")]
    if len(real) < _MIN_INSTRUCTIONS and not any(o in MATH for o in real):
        return None
    numbers = {old: new for new, old in enumerate(sorted(reached))}
    body = [
        Instr("input", (0,), instrs[i].dtype)
        if i == source
        else Instr(
            instrs[i].op,
            tuple(numbers[a] for a in instrs[i].args),
            instrs[i].dtype,
            instrs[i].value,
        )
        for i in sorted(reached)
    ]
    codes = np.arange(256, dtype=np.uint8).view(instrs[source].dtype.numpy)
    try:
        (table,) = evaluate_program(Program(tuple(body), (numbers[index],)), [codes])
    except ExecutionError:  # some byte is divided by zero, which is an error where it runs
        return None
    return source, tuple(np.ascontiguousarray(table).view("<i8").tolist())


def _find_sources(program: Program) -> tuple[int | None, ...]:
    """For each instruction the byte of which alone it is a function, if there is one; a byte of
    several values is its own."""
    found: list[int | None] = []
    constant = -1
    for index, instr in enumerate(program.instrs):
        of = set[int | None]() if instr.op == "input" else {found[a] for a in instr.args}
        of.discard(constant)
        if instr.op == "const" or (instr.op != "input" and not of):
            found.append(constant)
        elif len(of) == 1 and None not in of:
            found.append(of.pop())
        else:
            found.append(index if instr.dtype in BYTES else None)
    return tuple(None if s == constant else s for s in found)


def read_table(f: Function, codes: Value, table: Value) -> Value:
    """The bytes of a table at the lowest bytes of codes in 32 bits."""
    if f.target.has("avx512vbmi"):
        codes = f.bitcast(codes, vec(I8, 4 * codes.lanes))
        found = f.select(f.icmp("slt", codes, 0), *_read_halves(f, codes, table, "qi"))
        return f.cast(f.bitcast(found, vec(I32, codes.lanes // 4)), I8)
    if f.target.isa == "avx512":
        pairs = f.bitcast(f.lshr(codes, 1), vec(I16, 2 * codes.lanes))
        high, low = (f.bitcast(h, codes.type) for h in _read_halves(f, pairs, table, "hi"))
        found, bytes_each = f.select(f.icmp("ugt", codes, 127), high, low), 2
    else:
        found, bytes_each = _read_eighths(f, codes, table), 4
    return f.cast(f.lshr(found, f.and_(f.shl(codes, 3), 8 * (bytes_each - 1))), I8)


def _read_halves(f: Function, at: Value, table: Value, element: str) -> list[Value]:
    """Elements at the lowest bits of `at`: of the table's second half, and of its first."""
    quarters = [f.load(at.type, f.offset(table, 64 * i)) for i in range(4)]
    name = f"llvm.x86.avx512.vpermi2var.{element}.512"
    return [f.call(name, at.type, quarters[i], at, quarters[i + 1]) for i in (2, 0)]


def _read_eighths(f: Function, codes: Value, table: Value) -> Value:
    """Words of four bytes, each register a table of eight."""
    at = f.lshr(codes, 2)
    found = [
        f.call("llvm.x86.avx2.permd", at.type, f.load(at.type, f.offset(table, 32 * i)), at)
        for i in range(8)
    ]
    for bit in (32, 64, 128):
        is_odd = f.icmp("ne", f.and_(codes, bit), 0)
        found = [f.select(is_odd, found[i + 1], found[i]) for i in range(0, len(found), 2)]
    return found[0]


@lru_cache(maxsize=256)
def find_replaced(program: Program, has_tables: bool) -> frozenset[int]:
    """The instructions that only other instructions read which code of bytes replaces."""
    return _find_reached(program, lambda i: program.instrs[i].args) - _find_reached(
        program, _reads(program, has_tables)
    )


def _reads(program: Program, has_tables: bool) -> Callable[[int], Sequence[int]]:
    """The values that the code of an instruction reads."""

    functions = find_byte_functions(program) if has_tables else {}

    def reads(index: int) -> Sequence[int]:
        if index in functions:
            return (functions[index][0],)
        how = rounded_byte(program, index)
        if how is not None:
            found = divisor(program, how.ratio)
            return (found[0] if found else how.ratio,)
        instr = program.instrs[index]
        byte = read_byte(program, index)
        return instr.args if byte is None else (byte,)

    return reads


def _find_reached(program: Program, reads: Callable[[int], Sequence[int]]) -> frozenset[int]:
    """The instructions whose values the results are made of."""
    found, waiting = set[int](), list(program.results)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting += () if program.instrs[index].op == "input" else reads(index)
    return frozenset(found)
