"""The vector mathematics against wider arithmetic: whole range, special values, every lane.

f32 is held against f64 of NumPy, f64 against x87's 80 bits (where long double has them). The
bounds are those the docstrings promise.
"""

from __future__ import annotations

import ctypes
import math
import re
from functools import cache

import ml_dtypes
import mpmath
import numpy as np
import pytest
from irc_compiler.ir.ops.math.activation_table import activate
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit import host_features as host
from irc_compiler.runtime.jit import llvm
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.kernel_entry import READ, WRITE, open_kernel
from irc_compiler.runtime.llvmir.values import BF16, F16, F32, F64, bits_of, vec
from irc_compiler.runtime.machine.detect import host_target
from irc_compiler.runtime.vecmath import bf16_results
from irc_compiler.runtime.vecmath.table import BINARY, MATH, UNARY

ISAS = ["avx512", "avx2", "neon", "plain"]
NUMPY = {F32: np.float32, F64: np.float64, F16: np.float16, BF16: ml_dtypes.bfloat16}
INF, NAN = math.inf, math.nan
# Of f32, for results that are rounded to bf16.
FOR_BF16 = {
    **{f"bf16_{name}": function for name, function in bf16_results.BF16_RESULTS.items()},
    "bf16_exp_falling": bf16_results.exp_falling,
}
FUNCTIONS = {**MATH, **FOR_BF16}


@pytest.fixture(params=ISAS)
def isa(request):
    if request.param not in host.available_isas():
        pytest.skip(f"not run: this machine has no {request.param}")
    return request.param


def build(name, target, element, lanes):
    """Kernel text of y = name(x...): whole vectors, then a masked one."""
    module = Module(target)
    inputs = 2 if name in BINARY else 1
    k = open_kernel(module, "k", [READ] * inputs + [WRITE], 1)
    f, count, type_ = k.function, k.dims[0], vec(element, lanes)
    sources, out = k.buffers[:-1], k.buffers[-1]
    whole = f.sub(count, f.urem(count, lanes))
    with f.range(0, whole, lanes, unroll=1) as i:
        xs = [f.load(type_, f.at(b, i, element)) for b in sources]
        f.store(FUNCTIONS[name](f, *xs), f.at(out, i, element))
    mask = f.mask(lanes, f.sub(count, whole))
    xs = [f.load_masked(type_, f.at(b, whole, element), mask) for b in sources]
    f.store_masked(FUNCTIONS[name](f, *xs), f.at(out, whole, element), mask)
    return module.text()


@cache
def compiled(name, isa, element=F32, lanes=None):
    target = host_target(isa)
    text = build(name, target, element, lanes or target.lanes(bits_of(element)))
    library = load_objects([llvm.emit_object(text, target)], ["k"], target)
    p = ctypes.c_void_p
    return library.function("k", p, p, ctypes.c_int32, ctypes.c_int32, p)


def run(name, isa, *xs, element=F32, lanes=None):
    xs = [np.ascontiguousarray(x, NUMPY[element]) for x in xs]
    y = np.full(xs[0].shape, NAN, NUMPY[element])
    buffers = (ctypes.c_void_p * (len(xs) + 1))(*[a.ctypes.data for a in (*xs, y)])
    count = np.array([xs[0].size], np.int64)
    assert compiled(name, isa, element, lanes)(buffers, count.ctypes.data, 0, 1, None) == 0
    return y


def worst(y, want, x):
    """(error in units in the last place, where); infinite where one is NaN or inf and not both."""
    info = np.finfo(y.dtype)
    with np.errstate(all="ignore"):
        near = want.astype(y.dtype)
        exponent = np.maximum(np.frexp(np.abs(want))[1] - 1, info.minexp)
        unit = np.ldexp(want.dtype.type(1), exponent - info.nmant)
        error = np.abs(y.astype(want.dtype) - want) / unit
        special = ~(np.isfinite(near) & np.isfinite(y))
        same = (near == y) | (np.isnan(near) & np.isnan(y))
        error[special] = np.where(same, 0, INF)[special]
        error[(near == 0) & (y == 0) & (np.signbit(near) != np.signbit(y))] = INF
    at = int(np.argmax(error))
    return float(error[at]), (x.flat[at], y.flat[at], want.flat[at])


def _erf(x):
    return np.array([math.erf(v) for v in x.tolist()])


def _sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x > 0, 1, e) / (1 + e)


def _gelu(x):
    """x times the normal distribution function, with 60 digits (f32: f64, which is enough)."""
    if x.dtype == np.float64:
        return activate("gelu", [], x)
    with mpmath.workdps(60):
        wide = [mpmath.mpf(v) for v in np.clip(x, -1e3, None).astype(np.float64).tolist()]
        found = [
            v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2 if v and mpmath.isfinite(v) else v
            for v in wide
        ]
        exact = np.array([np.longdouble(mpmath.nstr(v, 25)) for v in found])
    return np.where(x == 0, x, exact)


ORACLES = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": _erf,
    "exp": np.exp,
    "gelu": _gelu,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sigmoid": _sigmoid,
    "sin": np.sin,
    "sinh": np.sinh,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
# The docstrings' promises: ulps of f32, of f64.
BOUNDS = {
    "erf": (1.4, 1.4 + 1),  # math.erf, the f64 oracle, is good to one ulp itself
    "exp": (1.1, 1.1),
    "gelu": (5.0, 5.0),
    "exp2": (1.1, 1.1),
    "expm1": (2.0, 2.0),
    "log": (0.9, 0.9),
    "log1p": (1.0, 1.0),
    "sigmoid": (2.4, 2.0),
    "softplus": (1.8, 1.8),
    "sqrt": (0.5, 0.5),
    "tanh": (2.6, 2.3),
}


# Of f64 functions that are composed of others.
COMPOSED_F64_BOUND = 6.0


@cache
def singles():
    """Every 40009th bit pattern (infinities, NaN, denormals of both signs among them), the range
    models use, and the neighbourhood of everything that is special somewhere."""
    patterns = np.arange(0, 1 << 32, 40009, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = np.linspace(-20, 20, 40001, dtype=np.float32)
    edges = [0.0, 1, 0.5, 2, math.pi, math.pi / 2, math.pi / 4, 88.72284, 88.0, 87.33655, 103.97208]
    edges += [9.01, 9.1, 3.92, 4.0, 128, 126, 127, 149, 150, 2.0**-126, 2.0**-149, 3.4028235e38]
    edges += [math.log(2) / 2, math.sqrt(0.5), math.sqrt(2), 2.0**20, 2.0**24, 2.0**127, 1e-3, 100]
    edges += [math.tan(math.pi / 8), math.tan(3 * math.pi / 8), 16367173 * 2.0**72]
    near = np.array(edges, np.float32)
    steps = np.arange(-3, 4, dtype=np.int32)
    near = (near.view(np.int32)[:, None] + steps).ravel().view(np.float32)
    special = np.array([INF, NAN], np.float32)
    both = np.concatenate([near, special])
    return np.concatenate([patterns, usual, both, -both])


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(UNARY))
def test_f32(name, isa):
    x = singles()
    with np.errstate(all="ignore"):
        want = ORACLES[name](x.astype(np.float64))
    error, where = worst(run(name, isa, x), want, x)
    bound = BOUNDS[name][0] if name in BOUNDS else 0.51
    assert error <= bound, where


# The docstrings' promises, as relative errors.
BF16_BOUNDS = {
    "bf16_exp": 2.0**-16,
    "bf16_exp_falling": 2.0**-16,
    "bf16_gelu": 2.0**-14,
    "bf16_sigmoid": 2.0**-13.7,
    "bf16_tanh": 2.0**-13.7,
}


@pytest.mark.aarch64
@pytest.mark.parametrize("name", sorted(FOR_BF16))
def test_functions_for_bf16(name, isa):
    """Relative errors of normal results; infinities, zeros and NaN as the exact results rounded to
    bf16 have them."""
    x = singles()
    x = -np.abs(x) if name == "bf16_exp_falling" else x
    exact = name.removeprefix("bf16_").removesuffix("_falling")
    with np.errstate(all="ignore"):
        want = ORACLES[exact](x.astype(np.float64))
        y = run(name, isa, x)
        is_normal = (np.abs(want) >= 2.0**-125.9) & (np.abs(want) < 2.0**127.9)
        error = np.where(is_normal, np.abs(y - want) / np.abs(want), 0)
        stored, near = (v.astype(NUMPY[BF16]).astype(np.float32) for v in (y, want))
    at = int(np.argmax(error))
    assert error[at] < BF16_BOUNDS[name], (x[at], y[at], want[at])
    is_special = ~np.isfinite(near) | (want == 0)
    np.testing.assert_array_equal(stored[is_special], near[is_special])
    assert np.abs(y[np.abs(want) < 2.0**-125.9]).max(initial=0) < 2.0**-125.8


@cache
def doubles():
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 64, 30000, dtype=np.uint64).view(np.float64)
    usual = np.concatenate([rng.uniform(-b, b, 20000) for b in (0.4, 2, 40, 760)])
    special = [0.0, 1, 0.5, 2, 5e-324, 1e-310, 2.2250738585072014e-308, 1.7976931348623157e308]
    special += [709.78, 709.79, 745.1, 745.2, 19.06, 19.07, 5.93, 6.0, 1024, 1074, 1075, INF, NAN]
    both = np.array(special)
    return np.concatenate([bits, usual, both, -both])


@pytest.mark.slow
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="not run: longdouble is narrow")
@pytest.mark.parametrize("name", sorted(UNARY))
def test_f64(name, isa):
    x = doubles()
    with np.errstate(all="ignore"):
        want = ORACLES[name](x if name == "erf" else x.astype(np.longdouble))
    error, where = worst(run(name, isa, x, element=F64), want, x)
    assert error <= (BOUNDS[name][1] if name in BOUNDS else COMPOSED_F64_BOUND), where


@pytest.mark.parametrize("name", sorted(MATH))
def test_every_function_is_written_for_f32_and_f64(name):
    for element in (F32, F64):
        assert build(name, generic_target("plain"), element, 2)


# Values that are exact whatever the method: signs of zero, identities, poles.
EXACT = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (89.0, INF), (-105.0, 0.0)],
    "exp2": [(3.0, 8), (-149.0, 2.0**-149), (-126.0, 2.0**-126), (127.0, 2.0**127), (128.0, INF)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (-INF, -1), (INF, INF), (1e-40, 1e-40)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (-2.0, NAN), (INF, INF), (1e-40, 1e-40)],
    "tanh": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, 1),
        (-INF, -1),
        (10.0, 1),
        (-10.0, -1),
        (1e-42, 1e-42),
    ],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (4.5, 1), (-4.5, -1)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -0.0), (20.0, 20), (-20.0, -0.0)],
    "sigmoid": [(0.0, 0.5), (INF, 1), (-INF, 0.0), (100.0, 1)],
    "softplus": [(INF, INF), (-INF, 0.0), (200.0, 200)],
    "sqrt": [(0.0, 0.0), (-0.0, -0.0), (4.0, 2), (-1.0, NAN), (INF, INF)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (INF, NAN)],
    "tan": [(-0.0, -0.0), (INF, NAN)],
    "sinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "cosh": [(0.0, 1), (-INF, INF)],
    "asinh": [(-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (-3.0, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN)],
    "atan": [(-0.0, -0.0), (INF, np.float32(math.pi / 2))],
    "asin": [(-0.0, -0.0), (1.5, NAN), (INF, NAN)],
    "acos": [(1.0, 0.0), (-1.5, NAN)],
}


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXACT))
def test_exact_values(name, isa):
    x = np.array([*(a for a, _ in EXACT[name]), NAN], np.float32)
    want = np.array([*(b for _, b in EXACT[name]), NAN], np.float32)
    y = run(name, isa, x)
    np.testing.assert_array_equal(y, want)
    assert (np.signbit(y) == np.signbit(want))[:-1][~np.isnan(want[:-1])].all()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_lanes_do_not_matter(name, isa):
    """The same bits for every lane count, in the masked tail, and whatever the neighbours are."""
    x = singles()[::23]
    xs = [x, x[::-1]] if name in BINARY else [x]
    want = run(name, isa, *xs)
    for lanes in (1, 3, 4, 16, 32):
        y = run(name, isa, *xs, lanes=lanes)
        np.testing.assert_array_equal(
            y.view(np.int32)[~np.isnan(want)], want.view(np.int32)[~np.isnan(want)]
        )
        assert (np.isnan(y) == np.isnan(want)).all()
    head = [a[:37] for a in xs]
    np.testing.assert_array_equal(run(name, isa, *head), want[:37])


@pytest.mark.slow
@pytest.mark.parametrize("element", [F16, BF16])
@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sin"])
def test_f16_is_computed_in_f32(name, element, isa):
    x = np.arange(1 << 16, dtype=np.uint16).view(NUMPY[element])
    single = run(name, isa, x.astype(np.float32))
    with np.errstate(all="ignore"):
        want = single.astype(NUMPY[element])
    y = run(name, isa, x, element=element, lanes=8)
    np.testing.assert_array_equal(y.astype(np.float32), want.astype(np.float32))


def test_pow(isa):
    rng = np.random.default_rng(5)
    n = 40000
    bits = rng.integers(0, 1 << 32, n, dtype=np.uint64).astype(np.uint32).view(np.float32)
    bases = [
        bits,
        np.exp(rng.normal(0, 3, n)),
        1 + rng.normal(0, 1e-3, n),
        -np.exp(rng.normal(size=n)),
    ]
    powers = [
        rng.normal(0, 2, n),
        rng.normal(0, 10, n),
        rng.normal(0, 3e4, n),
        rng.integers(-20, 20, n),
    ]
    edges = [0.0, 1, INF, 0.5, 2, 3, 1e-40, 1e38, 2.0**24 + 2, 2.0**25, 16777215.0, 1.5, 1 - 2**-24]
    edges = np.array([*edges, *[-v for v in edges], NAN])
    a, b = np.meshgrid(edges, edges)
    with np.errstate(all="ignore"):
        x = np.concatenate([*bases, a.ravel()]).astype(np.float32)
        y = np.concatenate([*powers, b.ravel()]).astype(np.float32)
        want = np.power(x.astype(np.longdouble), y.astype(np.longdouble)).astype(np.float64)
    error, where = worst(run("pow", isa, x, y), want, x)
    assert error <= 0.51, where


def test_pow_is_exact_where_f32_is(isa):
    x = np.array([2, 3, -3, 10, 7, 0.5, -2, 1.5, 9, 16], np.float32)
    y = np.array([10, 4, 3, 5, 2, 3, -2, 2, 0.5, 0.25], np.float32)
    want = [1024, 81, -27, 100000, 49, 0.125, 0.25, 2.25, 3, 2]
    assert run("pow", isa, x, y).tolist() == want


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(MATH))
def test_no_library_calls_on_neon(name):
    """Linking finds stray calls on the machine's own instruction sets; here the text must do."""
    target = generic_target("neon")
    halves = [] if name in ("atan2", "fmod") else [F16]
    for element in [F32, F64, *halves]:
        assembly = llvm.emit_assembly(build(name, target, element, target.lanes(32)), target)
        called = set(re.findall(r"^\s+bl?\s+([^.\s]\S*)", assembly, re.M))
        own = {"irc.reduce_large", "irc.reduce_double", "irc.fmod32", "irc.fmod64"}
        assert called <= {"k.body", *own}, called
