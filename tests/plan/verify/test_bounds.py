"""What verification demands of products whose operands walk an axis in blocks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import MemoryLimitError, VerificationError
from irc_compiler.ir.scalar.builder import identity
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.plan import (
    INPUT,
    OUTPUT,
    Buffer,
    KernelStep,
    Plan,
    Region,
    SymbolSource,
)
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.gemm import GemmSpec
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from support.tiny_plans import N, f32, make_plan

# [2, 3, 4, 5] (blocks of rows, blocks of K, rows, places) times [15, 28] as [2, 7, 4, 4].
GOOD = GemmSpec(
    (), 8, 28, 15, Operand(f32, (60, 5, 20, 1)), Operand(f32, (28, 1)),
    Operand(f32, (112, 4, 16, 1)), f32, None, identity(f32),
    a_m_split=(2, 4), a_k_split=(3, 5), out_m_split=(2, 4), out_n_split=(7, 4),
)  # fmt: skip


def plan_of(spec: GemmSpec, dims: tuple[Any, ...] = ()) -> Plan:
    shapes = ((2, 3, 4, 5), (15, 28), (2, 7, 4, 4))
    kinds = ((INPUT, 0), (INPUT, 1), (OUTPUT, 0))
    buffers = tuple(Buffer(k, f32, s, i) for (k, i), s in zip(kinds, shapes, strict=True))
    step = KernelStep(spec, (0, 1, 2), tuple(range(len(dims))), 1)
    region = Region((0, 1), (2,), (), dims, buffers, (step,))
    return make_plan([TensorType(f32, s) for s in shapes], (0, 1), (2,), (region,))


def check(plan: Plan) -> None:
    verify_plan(plan)
    RegionLayoutTables(plan.regions[0], plan.constants).sizes({})


def test_verify_plan_accepts_blocks_inside_their_buffers() -> None:
    check(plan_of(GOOD))


@pytest.mark.parametrize(
    "changes",
    [
        {"a_m_split": (2, 5)},
        {"a_m_split": (1, 4)},
        {"a_k_split": (5, 3)},
        {"a_k_split": (3, 6)},
        {"a_k_split": (0, 0)},
        {"out_m_split": (4, 2)},
        {"out_m_split": (8, 1)},
        {"out_n_split": (4, 8)},
        {"out_n_split": (8, 4)},
        {"out_n_split": (-7, -4)},
        {"out": Operand(f32, (112, 4, 17, 1))},
        {"out": Operand(f32, (112, 4, 16, 2))},
        {"out": Operand(f32, (112, 4, 16, 1), 1)},
        {"out": Operand(f32, (112, 4, -16, 1))},
        {"a": Operand(f32, (61, 5, 20, 1))},
        {"a": Operand(f32, (60, 5, -20, 1))},
        {"m": 9},
        {"m": 7},
        {"n": 29},
        {"k": 16},
    ],
    ids=str,
)
def test_verify_plan_rejects_blocks_that_leave_their_buffers(changes: dict[str, Any]) -> None:
    with pytest.raises(VerificationError):
        check(plan_of(dataclasses.replace(GOOD, **changes)))


@pytest.mark.parametrize(
    "dims, good",
    [
        ((8, 2, 4), True),
        ((8, 2, 5), False),
        ((7, 2, 4), False),
        ((8, 0, 4), False),
        ((8, 8, 0), False),
        ((0, 1 << 40, 1 << 40), False),
        ((8, (1 << 61) + 1, 8), False),
    ],
    ids=str,
)
def test_verify_plan_of_dynamic_parts_of_a_whole(dims: tuple[int, ...], good: bool) -> None:
    """Also where their product is that of the whole only after it has wrapped."""
    m, blocks, size = (RuntimeDim(i) for i in range(3))
    spec = dataclasses.replace(
        GOOD, m=m, a_m_split=(blocks, size), out_m_split=(blocks, size),
        a=Operand(f32, (0, 0, 20, 1)), out=GOOD.out if good else Operand(f32, (0, 0, 16, 1)),
    )  # fmt: skip
    if good:
        check(plan_of(spec, dims))
        return
    with pytest.raises(VerificationError):
        check(plan_of(spec, dims))


@pytest.mark.parametrize("wide", [0, 1])
def test_buffers_of_one_shape_are_bounded_by_their_own_bytes(wide: int) -> None:
    """2^44 elements of four bytes are fewer than 2^47 bytes, of eight as many."""
    types = [DType.f64 if n == wide else DType.f32 for n in range(3)]
    buffers = tuple(Buffer(INPUT, t, (N - 4, 1 << 21), n) for n, t in enumerate(types))
    region = Region((0, 1, 2), (), (SymbolSource("N", 0, 0),), (), buffers, ())
    tables, most = RegionLayoutTables(region, ()), (1 << 23) + 4
    assert tables.sizes({"N": most - 1}).elements.tolist() == [(1 << 44) - (1 << 21)] * 3
    with pytest.raises(MemoryLimitError, match="any machine's memory") as caught:
        tables.sizes({"N": most})
    assert f"buffer {wide} " in str(caught.value)
    with pytest.raises(VerificationError, match="negative size") as refused:
        tables.sizes({"N": 3})
    assert "buffer 0 " in str(refused.value)
