"""Products whose right operand is compressed integers: the bits of expanding first, in NumPy, and
multiplying then, on every instruction set, for every number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.packing.panel_params import compressed_layout, normal_scales
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.gemm import MAX_FEW_ROWS, Compressed, GemmSpec
from irc_compiler.plan.target import Target, generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_object
from irc_compiler.runtime.kernels.gemm.packing.dequant import SPLIT
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack
from irc_compiler.runtime.kernels.gemm.schedule import DequantSchedule
from irc_compiler.runtime.kernels.gemm.tiling import schedule_gemm, without_rounding
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import ISAS, TILED, run, same_bits, target_of
from support.kernels.products import product

F32 = DType.f32
each_isa = pytest.mark.parametrize("isa", ISAS)
each_type = pytest.mark.parametrize("dtype", [DType.u4, DType.i4, DType.u8, DType.i8], ids=str)


@dataclass(frozen=True)
class Case:
    """A product of M x K with compressed K x N. zero: "none", "one" (a number), "each"."""

    m: int
    k: int
    n: int
    dtype: DType
    group: int
    zero: str = "each"
    scale: DType = F32
    dynamic: bool = False
    transposed: bool = False
    compute_dtype: DType | None = None
    scales: tuple[float, float] = (0.001, 0.1)


@dataclass
class Weights:
    codes: np.ndarray
    scale: np.ndarray
    zero: np.ndarray
    expanded: np.ndarray


def weights_of(c: Case) -> Weights:
    """Random codes, and what they stand for: one rounding, to the scale's type."""
    rng = np.random.default_rng(c.k + c.n)
    low, high = int(c.dtype.min), int(c.dtype.max) + 1
    codes = rng.integers(low, high, (c.k, c.n))
    groups = -(-c.k // c.group)
    low_scale, high_scale = c.scales
    scale = rng.uniform(low_scale, high_scale, (groups, c.n)).astype(c.scale.numpy)
    one = (low + high) // 2 + 1
    zero = {"none": np.zeros((groups, c.n), int), "one": np.full((groups, c.n), one)}.get(c.zero)
    zero = rng.integers(low, high, (groups, c.n)) if zero is None else zero
    pick = np.arange(c.k) // c.group
    difference = (codes - zero[pick]).astype(np.float32)
    wide = difference * scale.astype(np.float32)[pick]
    with np.errstate(over="ignore"):
        return Weights(codes, scale, zero, wide.astype(c.scale.numpy).astype(np.float32))


def compressed_spec(
    c: Case, target: Target, scales: np.ndarray | None = None, one: int = 0
) -> GemmSpec:
    """Products with a bias. scales: those it will meet; one: what is subtracted of all codes."""
    layout = compressed_layout(c.k, c.n, c.dtype, c.group, target)
    assert layout is not None
    still = (0, 0)
    code = DType.i8 if c.dtype.is_signed else DType.u8
    compressed = Compressed(
        c.group,
        Operand(c.scale, still),
        Operand(code, still) if c.zero == "each" else one,
        scales is not None and normal_scales(scales),
    )
    b = Builder()
    program = b.finish(b.op("add", b.input(0, F32), b.input(1, F32)))
    return GemmSpec(
        (), RuntimeDim(0) if c.dynamic else c.m, c.n, c.k,
        Operand(F32, (c.k, 1)), Operand(c.dtype, still), Operand(F32, (c.n, 1)), F32, layout,
        program, (Operand(F32, (0, 1)),), c.compute_dtype, compressed,
    )  # fmt: skip


def multiply(
    c: Case, a: np.ndarray, isa: str, workers: int = 1, at: str = "end", *, rounds: bool = True
) -> np.ndarray:
    """a @ weights + a bias of halves; without `rounds` of factors that stay as they are."""
    w, target = weights_of(c), target_of(isa)
    spec = compressed_spec(c, target, w.scale, int(w.zero[0, 0]))
    spec = spec if rounds else without_rounding(spec, target)
    assert spec.packed is not None
    codes = w.codes.astype(c.dtype.numpy)
    codes = np.ascontiguousarray(codes.T) if c.transposed else codes
    cells = pack(codes, PlanConstant(0, c.dtype, codes.shape, spec.packed, c.transposed))
    narrow = PackedB(spec.packed.nr)
    scale = pack(w.scale, PlanConstant(0, c.scale, w.scale.shape, narrow))
    code = DType.i8 if c.dtype.is_signed else DType.u8
    zero = pack(w.zero.astype(code.numpy), PlanConstant(0, code, w.zero.shape, narrow))
    verify_specs([spec], target)
    bias = np.full((1, c.n), 0.5, np.float32)
    inputs = [a, cells, bias, scale, *([zero] if c.zero == "each" else [])]
    dims = [c.m] if c.dynamic else []
    result = run(spec, inputs, [(c.m, c.n)], isa=isa, dims=dims, workers=workers, at=at)
    assert result.status == 0
    return result.outs[0]


def rows(c: Case) -> np.ndarray:
    return np.random.default_rng(c.m).standard_normal((c.m, c.k)).astype(np.float32)


def check(c: Case, isa: str, workers: int = 1, at: str = "end") -> None:
    """The same bits as the product of the expanded weights, which is one more kernel's."""
    a = rows(c)
    plain = product(a, weights_of(c).expanded, isa, compute_dtype=c.compute_dtype)
    assert same_bits(multiply(c, a, isa, workers, at), plain + np.float32(0.5))


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@each_type
@pytest.mark.parametrize("zero", ["none", "one", "each"])
def test_dequant_expands_every_code(isa: str, dtype: DType, zero: str) -> None:
    """One row of ones at a time: the product is the weights themselves."""
    c = Case(16, 16, 40, dtype, 8, zero)
    assert same_bits(multiply(c, np.eye(16, dtype=np.float32), isa) - np.float32(0.5),
                     (weights_of(c).expanded + np.float32(0.5)) - np.float32(0.5))  # fmt: skip


@pytest.mark.slow
@each_isa
@each_type
@pytest.mark.parametrize("has_offset", [True, False])
@pytest.mark.parametrize("scale", [F32, DType.f16], ids=str)
def test_weights_stay_in_f32(isa: str, dtype: DType, has_offset: bool, scale: DType) -> None:
    """code * scale + offset with one rounding or two, however narrow scales and offsets are stored,
    for one row and for many."""
    for m, workers in ((1, 1), (16, 1), (70, 3)):
        c = Case(m, 37, 40, dtype, 8, "none")
        w, target = weights_of(c), target_of(isa)
        spec = compressed_spec(c, target)
        assert spec.packed is not None
        offset = np.random.default_rng(9).standard_normal(w.scale.shape)
        arrays = [x.astype(scale.numpy) for x in ((w.scale, offset) if has_offset else (w.scale,))]
        operands = [Operand(scale, (0, 0)) for _ in arrays]
        given = operands[1] if has_offset else None
        changed = Compressed(8, operands[0], 0, False, given, rounded=False)
        spec = replace(spec, compressed=changed)
        verify_specs([spec], target)
        codes = w.codes.astype(dtype.numpy)
        cells = pack(codes, PlanConstant(0, dtype, codes.shape, spec.packed))
        narrow = PackedB(spec.packed.nr)
        scaling = [pack(x, PlanConstant(0, scale, x.shape, narrow)) for x in arrays]
        bias, a = np.full((1, c.n), 0.5, np.float32), rows(c)
        found = run(spec, [a, cells, bias, *scaling], [(c.m, c.n)], isa=isa, workers=workers)
        assert found.status == 0
        pick = np.arange(c.k) // c.group
        wide = [x.astype(np.float64)[pick] for x in arrays]
        weights = w.codes * wide[0] + (wide[1] if has_offset else 0)
        bound = 1e-6 * (np.abs(a) @ np.abs(weights) + 1)
        assert (np.abs(found.outs[0] - (a @ weights + 0.5)) < bound).all()


@pytest.mark.slow
@each_isa
@each_type
@pytest.mark.parametrize(
    "k, n, group",
    [(64, 32, 32), (96, 70, 64), (100, 33, 32), (37, 5, 37), (37, 17, 1000), (300, 65, 128)],
)
def test_dequant_of_sizes_that_do_not_divide(
    isa: str, dtype: DType, k: int, n: int, group: int
) -> None:
    m = 1 + (k + n) % 17
    check(Case(m, k, n, dtype, group), isa, workers=m % 3 + 1, at="start" if m % 2 else "end")


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("scale", [DType.f16, DType.bf16], ids=str)
@each_type
def test_dequant_rounds_weights_to_f16_scales(isa: str, scale: DType, dtype: DType) -> None:
    check(Case(9, 70, 33, dtype, 32, scale=scale), isa)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("scales", [(1e-7, 1e-4), (-90, 90), (1, 500)])
def test_dequant_of_f16_scales_of_any_size(isa: str, scales: tuple[float, float]) -> None:
    """Weights that are denormal, of both signs, or infinite as f16."""
    c = Case(16, 16, 40, DType.u8, 8, scale=DType.f16, scales=scales)
    assert normal_scales(weights_of(c).scale) is (scales[0] == -90)
    expected = weights_of(c).expanded
    for row in range(0, 16, 5):
        a = np.zeros((1, 16), np.float32)
        a[0, row] = 1
        one = Case(1, 16, 40, DType.u8, 8, scale=DType.f16, scales=scales)
        finite = np.isfinite(expected).all(0)
        assert finite.any()
        found = multiply(one, a, isa)[0] - np.float32(0.5)
        wanted = (expected[row] + np.float32(0.5)) - np.float32(0.5)
        assert np.array_equal(found[finite], wanted[finite])


@pytest.mark.parametrize("dtype", [DType.f16, DType.bf16], ids=str)
def test_dequant_split_rounds_to_nearest_even(dtype: DType) -> None:
    """Every difference of two bytes (and of their signs) times every scale of one binade."""
    q, count = (
        np.arange(-511, 512, dtype=np.float32)[:, None],
        {"f16": 1024, "bf16": 128}[dtype.name],
    )
    scale = np.arange(count, 2 * count, dtype=np.float32)[None] / count
    c = q * (scale * np.float32(SPLIT[dtype]))
    rest = (c.astype(np.float64) - q.astype(np.float64) * scale).astype(np.float32)
    assert np.array_equal(c - rest, (q * scale).astype(dtype.numpy).astype(np.float32))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("scales", [(1e-38, 1e-36), (-1e32, 1e32), (1e-30, 1e-29), (1e-3, 1e-2)])
def test_dequant_of_bf16_scales_of_any_size(isa: str, scales: tuple[float, float]) -> None:
    """Weights that are denormal, tiny or huge."""
    c = Case(16, 16, 40, DType.u8, 8, scale=DType.bf16, scales=scales)
    assert normal_scales(weights_of(c).scale) is (1e-30 <= scales[0] < scales[1] < 1e30)
    for m in (1, 16):
        check(Case(m, 16, 40, DType.u8, 8, scale=DType.bf16, scales=scales), isa)


@pytest.mark.slow
@each_isa
def test_dequant_bits_depend_on_neither_threads_nor_rows_nor_kind_of_kernel(isa: str) -> None:
    whole = Case(40, 520, 75, DType.u4, 128)
    a = rows(whole)
    expected = multiply(whole, a, isa)
    for workers in (2, 3, 5):
        assert same_bits(multiply(whole, a, isa, workers), expected)
    for m in (1, 2, 5, 8, 15, 33):
        part = Case(m, 520, 75, DType.u4, 128, dynamic=True)
        assert same_bits(multiply(part, a[:m], isa, 2), expected[:m])
    for m in (1, 8, 15):
        assert same_bits(multiply(Case(m, 520, 75, DType.u4, 128), a[:m], isa, 2), expected[:m])


@pytest.mark.slow
@each_isa
@each_type
def test_dequant_of_transposed_weights(isa: str, dtype: DType) -> None:
    check(Case(20, 48, 37, dtype, 16, transposed=True), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", [*ISAS, *TILED])
@pytest.mark.parametrize("m, dynamic", [(9, True), (20, False)])
@pytest.mark.parametrize("dtype", [DType.u4, DType.i8], ids=str)
def test_dequant_of_operands_rounded_to_bf16(isa: str, dtype: DType, m: int, dynamic: bool) -> None:
    check(Case(m, 77, 40, dtype, 32, compute_dtype=DType.bf16, dynamic=dynamic), isa)


@pytest.mark.parametrize("processor", ["znver4", "sapphirerapids"])
@pytest.mark.parametrize("dtype", [DType.u4, DType.i8], ids=str)
def test_text_for_units_of_bf16_with_and_without_tiles(processor: str, dtype: DType) -> None:
    c = Case(20, 77, 40, dtype, 32, compute_dtype=DType.bf16)
    w, target = weights_of(c), target_of(processor)
    text = generate(compressed_spec(c, target, w.scale, int(w.zero[0, 0])), target, "k").text
    assert ("tdpbf16ps" in text) == (processor == "sapphirerapids")
    assert ("dpbf16ps" in text) and "k" in emit_object(text, target).exports


@pytest.mark.slow
@pytest.mark.parametrize("isa", [*ISAS, *TILED])
@pytest.mark.parametrize("m", [1, MAX_FEW_ROWS])
def test_few_rows_of_a_dynamic_product_are_not_rounded(isa: str, m: int) -> None:
    case = Case(m, 77, 40, DType.u4, 32, compute_dtype=DType.bf16, dynamic=True)
    a, b = rows(case).astype(np.float64), weights_of(case).expanded.astype(np.float64)
    found = multiply(case, rows(case), isa, 2)
    assert same_bits(found, multiply(case, rows(case), isa, rounds=False))
    assert (np.abs(found - (a @ b + 0.5)) <= 5 * 2.0**-24 * (np.abs(a) @ np.abs(b) + 0.5)).all()


def test_packed_codes_have_the_size_of_their_bits() -> None:
    target = target_of(ISAS[0])
    for dtype, nbytes in ((DType.u4, 64 * 64 // 2), (DType.i8, 64 * 64)):
        layout = compressed_layout(64, 64, dtype, 32, target)
        assert layout is not None
        codes = np.zeros((64, 64), dtype.numpy)
        assert pack(codes, PlanConstant(0, dtype, codes.shape, layout)).nbytes == nbytes


def spec_of(**changes: object) -> GemmSpec:
    layout = compressed_layout(64, 64, DType.u4, 32, target_of("plain"))
    b = Builder()
    fields: dict = {
        "batch": (), "m": 4, "n": 64, "k": 64, "a": Operand(F32, (64, 1)),
        "b": Operand(DType.u4, (0, 0)), "out": Operand(F32, (64, 1)), "acc": F32,
        "packed": layout, "epilogue": b.finish(b.input(0, F32)),
        "compressed": Compressed(32, Operand(F32, (0, 0))),
    }  # fmt: skip
    return GemmSpec(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"packed": PackedB(8, 4)},
        {"packed": PackedB(64, 8)},
        {"b": Operand(DType.u8, (0, 0))},
        {"b": Operand(DType.u4, (64, 1))},
        {"b": Operand(DType.u4, (0, 0), 5)},
        {"compressed": Compressed(31, Operand(F32, (0, 0)))},
        {"compressed": Compressed(32, Operand(F32, (64, 1)))},
        {"compressed": Compressed(32, Operand(DType.f64, (0, 0)))},
        {"compressed": Compressed(32, Operand(F32, (0, 0)), Operand(F32, (0, 0)))},
        {"compressed": Compressed(32, Operand(F32, (0, 0)), 1 << 20)},
        {"compressed": Compressed(32, Operand(F32, (0, 0)), 0, True)},
        {"compressed": Compressed(32, Operand(F32, (0, 0)), 3, offset=Operand(F32, (0, 0)))},
        {"compressed": Compressed(32, Operand(F32, (0, 0)), offset=Operand(DType.f64, (0, 0)))},
        {"compressed": Compressed(32, Operand(DType.f16, (0, 0)), offset=Operand(F32, (0, 0)))},
        {"compressed": Compressed(32, Operand(F32, (0, 0)), offset=Operand(F32, (64, 1)))},
        {"acc": DType.f64},
        {"a": Operand(DType.f64, (64, 1))},
        {"compute_dtype": DType.f16},
    ],
)
def test_verify_specs_rejects_wrong_compressed_weights(changes: dict) -> None:
    verify_specs([spec_of()], target_of("plain"))
    with pytest.raises(VerificationError):
        verify_specs([spec_of(**changes)], target_of("plain"))


@pytest.mark.parametrize("changes", [{"packed": None}, {"k": RuntimeDim(0)}, {"n": RuntimeDim(0)}])
def test_compressed_weights_are_packed_constants(changes: dict) -> None:
    with pytest.raises(VerificationError):
        spec_of(**changes)
    with pytest.raises(VerificationError):
        Compressed(0, Operand(F32, (0, 0)))


@pytest.mark.parametrize(
    "isa, more, heights, panels",
    [
        ("avx512", "", (8, 4, 2, 1), 1),
        ("avx512", "avx512fp16", (8, 4, 2, 1), 2),
        ("avx2", "", (4, 2, 1), 2),
        ("neon", "", (4, 2, 1), 2),
    ],
)
def test_tiles_of_few_rows_expand_weights_for_up_to_eight(
    isa: str, more: str, heights: tuple[int, ...], panels: int
) -> None:
    target = generic_target(isa)  # type: ignore[arg-type]
    features = tuple(sorted({*target.cpu_features, *([more] if more else [])}))
    target = replace(target, cpu_features=features)
    spec = compressed_spec(Case(1, 896, 4864, DType.u4, 32, dynamic=True), target)
    few = schedule_gemm(spec, target).few
    assert isinstance(few, DequantSchedule)
    assert (few.heights, few.panels) == (heights, panels)
