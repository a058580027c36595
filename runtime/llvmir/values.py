"""Typed operands of LLVM assembly: types as their own text, values, constants.

A type is LLVM's text for it ("i64", "float", "<16 x float>", "ptr"): nothing to translate, and it
prints itself. A Value is a type and an operand; integer scalars also carry their constant, if it
is known, so that Function can fold index arithmetic while it writes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

I1, I8, I16, I32, I64, PTR = "i1", "i8", "i16", "i32", "i64", "ptr"
F32, F64 = "float", "double"
# Names that a module defines as i16 (ALIASES). LLVM moves, chooses and compares its own 16-bit
# types through f32 where the processor has no unit for them, by calls of a library.
F16, BF16 = "%f16", "%bf16"
ALIASES: Final = "%f16 = type i16\n%bf16 = type i16"
# LLVM's own types, for operands of the instructions that convert or multiply.
LLVM_F16, LLVM_BF16 = "half", "bfloat"

_BITS: Final = {F16: 16, BF16: 16, LLVM_F16: 16, LLVM_BF16: 16, F32: 32, F64: 64, PTR: 64}
# Suffixes of overloaded intrinsics.
_SUFFIX: Final = {F16: I16, BF16: I16, LLVM_F16: "f16", F32: "f32", F64: "f64", PTR: "p0"}

# Element types by the names irc_compiler.ir.dtype uses; booleans are stored as bytes, signs are
# operations.
ELEMENT: Final = {
    "f16": F16,
    "bf16": BF16,
    "f32": F32,
    "f64": F64,
    "i8": I8,
    "u8": I8,
    "i16": I16,
    "u16": I16,
    "i32": I32,
    "u32": I32,
    "i64": I64,
    "u64": I64,
    "boolean": I8,
    "bool": I8,
}


def vec(element: str, lanes: int) -> str:
    """The vector type, or the scalar type itself for 1 lane (so that tails share code)."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@lru_cache(maxsize=4096)
def split_type(type_: str) -> tuple[str, int]:
    """(element type, lanes); lanes is 1 for a scalar."""
    if type_.startswith("<"):
        lanes, element = type_[1:-1].split(" x ")
        return element, int(lanes)
    return type_, 1


def element_of(type_: str) -> str:
    return split_type(type_)[0]


def lanes_of(type_: str) -> int:
    return split_type(type_)[1]


def is_float(type_: str) -> bool:
    return split_type(type_)[0] in (F32, F64, F16, BF16)


@lru_cache(maxsize=4096)
def bits_of(type_: str) -> int:
    """Bits of one element."""
    element = split_type(type_)[0]
    return _BITS[element] if element in _BITS else int(element[1:])


@lru_cache(maxsize=4096)
def bytes_of(type_: str) -> int:
    """Bytes the whole type takes in memory (i1 and i4 elements: a byte each at least)."""
    element, lanes = split_type(type_)
    return max(8, bits_of(element)) // 8 * lanes


@lru_cache(maxsize=4096)
def suffix(type_: str) -> str:
    """The overload suffix of intrinsics: "v16f32", "i64"."""
    element, lanes = split_type(type_)
    base = _SUFFIX.get(element, element)
    return base if lanes == 1 else f"v{lanes}{base}"


class Value:
    """An operand: `type`, `text`, and `known`, the constant of an integer scalar (else None).

    divisor: what an integer that is not known is a multiple of.
    """

    __slots__ = ("type", "text", "known", "divisor")

    def __init__(
        self, type_: str, text: str, known: int | None = None, *, divisor: int = 1
    ) -> None:
        self.type, self.text, self.known, self.divisor = type_, text, known, divisor

    def is_multiple(self, of: int) -> bool:
        """Whether the integer is known to be a multiple of that."""
        return (self.divisor if self.known is None else self.known) % of == 0

    def __str__(self) -> str:
        return f"{self.type} {self.text}"

    def __repr__(self) -> str:
        return f"Value({self})"

    def __bool__(self) -> bool:
        raise TypeError("a Value has no truth value while code is generated; use Function.if_")

    @property
    def lanes(self) -> int:
        return split_type(self.type)[1]

    @property
    def element(self) -> str:
        return split_type(self.type)[0]


def to_signed(x: int, bits: int) -> int:
    """x modulo 2**bits as a two's complement number."""
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


@lru_cache(maxsize=4096)
def integer(x: int, type_: str = I64) -> Value:
    """An integer constant, wrapped to the type's width; splat for a vector type."""
    element, lanes = split_type(type_)
    n = int(x) & 1 if element == I1 else to_signed(int(x), bits_of(element))
    if lanes == 1:
        return Value(type_, str(n), n)
    return Value(type_, "<" + ", ".join([f"{element} {n}"] * lanes) + ">")


def float_text(x: float, element: str) -> str:
    """LLVM's exact text of x, rounded to the element type (nearest even, overflow to inf)."""
    if element == F64:
        return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"
    if element == F32:
        return f"0x{struct.unpack('<Q', struct.pack('<d', round_to_f32(x)))[0]:016X}"
    if element == F16:
        return str(_f16_bits(x))
    if element == LLVM_F16:
        return f"0xH{_f16_bits(x):04X}"
    if element == BF16:
        bits = struct.unpack("<I", struct.pack("<f", round_to_f32(x)))[0]
        if math.isnan(x):
            return str(bits >> 16 | 0x40)
        return str((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    raise TypeError(f"{element} is not a float type")


def _f16_bits(x: float) -> int:
    try:
        return struct.unpack("<H", struct.pack("<e", x))[0]
    except OverflowError:
        return 0xFC00 if x < 0 else 0x7C00


def round_to_f32(x: float) -> float:
    """The f32 next to x; beyond all of them, infinity."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def number(x: float, type_: str) -> Value:
    """A constant of any arithmetic type; splat for a vector type."""
    element, lanes = split_type(type_)
    if not is_float(element) and element != LLVM_F16:
        return integer(int(x), type_)
    text = float_text(float(x), element)
    if lanes == 1:
        return Value(type_, text)
    return Value(type_, "<" + ", ".join([f"{element} {text}"] * lanes) + ">")


def constants(xs: Sequence[float], element: str) -> Value:
    """A constant vector, one number per lane."""
    if len(xs) == 1:
        return number(xs[0], element)
    cells = ", ".join(str(number(x, element)) for x in xs)
    return Value(vec(element, len(xs)), f"<{cells}>")
