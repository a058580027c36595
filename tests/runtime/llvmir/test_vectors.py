"""Lanes: shuffles, reductions, minima and maxima, on every instruction set."""

from __future__ import annotations

import ctypes
import math

import numpy as np
from irc_compiler.runtime.jit import llvm
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.kernel_entry import READ, WRITE, open_kernel
from irc_compiler.runtime.llvmir.values import F32, vec


def lanes_kernel(target, build, source, result, element_in, element_out):
    """y = build(f, x) over one vector holding all of x."""
    module = Module(target)
    k = open_kernel(module, "k", [READ, WRITE])
    f = k.function
    x = f.load(vec(element_in, len(source)), k.buffers[0])
    f.store(build(f, x), k.buffers[1])
    image = llvm.emit_object(module.text(), target)
    p = ctypes.c_void_p
    call = load_objects([image], ["k"], target).function("k", p, p, *[ctypes.c_int32] * 2, p)
    assert call((p * 2)(source.ctypes.data, result.ctypes.data), None, 0, 1, None) == 0
    return result


def test_shuffles_and_reductions(target):
    x = np.array([3, -1, 7, 2, 5, -9, 4, 0], np.float32)

    def build(f, v):
        swapped = f.shuffle(v, None, [7, 6, 5, 4, 3, 2, 1, 0])
        low = f.shuffle(v, swapped, [0, 8, 1, 9])
        pair = f.concat(f.extract(v, 2), f.reduce("fadd", v))
        more = f.concat(f.reduce("maximum", v), f.reduce("minimum", v))
        return f.concat(low, f.concat(pair, more))

    y = lanes_kernel(target, build, x, np.full(8, np.nan, np.float32), F32, F32)
    assert y.tolist() == [3, 0, -1, 4, 7, 11, 7, -9]


def test_max_min_and_nan(target):
    nan = math.nan
    x = np.array([nan, 1, -2, nan, 0.0, -0.0, 9, -9], np.float32)
    words = {
        "maximum": [nan, 1, 0, nan, 0, 0, 9, 0],
        "minimum": [nan, 0, -2, nan, 0, -0.0, 0, -9],
        "max_or": [0, 1, 0, 0, 0, 0, 9, 0],
        "min_or": [0, 0, -2, 0, 0, 0, 0, -9],
    }
    for word, want in words.items():
        y = np.full(8, 5, np.float32)
        lanes_kernel(target, lambda f, v, w=word: getattr(f, w)(v, 0.0), x, y, F32, F32)
        np.testing.assert_array_equal(y, np.array(want, np.float32))
        assert np.signbit(y[5]) == (word == "minimum")
    y = np.full(8, 5, np.float32)
    lanes_kernel(target, lambda f, v: f.clamp(v, -1.0, 2.0), x, y, F32, F32)
    np.testing.assert_array_equal(y, np.array([nan, 1, -1, nan, 0, 0, 2, -1], np.float32))


def test_fma_rounds_once_where_there_is_one(target):
    x = np.full(8, 1 + 2**-12, np.float32)
    y = np.zeros(8, np.float32)
    lanes_kernel(target, lambda f, v: f.fma(v, v, -(1 + 2**-11)), x, y, F32, F32)
    assert set(y.tolist()) == ({2.0**-24} if target.fma else {0.0})
