"""What verification demands of products of bytes before a kernel is made of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.builder import identity
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.specs.base import Operand, verified_spaces
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.target import generic_target
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.plan.verify.values import RegionLayoutTables

U8, I8, I32 = DType.u8, DType.i8, DType.i32
# What generic("avx512") multiplies: pairs.
PACKED = PackedB(32, 2, column_sums=True)
GOOD = GemmSpec(
    (3,), 4, 5, 6, Operand(U8, (24, 6, 1)), Operand(I8, (0, 0, 0)), Operand(I32, (20, 5, 1)), I32,
    PACKED, identity(I32), a_zero_point=Operand(U8, (4, 1)), b_zero_point=Operand(I8, (0, 1)),
)  # fmt: skip


def test_gemm_spec_zero_points_follow_rows_and_columns() -> None:
    verify_specs([GOOD], generic_target("avx512"))
    assert verified_spaces(GOOD)[2:4] == [(3, 4), (3, 5)]
    assert GOOD.operands()[2:4] == (GOOD.a_zero_point, GOOD.b_zero_point)
    with pytest.raises(VerificationError, match="one stride per axis"):
        verified_spaces(dataclasses.replace(GOOD, a_zero_point=Operand(U8, (1,))))


@pytest.mark.parametrize(
    "changes",
    [
        {"packed": PackedB(32, 2)},
        {"packed": PackedB(32, 4, column_sums=True)},
        {"packed": PackedB(16, 2, column_sums=True)},
        {"a_zero_point": Operand(I8, (4, 1))},
        {"b_zero_point": Operand(I32, (0, 1))},
        {"a": Operand(I32, (24, 6, 1)), "a_zero_point": None},
        {"a": Operand(DType.i16, (24, 6, 1)), "a_zero_point": None},
        {"acc": DType.i64, "epilogue": identity(DType.i64), "out": Operand(DType.i64, (20, 5, 1))},
        {"compute_dtype": DType.bf16},
    ],
    ids=str,
)
def test_verify_specs_rejects_wrong_zero_points(changes: dict[str, Any]) -> None:
    with pytest.raises(VerificationError):
        verify_specs([dataclasses.replace(GOOD, **changes)], generic_target("avx512"))


def test_verify_specs_rejects_zero_points_of_floats() -> None:
    f32 = DType.f32
    spec = GemmSpec(
        (), 4, 5, 6, Operand(f32, (6, 1)), Operand(f32, (5, 1)), Operand(f32, (5, 1)), f32, None,
        identity(f32),
    )  # fmt: skip
    verify_specs([spec], generic_target("avx512"))
    with pytest.raises(VerificationError, match="types do not fit"):
        verify_specs(
            [dataclasses.replace(spec, a_zero_point=Operand(f32, (1,)))], generic_target("avx512")
        )


def test_verify_specs_rejects_column_sums_without_packed_panels() -> None:
    """The plan's count of a packed constant includes them, so that none is read beyond its end."""
    from irc_compiler.ir.types import TensorType
    from irc_compiler.plan.plan import (
        CONSTANT,
        INPUT,
        OUTPUT,
        Buffer,
        KernelStep,
        Plan,
        PlanConstant,
        PlanPort,
        Region,
    )

    spec = GemmSpec(
        (), 4, 5, 6, Operand(U8, (6, 1)), Operand(I8, (0, 0)), Operand(I32, (5, 1)), I32, PACKED,
        identity(I32),
    )  # fmt: skip

    def plan(dtype: DType, layout: PackedB) -> Plan:
        buffers = (
            Buffer(INPUT, U8, (4, 6), 0),
            Buffer(CONSTANT, dtype, (6, 5), 0),
            Buffer(OUTPUT, I32, (4, 5), 0),
        )
        step = KernelStep(spec, (0, 1, 2), (), 1)
        region = Region((0,), (1,), (), (), buffers, (step,))
        types = (TensorType(U8, (4, 6)), TensorType(I32, (4, 5)))
        ports = [PlanPort(n, (n,), t, i) for i, (n, t) in enumerate(zip("xy", types, strict=True))]
        constant = PlanConstant(0, dtype, (6, 5), layout)
        return Plan("p", "", "f32", (ports[0],), (ports[1],), types, (constant,), (region,))

    good = plan(I8, PACKED)
    verify_plan(good)
    assert RegionLayoutTables(good.regions[0], good.constants).sizes({}).elements[1] == 32 * (6 + 4)
    for bad in (plan(I8, PackedB(32, 2)), plan(DType.i16, PACKED)):
        with pytest.raises(VerificationError):
            verify_plan(bad)
