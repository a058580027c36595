"""The test of tiles in assembly: what LLVM's code of the same test finds."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from irc_compiler.runtime.jit.image_loader import load_objects
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.conv import winograd_guard
from irc_compiler.runtime.kernels.conv.addressing import ConvContext
from irc_compiler.runtime.kernels.conv.assembly.winograd_guard import write_extreme_function
from irc_compiler.runtime.kernels.conv.tile_partition import three_axes
from irc_compiler.runtime.kernels.conv.winograd_tiles import choose_winograd
from irc_compiler.runtime.llvmir.builder import Module
from irc_compiler.runtime.llvmir.values import I32, I64, PTR
from support.kernels.harness import ISAS, target_of

from tests.runtime.kernels.conv.test_direct import Case, make

LANES = 16


def write_test(name: str, m: int) -> str:
    """A function, "assembled" or "compiled", that calls the one of that kind."""
    target = target_of("avx512")
    spec = three_axes(make(Case((8, 8), (3, 3), 16, 16, pads=(1, 1), winograd=m), "avx512")[0])
    module = Module(target)
    plan = choose_winograd(spec, target)
    if name == "assembled":
        callee = write_extreme_function(module, plan)
    else:
        g = ConvContext.of(spec, target, module, plan.lanes)
        callee = winograd_guard.extreme_function(g, plan)
    f = module.function(name, [(PTR, "maxima"), (I64, "height"), (I64, "width")], I32)
    f.ret(f.cast(f.call_function(callee, *f.params.values()), I32, signed_=False))
    return module.text()


def sample_maxima(rng: np.random.Generator, pairs: int) -> np.ndarray:
    """Bits of absolute values near the bounds, some of which are NaN."""
    scale = 2.0 ** rng.integers(-4, 53, (pairs * pairs, 1))
    ratio = 2.0 ** rng.uniform(0, 7, (pairs * pairs, LANES))
    values = (scale if rng.random() < 0.3 else 1.0) * ratio
    kind = rng.random(values.shape)
    values[kind < 0.01] = 0.0
    values[kind > 0.995] = rng.choice([np.inf, np.nan, 2.0**50, 2.0**6])
    aligned = np.zeros(values.size + 16, np.float32)
    start = -aligned.ctypes.data % 64 // 4
    return np.copyto(aligned[start : start + values.size], values.ravel()) or aligned[start:]


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: this machine has no AVX-512")
@pytest.mark.parametrize("m", [2, 4])
def test_both_find_the_same_tiles(m: int) -> None:
    target, pairs = target_of("avx512"), m // 2 + 1
    names = ["assembled", "compiled"]
    library = load_objects([emit_object(write_test(n, m), target) for n in names], names, target)
    types = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    calls = [library.function(n, *types, returns=ctypes.c_int) for n in names]
    rng, found = np.random.default_rng(m), list[int]()
    for _ in range(4000):
        maxima = sample_maxima(rng, pairs)
        height, width = rng.integers(1, 9, 2).tolist()
        one, two = (call(maxima.ctypes.data, height, width) for call in calls)
        assert one == two, (maxima, height, width)
        found.append(one)
    assert 400 < sum(found) < 3600
