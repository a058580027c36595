"""Products with f16 factors: what is rounded, which sums are f16, and that nothing else is.

Small integers compare bit for bit: each sum of F16_SUM_STEPS products is an f16 number. Where the
processor adds in f16, other data does too, against a model of the same chain in NumPy.
"""

from __future__ import annotations

import dataclasses
import random
import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.packing.panel_params import (
    F16_SUM_STEPS,
    adds_in_f16,
    packed_layout,
    product_panel_width,
)
from irc_compiler.plan.processors import processor_target
from irc_compiler.runtime.jit.host_features import host_features
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import F16Schedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule
from support.kernels.harness import ISAS, guard_copy, same_bits, target_of
from support.kernels.inner_loops import busiest_loop
from support.kernels.products import Case, check, check_bits, make, product

from tests.runtime.kernels.gemm.test_kernel import OPTIONS

F16 = DType.f16
F16_MULTIPLY_ADD = re.compile(r"\s(vfmadd\d+ph\s|fmla\s+v\d+\.8h)")
each_isa = pytest.mark.parametrize("isa", ISAS)
needs_f16 = pytest.mark.skipif(
    not {"neon", "fullfp16"} <= host_features() and "avx512fp16" not in host_features(),
    reason="not run: this machine has no arithmetic of f16",
)


def rounded(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(np.float16)


def f16_product(left: np.ndarray, right: np.ndarray, isa: str, **case: object) -> np.ndarray:
    return product(left, right, isa, compute_dtype=F16, **case)


def chain_model(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The contract of docs/numerics.md: a product and a sum are exact in f64, and round to f16."""
    a, b = rounded(left).astype(np.float64), rounded(right).astype(np.float64)
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for begin in range(0, a.shape[1], F16_SUM_STEPS):
        part = np.zeros(total.shape, np.float16)
        for k in range(begin, min(begin + F16_SUM_STEPS, a.shape[1])):
            part = (a[:, k : k + 1] * b[k] + part).astype(np.float16)
        total += part.astype(np.float32)
    return total


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("number", range(8))
def test_f16_gemm_of_random_integers_is_exact(isa: str, number: int) -> None:
    rng = random.Random(f"f16 {isa} {number}")
    chosen = {name: rng.choice(options) for name, options in OPTIONS.items()}
    chosen["dtype"] = rng.choice([DType.f32, DType.f32, DType.f32, F16])
    case = Case(**chosen, compute_dtype=F16, seed=rng.randrange(1000))
    check(case, isa, workers=rng.choice([1, 1, 2, 3, 5]), at=rng.choice(["start", "end"]))


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dynamic", ["", "mnkabc"])
@pytest.mark.parametrize("b", ["packed", "columns", "gaps"])
def test_f16_gemm_of_every_depth_around_a_sum(isa: str, b: str, dynamic: str) -> None:
    at = F16_SUM_STEPS
    for k in (1, 2, 3, at - 1, at, at + 1, 2 * at - 1, 2 * at, 2 * at + 1):
        check(Case(3, k, 35, b=b, dynamic=dynamic, compute_dtype=F16), isa)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
def test_f16_gemm_of_every_size_around_the_register_tile(isa: str) -> None:
    target = target_of(isa)
    nr = product_panel_width(target, DType.f32, F16)
    mr = choose_schedule(make(Case(99, 8, nr, compute_dtype=F16), isa)[0], target).mr
    for n in (1, nr // 2 + 1, nr - 1, nr, nr + 1, 2 * nr + 3):
        for m in (1, 2, mr - 1, mr, mr + 1, 2 * mr + 1):
            for dynamic in ("", "mnkabc"):
                b = "packed" if m % 2 else "rows"
                case = Case(m, 33, n, b=b, epilogue="relu", dynamic=dynamic, compute_dtype=F16)
                check(case, isa, at="start" if (m + n) % 2 else "end")


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dynamic", ["", "mnkqabc"])
@pytest.mark.parametrize("zero", ["m", "k", "n", "batch"])
def test_f16_gemm_of_sizes_of_zero(isa: str, dynamic: str, zero: str) -> None:
    sizes = {"m": 3, "k": 5, "n": 17, **({zero: 0} if zero != "batch" else {})}
    batch = (0,) if zero == "batch" else (2,)
    check(Case(**sizes, batch=batch, b="rows", dynamic=dynamic, compute_dtype=F16), isa)


TIES = [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-20, -1 - 2**-11, 65504, 65519.9, 65520, 1e9,
        2.0**-14, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, -(2.0**-20), 1e-40, 0.0, -0.0, np.inf,
        -np.inf, np.nan]  # fmt: skip


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize(
    "n, b", [(1, "rows"), (1, "gaps"), (35, "packed"), (35, "columns"), (35, "rows")]
)
def test_f16_gemm_of_ties_denormals_and_overflow(isa: str, b: str, n: int) -> None:
    """Each number times 1, as left and as right factor: nearest even, denormals kept, infinity
    from 65520 on."""
    column = np.array(TIES, np.float32)[:, None]
    expected = rounded(column).astype(np.float32)
    found = f16_product(column, np.ones((1, n)), isa, a="rows" if b == "packed" else b, b=b)
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))
    if n > 1:
        row = np.resize(column[:, 0], (1, n))
        found = f16_product(np.ones((1, 1)), row, isa, b=b)
        np.testing.assert_array_equal(found, rounded(row).astype(np.float32))


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("k, n, b", [(200, 40, "packed"), (2001, 40, "columns"), (200, 1, "rows")])
def test_f16_gemm_stays_within_the_bound_of_its_sums(isa: str, k: int, n: int, b: str) -> None:
    """numerics.md: rounded factors, and F16_SUM_STEPS roundings of 2**-11 where sums are f16."""
    rng = np.random.default_rng(k + n)
    x, y = rng.standard_normal((20, k)), rng.standard_normal((k, n))
    u, v = rounded(x).astype(np.float64), rounded(y).astype(np.float64)
    error = np.abs(f16_product(x, y, isa, b=b) - u @ v) / (np.abs(u) @ np.abs(v))
    if n > 1 and adds_in_f16(target_of(isa), F16):
        assert np.max(error) <= F16_SUM_STEPS * 2.0**-11
        assert np.max(error) > 2.0**-16  # else no sum was f16
    else:
        assert np.max(error) <= 5 * 2.0**-24


@needs_f16
@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("k", [1, 64, 65, 301])
def test_f16_sums_are_those_of_the_contract(isa: str, k: int) -> None:
    if not adds_in_f16(target_of(isa), F16):
        pytest.skip("not run: this instruction set has no arithmetic of f16")
    rng = np.random.default_rng(k)
    x, y = rng.standard_normal((37, k)), rng.standard_normal((k, 75))
    assert same_bits(check_bits(x, y, isa, compute_dtype=F16), chain_model(x, y))


@pytest.mark.slow
@each_isa
def test_f16_gemm_bits_depend_on_neither_threads_nor_rows_nor_kind_of_kernel(isa: str) -> None:
    rng = np.random.default_rng(11)
    x, y = rng.standard_normal((37, 301)), rng.standard_normal((301, 75))
    check_bits(x, y, isa, compute_dtype=F16)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("b", ["packed", "columns"])
def test_f16_gemm_begins_blocks_of_k_where_sums_begin(isa: str, b: str) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((37, 601)), rng.standard_normal((601, 75))
    small = dataclasses.replace(target_of(isa), l1=8 << 10, l2=16 << 10)
    tiling = choose_schedule(make(Case(37, 601, 75, b=b, compute_dtype=F16), isa)[0], small)
    assert tiling.blocked and tiling.kc < 601
    if adds_in_f16(small, F16):
        assert isinstance(tiling, F16Schedule) and tiling.kc % F16_SUM_STEPS == 0
    assert same_bits(f16_product(x, y, isa, b=b, target=small), f16_product(x, y, isa, b=b))


@pytest.mark.aarch64
@each_isa
def test_f16_gemm_may_overwrite_a_residual(isa: str) -> None:
    from support.kernels.harness import compile_spec

    case = Case(29, 31, 40, b="rows", epilogue="residual", dynamic="mnkabc", compute_dtype=F16)
    spec, inputs, dims, _, expected = make(case, isa)
    a, b, residual, column = map(guard_copy, inputs)
    compile_spec(spec, isa)([a, b, residual, column, residual], dims, workers=2)
    np.testing.assert_array_equal(residual, expected)


@pytest.mark.parametrize(
    "processor, instruction",
    [
        ("sapphirerapids", r"vfmadd\d+ph"),
        ("neoverse-n1", r"fmla(?=\s+v\d+\.8h)"),
        ("znver4", ""),
        ("cortex-a72", ""),
        ("haswell", ""),
    ],
)
def test_f16_sums_are_used_exactly_where_the_processor_has_them(
    processor: str, instruction: str
) -> None:
    """Assembled and read; the emulator of aarch64 runs NEON's."""
    target = processor_target(processor)
    case = Case(48, 256, 128, compute_dtype=F16)
    spec = make(case, processor)[0]
    spec.verify(target)
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    assert bool(F16_MULTIPLY_ADD.search(assembly)) == bool(instruction)
    assert packed_layout(16, 70, DType.f32, target, F16) == PackedB(
        product_panel_width(target, DType.f32, F16)
    )
    if processor == "neoverse-n1":
        assert busiest_loop(assembly, instruction)[1] % 24 == 0 != busiest_loop(assembly, "fmla")[1]
    # A single column is a vector: its products are added in f32.
    spec = make(Case(28, 64, 1, b="rows", compute_dtype=F16), processor)[0]
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    assert not F16_MULTIPLY_ADD.search(assembly)


@pytest.mark.parametrize("processor", ["sapphirerapids", "neoverse-n1", "haswell"])
def test_forged_specs_are_refused(processor: str) -> None:
    target = processor_target(processor)
    spec = make(Case(4, 8, 40, compute_dtype=F16), processor)[0]
    spec.verify(target)
    assert spec.packed is not None
    packed = spec.packed
    forged = [
        dataclasses.replace(spec, packed=dataclasses.replace(packed, nr=2 * packed.nr)),
        dataclasses.replace(spec, packed=dataclasses.replace(packed, kr=2)),
        dataclasses.replace(spec, acc=DType.f64),
        dataclasses.replace(spec, a=dataclasses.replace(spec.a, dtype=DType.bf16)),
        dataclasses.replace(spec, b=dataclasses.replace(spec.b, dtype=DType.f32)),
        dataclasses.replace(spec, compute_dtype=DType.bf16),
        dataclasses.replace(spec, compute_dtype=DType.f32),
    ]
    for wrong in forged:
        with pytest.raises(VerificationError):
            wrong.verify(target)
