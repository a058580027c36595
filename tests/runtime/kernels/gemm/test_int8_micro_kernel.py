"""Products of compressed weights by int8 activations: the bits of NumPy for integers, the codes of
dynamic quantization, and the same bits for every number of rows, on every instruction set.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.packing.panel_params import dot_group
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack
from irc_compiler.runtime.kernels.gemm.schedule import Int8Schedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, schedule_gemm
from support.kernels.harness import ISAS, run, same_bits, target_of
from support.kernels.int8_products import (
    F32,
    Case,
    expected,
    make_spec,
    multiply,
    weights_of,
    whole_numbers,
)

each_isa = pytest.mark.parametrize("isa", ISAS)
each_type = pytest.mark.parametrize("dtype", [DType.u4, DType.i4, DType.u8, DType.i8], ids=str)


@pytest.mark.slow
@each_isa
@each_type
@pytest.mark.parametrize("zero", ["one", "each", "offset"])
@pytest.mark.parametrize("k, n, group", [(72, 17, 16), (100, 33, 100), (300, 35, 300)])
def test_int8_products_of_integers_are_exact(
    isa: str, dtype: DType, zero: str, k: int, n: int, group: int
) -> None:
    c = Case(k, n, dtype, group, zero)
    for m, workers in ((1, 1), (7, 2)):
        a = whole_numbers(m, k, c.dot_group)
        for size in (m, None):
            found = multiply(c, a, isa, m=size, workers=workers)
            np.testing.assert_array_equal(found, expected(c, a).astype(np.float32))


@each_isa
def test_int8_codes_are_those_of_numpy(isa: str) -> None:
    """Weights of a unit matrix give the codes times their scale."""
    c = Case(64, 64, DType.u4, 32, "one")
    w, target = weights_of(c), target_of(isa)
    a = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    a[1, 32:] = 0
    a[2] *= np.float32(1e30)
    spec = make_spec(c, target, 5)
    assert spec.packed is not None and spec.compressed is not None
    spec = replace(spec, compressed=replace(spec.compressed, zero_point=0))
    unit = np.eye(64, dtype=np.uint8).astype(c.dtype.numpy)
    cells = pack(unit, PlanConstant(0, c.dtype, unit.shape, spec.packed))
    ones = np.ones_like(w.scale)
    scale = pack(ones, PlanConstant(0, F32, ones.shape, PackedB(spec.packed.nr)))
    found = run(spec, [a, cells, scale], [(5, 64)], isa=isa).outs[0]
    groups = a.reshape(5, 2, 32)
    largest = np.abs(groups).max(-1, keepdims=True)
    factor = np.where(largest > 0, np.float32(127) / np.maximum(largest, np.float32(1e-30)), 0)
    codes = np.rint(groups * factor.astype(np.float32))
    wanted = codes * (largest / np.float32(127))
    np.testing.assert_array_equal(found, wanted.reshape(5, 64))
    assert np.abs(found - a).max() <= (largest / 254).max() * 1.01


@pytest.mark.slow
@each_isa
@each_type
def test_int8_bits_depend_on_neither_rows_nor_threads(isa: str, dtype: DType) -> None:
    c = Case(200, 75, dtype, 40)
    a = np.random.default_rng(1).standard_normal((40, 200)).astype(np.float32)
    whole = multiply(c, a, isa, m=40)
    for m in (1, 2, 3, 9, 33):
        for size in (m, None):
            assert same_bits(multiply(c, a[:m], isa, m=size, workers=3), whole[:m])


@each_isa
def test_int8_workers_may_begin_anywhere_in_a_block_of_rows(isa: str) -> None:
    """A worker's first tile is no multiple of MC, and it has more than MC tiles."""
    c, m = Case(4096, 40, DType.u4, 32), 412
    tiles = schedule_gemm(make_spec(c, target_of(isa), None), target_of(isa)).tiles
    first = -(-m // tiles.mr) // 2
    assert first > tiles.mc and first % tiles.mc != 0
    a = np.random.default_rng(1).standard_normal((m, c.k)).astype(np.float32)
    alone = multiply(c, a, isa, m=None)
    for workers in (2, 3):
        assert same_bits(multiply(c, a, isa, m=None, workers=workers), alone)


@each_isa
def test_int8_keeps_what_is_not_finite(isa: str) -> None:
    c = Case(64, 40, DType.u4, 32, "one")
    a = np.ones((3, 64), np.float32)
    a[0, 5], a[1, 40] = np.nan, np.inf
    found = multiply(c, a, isa, m=3)
    assert not np.isfinite(found[:2]).any() and np.isfinite(found[2]).all()


@pytest.mark.parametrize(
    "isa, feature, dtype, word",
    [
        ("avx2", "", DType.u4, "vpmaddubsw"),
        ("avx2", "", DType.i8, "vpsignb"),
        ("avx2", "avxvnni", DType.i8, "vpdpbusd"),
        ("avx512", "", DType.u4, "vpmaddubsw"),
        ("avx512", "", DType.u8, "vpmaddwd"),
        ("avx512", "avx512vnni", DType.u4, "vpdpbusd"),
        ("plain", "", DType.u4, "pmaddwd"),
        ("neon", "", DType.u8, "mla"),
        ("neon", "dotprod", DType.u4, "sdot"),
        ("neon", "i8mm", DType.u8, "usdot"),
    ],
)
def test_int8_dot_products_use_the_unit_of_the_target(
    isa: str, feature: str, dtype: DType, word: str
) -> None:
    """Also for targets that no machine here is: LLVM generates them."""
    target = generic_target(isa)  # type: ignore[arg-type]
    features = sorted({*target.cpu_features, *([feature] if feature else [])})
    target = dataclasses.replace(target, cpu_features=tuple(features))
    spec = make_spec(Case(64, 40, dtype, 32), target, None)
    assert word in emit_assembly(generate(spec, target, "k").text, target)


def choose_for(case: Case, m: int | None, isa: str, *features: str) -> Int8Schedule:
    target = generic_target(isa)  # type: ignore[arg-type]
    held = tuple(sorted({*target.cpu_features, *features}))
    target = dataclasses.replace(target, cpu_features=held)
    schedule = choose_schedule(make_spec(case, target, m), target)
    assert isinstance(schedule, Int8Schedule)
    return schedule


def test_int8_tiles_are_as_tall_as_registers_allow() -> None:
    c = Case(64, 40, DType.u4, 32)
    assert choose_for(c, None, "avx512", "avx512vnni").heights == (6, 4, 2, 1)
    assert choose_for(c, 7, "avx512", "avx512vnni").heights == (4, 3)
    for isa, features in (("avx512", ()), ("avx2", ("avxvnni",)), ("neon", ("dotprod",))):
        assert choose_for(c, None, isa, *features).heights == (4, 2, 1)


def test_int8_dot_products_begin_with_the_zero_that_all_weights_have() -> None:
    """The zero of weights as they are multiplied: VNNI takes unsigned ones."""
    found = {
        (dtype, zero): choose_for(Case(64, 40, dtype, 32, zero), 4, "avx512", "avx512vnni")
        for dtype in (DType.u4, DType.i4, DType.u8, DType.i8)
        for zero in ("none", "one", "each")
    }
    zeros = [found[d, "one"].common_zero for d in (DType.u4, DType.i4, DType.u8, DType.i8)]
    assert zeros == [3, 8 + 3, 3, 128 + 3]
    zeros = [found[d, "none"].common_zero for d in (DType.u4, DType.i4, DType.u8, DType.i8)]
    assert zeros == [0, 8, 0, 128]
    assert not any(found[d, "each"].common_zero for d in (DType.u4, DType.i4, DType.u8, DType.i8))


def test_int8_groups_are_those_of_the_weights_where_kernels_have_them() -> None:
    found = [dot_group(512, g, DType.u4) for g in (16, 32, 64, 128, 256, 512, 1000, 12, 192)]
    assert found == [16, 32, 64, 128, 128, 128, 128, 0, 0]
    target = generic_target("avx2")
    spec = make_spec(Case(64, 40, DType.u4, 32), target, 4)
    assert spec.compressed is not None and spec.compute_unit() == "int8"
    for changes in ({"dot_group": 16}, {"rounded": True}):
        wrong = replace(spec, compressed=replace(spec.compressed, **changes))
        with pytest.raises(VerificationError, match="int8 activations"):
            verify_specs([wrong], target)
