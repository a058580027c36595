"""Products of f32 as three bf16 numbers per factor on tiles of AMX: the bits of NumPy for integers
around the edges of tiles, the accuracy of f32 for other numbers, and which products do so.

Where the machine has no tiles, their instructions are caught and emulated (amx_trap.py).
"""

from __future__ import annotations

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from irc_compiler import ops
from irc_compiler.compiler.report import describe_bf16x3
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.packing.panel_params import multiplies_bf16
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import F32AmxSchedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, schedule_gemm
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.amx_emulation import sapphire_rapids
from support.kernels.harness import each_tiled_isa, run, same_bits, target_of
from support.kernels.products import Case, check, extract, lay_out, make, pack_right, product

F32 = DType.f32


def case(m: int, k: int, n: int, **fields: object) -> Case:
    return Case(m, k, n, bf16x3=True, **fields)  # type: ignore[arg-type]


def check_integers(c: Case, isa: str, largest: int = 3000, workers: int = 1) -> None:
    """Integers that take two bf16 numbers, as far as sums are exact."""
    rng = np.random.default_rng(c.m)
    bound = int(min(largest, (2**24 // c.k) ** 0.5))
    a = rng.integers(-bound, bound + 1, (c.m, c.k)).astype(np.float32)
    b = rng.integers(-bound, bound + 1, (c.k, c.n)).astype(np.float32)
    spec, inputs, dims, out, expected = make(c, isa)
    inputs[0], inputs[1] = lay_out(a, c.a)[0], pack_right(b, c, spec.packed)
    found = run(spec, inputs, [out.shape], isa=isa, dims=dims, workers=workers)
    exact = (a.astype(np.float64) @ b).astype(np.float32)
    np.testing.assert_array_equal(extract(found.outs[0], c.out, expected.shape), exact)


@each_tiled_isa
def test_products_of_integers_are_exact(isa: str) -> None:
    """Several tiles, panels and steps; the last ones with a few rows, columns and values."""
    c = case(70, 77, 101)
    assert isinstance(choose_schedule(make(c, isa)[0], target_of(isa)), F32AmxSchedule)
    check_integers(c, isa)
    check_integers(c, isa, workers=3)
    for layout in ("columns", "gaps"):
        check_integers(case(35, 64, 40, a=layout, out=layout), isa)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("m", [1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 65, 97, 197, 300])
def test_rows_around_the_tile(isa: str, m: int) -> None:
    for workers, dynamic in ((1, ""), (2, ""), (3, ""), (1, "m"), (2, "m")):
        check_integers(case(m, 96, 70, dynamic=dynamic), isa, workers=workers)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("n", [2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 97, 300])
def test_columns_around_the_panel(isa: str, n: int) -> None:
    for workers in (1, 2, 3):
        check_integers(case(50, 64, n), isa, workers=workers)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("k", [1, 2, 3, 31, 32, 33, 34, 63, 65, 127, 160, 767, 768, 3001])
def test_depths_around_the_step(isa: str, k: int) -> None:
    """From one value to several blocks of K."""
    check_integers(case(40, k, 70), isa, workers=2)
    check_integers(case(300, k, 33), isa)


@each_tiled_isa
@pytest.mark.parametrize("epilogue", ["relu", "gelu", "residual", "mask"])
def test_results_are_finished(isa: str, epilogue: str) -> None:
    """In one block of K and in several, on one worker and on two, for matrices of a batch."""
    for c in (
        case(70, 64, 75, epilogue=epilogue),
        case(40, 40, 40, batch=(2, 3), epilogue=epilogue, b_once=True),
        case(40, 40, 40, batch=(3,), epilogue=epilogue),
        case(300, 1200, 40, epilogue=epilogue),
    ):
        check(c, isa)
        check(c, isa, workers=2)


@each_tiled_isa
def test_bits_depend_on_neither_rows_workers_nor_layouts(isa: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((330, 1300)).astype(np.float32)
    b = rng.standard_normal((1300, 70)).astype(np.float32)
    whole = product(a, b, isa, bf16x3=True)
    for workers in (2, 3):
        assert same_bits(product(a, b, isa, bf16x3=True, workers=workers), whole)
    for layout in ("columns", "gaps"):
        assert same_bits(product(a, b, isa, bf16x3=True, a=layout), whole)
    for m in (1, 20, 33, 60):
        for dynamic in ("", "m"):
            found = product(a[9 : 9 + m], b, isa, bf16x3=True, dynamic=dynamic)
            assert same_bits(found, whole[9 : 9 + m])
    assert same_bits(product(a, b, isa, bf16x3=True, dynamic="m", workers=2), whole)


@each_tiled_isa
def test_errors_are_those_of_f32(isa: str) -> None:
    """docs/numerics.md: at most 5 * 2^-24 * sum |a||b|, for values of any size but those whose
    lower bits are denormals; smaller ones than those of multiply-adds where all have one sign."""
    rng = np.random.default_rng(1)
    for k in (64, 768, 4096):
        normal, b = rng.standard_normal((40, k)), rng.standard_normal((k, 48)).astype(np.float32)

        def errors(a: np.ndarray, b: np.ndarray, *, bf16x3: bool) -> np.ndarray:
            exact = a.astype(np.float64) @ b
            bound = np.abs(a).astype(np.float64) @ np.abs(b) * 2.0**-24
            return (product(a, b, isa, bf16x3=bf16x3) - exact) / bound

        for scale in (1.0, 1e-30, 1e30):
            a = (normal * scale).astype(np.float32)
            assert np.abs(errors(a, b, bf16x3=True)).max() <= 5
        positive = np.abs(normal).astype(np.float32), np.abs(b)
        one, other = (np.square(errors(*positive, bf16x3=x)).mean() for x in (True, False))
        assert one < other


@each_tiled_isa
def test_special_values_reach_what_they_reach_in_f32(isa: str) -> None:
    """Infinities, NaN of any payload, and the largest numbers, times weights that one bf16 number
    holds, and others; zeros among them."""
    rng = np.random.default_rng(2)
    b = rng.integers(-3, 4, (64, 40)).astype(np.float32)
    b[:, 20:] = rng.standard_normal((64, 20))
    a = np.ones((60, 64), np.float32)
    payloads = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000], np.uint32)
    a[:4, 5] = payloads.view(np.float32)
    a[6, 40], a[7, 40] = np.inf, -np.inf
    a[8:10] = 0
    a[8, 7], a[9, 63] = np.finfo(np.float32).max, -np.finfo(np.float32).max
    found = product(a, b, isa, bf16x3=True)
    assert np.isnan(found[:4]).all()
    for row, value in ((6, np.inf), (7, -np.inf)):
        assert np.isnan(found[row][b[40] == 0]).all() and (b[40] == 0).any()
        others = b[40] != 0
        np.testing.assert_array_equal(found[row][others], value * np.sign(b[40][others]))
    for row, k in ((8, 7), (9, 63)):
        small = np.abs(b[k]) <= 0.99
        exact = a[row, k] * b[k][small]
        assert small.sum() > 5 and np.allclose(found[row][small], exact, rtol=2e-7, atol=0)
    assert np.isfinite(found[[4, 5, *range(10, 60)]]).all()


def test_kernels_multiply_bf16_on_tiles() -> None:
    """Of a pair of registers of each factor every product of terms is one of four."""
    target = sapphire_rapids()
    spec = make(case(64, 128, 128), "avx512", target)[0]
    text = emit_assembly(generate(spec, target, "k").text, target)
    assert text.count("tdpbf16ps") == 24 and "vfmadd231ps" not in text
    assert spec.compute_unit() == "bf16x6" and "of three bf16 numbers per factor" in str(
        spec.describe(str)
    )


def test_blocks_fit_the_second_cache() -> None:
    """The terms of rows and of two panels, whatever the sizes; sums that wait fit it as well."""
    target = sapphire_rapids()
    for m, k, n in ((64, 768, 768), (128, 3072, 768), (1024, 1024, 4096), (4096, 64, 128)):
        t = schedule_gemm(make(case(m, k, n), "avx512", target)[0], target).tiles
        assert isinstance(t, F32AmxSchedule) and t.kc % 32 == 0
        assert 4 * (t.mc * t.strip + 2 * 3 * t.kc // 2 * t.nr) < target.l2 / 2
        assert not t.blocked or 4 * t.mc * t.nc * t.mr * t.nr <= target.l2


def test_specs_that_no_kernel_computes_are_refused() -> None:
    target = sapphire_rapids()
    good = make(case(64, 128, 128), "avx512", target)[0]
    verify_specs([good], target)
    dynamic = make(case(64, 128, 128, dynamic="k"), "avx512", target)[0]
    f64 = make(case(64, 128, 128, dtype=DType.f64), "avx512", target)[0]
    rounded = make(case(64, 128, 128, compute_dtype=DType.bf16), "avx512", target)[0]
    unpacked = make(case(64, 128, 128, b="rows"), "avx512", target)[0]
    for spec in (dynamic, f64, rounded, unpacked):
        with pytest.raises(VerificationError, match="no product of tiles of bf16"):
            verify_specs([spec], target)
    with pytest.raises(VerificationError, match="AMX"):
        verify_specs([good], generic_target("avx512"))


def compile_product(weights: np.ndarray, *rows: int | str, **options: object) -> irc.CompiledModel:
    x = ops.parameter("x", (*(rows or (96,)), weights.shape[0]))
    return irc.compile_model(ops.model({"y": ops.matmul(x, weights)}), **options)  # type: ignore


def splits(net: irc.CompiledModel) -> bool:
    return any(isinstance(s.spec, GemmSpec) and s.spec.bf16x3 for s in net.plan.kernel_steps())


def test_sizes_and_finite_weights_decide() -> None:
    tiled = multiplies_bf16(host_target())
    w = np.random.default_rng(3).standard_normal((128, 128)).astype(np.float32)
    net = compile_product(w)
    line = "AMX: f32 factors as sums of three bf16 numbers in 1 of 1 matrix products"
    assert splits(net) == tiled == (f"tiles      {line}" in net.report())
    assert (describe_bf16x3(net.plan) == line) == tiled
    assert splits(compile_product(np.ones((1024, 512), np.float32), 48)) == tiled
    broken = [np.array(w) for _ in range(3)]
    for array, value in zip(broken, (np.inf, np.nan, 3e38), strict=True):
        array[3, 4] = value
        assert not splits(compile_product(array))
    for other in (
        compile_product(w, 95),
        compile_product(np.ones((1024, 512), np.float32), 47),
        compile_product(w, "rows"),
        compile_product(w, "matrices", 31),
        compile_product(w, "matrices", "rows"),
        compile_product(w[:63]),
        compile_product(w[:, :95]),
        compile_product(w, denormals="keep"),
        compile_product(w, precision="bf16"),
    ):
        assert not splits(other) and describe_bf16x3(other.plan) == ""


def test_a_matrix_has_the_same_bits_alone_and_in_a_batch() -> None:
    """Of a dynamic number of matrices of a known number of rows."""
    rng = np.random.default_rng(6)
    net = compile_product(rng.standard_normal((200, 130)).astype(np.float32), "matrices", 49)
    assert splits(net) == multiplies_bf16(host_target())
    x = rng.standard_normal((7, 49, 200)).astype(np.float32)
    whole = net([x])[0]
    for first, end in ((0, 1), (2, 4), (1, 7), (3, 3)):
        assert same_bits(net([x[first:end]])[0], whole[first:end])


def test_convolutions_of_single_pixels_do_so() -> None:
    rng = np.random.default_rng(4)
    w = rng.standard_normal((160, 128, 1, 1)).astype(np.float32)
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 128, 12, 12)), ("y", (1, 160, 12, 12)))
    )
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    filters = onnx.numpy_helper.from_array(w, "w")
    net = irc.compile_model(
        onnx.helper.make_model(onnx.helper.make_graph([conv], "g", [x], [y], [filters]))
    )
    assert splits(net) == multiplies_bf16(host_target())
    data = rng.standard_normal((1, 128, 12, 12)).astype(np.float32)
    exact = np.einsum("oc,bchw->bohw", w[:, :, 0, 0].astype(np.float64), data)
    np.testing.assert_allclose(net([data])[0], exact, rtol=1e-5, atol=1e-4)


def test_a_constant_denormal_that_is_added_keeps_products_on_vectors() -> None:
    w = np.random.default_rng(5).standard_normal((128, 128)).astype(np.float32)
    y = ops.matmul(ops.parameter("x", (96, 128)), w)
    net = irc.compile_model(ops.model({"y": ops.add(y, np.float32(1e-40))}))
    assert not splits(net) and not net.plan.denormals.flush
