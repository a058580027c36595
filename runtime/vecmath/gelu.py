"""Vector Gelu, x times the normal distribution function: accurate in the far negative tail, too.

With t = |x|, the tail is e**(-t**2 / 2) H(u) / (t + 4) with u = (t - 4) / (t + 4); H is smooth, and
1 + erf(x / sqrt 2) cancels there. Coefficients: Chebyshev fits (60 decimal digits) of the relative
error of H, rounded to the format.
"""

from __future__ import annotations

from ..llvmir.builder import Function
from ..llvmir.values import Value, number
from .exp import exp_of_sum
from .formats import SINGLE, bits, format_of, horner

# H on t in [0, 15] and [0, 39], where Gelu rounds to zero: 2**-28.4 and 2**-61.4.
_H_SINGLE = (
    0.7552851438522339,
    -0.6078966856002808,
    0.38713735342025757,
    -0.1865212768316269,
    0.06039753183722496,
    -0.007545268163084984,
    -0.003489317372441292,
    0.0016452192794531584,
    0.0001710546057438478,
    -0.00023179868003353477,
    -5.155659164302051e-05,
)
_H_DOUBLE = (
    0.7552851304157515,
    -0.6078966419718921,
    0.38713740074221453,
    -0.18652185795965676,
    0.06039657489093918,
    -0.007540188966756837,
    -0.003479692367495938,
    0.001630818458263474,
    0.00013334431424145252,
    -0.0002310949427983492,
    -1.9082767921151805e-06,
    3.514473543842981e-05,
    7.167789367916118e-07,
    -5.920367401645914e-06,
    -6.301438357932293e-07,
    1.0220212242887906e-06,
    2.729737288709319e-07,
    -1.55615047481163e-07,
    -8.740620630716035e-08,
    1.367393030383959e-08,
    2.1765990651438727e-08,
    2.073067195627434e-09,
    -3.837277899469422e-09,
    -1.0898545422253287e-09,
    3.5037072406014614e-10,
    1.520496457433185e-10,
)
_CENTRE = 4.0


def gelu(f: Function, x: Value) -> Value:
    """x (1 + erf(x / sqrt 2)) / 2, at most 5 ulp, denormal results included; 0 at -infinity."""
    fmt = format_of(x)
    single = fmt is SINGLE
    t = f.min_or(number(15.0 if single else 39.0, x.type), f.fabs(x))
    # t**2 as a square that is exact, of t's upper half, and the rest.
    upper = f.and_(bits(f, t), number(-1 << (fmt.mantissa // 2 + 1), bits(f, t).type))
    high = f.bitcast(upper, x.type)
    square = f.fmul(f.fmul(high, high), -0.5)
    rest = f.fmul(f.fmul(f.fadd(t, high), f.fsub(t, high)), -0.5)
    shifted = f.fadd(t, _CENTRE)
    if single:
        inverse = f.fdiv(number(1.0, x.type), shifted)
        h = horner(f, f.fmul(f.fsub(t, _CENTRE), inverse), _H_SINGLE)
        ratio = f.fmul(h, f.fmul(t, inverse))
    else:
        # Two divisions: two roundings fewer, which cores without FMA need for 5 ulp.
        h = horner(f, f.fdiv(f.fsub(t, _CENTRE), shifted), _H_DOUBLE)
        ratio = f.fdiv(f.fmul(h, t), shifted)
    below = exp_of_sum(f, square, rest, ratio)
    above = f.fsub(x, below)
    return f.select(f.fcmp("ogt", x, 0.0), above, f.copysign(below, x))
