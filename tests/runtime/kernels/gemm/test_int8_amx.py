"""Int8 activations times compressed weights on tiles of AMX: the bits of NumPy for integers around
the edges of tiles and groups, and those of vector registers for all numbers.

Where the machine has no tiles, their instructions are caught and emulated (amx_trap.py).
"""

from __future__ import annotations

import dataclasses
from itertools import product

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.gemm import MAX_VECTOR_INT8_ROWS
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.int8_amx.tiling import GroupTiles
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import Int8AmxSchedule, Int8Schedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, schedule_gemm
from support.kernels.amx_emulation import sapphire_rapids
from support.kernels.harness import ISAS, each_tiled_isa, same_bits, target_of
from support.kernels.int8_products import Case, expected, make_spec, multiply, whole_numbers

U4, I4, U8, I8 = DType.u4, DType.i4, DType.u8, DType.i8
each_type = pytest.mark.parametrize("dtype", [U4, I4, U8, I8], ids=str)
ZEROS = ["none", "one", "each", "offset"]
each_zero = pytest.mark.parametrize("zero", ZEROS)
COMPARED = [
    pytest.param(dtype, zero, marks=() if (dtype, zero) == (U4, "offset") else pytest.mark.slow)
    for dtype, zero in product((U4, I4, U8, I8), ZEROS)
]


def check_integers(c: Case, isa: str, m: int, *, size: int | None, workers: int = 1) -> None:
    """The exact result of integers, by a kernel that has tiles."""
    assert isinstance(choose_schedule(make_spec(c, target_of(isa), size), target_of(isa)),
                      Int8AmxSchedule)  # fmt: skip
    a = whole_numbers(m, c.k, c.dot_group)
    found = multiply(c, a, isa, m=size, workers=workers)
    np.testing.assert_array_equal(found, expected(c, a).astype(np.float32))


@each_tiled_isa
@each_type
@each_zero
def test_products_of_integers_are_exact(isa: str, dtype: DType, zero: str) -> None:
    """Two groups of one product of tiles each, and a last group that is shorter; rows of A with
    other elements between them."""
    check_integers(Case(72, 45, dtype, 32, zero), isa, 37, size=37)
    check_integers(Case(72, 45, dtype, 32, zero, apart=3), isa, 37, size=None, workers=2)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("m", [17, 31, 32, 33, 47, 48, 49, 64, 65, 81])
def test_rows_around_the_tile(isa: str, m: int) -> None:
    for dtype, workers in ((U4, 1), (I8, 2), (I4, 3)):
        for size in (m, None):
            check_integers(Case(96, 70, dtype, 32), isa, m, size=size, workers=workers)


@pytest.mark.slow
@each_tiled_isa
@pytest.mark.parametrize("n", [2, 15, 16, 17, 31, 32, 33, 48, 64, 65, 101])
def test_columns_around_the_tile(isa: str, n: int) -> None:
    for dtype, workers in ((U4, 1), (I8, 2)):
        check_integers(Case(64, n, dtype, 32, "offset"), isa, 35, size=None, workers=workers)


@pytest.mark.slow
@each_tiled_isa
@each_type
@pytest.mark.parametrize(
    "k, group",
    [(8, 32), (20, 64), (24, 8), (64, 64), (72, 24), (100, 100), (128, 128), (200, 64), (200, 72)]
    + [(264, 88), (300, 96), (300, 120), (301, 128), (384, 128), (500, 1000), (512, 256)],
)
def test_groups_around_the_tile(isa: str, dtype: DType, k: int, group: int) -> None:
    """Groups of one product and of two, a single group, and last groups that zeros fill up."""
    for zero, apart in (("each", 0), ("offset", 5)):
        check_integers(Case(k, 35, dtype, group, zero, apart), isa, 18, size=18, workers=2)


@each_tiled_isa
@pytest.mark.parametrize("dtype, zero", COMPARED)
def test_bits_are_those_of_vector_registers(isa: str, dtype: DType, zero: str) -> None:
    """Of every instruction set that adds a product with one rounding, for rows alone and in a
    batch, read in place and packed first."""
    for k, group in ((96, 32), (260, 128)):
        c = Case(k, 40, dtype, group, zero)
        a = np.random.default_rng(1).standard_normal((40, k)).astype(np.float32)
        a[5, :group] = 0
        a[6] *= np.float32(1e30)
        whole = multiply(c, a, isa, m=40)
        for other in (x for x in ISAS if target_of(x).fma):
            assert same_bits(multiply(c, a, other, m=40), whole), other
        for m in (1, MAX_VECTOR_INT8_ROWS, MAX_VECTOR_INT8_ROWS + 1, 33):
            for workers in (1, 2):
                assert same_bits(multiply(c, a[:m], isa, m=None, workers=workers), whole[:m])


@each_tiled_isa
def test_what_is_not_finite_is_kept(isa: str) -> None:
    c = Case(64, 40, U4, 32, "one")
    a = np.ones((20, 64), np.float32)
    a[0, 5], a[17, 40] = np.nan, np.inf
    found = multiply(c, a, isa, m=20)
    assert not np.isfinite(found[[0, 17]]).any()
    assert np.isfinite(np.delete(found, [0, 17], axis=0)).all()


@pytest.mark.slow
@each_tiled_isa
def test_workers_may_begin_anywhere_in_a_block_of_rows(isa: str) -> None:
    """A worker's first tile is no multiple of MC, and it has more than MC tiles."""
    c, m = Case(4096, 40, U4, 32), 412
    tiles = schedule_gemm(make_spec(c, target_of(isa), None), target_of(isa)).tiles
    first = -(-m // tiles.mr) // 2
    assert first > tiles.mc and first % tiles.mc != 0
    a = np.random.default_rng(1).standard_normal((m, c.k)).astype(np.float32)
    alone = multiply(c, a, isa, m=None)
    for workers in (2, 3):
        assert same_bits(multiply(c, a, isa, m=None, workers=workers), alone)


def test_kernels_have_the_instruction_for_the_sign_of_the_weights() -> None:
    target = sapphire_rapids()
    for dtype, word in ((U4, "tdpbsud"), (I4, "tdpbsud"), (U8, "tdpbsud"), (I8, "tdpbssd")):
        c = Case(64, 40, dtype, 32)
        for more in (0, 1):
            spec = make_spec(c, target, MAX_VECTOR_INT8_ROWS + more)
            text = emit_assembly(generate(spec, target, "k").text, target)
            assert (word in text, "vpdpbusd" in text) == (more == 1, more == 0)
        text = emit_assembly(generate(make_spec(c, target, None), target, "k").text, target)
        assert word in text and "vpdpbusd" in text


def test_few_rows_of_a_dynamic_m_are_for_vector_registers() -> None:
    target = sapphire_rapids()
    schedule = schedule_gemm(make_spec(Case(64, 40, U4, 32), target, None), target)
    assert isinstance(schedule.tiles, Int8AmxSchedule) and isinstance(schedule.few, Int8Schedule)
    assert schedule.few_rows == MAX_VECTOR_INT8_ROWS
    assert f"M <= {MAX_VECTOR_INT8_ROWS}: Int8Schedule(" in str(schedule)
    without = dataclasses.replace(
        target, cpu_features=tuple(x for x in target.cpu_features if x != "amx-int8")
    )
    schedule = schedule_gemm(make_spec(Case(64, 40, U4, 32), without, None), without)
    assert isinstance(schedule.tiles, Int8Schedule) and schedule.few is None


def test_groups_are_products_of_equal_depth() -> None:
    """A tile register holds at most 64 bytes of K, and whole cells of four."""
    target = sapphire_rapids()
    for group, dtype in product(range(8, 136, 8), (U4, I8)):
        tiles = GroupTiles.of(make_spec(Case(3 * group, 40, dtype, group), target, 32))
        assert (tiles.depth, tiles.steps) == (group, 1 + (group > 64))
        assert 4 * tiles.cells * tiles.steps == group and tiles.cells <= 16
    alone = GroupTiles.of(make_spec(Case(20, 40, U4, 64), target, 32))
    assert alone == GroupTiles(24, 1, 6)
