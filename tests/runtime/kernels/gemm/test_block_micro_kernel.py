"""2 x 2 blocks of I8MM and BF16 on aarch64: where they multiply, and exact products.

Where this machine has no such unit, the kernels are generated and not run.
"""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.packing.panel_params import has_block_unit, packed_layout
from irc_compiler.plan.processors import processor_target
from irc_compiler.plan.target import Target, generic_target
from irc_compiler.runtime.jit.host_features import host_features
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.kernel import generate
from irc_compiler.runtime.kernels.gemm.tiling import choose_schedule
from support.kernels.harness import target_of
from support.kernels.products import Case, check, make, product

U8, I8, BF16 = DType.u8, DType.i8, DType.bf16
needs_i8mm = pytest.mark.skipif(
    "i8mm" not in host_features(), reason="not run: this machine has no I8MM"
)
needs_bf16 = pytest.mark.skipif(
    not {"neon", "bf16"} <= host_features(), reason="not run: this machine has no BF16 of Arm"
)
BYTES = Case(12, 40, 32, dtype=U8, b_dtype=I8)
ROUNDED = Case(12, 40, 32, compute_dtype=BF16)


def instructions(case: Case, target: Target) -> set[str]:
    spec = make(case, "neoverse-v1")[0]
    if spec.packed:
        packed = packed_layout(case.k, case.n, spec.b.dtype, target, case.compute_dtype)
        spec = dataclasses.replace(spec, packed=packed)
    text = emit_assembly(generate(spec, target, "k").text, target)
    return set(re.findall(r"\b(usmmla|sudot|sdot|bfmmla|bfdot)\b", text))


@pytest.mark.parametrize(
    "case, lacking, used",
    [
        (BYTES, "", {"usmmla"}),
        (BYTES, "i8mm", {"sdot"}),
        (dataclasses.replace(BYTES, b="rows"), "", {"sudot"}),
        (ROUNDED, "", {"bfmmla"}),
        (ROUNDED, "bf16", set()),
        (dataclasses.replace(ROUNDED, b="rows"), "", {"bfdot"}),
    ],
)
def test_blocks_are_multiplied_where_the_target_has_them_and_the_operand_is_constant(
    case: Case, lacking: str, used: set[str]
) -> None:
    target = processor_target("neoverse-v1")
    features = tuple(f for f in target.cpu_features if f != lacking)
    assert instructions(case, dataclasses.replace(target, cpu_features=features)) == used


def test_packed_cells_are_twice_as_deep_where_blocks_are_multiplied() -> None:
    for processor, of_bytes, of_bf16 in (
        ("cortex-a72", 1, 1), ("neoverse-n1", 4, 1), ("neoverse-v1", 8, 4),
    ):  # fmt: skip
        target = processor_target(processor)
        assert packed_layout(16, 20, U8, target) == PackedB(16, of_bytes, column_sums=True)
        assert packed_layout(16, 20, DType.f32, target, BF16) == PackedB(16, of_bf16)
        assert packed_layout(16, 20, DType.f32, target) == PackedB(16)
        assert has_block_unit(target, I8) == (of_bytes == 8)
    assert not has_block_unit(generic_target("avx512"), I8)


@pytest.mark.aarch64
@needs_i8mm
@pytest.mark.parametrize("dtype", [U8, I8], ids=str)
@pytest.mark.parametrize("m", [1, 2, 5, 6, 13])
def test_byte_blocks_are_exact(m: int, dtype: DType) -> None:
    """Odd rows, odd numbers of cells, cells that K ends in, edges of columns. For 150 columns rows
    are copied two by two."""
    for k in (1, 4, 8, 12, 35, 77):
        for n in (2, 16, 37, 150):
            check(Case(m, k, n, dtype=dtype, b_dtype=I8, a_zero_point="one"), "neon")


@pytest.mark.aarch64
@needs_i8mm
@pytest.mark.parametrize("dynamic", ["", "m"])
@pytest.mark.parametrize("m", [3, 6, 13])
def test_sums_of_paired_rows_are_exact(m: int, dynamic: str) -> None:
    """Zero points of B need the sums of A's rows."""
    for k in (4, 12, 35, 77):
        case = Case(m, k, 150, dtype=U8, b_dtype=I8, dynamic=dynamic)
        for zeros in ({"b_zero_point": "one"}, {"a_zero_point": "each", "b_zero_point": "each"}):
            check(dataclasses.replace(case, **zeros), "neon")


@pytest.mark.aarch64
@needs_bf16
@pytest.mark.parametrize("m", [1, 2, 5, 6, 13])
def test_bf16_blocks_are_exact(m: int) -> None:
    for k in (1, 2, 3, 4, 6, 35):
        for n in (2, 16, 37):
            check(Case(m, k, n, compute_dtype=BF16, dynamic="m" if m == 5 else ""), "neon")


def test_rows_are_copied_two_by_two_where_many_columns_read_them() -> None:
    """Each row that is read in place takes an insertion per vector of B. f32 is always copied."""
    target = processor_target("neoverse-v1")
    for case, paired in (
        (BYTES, False),
        (dataclasses.replace(BYTES, n=128), True),
        (dataclasses.replace(BYTES, m=1, n=128), False),
        (dataclasses.replace(BYTES, b="rows", n=128), False),
        (ROUNDED, True),
    ):
        schedule = choose_schedule(make(case, "neoverse-v1")[0], target)
        assert schedule.pairs_rows == paired, case
        rows = schedule.mr + schedule.mr % 2 if paired else schedule.mr
        assert schedule.strip == schedule.a_row * rows or schedule.pack_a == "columns"


@pytest.mark.aarch64
@needs_bf16
def test_blocks_resume_their_sums_in_each_block_of_k() -> None:
    rng = np.random.default_rng(4)
    left, right = rng.integers(-8, 8, (17, 601)), rng.integers(-8, 8, (601, 35))
    small = dataclasses.replace(target_of("neon"), l1=8 << 10, l2=16 << 10)
    case = Case(17, 601, 35, compute_dtype=BF16)
    assert choose_schedule(make(case, "neon")[0], small).blocked
    found = product(left, right, "neon", compute_dtype=BF16, target=small)
    np.testing.assert_array_equal(found, left @ right)
