"""The two floating-point formats the mathematics is written for, and work on their bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.lazy_dataclass import dataclass
from ..llvmir.builder import Function
from ..llvmir.values import BF16, F16, F32, F64, I32, I64, Value, integer, number, vec

MathFunction = Callable[[Function, Value], Value]


@dataclass(frozen=True)
class Format:
    """Constants of a binary format.

    magic: 1.5 * 2**mantissa; adding it rounds to an integer (nearest even) that is then in
    the low bits. It replaces a rounding instruction, which the plain instruction set lacks.
    ln2_high has so many trailing zero bits that its product with any exponent is exact.
    """

    element: str
    integer: str
    mantissa: int
    bias: int
    magic: float
    magic_bits: int
    ln2_high: float
    ln2_low: float
    half_root_bits: int  # of sqrt(1/2)
    tiny: float  # the least normal number


SINGLE = Format(
    element=F32,
    integer=I32,
    mantissa=23,
    bias=127,
    magic=1.5 * 2.0**23,
    magic_bits=0x4B400000,
    ln2_high=float.fromhex("0x1.62e4p-1"),
    ln2_low=float.fromhex("0x1.7f7d1cf79abcap-20"),  # ln 2 - ln2_high
    half_root_bits=0x3F3504F3,
    tiny=2.0**-126,
)
DOUBLE = Format(
    element=F64,
    integer=I64,
    mantissa=52,
    bias=1023,
    magic=1.5 * 2.0**52,
    magic_bits=0x4338000000000000,
    ln2_high=float.fromhex("0x1.62e42feep-1"),
    ln2_low=float.fromhex("0x1.a39ef35793c76p-33"),
    half_root_bits=0x3FE6A09E667F3BCD,
    tiny=2.0**-1022,
)
LOG2E = float.fromhex("0x1.71547652b82fep+0")
INFINITY = float("inf")
NAN = float("nan")


def format_of(x: Value) -> Format:
    """SINGLE or DOUBLE; TypeError for other elements."""
    if x.element == F32:
        return SINGLE
    if x.element == F64:
        return DOUBLE
    raise TypeError(f"no mathematics for {x.type}")


def widen_function(function: MathFunction) -> MathFunction:
    """The same function for half types too: computed in f32, rounded once."""

    def through_single(f: Function, x: Value) -> Value:
        if x.element in (F16, BF16):
            return f.cast(function(f, f.cast(x, F32)), x.element)
        return function(f, x)

    through_single.__doc__ = function.__doc__
    through_single.__name__ = function.__name__
    return through_single


def bits(f: Function, x: Value) -> Value:
    """x's bits as integers of the same width."""
    return f.bitcast(x, vec(format_of(x).integer, x.lanes))


def power_of_two(f: Function, n: Value, fmt: Format) -> Value:
    """2**n for integer lanes n inside the exponent range of normal numbers."""
    biased = f.add(n, number(fmt.bias, n.type))
    return f.bitcast(f.shl(biased, number(fmt.mantissa, n.type)), vec(fmt.element, n.lanes))


def horner(f: Function, x: Value, coefficients: Sequence[float]) -> Value:
    """c[0] + x*c[1] + ..., highest power first; one fma per coefficient."""
    y = number(coefficients[-1], x.type)
    for c in coefficients[-2::-1]:
        y = f.fma(y, x, number(c, x.type))
    return y


def round_scaled(f: Function, x: Value, scale: float) -> tuple[Value, Value]:
    """(n, low): n = nearest integer to x*scale as a float, low = the same as integer lanes.

    For |x*scale| below 2**(mantissa-2).
    """
    fmt = format_of(x)
    shifted = f.fma(x, scale, fmt.magic)
    low = f.sub(bits(f, shifted), integer(fmt.magic_bits, vec(fmt.integer, x.lanes)))
    return f.fsub(shifted, fmt.magic), low
