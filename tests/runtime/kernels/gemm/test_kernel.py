"""Matrix products against NumPy: small integers bit for bit, on every instruction set.

Operands lie against protected pages, outputs begin as NaN (harness.py). Exactness holds because
every partial sum of small integers is exact in the accumulator.
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import identity
from irc_compiler.plan.packing.layouts import PackedB, PackedLayout
from irc_compiler.plan.packing.panel_params import packed_layout, panel_width
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import Isa, generic_target
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack, unpack
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, tile_rows
from irc_compiler.runtime.llvmir.kernel_entry import UNOPTIMIZED
from support.kernels.harness import (
    ISAS,
    Compiled,
    compile_spec,
    functions_of,
    guard_copy,
    run,
    same_bits,
    target_of,
    unwritten,
)
from support.kernels.products import F32, Case, check, check_bits, make, product

OPTIONS: dict[str, list] = {
    "m": [1, 2, 3, 4, 7, 13, 16, 17, 29, 33],
    "k": [1, 2, 5, 16, 17, 31, 64, 130],
    "n": [2, 3, 8, 15, 16, 17, 31, 32, 33, 65],
    "batch": [(), (), (3,), (2, 3)],
    "dtype": [DType.f32] * 6
    + [DType.f64, DType.f16, DType.bf16, DType.i32, DType.i64, DType.u32, DType.u64]
    + [DType.i8, DType.u8],
    "a": ["rows", "rows", "columns", "gaps"],
    "b": ["packed", "packed", "rows", "columns", "gaps"],
    "out": ["rows", "rows", "rows", "columns", "gaps"],
    "epilogue": ["none", "bias", "relu", "residual", "mask", "gelu"],
    "dynamic": ["", "", "m", "mq", "mnkqabc", "ka"],
    "a_once": [False, False, True],
    "b_once": [False, True],
}


# Floats besides f32, each with the error of its last rounding; f64 is summed in itself.
UNITS = {DType.f64: 0.0, DType.f16: 2.0**-11, DType.bf16: 2.0**-8}


def random_case(rng: random.Random, isa: str) -> Case:
    case = Case(
        **{name: rng.choice(options) for name, options in OPTIONS.items()}, seed=rng.randrange(1000)
    )
    if case.dtype.is_int and case.epilogue == "gelu":
        case = Case(**{**vars(case), "epilogue": "residual"})
    return case


each_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("number", range(12))
def test_gemm_of_random_integers_is_exact(isa: str, number: int) -> None:
    rng = random.Random(f"{isa} {number}")
    case = random_case(rng, isa)
    check(case, isa, workers=rng.choice([1, 1, 2, 3, 5]), at=rng.choice(["start", "end"]))


@pytest.mark.slow
@each_isa
def test_gemm_of_every_size_around_the_register_tile(isa: str) -> None:
    """One kernel whose sizes are read at run time computes them all."""
    nr, mr = panel_width(target_of(isa), 32), tile_rows(target_of(isa), 2)
    for n in (1, 2, nr // 2, nr - 1, nr, nr + 1, 2 * nr + 3):
        for m in (1, 2, 3, mr - 1, mr, mr + 1, 2 * mr + 1):
            for k in (0, 1, 7, 33):
                case = Case(m, k, n, b="rows", epilogue="relu", dynamic="mnkabc")
                check(case, isa, at="start" if (m + n) % 2 else "end")


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("m, n", [(1, 70), (2, 33), (5, 16), (14, 64), (15, 7), (29, 65)])
def test_gemm_of_static_sizes(isa: str, m: int, n: int) -> None:
    check(Case(m, 37, n, epilogue="relu"), isa)
    check(Case(m, 37, n, epilogue="relu", b="rows"), isa)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dynamic", ["", "mnkqabc"])
@pytest.mark.parametrize("zero", ["m", "k", "n", "batch"])
def test_gemm_of_sizes_of_zero(isa: str, dynamic: str, zero: str) -> None:
    sizes = {"m": 3, "k": 5, "n": 17, **({zero: 0} if zero != "batch" else {})}
    batch = (0,) if zero == "batch" else (2,)
    check(Case(**sizes, batch=batch, b="rows", epilogue="relu", dynamic=dynamic), isa)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("a", ["rows", "columns", "gaps"])
@pytest.mark.parametrize("b", ["rows", "columns", "gaps"])
def test_gemm_of_a_matrix_and_a_vector(isa: str, a: str, b: str) -> None:
    """N = 1 has an order over K of its own, which no layout and no number of rows changes."""
    case = Case(9, 150, 1, a=a, b=b, epilogue="bias")
    check(case, isa, workers=3)
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((9, 150)), rng.standard_normal((150, 1))
    plain = product(x, y, isa)
    assert same_bits(product(x, y, isa, a=a, b=b), plain)
    assert same_bits(product(x[4:5], y, isa, a=a, b=b), plain[4:5])


@pytest.mark.slow
@each_isa
def test_gemv_bits_depend_on_neither_threads_nor_kind_of_kernel(isa: str) -> None:
    """K is long enough for every run of the order over K, and ends within one."""
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((37, 1501)), rng.standard_normal((1501, 1))
    expected = check_bits(x, y, isa)
    for dynamic, workers in itertools.product(("k", "mnkabc", "mnkabcs"), (1, 3, 4)):
        assert same_bits(product(x, y, isa, dynamic=dynamic, workers=workers), expected)


@pytest.fixture(scope="module")
def floats() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return rng.standard_normal((37, 300)), rng.standard_normal((300, 75))


@pytest.mark.slow
@each_isa
def test_gemm_bits_depend_on_neither_threads_nor_rows_nor_kind_of_kernel(isa: str, floats) -> None:
    a, b = floats
    expected = check_bits(a, b, isa)
    batch = product(np.stack([a, a[::-1]]), np.stack([b, b]), isa)
    assert same_bits(batch[0], expected)
    assert same_bits(np.ascontiguousarray(batch[1][::-1]), expected)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dtype, unit", UNITS.items(), ids=str)
@pytest.mark.parametrize("n", [1, 75])
def test_gemm_bits_and_error_of_other_floats(isa: str, n: int, dtype: DType, unit: float) -> None:
    """numerics.md: f16 and bf16 sum in f32 and round once, f64 in itself; bits as those of f32."""
    rng, found = np.random.default_rng(3), list[np.ndarray]()
    a, b = (rng.standard_normal(s).astype(dtype.numpy) for s in ((37, 301), (301, n)))
    for dynamic, workers in itertools.product(("", "m", "mnkabc"), (1, 2, 3, 4)):
        case = Case(37, 301, n, dtype=dtype, b="rows", dynamic=dynamic)
        spec, _, dims, out, _ = make(case, isa)
        found += run(spec, [a, b], [out.shape], isa=isa, dims=dims, workers=workers).outs
    assert all(same_bits(x, found[0]) for x in found[1:])
    sums = 2.0 ** (-53 if dtype is DType.f64 else -24)
    wide_a, wide_b, wide = (x.astype(np.longdouble) for x in (a, b, found[0]))
    error = np.abs(wide - wide_a @ wide_b)
    assert (error <= 5 * sums * (np.abs(wide_a) @ np.abs(wide_b)) + unit * np.abs(wide)).all()


@each_isa
@pytest.mark.parametrize("dynamic", ["", "mnkabc"])
@pytest.mark.parametrize("n", [1, 35])
def test_gemm_keeps_denormals(isa: str, n: int, dynamic: str) -> None:
    """Those that a product makes, and those among the operands."""
    a = np.array([[2.0**-70, 0], [2.0**-140, 2.0**-140]])
    b = np.array([[2.0**-70], [1.0]]).repeat(n, 1)
    for left, right in ((a, b), (a[:, ::-1], b[::-1])):
        found = product(left, right, isa, b="rows", dynamic=dynamic)
        assert (found == np.float32(2.0**-140)).all()


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("b", ["packed", "columns"])
def test_gemm_resumes_the_chain_in_each_block_of_k(isa: str, b: str, floats) -> None:
    x, y = floats
    small = dataclasses.replace(target_of(isa), l1=8 << 10, l2=16 << 10)
    case = Case(*x.shape, y.shape[1], b=b)
    tiling = choose_schedule(make(case, isa)[0], small)
    assert tiling.blocked and tiling.kc < 150 and tiling.mc < 3
    assert same_bits(product(x, y, isa, b=b, target=small), product(x, y, isa, b=b))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dtype", [t for t in OPTIONS["dtype"][6:] if t.bits > 8], ids=str)
def test_gemm_of_blocks_of_k_is_exact_for_every_type(isa: str, dtype: DType) -> None:
    """Three blocks of K or more: sums wait between them in the accumulator's type."""
    small = dataclasses.replace(target_of(isa), l1=8 << 10, l2=16 << 10)
    case = Case(37, 600, 75, dtype=dtype, epilogue="residual")
    spec, inputs, dims, out, expected = make(case, isa)
    tiling = choose_schedule(spec, small)
    assert tiling.blocked and tiling.kc < 300
    found = unwritten(out.shape, expected.dtype)
    assert Compiled(spec, small)([*map(guard_copy, inputs), found], dims, workers=3) == (0, 0)
    np.testing.assert_array_equal(found, expected)


@each_isa
def test_gemm_error_on_random_data(isa: str) -> None:
    """numerics.md: at most 5 units of 2**-24 * sum |a||b|."""
    rng = np.random.default_rng(2)
    for n in (1, 40):
        a, b = rng.standard_normal((20, 2000)), rng.standard_normal((2000, n))
        a, b = a.astype(np.float32).astype(np.float64), b.astype(np.float32).astype(np.float64)
        unit = 2.0**-24 * (np.abs(a) @ np.abs(b))
        assert np.max(np.abs(product(a, b, isa) - a @ b) / unit) <= 5


@each_isa
def test_gemm_keeps_nan_and_infinity_in_their_rows_and_columns(isa: str) -> None:
    a, b = np.ones((5, 9)), np.ones((9, 19))
    a[1, 2], a[3, 4], b[5, 18] = np.nan, np.inf, -np.inf
    b[4, 0] = 0
    with np.errstate(invalid="ignore"):
        expected = (a @ b).astype(np.float32)
    for case in ({}, {"b": "columns"}, {"dynamic": "mnkabc"}):
        np.testing.assert_array_equal(product(a, b, isa, **case), expected)


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dtype", [DType.i32, DType.u32, DType.i64, DType.u64])
def test_gemm_of_integers_wraps(isa: str, dtype: DType) -> None:
    rng = np.random.default_rng(3)
    low, high = int(dtype.min), int(dtype.max)
    a = rng.integers(low, high, (7, 40), dtype.numpy, endpoint=True)
    b = rng.integers(low, high, (40, 35), dtype.numpy, endpoint=True)
    packed = packed_layout(40, 35, dtype, target_of(isa))
    spec = GemmSpec(
        (), 7, 35, 40, Operand(dtype, (40, 1)), Operand(dtype, (0, 0)), Operand(dtype, (35, 1)),
        dtype, packed, identity(dtype),
    )  # fmt: skip
    inputs = [a, pack(b, PlanConstant(0, dtype, b.shape, packed))]
    np.testing.assert_array_equal(run(spec, inputs, [(7, 35)], isa=isa).outs[0], a @ b)


@each_isa
@pytest.mark.parametrize("m, dynamic", [(20, ""), (15, "m"), (29, "mnkabc")])
def test_gemm_may_overwrite_a_residual(isa: str, m: int, dynamic: str) -> None:
    """out and an extra may be one buffer: every element is read once, before it is written."""
    case = Case(m, 30, 40, b="rows", epilogue="residual", dynamic=dynamic)
    spec, inputs, dims, _, expected = make(case, isa)
    a, b, residual, column = map(guard_copy, inputs)
    compile_spec(spec, isa)([a, b, residual, column, residual], dims, workers=2)
    np.testing.assert_array_equal(residual, expected)


@each_isa
@pytest.mark.parametrize("epilogue", ["none", "relu", "residual", "gelu"])
@pytest.mark.parametrize("n", [64, 40])
def test_full_tiles_of_a_dynamic_m(isa: str, n: int, epilogue: str) -> None:
    """They finish their registers, the last ones their sums in memory."""
    for m in (1, 13, 14, 31, 60):
        check(Case(m, 40, n, epilogue=epilogue, dynamic="m"), isa, workers=2)
        check(Case(m, 40, n, epilogue=epilogue, dynamic="m"), isa, at="start")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (64, 31), (2, 3, 7, 40), (700, 500)])
def test_pack_and_unpack(shape: tuple[int, ...], transposed: bool) -> None:
    array = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    constant = PlanConstant(0, F32, shape, PackedB(32), transposed)
    packed = pack(array, constant)
    k, n = (shape[-1], shape[-2]) if transposed else shape[-2:]
    assert packed.size == PackedLayout(k, n, 32).size * int(np.prod(shape[:-2]))
    assert packed.ctypes.data % 64 == 0
    matrix = (array.swapaxes(-1, -2) if transposed else array).reshape(-1, k, n)[0]
    assert packed[(k - 1) * 32 + min(n, 32) - 1] == matrix[k - 1, min(n, 32) - 1]
    np.testing.assert_array_equal(unpack(packed, constant), array)
    padding = packed.reshape(-1, -(-n // 32), k, 32)[:, -1, :, (n - 1) % 32 + 1 :]
    assert not padding.any()


def test_pack_keeps_constants_without_a_layout() -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    constant = PlanConstant(0, DType.i32, (2, 3))
    assert pack(array, constant).tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(unpack(pack(array, constant), constant), array)


def test_tile_rows_fill_the_register_file() -> None:
    shapes = {isa: (tile_rows(t := generic_target(isa), v), panel_width(t, 32)) for isa, v in
              {"avx512": 2, "avx2": 2, "neon": 4, "plain": 2}.items()}  # fmt: skip
    assert shapes == {"avx512": (14, 32), "avx2": (6, 16), "neon": (6, 16), "plain": (5, 8)}
    assert packed_layout(5, 1, F32, generic_target("avx512")) is None
    assert packed_layout(5, 2, DType.f64, generic_target("avx512")) == PackedB(16)
    assert packed_layout(5, 2, DType.f16, generic_target("avx512")) == PackedB(32)


def test_choose_schedule_cuts_a_static_m_evenly() -> None:
    target = generic_target("avx512")
    heights = {m: choose_schedule(make(Case(m, 8, 64, b="rows"), "plain")[0], target).heights
               for m in (1, 14, 15, 64, 128)}  # fmt: skip
    assert heights == {1: (1,), 14: (14,), 15: (8, 7), 64: (13, 12), 128: (13, 12)}


@pytest.mark.parametrize(
    "changes, word",
    [
        ({}, r"fmla\s+v\d+\.4s"),
        ({"dtype": DType.f64}, r"fmla\s+v\d+\.2d"),
        ({"dtype": DType.f16}, r"fmla\s+v\d+\.4s"),
        ({"compute_dtype": DType.bf16}, r"fmla\s+v\d+\.4s"),
        ({"dynamic": "mnkabc"}, r"fmla\s+v\d+\.4s"),
    ],
    ids=str,
)
def test_gemm_assembly_for_neon(changes: dict, word: str) -> None:
    """No machine here runs it; LLVM generates it, with its multiply-add on whole vectors."""
    spec = make(Case(8, 16, 20, b="rows", epilogue="relu", **changes), "plain")[0]
    assembly = emit_assembly(
        generate(spec, generic_target("neon"), "k").text, generic_target("neon")
    )
    assert len(re.findall(word, assembly)) >= 24


def test_generate_is_a_pure_function_without_names_of_the_model() -> None:
    spec = make(Case(20, 16, 20), "plain")[0]
    first, second = (generate(spec, target_of("plain"), "k7") for _ in range(2))
    assert first == second and "define i32 @k7(" in first.text


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_llvm_optimizes_no_function_of_a_product_whose_tiles_are_assembled(isa: Isa) -> None:
    spec = make(Case(24, 32, 32, epilogue="relu"), isa)[0]
    text = generate(spec, generic_target(isa), "k").text
    assert 0 < text.count("\ndefine ") == text.count(UNOPTIMIZED)


def test_products_share_a_long_epilogue() -> None:
    """Its text is the same for other sizes and strides, and all else is not optimized."""
    target, found = generic_target("avx512"), set[str]()
    for case in (Case(24, 32, 128, epilogue="gelu"), Case(48, 64, 192, epilogue="gelu")):
        text = generate(make(case, "avx512")[0], target, "k").text
        (finish,) = functions_of(text, "finish")
        assert text.count("\ndefine ") - 1 == text.count(UNOPTIMIZED)
        found.add(finish)
    assert len(found) == 1


@pytest.mark.parametrize("isa", ISAS)
def test_products_with_a_shared_epilogue_walk_their_own_rows(isa: str) -> None:
    for case in (Case(9, 32, 128, epilogue="gelu"), Case(14, 17, 70, epilogue="gelu", batch=(2,))):
        check(case, isa, workers=2)
