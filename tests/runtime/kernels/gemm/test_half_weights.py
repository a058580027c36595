"""Products by constants of f16 and bf16, which are multiplied as f32."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.runtime.kernels.gemm.schedule import VectorSchedule, WideningSchedule
from irc_compiler.runtime.kernels.gemm.tiling import schedule_gemm
from support.kernels.harness import ISAS, same_bits, target_of
from support.kernels.products import Case, check, make, product

HALVES = [DType.f16, DType.bf16]
# Around the tiles' heights, and where panels begin to be widened once for all of them.
ROWS = (0, 1, 2, 3, 5, 8, 14, 17, 48, 49, 64, 75, 131)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("k, n", [(1, 2), (37, 75), (96, 64), (301, 33)])
def test_products_of_integers_are_exact(isa: str, half: DType, k: int, n: int) -> None:
    for m in ROWS:
        check(Case(m, k, n, b_dtype=half, dynamic="m", epilogue="relu"), isa)
    for m in (1, 2, 3, 20, 61):
        check(Case(m, k, n, b_dtype=half), isa)
        check(Case(m, k, n, dtype=half), isa)
    check(Case(40, k, n, batch=(3,), b_dtype=half, dynamic="m"), isa)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_few_rows_are_exact(isa: str, half: DType) -> None:
    check(Case(2, 37, 75, b_dtype=half), isa)
    check(Case(17, 37, 75, b_dtype=half, dynamic="m"), isa)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_bits_are_those_of_the_same_weights_in_f32(isa: str, half: DType, workers: int) -> None:
    rng = np.random.default_rng(5)
    right = rng.standard_normal((301, 75)).astype(half.numpy)
    for m in ROWS:
        left = rng.standard_normal((m, 301)).astype(np.float32)
        expected = product(left, right.astype(np.float32), isa)
        found = product(left, right, isa, b_dtype=half, dynamic="m", workers=workers)
        assert same_bits(found, expected), m


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_many_rows_share_panels_that_are_widened(isa: str, half: DType) -> None:
    """With AVX-512; elsewhere tiles widen what they read."""
    target = target_of(isa)
    schedule = schedule_gemm(make(Case(64, 96, 64, b_dtype=half, dynamic="m"), isa)[0], target)
    assert isinstance(schedule.tiles, WideningSchedule) == (target.isa == "avx512")
    assert isinstance(schedule.few, VectorSchedule) == (target.isa == "avx512")
    assert not isinstance(schedule.few, WideningSchedule)
    for dtype in (DType.f32, half):
        for m, widens in ((2, False), (32, False), (33, True)):
            case = Case(m, 96, 64, dtype=dtype, b_dtype=half)
            known = schedule_gemm(make(case, isa)[0], target)
            assert known.few is None
            assert isinstance(known.tiles, WideningSchedule) == (widens and target.isa == "avx512")


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("half", HALVES, ids=str)
def test_blocks_of_k_widen_their_own_rows(isa: str, half: DType) -> None:
    """A K so deep that each block of it is widened for itself."""
    target = target_of(isa)
    k = target.l2 // 64
    for dynamic in ("m", ""):
        case = Case(61, k, 96, b_dtype=half, dynamic=dynamic)
        assert schedule_gemm(make(case, isa)[0], target).tiles.blocked
        for workers in (1, 2):
            check(case, isa, workers)
            check(dataclasses.replace(case, n=75), isa, workers)
