"""Casts between element types: the same answers on every instruction set."""

from __future__ import annotations

import ctypes
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.runtime.jit import llvm
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.kernel_entry import READ, WRITE, open_kernel
from irc_compiler.runtime.llvmir.values import ELEMENT, vec

_HALVES = np.arange(1 << 16, dtype=np.uint16)
_NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def numpy_of(name):
    if name in _NUMPY:
        return np.dtype(_NUMPY[name])
    return np.dtype({"i": "int", "u": "uint"}[name[0]] + name[1:])


def convert(target, source, destination, x, lanes=8):
    module = Module(target)
    k = open_kernel(module, "k", [READ, WRITE], 1)
    f, (a, b) = k.function, k.buffers
    from_, to = ELEMENT[source], ELEMENT[destination]
    signed = "u" not in (source[0], destination[0])
    with f.range(0, k.dims[0], lanes) as i:
        v = f.load(vec(from_, lanes), f.at(a, i, from_))
        f.store(f.cast(v, to, signed_=signed), f.at(b, i, to))
    padded = np.concatenate([x, np.zeros(-x.size % lanes, x.dtype)])
    y = np.zeros(padded.size, numpy_of(destination))
    image = llvm.emit_object(module.text(), target)
    p = ctypes.c_void_p
    call = load_objects([image], ["k"], target).function("k", p, p, *[ctypes.c_int32] * 2, p)
    size = np.array([padded.size])
    assert call((p * 2)(padded.ctypes.data, y.ctypes.data), size.ctypes.data, 0, 1, None) == 0
    return y[: x.size]


def assert_same(y, want):
    with np.errstate(all="ignore"):
        a, b = y.astype(np.float64), want.astype(np.float64)
    same = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    assert same.all(), (y[~same][:5], want[~same][:5])


def _hard_singles():
    halves = _HALVES.view(np.float16).astype(np.float32)
    ties = (_HALVES.astype(np.uint32) << 16 | 0x8000).view(np.float32)
    with np.errstate(all="ignore"):
        middles = (halves[:-1] + halves[1:]) / 2
    near = np.nextafter(middles, np.float32(np.inf))
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, 50000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    edge = np.array([65519.996, 65520, 65536, 1e9, np.inf, -np.inf, 2**-25], np.float32)
    return np.concatenate([halves, ties, middles, near, bits, edge])


@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_f16_and_f32(target, half):
    x = _HALVES.view(_NUMPY[half])
    assert_same(convert(target, half, "f32", x), x.astype(np.float32))
    singles = _hard_singles()
    with np.errstate(all="ignore"):
        want = singles.astype(_NUMPY[half])
    assert_same(convert(target, "f32", half, singles), want)
    assert_same(convert(target, "f32", half, singles[:999], lanes=1), want[:999])


def _nearest(x, step_bits, least):
    """x rounded to nearest even with so many significant bits, exponents from `least` up."""
    if x == 0:
        return 0.0
    exponent = max(math.frexp(x)[1] - 1, least)
    unit = Fraction(2) ** (exponent - step_bits)
    return float(round(Fraction(x) / unit) * unit)


@pytest.mark.slow
@pytest.mark.parametrize("half,bits,least", [("f16", 10, -14), ("bf16", 7, -126)])
def test_f64_to_f16_rounds_once(target, half, bits, least):
    middles = _HALVES[:20000:7].view(_NUMPY[half]).astype(np.float64)
    middles = (middles + _HALVES[1:20001:7].view(_NUMPY[half]).astype(np.float64)) / 2
    x = [middles, middles * (1 + 2.0**-45), -middles * (1 - 2.0**-45)]
    step = np.spacing(middles.astype(np.float32)).astype(np.float64)
    x = np.concatenate([*x, middles + 0.7 * step, -(middles - 0.7 * step), middles + 0.3 * step])
    want = np.array([_nearest(v, bits, least) for v in x.tolist()])
    assert convert(target, "f64", half, x).astype(np.float64).tolist() == want.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_floats_to_integers_saturate(target, name):
    info = np.iinfo(numpy_of(name))
    x = [0.9, -0.9, 1.5, -1.5, 127.5, 128, -128.9, -129, 255.9, 256, 65535.5, 3e9, -3e9, 2**31]
    x += [2**63, -(2**63), 1e19, 1.9e19, -1e19, math.inf, -math.inf, math.nan, 1e-40, -0.0]
    for source in ("f32", "f64", "f16"):
        with np.errstate(all="ignore"):
            xs = np.array(x, numpy_of(source))
        want = []
        for v in xs.astype(np.float64).tolist():
            whole = 0 if v != v else math.trunc(v) if math.isfinite(v) else int(v > 0) * info.max
            if v == -math.inf:
                whole = info.min
            want.append(min(max(whole, info.min), info.max))
        assert convert(target, source, name, xs).tolist() == want


@pytest.mark.slow
@pytest.mark.parametrize("source", ["i8", "u8", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("destination", ["f32", "f64", "i16", "u64", "f16"])
def test_integers_to_anything(target, source, destination):
    info = np.iinfo(numpy_of(source))
    x = np.array([0, 1, 2, 100, info.max, info.min, info.max // 3, 77], numpy_of(source))
    if source in ("i32", "i64", "u32", "u64"):
        x[1:3] = 16777217, 4097
    with np.errstate(all="ignore"):
        want = x.astype(numpy_of(destination))
    y = convert(target, source, destination, x)
    if destination == "u64" and source[0] == "i":
        want = x.astype(f"uint{source[1:]}").astype(np.uint64)  # zero-extended on request
    assert y.tolist() == want.tolist()
