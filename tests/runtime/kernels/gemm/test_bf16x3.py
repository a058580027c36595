"""Rows of f32, as three bf16 numbers per value, times compressed weights on tiles of AMX: the bits
of NumPy for integers around the edges of tiles and groups, the accuracy of f32 for other numbers.

Where the machine has no tiles, their instructions are caught and emulated (amx_trap.py).
"""

from __future__ import annotations

import dataclasses
from itertools import product

import irc_compiler as irc
import numpy as np
import pytest
from irc_compiler import ops
from irc_compiler.compiler.report import describe_bf16x3
from irc_compiler.ir.deferred_array import DeferredArray
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.llm.architectures.matrix import GroupedMatrix
from irc_compiler.plan.packing.panel_params import BF16_TERMS, bf16x3_group, has_tiles
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.bf16x3.tiling import MAX_TILE_ROWS, SumTiles
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import Bf16x3Schedule, DequantSchedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, schedule_gemm
from irc_compiler.runtime.machine import roofline
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.amx_emulation import sapphire_rapids
from support.kernels.harness import each_tiled_isa, same_bits, target_of
from support.kernels.int8_products import Case, expected, make_spec, multiply, weights_of

U4, I4, U8, I8 = DType.u4, DType.i4, DType.u8, DType.i8
each_type = pytest.mark.parametrize("dtype", [U4, I4, U8, I8], ids=str)
each_zero = pytest.mark.parametrize("zero", ["none", "one", "each", "offset"])


def case(k: int, n: int, dtype: DType, group: int, zero: str = "each", apart: int = 0) -> Case:
    return Case(k, n, dtype, group, zero, apart, bf16x3=True)


def normal(m: int, k: int) -> np.ndarray:
    return np.random.default_rng(m).standard_normal((m, k)).astype(np.float32)


def check_integers(c: Case, isa: str, m: int, *, size: int | None, workers: int = 1) -> None:
    """The exact result of integers of up to 12 bits, which are two numbers of bf16, as far as sums
    are exact."""
    largest = np.abs(weights_of(c).codes).max() * 2 + 5
    bound = int(min(2047, 2**23 // (c.k * largest)))
    a = np.random.default_rng(m).integers(-bound, bound + 1, (m, c.k)).astype(np.float32)
    found = multiply(c, a, isa, m=size, workers=workers)
    np.testing.assert_array_equal(found, expected(c, a).astype(np.float32))


@each_tiled_isa
@each_type
@each_zero
def test_products_of_integers_are_exact(isa: str, dtype: DType, zero: str) -> None:
    """Two groups of one product of tiles each, and a last group that is shorter; rows of A with
    other elements between them."""
    c = case(72, 45, dtype, 32, zero)
    assert isinstance(choose_schedule(make_spec(c, target_of(isa), 37), target_of(isa)),
                      Bf16x3Schedule)  # fmt: skip
    check_integers(c, isa, 37, size=37)
    check_integers(case(72, 45, dtype, 32, zero, apart=3), isa, 37, size=None, workers=2)
    check_integers(c, isa, 1, size=1)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("m", [1, 2, 4, 5, 6, 9, 10, 11, 15, 16, 19, 20, 21, 31])
def test_rows_around_the_tile(isa: str, m: int) -> None:
    for dtype, workers in ((U4, 1), (I8, 2), (I4, 3)):
        for size in (m, None):
            check_integers(case(96, 70, dtype, 32), isa, m, size=size, workers=workers)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("n", [2, 15, 16, 17, 31, 32, 33, 48, 64, 65, 101])
def test_columns_around_the_tile(isa: str, n: int) -> None:
    for dtype, workers in ((U4, 1), (I8, 2)):
        for m in (3, 13):
            check_integers(case(64, n, dtype, 32, "offset"), isa, m, size=None, workers=workers)


@pytest.mark.slow
@each_tiled_isa
@each_type
@pytest.mark.parametrize(
    "k, group",
    [(8, 32), (20, 64), (24, 8), (64, 64), (72, 24), (100, 100), (128, 128), (200, 64), (200, 72)]
    + [(264, 88), (300, 96), (300, 120), (301, 128), (384, 128), (500, 1000), (512, 256)]
    + [(300, 16), (160, 80), (1100, 32)],
)
def test_groups_around_the_tile(isa: str, dtype: DType, k: int, group: int) -> None:
    """Groups of one product and of several, a single group, last groups that zeros fill up, and
    several blocks of K."""
    for zero, apart in (("each", 0), ("offset", 5)):
        for m in (1, 4, 12):
            check_integers(case(k, 35, dtype, group, zero, apart), isa, m, size=None, workers=2)


@each_tiled_isa
@pytest.mark.parametrize("dtype, zero", [(U4, "offset"), (I4, "one"), (I8, "each")])
def test_a_row_has_the_same_bits_alone(isa: str, dtype: DType, zero: str) -> None:
    """Whatever tile it is in, with known and dynamic sizes, and on any number of workers."""
    for k, group in ((96, 32), (700, 128)):
        c, a = case(k, 40, dtype, group, zero), normal(23, k)
        whole = multiply(c, a, isa, m=None)
        for m in (1, 3, 5, 6, MAX_TILE_ROWS, MAX_TILE_ROWS + 1):
            for size, workers in ((m, 1), (None, 2)):
                assert same_bits(multiply(c, a[:m], isa, m=size, workers=workers), whole[:m]), m


@each_tiled_isa
@pytest.mark.parametrize("dtype, zero", [(U4, "offset"), (U4, "none"), (I8, "one")])
def test_errors_are_those_of_f32(isa: str, dtype: DType, zero: str) -> None:
    """docs/numerics.md: at most 5 * 2^-24 * sum |a||b|, for values of one and of both signs."""
    for k, group in ((64, 32), (640, 32), (1024, 128)):
        c = case(k, 64, dtype, group, zero)
        w, pick = weights_of(c), np.arange(k) // group
        b = (w.codes - w.zero[pick]) * w.scale[pick] + w.offset[pick]
        for a in (normal(7, k), np.abs(normal(7, k)), normal(7, k) * np.float32(1e-30)):
            exact = a.astype(np.float64) @ b
            bound = np.abs(a).astype(np.float64) @ np.abs(b) * 2.0**-24
            assert (np.abs(multiply(c, a, isa, m=None) - exact) <= 5 * bound).all()


@each_tiled_isa
def test_special_values_reach_their_row_only(isa: str) -> None:
    """An infinity stays one, a NaN (one whose upper bits are those of an infinity, too) stays NaN,
    and the largest numbers do not overflow."""
    c = case(64, 40, U4, 32, "one")
    a = np.ones((14, 64), np.float32)
    a[0, 5], a[6, 40], a[11, 3] = np.nan, np.inf, np.array(0x7F800001, np.uint32).view(np.float32)
    a[8] = 0
    a[8, 7] = np.finfo(np.float32).max
    found = multiply(c, a, isa, m=14)
    w = weights_of(c)
    assert np.isnan(found[[0, 11]]).all()
    weight = (w.codes[40] - 3.0) * w.scale[1]
    assert np.array_equal(found[6][weight != 0], np.copysign(np.inf, weight[weight != 0]))
    assert np.isnan(found[6][weight == 0]).all()
    small = np.abs((w.codes[7] - 3.0) * w.scale[0]) <= 1
    largest = (a[8, 7] * ((w.codes[7] - 3.0) * w.scale[0])[small]).astype(np.float32)
    assert small.any() and np.array_equal(found[8][small], largest)
    assert np.isfinite(np.delete(found, [0, 6, 8, 11], axis=0)).all()


@each_tiled_isa
@pytest.mark.parametrize("zero", ["each", "offset"])
def test_special_values_stay_in_their_row_where_sums_are_corrected(isa: str, zero: str) -> None:
    """With zero points of single groups or offsets: what is not finite is not finite."""
    c = case(64, 40, U4, 32, zero)
    a = np.ones((14, 64), np.float32)
    a[0, 5], a[6, 40] = np.nan, np.inf
    found = multiply(c, a, isa, m=14)
    assert np.isnan(found[0]).all() and not np.isfinite(found[6]).any()
    assert np.isfinite(np.delete(found, [0, 6], axis=0)).all()


def test_kernels_multiply_bf16_on_tiles() -> None:
    target = sapphire_rapids()
    for m in (1, 40, None):
        text = emit_assembly(generate(make_spec(case(64, 40, U4, 32), target, m), target, "k").text,
                             target)  # fmt: skip
        assert "tdpbf16ps" in text and "vfmadd231ps" in text
    schedule = schedule_gemm(make_spec(case(64, 40, U4, 32), target, None), target)
    assert isinstance(schedule.tiles, Bf16x3Schedule) and isinstance(schedule.few, Bf16x3Schedule)
    assert schedule.few_rows == MAX_TILE_ROWS and f"M <= {MAX_TILE_ROWS}: Bf16x3" in str(schedule)


def test_a_third_or_sixth_of_the_peak_of_bf16_is_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `irc profile` compares the rate of such a step with."""
    spec = make_spec(case(64, 40, U4, 32), sapphire_rapids(), 8)
    assert spec.compute_unit() == "bf16x3"

    class Measured:
        def __init__(self, unit: str) -> None:
            self.flops, self.run = {"bf16": 6e9, "f32": 1e9}[unit], None

    monkeypatch.setattr(roofline, "Peak", Measured)
    monkeypatch.setattr(roofline, "_best_seconds", lambda run: 2.0)
    peaks = [roofline.measured_peak(unit) for unit in ("bf16x6", "bf16x3", "bf16", "f32")]
    assert peaks == [0.5e9, 1e9, 3e9, 0.5e9]


def test_heights_are_those_that_known_rows_need() -> None:
    target, c = sapphire_rapids(), case(64, 40, U4, 32)
    for m, heights in ((1, (1,)), (2, (5,)), (6, (10,)), (20, (10,)), (23, (10, 5)), (28, (10,))):
        assert schedule_gemm(make_spec(c, target, m), target).tiles.heights == heights


def test_groups_are_products_of_equal_depth() -> None:
    """A tile register holds at most 32 values of K, and whole pairs."""
    target = sapphire_rapids()
    for group, dtype in product(range(8, 136, 8), (U4, I8)):
        tiles = SumTiles.of(make_spec(case(3 * group, 40, dtype, group), target, 32))
        assert tiles.depth == group and 2 * tiles.cells * tiles.steps == group
        assert tiles.cells <= 16 and tiles.steps <= -(-group // 32) + 1
    assert SumTiles.of(make_spec(case(20, 40, U4, 64), target, 32)) == SumTiles(24, 1, 12)


def test_weights_that_bf16_does_not_hold_are_expanded() -> None:
    target = sapphire_rapids()
    assert bf16x3_group(64, 32, U8, 0, target) == 32 == bf16x3_group(64, 32, I8, 128, target)
    assert bf16x3_group(64, 32, U8, -2, target) == 0 == bf16x3_group(64, 32, I8, 200, target)
    assert bf16x3_group(64, 12, U4, 0, target) == 0
    assert bf16x3_group(64, 32, U4, 0, generic_target("avx512")) == 0
    spec = make_spec(case(64, 40, U4, 32), target, 8)
    assert spec.compressed is not None
    wrong = dataclasses.replace(spec.compressed, dot_group=16)
    for broken, machine in (
        (dataclasses.replace(spec, compressed=wrong), target),
        (spec, generic_target("avx512")),
    ):
        with pytest.raises(VerificationError):
            verify_specs([broken], machine)


def grouped_product(extra: float | None = None) -> irc.Model:
    """x f32 [rows, 128] times u4 weights [128, 256] in groups of 32; `extra` is added."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 256, (256, 64)).astype(np.uint8)
    w = GroupedMatrix(
        DeferredArray(DType.u8, codes.shape, lambda: codes), DType.u4, 32,
        rng.random((256, 4)).astype(np.float32), "test", zero=8,
    )  # fmt: skip
    y = w.multiply(ops.parameter("x", ("rows", 128)))
    return ops.model({"y": y if extra is None else ops.add(y, np.float32(extra))})


def test_reports_say_which_products_run_so() -> None:
    net = irc.compile_model(grouped_product())
    line = "AMX: f32 factors as sums of three bf16 numbers in 1 of 1 matrix products"
    tiled = has_tiles(host_target(), DType.bf16, 2)
    assert (describe_bf16x3(net.plan) == line) == tiled == (f"tiles      {line}" in net.report())
    assert BF16_TERMS == 3


def test_products_that_keep_denormals_do_not() -> None:
    """By request, and where a constant is a denormal that is added."""
    x = np.zeros((2, 128), np.float32)
    x[0, 0] = 1e-40
    for net in (
        irc.compile_model(grouped_product(), denormals="keep"),
        irc.compile_model(grouped_product(extra=1e-40)),
    ):
        assert describe_bf16x3(net.plan) == "" and not net.plan.denormals.flush
        found = net([x])[0]
        assert (found[0] != found[1]).any()
    target = host_target()
    spec = make_spec(Case(64, 40, U4, 32), target, 8)
    assert spec.compressed is not None
    plain = dataclasses.replace(spec, compressed=dataclasses.replace(spec.compressed, dot_group=0))
    assert isinstance(choose_schedule(plain, target), DequantSchedule)
