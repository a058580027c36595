"""Convolutions of f32 and bf16 data with bf16 factors: what is rounded, and that nothing else is.

Small integers are bf16 numbers whose sums are exact, so they compare bit for bit; the oracle of
other data rounds factors by ml_dtypes and sums in f64.
"""

from __future__ import annotations

import dataclasses
import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import GroupConvolution
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import (
    ISAS,
    Compiled,
    guard_copy,
    run,
    same_bits,
    target_of,
    unwritten,
)

from tests.runtime.kernels.conv.test_direct import CASES, Case, check, computed, make, random_case

BF16 = DType.bf16
each_isa = pytest.mark.parametrize("isa", ISAS)
ROUNDED = [n for n, c in CASES.items() if c.dtype in (DType.f32, BF16)]


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", ROUNDED)
def test_integers_are_exact(name: str, isa: str) -> None:
    rng = random.Random(f"bf16 {name} {isa}")
    case = replace(CASES[name], compute_dtype=BF16, dtype=rng.choice([DType.f32, BF16]))
    if case.epilogue == "swish":
        case = replace(case, epilogue="bias")
    check(case, isa, rng.choice([1, 2, 3]), rng.choice(["start", "end"]))
    check(replace(case, dynamic=True), isa, rng.choice([1, 2]), rng.choice(["start", "end"]))


PAIRS = {
    "even rows": ((6, 48), (3, 3), (1, 1)),
    "odd rows": ((5, 40), (3, 3), (1, 1)),
    "volume": ((2, 4, 37), (3, 3, 3), (1, 1, 1)),
    "strides": ((11, 79), (3, 3), (1, 1)),
}


@each_isa
@pytest.mark.parametrize("name", PAIRS)
def test_tiles_of_two_rows_are_exact(name: str, isa: str) -> None:
    data, kernel, pads = PAIRS[name]
    strides = (2, 2) if name == "strides" else ()
    case = Case(data, kernel, 32, 40, pads=pads, strides=strides, compute_dtype=BF16)
    for workers in (1, 3):
        check(case, isa, workers)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("number", range(6))
def test_random_convolutions_are_exact(number: int, isa: str) -> None:
    rng = random.Random(f"conv bf16 {isa} {number}")
    case = replace(random_case(rng), dtype=rng.choice([DType.f32, BF16]), compute_dtype=BF16)
    check(case, isa, rng.choice([1, 2, 4]), rng.choice(["start", "end"]))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("channels", [1, 2, 3, 5, 8])
def test_few_channels_in_planes(channels: int, isa: str) -> None:
    """Rows that are interleaved as they are copied, shorter and longer than a register."""
    for width in (3, 15, 16, 33, 70):
        case = Case(
            (5, width), (3, 3), channels, 18, strides=(2, 1), pads=(1, 1), compute_dtype=BF16
        )
        check(replace(case, data_last=False), isa, workers=2)


def rounded(x: np.ndarray) -> np.ndarray:
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", ["padded", "first", "small", "dilated", "depthwise"])
def test_factors_are_rounded_and_sums_are_not(name: str, isa: str) -> None:
    """numerics.md: at most 5 units of 2**-24 * sum |a||b| from the answer of rounded factors."""
    case = replace(CASES[name], epilogue="none", compute_dtype=BF16)
    found, exact = computed(case, isa, floats=True)
    rng = np.random.default_rng(7)
    shape = (case.batch, case.groups * case.channels, *case.sizes)
    data = rng.standard_normal(shape).astype(np.float32)
    shape = (case.groups, case.outputs, case.channels, *case.kernel)
    filters = rng.standard_normal(shape).astype(np.float32)
    ones = (1, 1)
    op = GroupConvolution(
        strides=case.strides or ones,
        dilations=case.dilations or ones,
        pads_begin=case.pads,
        pads_end=case.pads_end or case.pads,
    )
    x, w = rounded(data), rounded(filters)
    (wanted,), (scale,) = op.evaluate(x, w), op.evaluate(np.abs(x), np.abs(w))
    assert np.max(np.abs(found - wanted) / (2.0**-24 * scale)) <= 5
    assert np.max(np.abs(wanted - exact)) > 1e-3  # else rounding is not what was tested


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", ["padded", "small", "first", "dilated", "depthwise"])
def test_bits_depend_on_neither_threads_nor_kind_of_kernel(name: str, isa: str) -> None:
    case = replace(CASES[name], epilogue="none", compute_dtype=BF16)
    first, _ = computed(case, isa, floats=True)
    for workers in (2, 3):
        assert same_bits(computed(case, isa, workers, floats=True)[0], first)
    for other in ({"dynamic": True}, {"out_last": False}):
        assert same_bits(computed(replace(case, **other), isa, 2, floats=True)[0], first)


@pytest.mark.slow
@each_isa
def test_infinity_stays_in_its_neighbourhood(isa: str) -> None:
    """Three channels by three taps leave half a cell empty, which a neighbour's value fills."""
    for channels, last in ((3, True), (3, False), (5, True)):
        case = Case((16, 16), (3, 3), channels, 8, pads=(1, 1), compute_dtype=BF16, data_last=last)
        spec, inputs, dims, shape, _ = make(case, isa)
        inputs[1][...] = np.where(inputs[1].astype(float) != 0, inputs[1], 0)
        inputs[0][(0, 8, 8, 1) if last else (0, 1, 8, 8)] = np.inf
        (out,) = run(spec, inputs, [shape], isa=isa, dims=dims).outs
        bad = np.argwhere(~np.isfinite(out).all(axis=-1))[:, 1:]
        assert len(bad) and np.abs(bad - 8).max() <= 1


@each_isa
def test_denormals_are_zeros(isa: str) -> None:
    case = Case((4, 4), (3, 3), 16, 8, pads=(1, 1), compute_dtype=BF16)
    spec, inputs, dims, shape, _ = make(case, isa)
    inputs[0][...] = 1e-40
    assert not run(spec, inputs, [shape], isa=isa, dims=dims).outs[0].any()


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: no AVX-512")
def test_the_unit_and_its_emulation_agree() -> None:
    isa = "avx512 - amx-tile"
    target = target_of(isa)
    plain = tuple(f for f in target.cpu_features if f != "avx512bf16")
    case = replace(CASES["padded"], epilogue="none", compute_dtype=BF16)
    found, _ = computed(case, isa, floats=True)
    spec, inputs, dims, shape, _ = make(case, "avx2", floats=True)
    machine = dataclasses.replace(target, cpu_features=plain)
    spec = replace(spec, packed=replace(spec.packed, nr=32, kr=1, runs=False))
    verify_specs([spec], machine)
    assert "vdpbf16ps" not in emit_assembly(generate(spec, machine, "k").text, machine)
    if target.has("avx512bf16"):
        made = make(case, isa, floats=True)[0]
        assert "vdpbf16ps" in emit_assembly(generate(made, target, "k").text, target)
        with pytest.raises(VerificationError, match="cells of another depth"):
            verify_specs([made], machine)
    from irc_compiler.plan.plan import PlanConstant
    from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack

    rng = np.random.default_rng(7)
    rng.standard_normal((case.batch, case.channels, *case.sizes))
    filters = rng.standard_normal((1, case.outputs, case.channels, *case.kernel)).astype(np.float32)
    inputs[1] = pack(filters, PlanConstant(0, BF16, filters.shape, spec.packed, rounds=True))
    out = unwritten(shape, np.float32)
    Compiled(spec, machine)([*map(guard_copy, inputs), out], dims)
    np.testing.assert_allclose(np.moveaxis(out, -1, 1), found, rtol=0, atol=1e-5)


def test_windows_that_reach_too_far_are_refused() -> None:
    spec = make(replace(CASES["padded"], compute_dtype=BF16), "plain")[0]
    window = replace(spec.window, strides=(1, 1 << 20))
    with pytest.raises(VerificationError, match="reach too far"):
        verify_specs([replace(spec, window=window)], target_of("plain"))


# Kernels of many sets of taps, and of a last panel narrower than the others; lines of their text,
# and those where rounding to bf16 is integer arithmetic on 512 bits.
MANY = {
    "long": (Case((49,), (31,), 16, 16, groups=2, pads=(15,)), 4500, 4500),
    "groups": (Case((8, 8), (3, 3), 4, 4, groups=3, pads=(1, 1)), 5800, 6400),
    "narrow": (Case((9, 32), (3, 3), 96, 36, pads=(1, 1)), 3500, 3500),
    "depthwise": (Case((150,), (39,), 1, 1, 16, pads=(19,)), 4000, 4700),
}


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("factors", [None, BF16])
def test_many_taps_give_the_bits_of_any_sizes(name: str, factors: DType | None, isa: str) -> None:
    case = replace(MANY[name][0], compute_dtype=factors)
    check(case, isa, 2)
    fixed, _ = computed(case, isa, 2, floats=True)
    assert same_bits(computed(replace(case, dynamic=True), isa, floats=True)[0], fixed)


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["x86-64-v2", "haswell", "skylake-avx512", "znver4"])
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("factors", [None, BF16])
def test_many_taps_take_few_lines(name: str, factors: DType | None, processor: str) -> None:
    """Such kernels compile some 0.03 ms a line."""
    case, most, without_unit = MANY[name]
    if factors is BF16 and processor == "skylake-avx512":
        most = without_unit
    spec, *_ = make(replace(case, compute_dtype=factors), processor)
    assert generate(spec, target_of(processor), "k").text.count("\n") < most
