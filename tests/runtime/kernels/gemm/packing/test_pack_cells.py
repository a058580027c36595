"""Products whose operands are converted to the factors' type while they are packed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.builder import cast_array, identity
from irc_compiler.plan.packing.panel_params import CONVERTIBLE
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.verify.specs import verify_specs
from support.kernels.harness import (
    ISAS,
    each_tiled_isa,
    run,
    same_bits,
    target_of,
)
from support.kernels.products import Case, check, make

each_isa = pytest.mark.parametrize("isa", ISAS)
FLOATS = (DType.f32, DType.f64, DType.f16, DType.bf16)
SOURCES = sorted(CONVERTIBLE, key=str)
CASES = [
    Case(15, 37, 33, a_from=DType.u8, epilogue="relu"),
    Case(1, 130, 65, a_from=DType.i32),
    Case(29, 17, 40, a_from=DType.i8, dtype=DType.f64, a="columns"),
    Case(7, 33, 17, a_from=DType.i16, dtype=DType.f16, a="gaps"),
    Case(16, 31, 33, a_from=DType.u16, dtype=DType.bf16),
    Case(14, 64, 1, a_from=DType.u8, b="rows"),
    Case(5, 19, 1, a_from=DType.boolean, a="gaps", b="gaps", b_from=DType.i8),
    Case(13, 40, 35, a_from=DType.i64, compute_dtype=DType.bf16),
    Case(17, 31, 64, a_from=DType.u8, compute_dtype=DType.bf16, b="columns", b_from=DType.i8),
    Case(9, 21, 33, batch=(2, 3), a_from=DType.f32, dtype=DType.f64, b="rows"),
    Case(33, 18, 34, b="rows", b_from=DType.u8, dynamic="mnkabc"),
    Case(3, 50, 31, b="columns", b_from=DType.i32, batch=(3,), b_once=True),
    Case(4, 16, 32, b="gaps", a_from=DType.i8, b_from=DType.u8, dynamic="m"),
    Case(2, 0, 5, a_from=DType.u8),
]


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("case", CASES, ids=str)
def test_cast_operands_of_small_integers_are_exact(isa: str, case: Case) -> None:
    for at in ("start", "end"):
        check(case, isa, workers=2, at=at)


@each_tiled_isa
@pytest.mark.parametrize("case", [c for c in CASES if c.compute_dtype], ids=str)
def test_cast_operands_on_amx_tiles(isa: str, case: Case) -> None:
    check(case, isa)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("to", FLOATS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_cast_operands_round_as_a_conversion_does(isa: str, source: DType, to: DType) -> None:
    """Times the unit matrix, so that a product is its left operand, converted."""
    if source is to:
        return
    rng = np.random.default_rng(7)
    a = (rng.standard_normal((5, 21)) * 1000).astype(np.float64)
    if source.is_int:
        bits = rng.integers(0, 256, (5, 21, source.bits // 8), np.uint8)
        a = bits.view(source.numpy)[..., 0]
    a = cast_array(a, source)
    if to is DType.f16 and source.bits > 16:
        a = cast_array(np.clip(a.astype(np.float64), -6e4, 6e4), source)
    acc = DType.f64 if to is DType.f64 else DType.f32
    n = 21
    for b_from in (None, DType.u8):
        spec = GemmSpec(
            (), 5, n, 21, Operand(source, (21, 1)), Operand(b_from or to, (n, 1)),
            Operand(acc, (n, 1)), acc, None, identity(acc), a_cast=to, b_cast=b_from and to,
        )  # fmt: skip
        unit = cast_array(np.eye(21), b_from or to)
        verify_specs([spec], target_of(isa))
        (found,) = run(spec, [a, unit], [(5, n)], isa=isa).outs
        wanted = cast_array(cast_array(a, to), acc)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.slow
@each_isa
def test_cast_operands_have_the_same_bits_for_dynamic_sizes_and_threads(isa: str) -> None:
    case = Case(31, 70, 50, a_from=DType.i32)
    rng = np.random.default_rng(3)
    a = rng.integers(-(1 << 31), 1 << 31, (31, 70), np.int64).astype(np.int32)
    found: list[np.ndarray] = []
    for dynamic in ("", "m", "mnkabc"):
        for workers in (1, 3):
            spec, inputs, dims, out, _ = make(dataclasses.replace(case, dynamic=dynamic), isa)
            inputs[0] = a
            found += run(spec, inputs, [out.shape], isa=isa, dims=dims, workers=workers).outs
    assert all(same_bits(x, found[0]) for x in found)
    floats, inputs, dims, out, _ = make(dataclasses.replace(case, a_from=None), isa)
    inputs[0] = a.astype(np.float32)
    assert same_bits(run(floats, inputs, [out.shape], isa=isa).outs[0], found[0])


@pytest.mark.parametrize(
    "changes",
    [
        {"a_cast": None},
        {"a_cast": DType.i32},
        {"a_cast": DType.f64},
        {"a_cast": DType.boolean},
        {"a": Operand(DType.i4, (37, 1))},
        {"a": Operand(DType.string, (37, 1))},
        {"b_cast": DType.f32},
    ],
    ids=str,
)
def test_verify_specs_rejects_wrong_casts(changes: dict[str, Any]) -> None:
    spec = make(CASES[0], "plain")[0]
    verify_specs([spec], target_of("plain"))
    with pytest.raises(VerificationError):
        verify_specs([dataclasses.replace(spec, **changes)], target_of("plain"))
