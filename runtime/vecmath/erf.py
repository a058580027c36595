"""Vector erf: an odd polynomial up to 1, and beyond 1 - e**-g(|x|) with g = -log(erfc).

Beyond 1 erfc is below 0.16, so the error of the exponential counts a sixth at most.
Coefficients: minimax (Remez, 60 decimal digits) fits of the relative error of erf, rounded to the
format.
"""

from __future__ import annotations

from ..llvmir.builder import Function
from ..llvmir.values import Value, number
from .exp import reduced_expm1
from .formats import SINGLE, format_of, horner, power_of_two

# erf x = x + x S(x**2) on [0, 1]: 2**-29.2 and 2**-56.3.
_S_SINGLE = (
    0.12837916612625122,
    -0.3761262595653534,
    0.11283592879772186,
    -0.026854293420910835,
    0.0051894118078053,
    -0.0008020617533475161,
    7.890225242590532e-05,
)
_S_DOUBLE = (
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954857,
    -0.026866170645072903,
    0.005223977624780911,
    -0.0008548326978743876,
    0.00012055331036938248,
    -1.4925593507484189e-05,
    1.6460972823586804e-06,
    -1.635002527886509e-07,
    1.46578802153509e-08,
    -1.1365667609326935e-09,
    5.945265136769257e-11,
)
# -log(erfc x) on [1, 4] and [1, 6]: 2**-29.8 and 2**-56.1 of erf.
_G_SINGLE = (
    0.0003415232349652797,
    1.1270891427993774,
    0.6381449699401855,
    0.10310661047697067,
    -0.021838001906871796,
    0.0029476515483111143,
    -0.0001863804500317201,
)
_G_DOUBLE = (
    4.6996120147820985e-08,
    1.1283787166020156,
    0.6366216878778054,
    0.1027680203099114,
    -0.01912244527706041,
    -0.00021039981820015366,
    0.0016836386648437576,
    -0.0005592845659303497,
    -1.798152298840959e-05,
    0.00010922801606533686,
    -6.45278933783787e-05,
    2.444330210011823e-05,
    -6.936146047312694e-06,
    1.540157434249958e-06,
    -2.704059181591682e-07,
    3.7306748870361826e-08,
    -3.967574501719466e-09,
    3.1414316167608183e-10,
    -1.743753898333869e-11,
    6.052587515671183e-13,
    -9.8806815606535e-15,
)


def erf(f: Function, x: Value) -> Value:
    """The error function, at most 1.4 ulp; exact signs of zero, +-1 at infinity."""
    fmt = format_of(x)
    single = fmt is SINGLE
    a = f.fabs(x)
    square = f.fmul(x, x)
    near = f.fma(x, horner(f, square, _S_SINGLE if single else _S_DOUBLE), x)
    # erf rounds to 1 from 3.92 (5.93) on.
    b = f.min_or(number(4.0 if single else 6.0, x.type), a)
    g = horner(f, b, _G_SINGLE if single else _G_DOUBLE)
    p, _, k = reduced_expm1(f, f.fneg(g))
    scale = power_of_two(f, k, fmt)
    far = f.fsub(1.0, f.fma(p, scale, scale))
    return f.select(f.fcmp("olt", a, 1.0), near, f.copysign(far, x))
