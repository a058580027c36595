"""Plan.verify of packed constants: their layout, sizes and readers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.program import Instr, Program
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.packing.layouts import PackedB, PackedConv
from irc_compiler.plan.plan import (
    CONSTANT,
    INPUT,
    OUTPUT,
    Buffer,
    KernelStep,
    Plan,
    PlanConstant,
    Region,
)
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from support.tiny_plans import (
    f32,
    make_plan,
)


def gemm(packed: PackedB | None, k: Any = 6, n: Any = 5, **more: Any) -> GemmSpec:
    epilogue = Program((Instr("input", (0,), f32),), (0,))
    b = Operand(f32, (5, 1))
    return GemmSpec(
        (), 4, n, k, Operand(f32, (6, 1)), b, Operand(f32, (5, 1)), f32, packed, epilogue, **more
    )


def gemm_plan(spec: GemmSpec, constant: PlanConstant) -> Plan:
    t = TensorType(f32, (4, 6))
    buffers = (
        Buffer(INPUT, f32, (4, 6), 0),
        Buffer(CONSTANT, f32, constant.shape, 0),
        Buffer(OUTPUT, f32, (4, 5), 0),
    )
    step = KernelStep(spec, (0, 1, 2), (), 1)
    region = Region((0,), (1,), (), (), buffers, (step,))
    return make_plan([t, TensorType(f32, (4, 5))], (0,), (1,), (region,), (constant,))


def test_verify_plan_of_packed_constants() -> None:
    packed = PackedB(4)
    good = gemm_plan(gemm(packed), PlanConstant(0, f32, (6, 5), packed))
    verify_plan(good)
    sizes = RegionLayoutTables(good.regions[0], good.constants).sizes({})
    assert sizes.elements[1] == 8 * 6
    verify_plan(gemm_plan(gemm(packed), PlanConstant(0, f32, (5, 6), packed, transposed=True)))
    for spec, constant in (
        (gemm(packed), PlanConstant(0, f32, (6, 5))),
        (gemm(None), PlanConstant(0, f32, (6, 5), packed)),
        (gemm(PackedB(8)), PlanConstant(0, f32, (6, 5), packed)),
        (gemm(packed), PlanConstant(0, f32, (5, 6), packed)),
        (gemm(packed, k=7), PlanConstant(0, f32, (6, 5), packed)),
        (gemm(packed), PlanConstant(0, f32, (30,), packed)),
    ):
        with pytest.raises(VerificationError):
            verify_plan(gemm_plan(spec, constant))
    cells = PackedB(4, 2)
    odd = gemm_plan(gemm(cells, k=5), PlanConstant(0, f32, (5, 5), cells))
    assert RegionLayoutTables(odd.regions[0], odd.constants).sizes({}).elements[1] == 8 * 6
    for spec, constant in (
        (gemm(cells), PlanConstant(0, f32, (6, 5), packed)),
        (gemm(cells), PlanConstant(0, f32, (5, 6, 1, 1), PackedConv(4))),
        (gemm(PackedB(4, 0)), PlanConstant(0, f32, (6, 5), PackedB(4, 0))),
        (gemm(packed), PlanConstant(0, f32, (6, 5), packed, rounds=True)),
    ):
        with pytest.raises(VerificationError):
            verify_plan(gemm_plan(spec, constant))
    verify_plan(gemm_plan(gemm(packed), PlanConstant(0, f32, (5, 6, 1, 1), PackedConv(4))))
    summed = PackedB(4, column_sums=True)
    for layout in (summed, PackedConv(4), packed):
        with pytest.raises(VerificationError):
            verify_plan(gemm_plan(gemm(summed), PlanConstant(0, f32, (5, 6, 1, 1), layout)))
    batched = dataclasses.replace(
        gemm(packed),
        batch=(3,),
        a=Operand(f32, (0, 6, 1)),
        b=Operand(f32, (48, 5, 1)),
        out=Operand(f32, (0, 5, 1)),
    )
    plan = gemm_plan(batched, PlanConstant(0, f32, (2, 6, 5), packed))
    with pytest.raises(VerificationError, match="leaves its buffer"):
        RegionLayoutTables(plan.regions[0], plan.constants).sizes({})
