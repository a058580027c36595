"""Tiles of two panels side by side: where they are chosen, and that they change no bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import Target, generic_target
from irc_compiler.runtime.kernels.gemm import tiling
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.schedule import GemmSchedule, VectorSchedule
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule
from support.kernels.harness import (
    ISAS,
    Compiled,
    guard_copy,
    same_bits,
    target_of,
    unwritten,
)
from support.kernels.products import Case, extract, make

from tests.runtime.kernels.gemm.packing import test_dequant as test_gemm_compressed

WIDE = generic_target("avx512")
HALVES = dataclasses.replace(WIDE, cpu_features=tuple(sorted({*WIDE.cpu_features, "avx512fp16"})))
# A product, and whether tiles of a machine on which loads are not free take two panels.
CHOICES = {
    "many rows": (Case(64, 300, 128), True),
    "f64": (Case(64, 300, 128, dtype=DType.f64), True),
    "both dynamic": (Case(64, 300, 128, b="rows"), True),
    "a panel left over of many": (Case(64, 300, 32 * 9 + 5), True),
    "a panel left over of few": (Case(64, 300, 32 * 3), False),
    "one panel": (Case(64, 300, 60), False),
    "two tall tiles of rows": (Case(28, 300, 128), False),
    "dynamic rows": (Case(64, 300, 128, dynamic="m"), False),
    "halves, converted by every tile": (Case(64, 300, 128, dtype=DType.f16), False),
    "rounded factors": (Case(64, 300, 128, compute_dtype=DType.bf16), False),
    "integers": (Case(64, 300, 128, dtype=DType.i32), False),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choose_schedule_takes_two_panels_where_that_is_faster(name: str) -> None:
    case, pairs = CHOICES[name]
    for target, wanted in ((HALVES, pairs), (WIDE, False)):
        t = choose_schedule(make(case, "plain", target)[0], target)
        assert t.panels == (2 if wanted else 1)
        assert not wanted or t.mr <= 6 and t.nc % 2 == 0


def test_panel_pairs_fit_the_registers() -> None:
    spec = make(Case(64, 300, 128), "plain", HALVES)[0]
    t = choose_schedule(spec, HALVES)
    assert (t.heights, t.vectors) == ((6, 5), 2)
    assert r"\0Atile_6x2x2:\0A" in generate(spec, HALVES, "k").text


CASES = {
    "pairs": Case(29, 40, 128),
    "pairs, a panel and an edge": Case(29, 41, 3 * 32 + 5),
    "right rows as they lie": Case(13, 20, 4 * 32 + 1, b="rows"),
    "a long epilogue": Case(29, 41, 3 * 32 + 5, epilogue="gelu"),
    "an epilogue": Case(17, 33, 5 * 32 + 20, epilogue="residual"),
    "f64": Case(29, 41, 3 * 16 + 5, dtype=DType.f64),
    "columns": Case(29, 41, 3 * 32 + 5, a="columns", b="columns", out="columns"),
    "matrices": Case(14, 31, 96, batch=(3,), b="rows"),
    # Sums wait between blocks of K, besides those of a panel alone.
    "blocks of depth": Case(29, 300, 7 * 32 + 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("isa", ISAS)
def test_panel_pairs_change_no_bit(isa: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    # A second cache so small that blocks of K, of rows and of panels are several.
    machine = target_of(isa)
    if name == "blocks of depth":
        machine = dataclasses.replace(machine, l2=16 << 10)
    spec, inputs, _, out, expected = make(case, isa)
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(x.shape).astype(x.dtype) for x in inputs]
    found: list[np.ndarray] = []
    for pairs in (False, True):
        monkeypatch.setattr(tiling, "_pairs", _always if pairs else _never)
        t = choose_schedule(spec, machine)
        assert t.panels == 1 + pairs and t.blocked == (name == "blocks of depth")
        kernel = Compiled(spec, machine)
        for workers in (1, 2, 3, 4) if pairs else (1,):
            result = unwritten(out.shape, expected.dtype)
            assert kernel([*map(guard_copy, inputs), result], workers=workers) == (0, 0)
            found.append(extract(result, case.out, expected.shape).copy())
    assert not np.isnan(found[0]).any()
    assert all(same_bits(found[0], x) for x in found[1:])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [DType.i4, DType.u8], ids=str)
@pytest.mark.parametrize("isa", ISAS)
def test_panel_pairs_of_expanded_panels_change_no_bit(
    isa: str, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole pairs, a panel alone and an edge; a group of scales ends within a block of depth."""
    monkeypatch.setattr(tiling, "_pairs", _compressed)
    for m, n in ((17, 6 * 32), (23, 7 * 32 + 9)):
        for workers in (1, 3):
            case = test_gemm_compressed.Case(m, 413, n, dtype, 96)
            test_gemm_compressed.check(case, isa, workers)


def test_choose_schedule_takes_pairs_of_compressed_panels() -> None:
    """Of four bits from a second tall tile of rows on, of eight from a third; two panels at a time
    in two thirds of L1."""
    found = dict[tuple[int, int], GemmSchedule]()
    for dtype in (DType.u4, DType.u8):
        case = test_gemm_compressed.Case(16, 4096, 4096, dtype, 128)
        for m in (14, 15, 28, 29, 64, 65):
            spec = test_gemm_compressed.compressed_spec(dataclasses.replace(case, m=m), HALVES)
            found[dtype.bits, m] = choose_schedule(spec, HALVES)
    pairs = {which for which, t in found.items() if t.panels == 2}
    assert pairs == {(4, 15), (4, 28), (4, 29), (4, 64), (8, 29), (8, 64)}
    for which in pairs:
        t = found[which]
        assert (
            isinstance(t, VectorSchedule)
            and t.nc == 2
            and t.kc * 2 * t.nr * 4 <= HALVES.l1 * 2 // 3
        )


def _compressed(spec: GemmSpec, target: Target, nr: int) -> bool:
    return spec.compressed is not None


def _always(spec: GemmSpec, target: Target, nr: int) -> bool:
    return True


def _never(spec: GemmSpec, target: Target, nr: int) -> bool:
    return False


def test_panel_pairs_fetch_the_next_pair() -> None:
    """What a tile asks for is `panels` panels further on, not the other one of its pair."""
    spec = make(Case(64, 300, 128), "plain", HALVES)[0]
    t: GemmSchedule = choose_schedule(spec, HALVES)
    assert t.fetch == 1 and not t.streams
    text = generate(spec, HALVES, "k").text
    assert str(300 * 32 * 4 * 2) in text
