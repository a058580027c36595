"""Functions of f32 whose results are rounded to bf16: shorter polynomials, and reciprocals by the
instruction that approximates them.

Relative errors are below 2**-13.7, so that what is rounded is within 0.52 ulp of bf16 of the exact
value, the functions of the other modules within 0.5. Coefficients: minimax (Lawson, f64) fits of
relative errors, rounded to f32.
"""

from __future__ import annotations

from typing import Final

from ..llvmir.builder import Function
from ..llvmir.values import I16, Value, integer, number
from .exp import scale_by_power
from .formats import LOG2E, SINGLE, MathFunction, horner, power_of_two, round_scaled

# log2 of the normal distribution function at -t, t in [0, 13.7]: 2**-14.3 of its power of two.
_LOG2_TAIL: Final = (
    -1.000041127204895,
    -1.1508351564407349,
    -0.45909950137138367,
    -0.05370589345693588,
    0.008564677089452744,
    -0.0009975474094972014,
    8.051429176703095e-05,
    -4.220561095280573e-06,
    1.2841168484101217e-07,
    -1.714144826081565e-09,
)
# The tail times t rounds to zero in bf16 from here on.
_END_OF_TAIL: Final = 13.7
# 2**r for |r| <= 1/2: 2**-18.4.
_POWER: Final = (
    1.0,
    0.6931241750717163,
    0.24024100601673126,
    0.05590641498565674,
    0.009582760743796825,
)
# (2**r - 1) / r: 2**-16.
_POWER_LESS_ONE: Final = (
    0.6931368708610535,
    0.24023252725601196,
    0.05583718791604042,
    0.009618029930697514,
)


def gelu(f: Function, x: Value) -> Value:
    """x (1 + erf(x / sqrt 2)) / 2, relative error below 2**-14; 0 at -infinity."""
    t = f.min_or(number(_END_OF_TAIL, x.type), f.fabs(x))
    below = f.fmul(_power_of_two(f, horner(f, t, _LOG2_TAIL), 1.0), t)
    return f.select(f.fcmp("ogt", x, 0.0), f.fsub(x, below), f.copysign(below, x))


def sigmoid(f: Function, x: Value) -> Value:
    """1 / (1 + e**-x), relative error below 2**-13.7; denormal results may be 0."""
    power = _power_of_two(f, f.clamp(x, -90.0, 90.0), -LOG2E)
    return _approximate_reciprocal(f, f.fadd(power, 1.0))


def tanh(f: Function, x: Value) -> Value:
    """tanh x, relative error below 2**-13.7; exact signs of zero, +-1 at infinity."""
    a = f.min_or(number(9.1, x.type), f.fabs(x))
    n, k = round_scaled(f, a, 2 * LOG2E)
    r = f.fma(a, 2 * LOG2E, f.fneg(n))
    scale = power_of_two(f, k, SINGLE)
    p = f.fmul(r, horner(f, r, _POWER_LESS_ONE))
    m = f.fma(p, scale, f.fsub(scale, 1.0))
    return f.copysign(f.fmul(m, _approximate_reciprocal(f, f.fadd(m, 2.0))), x)


def exp(f: Function, x: Value) -> Value:
    """e**x, relative error below 2**-16; infinity and 0 beyond the range."""
    return _power_of_two(f, f.clamp(x, -105.0, 89.0), LOG2E)


def exp_falling(f: Function, x: Value) -> Value:
    """e**x for x <= 0 or NaN, relative error below 2**-16; 1 at 0, and 0 where e**x comes near the
    smallest normal number or below, as the function of that name in exp.py."""
    n, k = round_scaled(f, x, LOG2E)
    r = f.fma(x, LOG2E, f.fneg(n))
    power = f.fmul(horner(f, r, _POWER), power_of_two(f, k, SINGLE))
    return f.select(f.fcmp("olt", x, -87.3365), number(0.0, x.type), power)


def _power_of_two(f: Function, x: Value, scale: float) -> Value:
    """2**(x * scale) for |x * scale| < 2**20; infinity and 0 beyond the range."""
    n, k = round_scaled(f, x, scale)
    r = f.fma(x, scale, f.fneg(n))
    return scale_by_power(f, horner(f, r, _POWER), n, k, SINGLE)


def _approximate_reciprocal(f: Function, x: Value) -> Value:
    """1 / x for x >= 1, relative error at most 2**-14; 0 at infinity. The same bits for every
    number of lanes."""
    if not f.target.has("avx512vl"):
        return f.fdiv(number(1.0, x.type), x)
    lanes = x.lanes
    if lanes > 16:
        halves = (
            f.shuffle(x, None, half) for half in (range(lanes // 2), range(lanes // 2, lanes))
        )
        return f.concat(*(_approximate_reciprocal(f, half) for half in halves))
    width = next(n for n in (4, 8, 16) if n >= lanes)
    if lanes == width:
        return _call_reciprocal(f, x)
    wide = (
        f.splat(x, width) if lanes == 1 else f.shuffle(x, None, [n % lanes for n in range(width)])
    )
    return f.shuffle(_call_reciprocal(f, wide), None, range(lanes))


def _call_reciprocal(f: Function, x: Value) -> Value:
    """AVX-512's VRCP14PS."""
    mask = integer(-1, I16 if x.lanes == 16 else "i8")
    name = f"llvm.x86.avx512.rcp14.ps.{32 * x.lanes}"
    return f.call(name, x.type, x, number(0.0, x.type), mask)


BF16_RESULTS: Final[dict[str, MathFunction]] = {
    "exp": exp,
    "gelu": gelu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
