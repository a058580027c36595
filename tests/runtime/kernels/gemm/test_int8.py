"""Products of 8-bit integers with zero points: exact modulo 2^32 on every instruction set.

Operands take all values of their types, so that a unit that saturates sums of pairs is found out.
"""

from __future__ import annotations

import dataclasses
import random
import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, evaluate_program, identity
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.packing.layouts import PackedB, PackedLayout
from irc_compiler.plan.packing.panel_params import (
    cell_depth,
    packed_layout,
    panel_width,
)
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.processors import PROCESSORS
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.runtime.jit.host_features import host_features
from irc_compiler.runtime.jit.llvm import emit_assembly, emit_object
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack, unpack
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule, tile_rows
from support.kernels import harness
from support.kernels.harness import (
    ISAS,
    TILED,
    Compiled,
    compile_spec,
    guard_copy,
    run,
    target_of,
    unwritten,
)
from support.kernels.products import Case, check, make

from tests.runtime.kernels.gemm.test_kernel import OPTIONS

U8, I8, I32 = DType.u8, DType.i8, DType.i32
# Instruction sets with and without their unit for bytes.
LACKING = {"avx512": "avx512vnni", "avx2": "avxvnni"}
KINDS = [
    kind
    for isa in [*ISAS, *TILED]
    for kind in (
        [isa, f"{isa} - {LACKING[isa]}"]
        if LACKING.get(isa) in target_of(isa).cpu_features
        else [isa]
    )
]
# On aarch64 the processors below this one: no unit, DotProd, I8MM.
KINDS += [p for p in ("cortex-a72", "neoverse-n1") if PROCESSORS[p] < host_features()]
each_kind = pytest.mark.parametrize("isa", KINDS)
TYPES = [(a, b) for a in (U8, I8) for b in (U8, I8)]


@pytest.mark.aarch64
@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("number", range(8))
def test_int8_gemm_of_random_operands_is_exact(isa: str, number: int) -> None:
    rng = random.Random(f"bytes {isa} {number}")
    chosen = {name: rng.choice(options) for name, options in OPTIONS.items()}
    chosen["dtype"], chosen["b_dtype"] = TYPES[number % 4]
    if chosen["epilogue"] == "gelu":
        chosen["epilogue"] = "none"
    for zero in ("a_zero_point", "b_zero_point"):
        chosen[zero] = rng.choice(["", "one", "each"])
    case = Case(**chosen, seed=rng.randrange(1000))
    check(case, isa, workers=rng.choice([1, 1, 2, 3, 5]), at=rng.choice(["start", "end"]))


# Any two of four choices meet: types of both sides, zero points of both sides.
CHOICES = [
    (U8, I8, "", ""), (U8, U8, "one", "each"), (U8, I8, "each", "one"), (I8, I8, "one", "one"),
    (I8, U8, "", "each"), (I8, U8, "each", ""), (U8, U8, "", "one"), (I8, I8, "each", "each"),
    (I8, U8, "one", ""),
]  # fmt: skip


@pytest.mark.aarch64
@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("a, b, a_zero_point, b_zero_point", CHOICES)
def test_int8_gemm_of_all_zero_points(
    isa: str, a: DType, b: DType, a_zero_point: str, b_zero_point: str
) -> None:
    """Of packed constants, known sizes: A is read in place, or copied where its type is i8."""
    check(
        Case(19, 36, 37, dtype=a, b_dtype=b, a_zero_point=a_zero_point, b_zero_point=b_zero_point),
        isa,
        workers=2,
    )


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("a, b", [("rows", "columns"), ("columns", "gaps"), ("gaps", "rows")])
def test_int8_gemm_of_every_depth_around_a_cell_and_a_vector(isa: str, a: str, b: str) -> None:
    """One kernel whose sizes are read at run time computes them all."""
    zeros = {"a_zero_point": "each", "b_zero_point": "each"}
    for k in (1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 127, 130):
        for n in (1, 15, 17, 32):
            case = Case(3, k, n, a=a, b=b, dtype=I8, b_dtype=U8, dynamic="mnkabc", **zeros)
            check(case, isa)


@pytest.mark.slow
@each_kind
def test_int8_gemm_of_every_size_around_the_register_tile(isa: str) -> None:
    target = target_of(isa)
    nr, mr = panel_width(target, 32), tile_rows(target, 2)
    for n in (1, nr - 1, nr, nr + 1, 2 * nr + 3):
        for m in (1, 2, mr - 1, mr, mr + 1, 2 * mr + 1):
            for k in (0, 8, 33):
                case = Case(m, k, n, b="rows", dtype=U8, dynamic="mnkabc", b_zero_point="one")
                check(case, isa, at="start" if (m + n) % 2 else "end")


@pytest.mark.slow
@each_kind
def test_int8_gemm_of_dynamic_rows_and_a_packed_constant(isa: str) -> None:
    """K is known and whole cells: full tiles read A in place, the rest a copy of it."""
    mr = tile_rows(target_of(isa), 2)
    for m in (0, 1, mr - 1, mr, mr + 1, 2 * mr + 1, 3 * mr):
        for zeros in ({}, {"a_zero_point": "each", "b_zero_point": "each"}):
            check(Case(m, 40, 70, dtype=U8, b_dtype=I8, dynamic="m", epilogue="relu", **zeros), isa)


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("zero, dynamic", [("m", ""), ("k", ""), ("n", "mnkqabc"), ("k", "mnkqabc"),
                                           ("batch", "mnkqabc")])  # fmt: skip
def test_int8_gemm_of_sizes_of_zero(isa: str, dynamic: str, zero: str) -> None:
    sizes = {"m": 3, "k": 5, "n": 17, **({zero: 0} if zero != "batch" else {})}
    batch = (0,) if zero == "batch" else (2,)
    case = Case(**sizes, batch=batch, b="rows", dynamic=dynamic, dtype=I8, b_dtype=U8)
    check(dataclasses.replace(case, a_zero_point="each", b_zero_point="one"), isa)


@pytest.mark.aarch64
@each_kind
@pytest.mark.parametrize("a, b", [(255, -128), (255, 127)])
def test_int8_gemm_sums_do_not_saturate_and_wrap(isa: str, a: int, b: int) -> None:
    k = 70_000
    left, right = np.full((2, k), a, np.uint8), np.full((k, 20), b, np.int8)
    packed = packed_layout(k, 20, I8, target_of(isa))
    spec = GemmSpec(
        (), 2, 20, k, Operand(U8, (k, 1)), Operand(I8, (0, 0)), Operand(I32, (20, 1)), I32, packed,
        identity(I32),
    )  # fmt: skip
    inputs = [left, pack(right, PlanConstant(0, I8, right.shape, packed))]
    found = run(spec, inputs, [(2, 20)], isa=isa).outs[0]
    np.testing.assert_array_equal(found, np.full((2, 20), a * b * k, np.int64).astype(np.int32))


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("b", ["packed", "columns", "rows"])
@pytest.mark.parametrize("zeros", [("each", "one"), ("one", "each")], ids=str)
def test_int8_gemm_keeps_its_terms_in_each_block_of_k(
    isa: str, b: str, zeros: tuple[str, str]
) -> None:
    small = dataclasses.replace(target_of(isa), l1=8 << 10, l2=16 << 10)
    a_zero_point, b_zero_point = zeros
    for a_type, b_type in TYPES[::3] if b == "rows" else TYPES[1:3]:
        case = Case(
            37,
            1203,
            75,
            b=b,
            dtype=a_type,
            b_dtype=b_type,
            a_zero_point=a_zero_point,
            b_zero_point=b_zero_point,
        )
        spec, inputs, dims, out, expected = make(case, isa)
        tiling = choose_schedule(spec, small)
        assert tiling.blocked and tiling.kc * tiling.kr < 700 and tiling.mc < 3
        found = unwritten(out.shape, expected.dtype)
        status = Compiled(spec, small)([*map(guard_copy, inputs), found], dims, workers=2)
        assert status == (0, 0)
        np.testing.assert_array_equal(found, expected)


def requantising(columns: bool) -> Program:
    """QLinearMatMul's formula: u8 of round(f32(acc) * scale) + zero, saturated."""
    b, f32 = Builder(), DType.f32
    x = b.cast(b.input(0, I32), f32)
    x = b.op("mul", x, b.input(1, f32) if columns else b.const(0.0037, f32))
    zero = b.const(121, f32)
    y = b.op("add", b.op("round_even", x), zero)
    return b.finish(b.cast(b.op("select", b.op("isnan", x), zero, y), U8))


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("m, dynamic", [(20, ""), (20, "mnkabc")])
def test_int8_gemm_requantizes(isa: str, columns: bool, m: int, dynamic: str) -> None:
    case = Case(m, 64, 45, dtype=U8, b_dtype=I8, a_zero_point="one", dynamic=dynamic)
    spec, inputs, dims, out, _ = make(dataclasses.replace(case, epilogue="none"), isa)
    program = requantising(columns)
    extras = (Operand(DType.f32, (0, 1)),) if columns else ()
    spec = dataclasses.replace(spec, epilogue=program, epilogue_operands=extras)
    scale = np.linspace(1e-4, 0.02, 45, dtype=np.float32)
    inputs = [*inputs, scale] if columns else inputs
    total = sums_of(case, isa)
    (expected,) = evaluate_program(program, [total, np.broadcast_to(scale, total.shape)])
    assert 0 in expected and 255 in expected and len(np.unique(expected)) > 12
    found = run(spec, inputs, [out.shape], isa=isa, dims=dims, workers=2).outs[0]
    np.testing.assert_array_equal(found, expected)


def sums_of(case: Case, isa: str) -> np.ndarray:
    """The exact sums of a case's data."""
    rng = np.random.default_rng(case.seed)
    from support.kernels.products import integers

    a = integers(rng, (case.m, case.k), case.dtype).astype(np.int32)
    b = integers(rng, (case.k, case.n), case.b_dtype or case.dtype).astype(np.int32)
    return (a - integers(rng, (1,), case.dtype).astype(np.int32)) @ b


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("m, dynamic", [(20, ""), (29, "mnkabc")])
def test_int8_gemm_may_overwrite_a_residual(isa: str, m: int, dynamic: str) -> None:
    """Zero points stand between the operands and the extras."""
    case = Case(m, 30, 40, b="rows", epilogue="residual", dynamic=dynamic, dtype=I8)
    case = dataclasses.replace(case, a_zero_point="each", b_zero_point="each")
    spec, inputs, dims, _, expected = make(case, isa)
    a, b, a_zero_point, b_zero_point, residual, column = map(guard_copy, inputs)
    compile_spec(spec, isa)(
        [a, b, a_zero_point, b_zero_point, residual, column, residual], dims, workers=2
    )
    np.testing.assert_array_equal(residual, expected)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [U8, I8])
@pytest.mark.parametrize("kr", [1, 2, 4])
@pytest.mark.parametrize("shape", [(1, 1), (5, 33), (64, 31), (2, 3, 7, 40)])
def test_int8_pack_and_unpack(
    shape: tuple[int, ...], kr: int, dtype: DType, transposed: bool
) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(int(dtype.min), int(dtype.max), shape, dtype.numpy, endpoint=True)
    constant = PlanConstant(0, dtype, shape, PackedB(32, kr, column_sums=True), transposed)
    packed = pack(array, constant)
    k, n = (shape[-1], shape[-2]) if transposed else shape[-2:]
    count = int(np.prod(shape[:-2]))
    assert packed.dtype == dtype.numpy
    assert packed.size == PackedLayout(k, n, 32, kr, column_sums=True).size * count
    np.testing.assert_array_equal(unpack(packed, constant), array)
    matrices = (array.swapaxes(-1, -2) if transposed else array).reshape(-1, k, n).astype(np.int32)
    stored = matrices - 128 if kr == 4 and dtype is U8 else matrices
    panels = packed.reshape(count, -(-n // 32), -1)
    sums = np.ascontiguousarray(panels[..., -128:]).view(np.int32).reshape(count, -1)
    np.testing.assert_array_equal(sums[:, :n], stored.sum(axis=1))
    first = panels[:, 0, : min(k, kr)].view(np.int8) if kr == 4 else panels[:, 0, : min(k, kr)]
    np.testing.assert_array_equal(first.astype(np.int32), stored[:, : min(k, kr), 0])
    if k % kr:  # the last row's places beyond K add nothing
        last = panels[0, 0, -128 - kr * 32 : -128].reshape(32, kr)
        assert not last[:, k % kr :].any()


UNIT = {"avx512": "vpdpbusd", "avx2": "vpdpbusd", "plain": "pmaddwd"}


@pytest.mark.skipif("neon" in ISAS, reason="not run: units of x86-64, on a machine without them")
@each_kind
def test_int8_gemm_uses_the_unit_exactly_where_there_is_one(isa: str) -> None:
    target = target_of(isa)
    spec = make(Case(28, 16, 40, b="rows", dtype=U8, b_dtype=I8), isa)[0]
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    lacks = " - " in isa or not any(f in target.cpu_features for f in LACKING.values())
    tiled = target.has("amx-int8") and not lacks
    assert cell_depth(target, I8) == (2 if lacks else 4)
    assert ("tdpbusd" in assembly) == tiled
    assert ("vpdpbusd" in assembly) == (not lacks and not tiled)
    # Where AVX-VNNI is there, LLVM makes one instruction of the pairs' product and their sum.
    assert ("pmaddwd" in assembly or "vpdpwssd" in assembly) == lacks


@pytest.mark.slow
@pytest.mark.skipif(
    "avx512vnni" not in target_of("avx512").cpu_features if "avx512" in ISAS else True,
    reason="not run: this machine has no AVX512-VNNI, whose short form stands in for AVX-VNNI",
)
@pytest.mark.parametrize("a, b, a_zero_point, b_zero_point", CHOICES)
def test_int8_gemm_on_the_unit_of_avx2(
    a: DType, b: DType, a_zero_point: str, b_zero_point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text for AVX-VNNI on a machine that may only have the same instruction of AVX-512: LLVM
    encodes it as that one here."""
    avx2 = generic_target("avx2")
    there = dataclasses.replace(avx2, cpu_features=tuple(sorted({*avx2.cpu_features, "avxvnni"})))
    more = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni"}
    here = dataclasses.replace(avx2, cpu_features=tuple(sorted({*avx2.cpu_features, *more})))
    monkeypatch.setattr(harness, "emit_object", lambda text, _: emit_object(text, here))
    for case in (
        Case(19, 36, 37, dtype=a, b_dtype=b, a_zero_point=a_zero_point, b_zero_point=b_zero_point),
        Case(7, 131, 33, dtype=a, b_dtype=b, b="rows", dynamic="mnkabc", a_zero_point=a_zero_point),
    ):
        spec, inputs, dims, out, expected = make(case, "avx2", there)
        kernel = Compiled(spec, there)
        assembly = emit_assembly(kernel.text, there)
        assert re.search(r"\{vex\}\s+vpdpbusd\s.*%ymm", assembly) and "%zmm" not in assembly
        found = unwritten(out.shape, expected.dtype)
        assert kernel([*map(guard_copy, inputs), found], dims, workers=2) == (0, 0)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "processor, kr, unit",
    [
        ("cortex-a72", 1, r"\bmla\s"),
        ("neoverse-n1", 4, r"\bsdot\s"),
        ("neoverse-v1", 4, r"\bsudot\s"),
    ],
)
def test_int8_gemm_assembly_for_neon(processor: str, kr: int, unit: str) -> None:
    """Generated on any machine; it runs on aarch64 (test mark `aarch64`)."""
    target = target_of(processor)
    assert cell_depth(target, I8) == kr
    case = Case(8, 16, 20, b="rows", dtype=U8, b_dtype=I8, a_zero_point="each", b_zero_point="each")
    kernel = generate(make(case, processor)[0], target, "k")
    assert re.search(unit, emit_assembly(kernel.text, target))
