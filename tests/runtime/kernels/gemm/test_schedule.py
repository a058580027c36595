"""Schedules of products: values of one class per micro-kernel, and all that the generator reads."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.heuristics import Heuristics
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.kernels.gemm import kernel
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import AmxSchedule, KernelSchedule, VectorSchedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_vector_schedule, schedule_gemm
from support.kernels.harness import ISAS, same_bits, target_of
from support.kernels.products import Case, make, product

WIDE = generic_target("avx512")
TILES = dataclasses.replace(
    WIDE, cpu_features=tuple(sorted({*WIDE.cpu_features, "avx512bf16", "amx-tile", "amx-bf16"}))
)


def test_schedule_prints_as_one_line() -> None:
    schedule = schedule_gemm(make(Case(64, 300, 128), "plain", WIDE)[0], WIDE)
    assert str(schedule) == (
        "VectorSchedule(lanes=16, nr=32, vectors=2, mr=13, heights=(13, 12), guarded=False, "
        "buffered=False, panels=1, kr=1, kc=300, blocked=False, mc=5, nc=4, pack_a=no, "
        "in_place=False, a_row=320, pack_b=False, fetch=1, streams=False, unroll=1, "
        "fetch_distance=2048, rows_of_work=13, panel_work=25, strip_work=10)"
    )
    assert str(schedule_gemm(make(Case(64, 300, 1), "plain", WIDE)[0], WIDE)) == (
        "dot products of 4 rows"
    )
    dynamic = str(schedule_gemm(make(Case(64, 300, 5, dynamic="n"), "plain", WIDE)[0], WIDE))
    assert dynamic.splitlines()[-1] == "N = 1: dot products of 4 rows"


# A product, and whether its full tiles that read A unpacked keep sums in registers.
FULL_TILES = {
    "dynamic M": (Case(64, 300, 128, epilogue="relu", dynamic="m"), True),
    "a long epilogue": (Case(64, 300, 128, epilogue="gelu", dynamic="m"), False),
    "a panel that is not full": (Case(64, 300, 120, epilogue="relu", dynamic="m"), False),
    "dynamic N": (Case(64, 300, 128, epilogue="relu", dynamic="mn"), False),
    "blocks of K": (Case(64, 3000, 128, epilogue="relu", dynamic="m"), False),
    "copied rows": (Case(64, 300, 128, epilogue="relu", dynamic="m", a="gaps"), False),
    "zero points": (
        Case(64, 300, 128, dtype=DType.u8, a_zero_point="one", dynamic="m"),
        False,
    ),
}


@pytest.mark.parametrize("name", FULL_TILES)
def test_full_tiles_keep_sums_in_registers(name: str) -> None:
    case, keeps = FULL_TILES[name]
    schedule = choose_vector_schedule(make(case, "plain", WIDE)[0], WIDE)
    assert schedule.buffered and schedule.stores_sums(in_place=False)
    assert schedule.stores_sums(in_place=True) == (not keeps)


def test_class_of_a_schedule_follows_from_spec_and_target() -> None:
    spec = make(Case(33, 64, 64, compute_dtype=DType.bf16), "plain", TILES)[0]
    tiles = schedule_gemm(spec, TILES).tiles
    assert isinstance(tiles, AmxSchedule) and tiles.instruction == "llvm.x86.tdpbf16ps"
    assert not tiles.tail
    assert isinstance(choose_vector_schedule(spec, TILES), VectorSchedule)
    plain = make(Case(33, 64, 64), "plain", TILES)[0]
    assert isinstance(schedule_gemm(plain, TILES).tiles, VectorSchedule)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiles.mr = 1  # type: ignore[misc]


@pytest.mark.parametrize("isa", ISAS)
def test_generator_follows_a_schedule_that_no_heuristic_chose(
    isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((17, 90)), rng.standard_normal((90, 70))
    spec, target = make(Case(17, 90, 70), isa)[0], target_of(isa)
    chosen, text = product(a, b, isa), generate(spec, target, "k").text
    made = schedule_gemm(spec, target)
    other = dataclasses.replace(
        made.tiles, mr=3, heights=(3, 2), mc=2, kc=32, blocked=True, buffered=True, nc=2, fetch=0
    )
    monkeypatch.setattr(
        kernel, "schedule_gemm", lambda *_: KernelSchedule(other, None, 4, n_one=False)
    )
    assert generate(spec, target, "k").text != text
    assert same_bits(chosen, product(a, b, isa))


def test_generators_read_thresholds_from_schedules_only() -> None:
    """The modules that choose schedules are those that read thresholds of the Target."""
    folder = Path(kernel.__file__).parents[1]
    modules = [p for name in ("gemm", "conv") for p in (folder / name).rglob("*.py")]
    readers = {p.relative_to(folder).as_posix() for p in modules if ".heuristics" in p.read_text()}
    assert readers == {
        "conv/amx_geometry.py",
        "conv/row_packing.py",  # choose_rows
        "conv/schedule.py",
        "conv/tile_partition.py",
        "conv/winograd_tiles.py",
        "gemm/amx_tiling.py",
        "gemm/bf16x3/f32_tiling.py",
        "gemm/bf16x3/tiling.py",
        "gemm/block_sizes.py",
        "gemm/epilogue.py",  # is_short
        "gemm/int8_amx/tiling.py",
        "gemm/tiling.py",
    }


def test_thresholds_change_the_schedule() -> None:
    spec = make(Case(64, 300, 128), "plain", WIDE)[0]
    machine = dataclasses.replace(
        WIDE, heuristics=Heuristics(gemm_max_tile_rows=4, gemm_a_block_l2_divisor=64)
    )
    tiles = schedule_gemm(spec, machine).tiles
    assert tiles.heights == (4,) and tiles.mc < schedule_gemm(spec, WIDE).tiles.mc * 13 // 4
