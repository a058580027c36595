"""f32 products with bf16 factors: what is rounded, how, and that nothing else is.

Small integers are bf16 numbers and their sums are exact in f32, so they compare bit for bit; the
oracle of other data rounds its factors by ml_dtypes and sums in f64.
"""

from __future__ import annotations

import dataclasses
import random

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.layouts import PackedB, PackedLayout
from irc_compiler.plan.packing.panel_params import (
    cell_depth,
    packed_layout,
    panel_width,
)
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack, unpack
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, tile_rows
from support.kernels.harness import ISAS, TILED, compile_spec, run, same_bits, target_of
from support.kernels.products import Case, check, check_bits, make, product

from tests.runtime.kernels.gemm.test_kernel import OPTIONS

BF16 = DType.bf16
each_isa = pytest.mark.parametrize("isa", [*ISAS, *TILED])


def rounded(x: np.ndarray) -> np.ndarray:
    """f32 rounded to bf16, denormals to zeros, as f64."""
    x = x.astype(np.float32)
    x = np.where(np.abs(x) < 2.0**-126, np.copysign(np.float32(0), x), x)
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def rounding_product(left: np.ndarray, right: np.ndarray, isa: str, **case: object) -> np.ndarray:
    return product(left, right, isa, compute_dtype=BF16, **case)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("number", range(8))
def test_bf16_gemm_of_random_integers_is_exact(isa: str, number: int) -> None:
    rng = random.Random(f"bf16 {isa} {number}")
    chosen = {name: rng.choice(options) for name, options in OPTIONS.items()}
    chosen["dtype"] = rng.choice([DType.f32, DType.f32, DType.f32, BF16])
    case = Case(**chosen, compute_dtype=BF16, seed=rng.randrange(1000))
    check(case, isa, workers=rng.choice([1, 1, 2, 3, 5]), at=rng.choice(["start", "end"]))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("a, b", [("rows", "columns"), ("columns", "gaps"), ("gaps", "rows")])
def test_bf16_gemm_of_every_depth_around_a_cell_and_a_vector(isa: str, a: str, b: str) -> None:
    """One kernel whose sizes are read at run time computes them all."""
    for k in (1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65):
        for n in (1, 15, 17, 32):
            check(Case(3, k, n, a=a, b=b, dynamic="mnkabc", compute_dtype=BF16), isa)


@pytest.mark.slow
@each_isa
def test_bf16_gemm_of_every_size_around_the_register_tile(isa: str) -> None:
    nr, mr = panel_width(target_of(isa), 32), tile_rows(target_of(isa), 2)
    for n in (1, nr - 1, nr, nr + 1, 2 * nr + 3):
        for m in (1, 2, mr - 1, mr, mr + 1, 2 * mr + 1):
            for k in (1, 8, 33):
                case = Case(m, k, n, b="rows", epilogue="relu", dynamic="mnkabc")
                case = dataclasses.replace(case, compute_dtype=BF16)
                check(case, isa, at="start" if (m + n) % 2 else "end")


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dynamic", ["", "mnkqabc"])
@pytest.mark.parametrize("zero", ["m", "k", "n", "batch"])
def test_bf16_gemm_of_sizes_of_zero(isa: str, dynamic: str, zero: str) -> None:
    sizes = {"m": 3, "k": 5, "n": 17, **({zero: 0} if zero != "batch" else {})}
    batch = (0,) if zero == "batch" else (2,)
    check(Case(**sizes, batch=batch, b="rows", dynamic=dynamic, compute_dtype=BF16), isa)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("k, n, b", [(64, 32, "packed"), (2001, 40, "columns"), (2001, 1, "rows")])
def test_bf16_gemm_rounds_operands_and_not_sums(isa: str, k: int, n: int, b: str) -> None:
    """numerics.md: at most 5 units of 2**-24 * sum |a||b| from the product of rounded factors."""
    rng = np.random.default_rng(k + n)
    x, y = rng.standard_normal((20, k)), rng.standard_normal((k, n))
    u, v = rounded(x), rounded(y)
    error = np.abs(rounding_product(x, y, isa, b=b) - u @ v)
    assert np.max(error / (2.0**-24 * (np.abs(u) @ np.abs(v)))) <= 5
    assert np.max(np.abs(u @ v - x @ y)) > 1e-3  # else rounding is not what was tested


TIES = [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, -1 - 2**-8, 3.3895e38, 3.4e38, 1e-38,
        1.1754944e-38, 1.17549421e-38, 1e-40, -1e-40, 2.0**-133, 0.0, -0.0, np.inf, -np.inf,
        np.nan]  # fmt: skip


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize(
    "n, b", [(1, "rows"), (1, "gaps"), (35, "packed"), (35, "columns"), (35, "rows")]
)
def test_bf16_gemm_of_ties_denormals_and_infinities(isa: str, b: str, n: int) -> None:
    """Each number times 1, as left and as right factor: nearest even, denormals zero, NaN NaN."""
    with np.errstate(over="ignore"):
        column = np.array(TIES, np.float32)[:, None]
        expected = rounded(column).astype(np.float32)
    one = np.ones((1, n))
    found = rounding_product(column, one, isa, a="rows" if b == "packed" else b, b=b)
    np.testing.assert_array_equal(found, np.broadcast_to(expected, found.shape))
    if n > 1:
        row = np.resize(column[:, 0], (1, n))
        found = rounding_product(np.ones((1, 1)), row, isa, b=b)
        np.testing.assert_array_equal(found, rounded(row).astype(np.float32))


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("n, dynamic", [(1, ""), (1, "mnkabc"), (35, ""), (35, "mnkabc")])
def test_bf16_gemm_flushes_denormal_products_and_sums(isa: str, n: int, dynamic: str) -> None:
    """2**-140 as a product, 2**-127 as a sum; the epilogue keeps denormals (bf16 holds 2**-130)."""
    a = np.array([[2.0**-70, 0], [1.5 * 2.0**-126, -(2.0**-126)], [2.0**-126, 2.0**-126]])
    b = np.repeat(np.array([[2.0**-70], [1]]), n, axis=1)
    ones = np.ones((2, n))
    assert not rounding_product(a[:1], b, isa, dynamic=dynamic).any()
    assert not rounding_product(a[1:2], ones, isa, dynamic=dynamic).any()
    assert np.all(rounding_product(a[2:], ones, isa, dynamic=dynamic) == 2.0**-125)
    spec, inputs, dims, out, _ = make(
        Case(1, 2, n, b="rows", epilogue="residual", dynamic=dynamic, compute_dtype=BF16), isa
    )
    zeros, tiny = [np.zeros_like(x) for x in inputs[:2]], np.full_like(inputs[2], 2.0**-130)
    column = np.zeros_like(inputs[3])
    found = run(spec, [*zeros, tiny, column], [out.shape], isa=isa, dims=dims).outs[0]
    assert np.all(found == np.float32(2.0**-130))


@pytest.mark.slow
@each_isa
def test_bf16_gemm_bits_depend_on_neither_threads_nor_rows_nor_kind_of_kernel(isa: str) -> None:
    rng = np.random.default_rng(11)
    check_bits(
        rng.standard_normal((37, 301)), rng.standard_normal((301, 75)), isa, compute_dtype=BF16
    )


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("b", ["packed", "columns", "rows"])
@pytest.mark.parametrize("k", [600, 601])
def test_bf16_gemm_resumes_the_chain_in_each_block_of_k(isa: str, b: str, k: int) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((37, k)), rng.standard_normal((k, 75))
    small = dataclasses.replace(target_of(isa), l1=8 << 10, l2=16 << 10)
    tiling = choose_schedule(make(Case(37, k, 75, b=b, compute_dtype=BF16), isa)[0], small)
    assert tiling.blocked and tiling.kc * tiling.kr < 300
    found = rounding_product(x, y, isa, b=b, target=small)
    assert same_bits(found, rounding_product(x, y, isa, b=b))


@each_isa
def test_bf16_gemm_ignores_padding(isa: str) -> None:
    """An odd K leaves half a cell empty: infinities in its other half stay what they are."""
    a, b = np.ones((3, 5)), np.ones((5, 19))
    a[1, 4], b[4, 7] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):  # NumPy's product complains on some machines
        want = (a @ b).astype(np.float32)
    assert not np.isnan(want).any()
    for layout in ("packed", "rows", "columns"):
        found = rounding_product(a, b, isa, b=layout)
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (64, 31), (2, 3, 7, 40)])
def test_bf16_pack_and_unpack_pairs(shape: tuple[int, ...], transposed: bool) -> None:
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    constant = PlanConstant(0, BF16, shape, PackedB(32, 2), transposed, rounds=True)
    packed = pack(array, constant)
    k, n = (shape[-1], shape[-2]) if transposed else shape[-2:]
    assert packed.dtype == ml_dtypes.bfloat16
    assert packed.size == PackedLayout(k, n, 32, 2).size * int(np.prod(shape[:-2]))
    near = array.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(unpack(packed, constant), near)
    matrix = (near.swapaxes(-1, -2) if transposed else near).reshape(-1, k, n)[0]
    if k > 1:
        assert packed[:2].tolist() == matrix[:2, 0].tolist()
    cells = packed.reshape(-1, -(-n // 32), -(-k // 2), 32, 2)
    assert not cells[:, -1, :, (n - 1) % 32 + 1 :].astype(np.float32).any()
    if k % 2:
        assert not cells[:, :, -1, :, 1].astype(np.float32).any()


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: no AVX-512")
def test_bf16_gemm_uses_the_unit_exactly_where_there_is_one() -> None:
    target = target_of("avx512")
    without = tuple(
        f for f in target.cpu_features if f != "avx512bf16" and not f.startswith("amx-")
    )
    with_unit = tuple(sorted({*without, "avx512bf16"}))
    for features, depth in ((with_unit, 2), (without, 1)):
        machine = dataclasses.replace(target, cpu_features=features)
        assert cell_depth(machine, BF16) == depth and cell_depth(machine, None) == 1
        layout = packed_layout(16, 40, DType.f32, machine, BF16)
        assert layout == PackedB(32, depth)
        spec = make(Case(28, 16, 40, b="rows", compute_dtype=BF16), "plain")[0]
        assembly = emit_assembly(generate(spec, machine, "k").text, machine)
        assert ("vdpbf16ps" in assembly) == (depth == 2)
        # A single column has no cells: half of what the unit multiplies would be nothing.
        spec = make(Case(28, 64, 1, b="rows", compute_dtype=BF16), "plain")[0]
        assembly = emit_assembly(generate(spec, machine, "k").text, machine)
        assert "vdpbf16ps" not in assembly and "vfmadd" in assembly


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: no AVX-512")
def test_bf16_gemm_without_the_unit_on_wide_vectors() -> None:
    """AVX-512 without the unit gives what the unit gives, up to the order of two additions."""
    target = target_of("avx512")
    machine = dataclasses.replace(
        target, cpu_features=tuple(f for f in target.cpu_features if f != "avx512bf16")
    )
    rng = np.random.default_rng(9)
    x, y = rng.standard_normal((20, 77)), rng.standard_normal((77, 45))
    found = rounding_product(x, y, "avx512", b="rows", target=machine)
    u, v = rounded(x), rounded(y)
    assert np.max(np.abs(found - u @ v) / (2.0**-24 * (np.abs(u) @ np.abs(v)))) <= 5


@each_isa
def test_bf16_gemm_may_overwrite_a_residual(isa: str) -> None:
    from support.kernels.harness import guard_copy

    case = Case(29, 31, 40, b="rows", epilogue="residual", dynamic="mnkabc", compute_dtype=BF16)
    spec, inputs, dims, _, expected = make(case, isa)
    a, b, residual, column = map(guard_copy, inputs)
    compile_spec(spec, isa)([a, b, residual, column, residual], dims, workers=2)
    np.testing.assert_array_equal(residual, expected)
