"""Sizes that follow others that were verified: only what they reach is checked, with the same
result as if all were."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.errors import Error, VerificationError
from irc_compiler.ir.scalar.program import Instr, Program
from irc_compiler.ir.text.graph_text import parse_graph
from irc_compiler.ir.types import TensorType
from irc_compiler.plan.plan import (
    ARENA,
    INPUT,
    OUTPUT,
    Buffer,
    KernelStep,
    Plan,
    Region,
    SymbolSource,
)
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.verify import values
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables, RegionSizes
from support.models.lowering_cases import CASES
from support.tiny_plans import N, f32, make_plan, pointwise

GROWING = [{"N": n, "M": 4, "B": 2, "S": n + 1, "D": 8} for n in range(2, 9)]
TURNING = [{"N": n, "M": m, "B": 2, "S": 3, "D": 8} for n, m in ((3, 4), (5, 4), (5, 6), (3, 6))]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a change reaches most steps, as in small plans, only these are checked."""
    monkeypatch.setattr(values, "_MAX_REACHED_SHARE", 1.0)


def tables_of(plan: Plan) -> RegionLayoutTables:
    verify_plan(plan)
    return RegionLayoutTables(plan.regions[0], plan.constants)


def describe(sizes: RegionSizes) -> dict[str, Any]:
    found = {f.name: getattr(sizes, f.name) for f in dataclasses.fields(sizes)}
    return {k: np.asarray(v).tolist() for k, v in found.items() if k != "failing_asserts"}


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", CASES)
def test_sizes_are_those_of_tables_that_saw_no_others(name: str, compile_graph) -> None:
    plan = compile_graph(parse_graph_of(name), True, 1).plan
    for number, region in enumerate(plan.regions):
        tables = RegionLayoutTables(region, plan.constants)
        for env in (*GROWING, *TURNING, *reversed(GROWING), *TURNING):
            fresh = RegionLayoutTables(plan.regions[number], plan.constants)
            try:
                wanted = describe(fresh.sizes(env))
            except Error as error:
                with pytest.raises(type(error)):
                    tables.sizes(env)
                continue
            assert describe(tables.sizes(env)) == wanted


def parse_graph_of(name: str) -> Any:
    return parse_graph(f'graph "{name}"\n{CASES[name]}')


def double_step() -> Plan:
    """y = x + x, then z = y + x, for as many elements as N says twice, less 8: within x up to 8."""
    buffers = (
        Buffer(INPUT, f32, (N,), 0),
        Buffer(ARENA, f32, (N,), first=0, last=1),
        Buffer(OUTPUT, f32, (N,), 0),
    )
    first = KernelStep(pointwise("add", RuntimeDim(0)), (0, 0, 1), (0,), N)
    second = KernelStep(pointwise("add", RuntimeDim(0)), (1, 0, 2), (1,), N)
    symbols = (SymbolSource("N", 0, 0),)
    region = Region((0,), (1,), symbols, (N, N * 2 - 8), buffers, (first, second))
    return make_plan([TensorType(f32, (N,)), TensorType(f32, (N,))], (0,), (1,), (region,))


@pytest.mark.usefixtures("always")
def test_a_step_that_leaves_its_buffer_after_others_is_refused() -> None:
    tables = tables_of(double_step())
    for n in (4, 5, 6, 7, 8):
        assert tables.sizes({"N": n}).nbytes.tolist() == [4 * n] * 3
    assert len(tables._changes) == 1 and None not in tables._changes.values()
    for n in (9, 10, 1 << 20):
        with pytest.raises(VerificationError, match="leaves its buffer"):
            tables.sizes({"N": n})
    assert tables.sizes({"N": 8}).nbytes.tolist() == [32] * 3
    with pytest.raises(VerificationError, match="negative number"):
        tables.sizes({"N": 3})


def plan_of(read: int, written: int, *steps: KernelStep, others: tuple[Buffer, ...] = ()) -> Plan:
    """Steps over buffers: 0 with elements that are read, 1 with N, 2 to write, and others."""
    buffers = (
        Buffer(INPUT, f32, (read,), 0),
        Buffer(INPUT, f32, (N,), 1),
        Buffer(OUTPUT, f32, (written,), 0),
        *others,
    )
    dims = (N,) if any(step.dims for step in steps) else ()
    region = Region((0, 1), (2,), (SymbolSource("N", 1, 0),), dims, buffers, steps)
    types = [TensorType(f32, (size,)) for size in (read, N, written)]
    return make_plan(types, (0, 1), (2,), (region,))


def part_of_output(offset: Any) -> Buffer:
    """8 of its elements."""
    return Buffer(OUTPUT, f32, (8,), 0, alias_of=2, alias_offset=offset)


def counted_step() -> Plan:
    """N elements of 16 are copied."""
    return plan_of(16, 16, KernelStep(pointwise("copy", RuntimeDim(0)), (0, 2), (0,), N))


@pytest.mark.usefixtures("always")
def test_a_step_that_counts_further_than_its_buffers_is_refused() -> None:
    tables = tables_of(counted_step())
    for n in (10, 12, 14, 16):
        tables.sizes({"N": n})
    with pytest.raises(VerificationError, match="leaves its buffer"):
        tables.sizes({"N": 17})


@pytest.mark.usefixtures("always")
def test_a_buffer_that_becomes_shorter_than_its_step_reads_is_refused() -> None:
    buffers = (Buffer(INPUT, f32, (N,), 0), Buffer(OUTPUT, f32, (16,), 0))
    step = KernelStep(pointwise("copy", 16), (0, 1), (), 16)
    region = Region((0,), (1,), (SymbolSource("N", 0, 0),), (), buffers, (step,))
    tables = tables_of(
        make_plan([TensorType(f32, (N,)), TensorType(f32, (16,))], (0,), (1,), (region,))
    )
    for n in (22, 20, 18, 16):
        tables.sizes({"N": n})
    with pytest.raises(VerificationError, match="leaves its buffer"):
        tables.sizes({"N": 15})


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("other", [1, 8], ids=["meets", "order"])
def test_walks_become_distinct_and_cease_to_be(other: int) -> None:
    """4 by 4 elements at strides of N and another: apart or not, and the shorter one first."""
    read, write = Operand(f32, (RuntimeDim(0), other)), Operand(f32, (4, 1))
    copied = Program((Instr("input", (0,), f32),), (0,))
    spec = ElementwiseSpec((4, 4), (read,), (write,), copied)
    plan = plan_of(4096, 16, KernelStep(spec, (0, 2), (0,), 16))
    tables = tables_of(plan)
    seen: list[bool] = []
    for n in (2, 2, 40, 2, 5, 3, 40, 2):
        found = tables.sizes({"N": n}).distinct.tolist()
        assert found == tables_of(plan).sizes({"N": n}).distinct.tolist()
        seen.append(found[0])
    assert {True, False} == set(seen)


def meeting_parts() -> Plan:
    """8 elements of x are copied to the first of 32, and these to those from N on: two steps that
    differ in where their buffers are alone."""
    copy = pointwise("copy", 8)
    steps = [KernelStep(copy, b, (), 8) for b in ((0, 3), (0, 4), (3, 4))]
    return plan_of(8, 32, *steps, others=(part_of_output(0), part_of_output(N)))


@pytest.mark.usefixtures("always")
def test_a_part_that_moves_over_what_its_step_reads_is_refused() -> None:
    tables = tables_of(meeting_parts())
    for n in (24, 20, 16, 12, 8):
        tables.sizes({"N": n})
    with pytest.raises(VerificationError, match="overwrites what it reads"):
        tables.sizes({"N": 7})


def moving_part() -> Plan:
    """16 elements of x are copied, then 8 of them over those from N on."""
    steps = [KernelStep(pointwise("copy", n), b, (), n) for n, b in ((16, (0, 2)), (8, (0, 3)))]
    return plan_of(16, 16, *steps, others=(part_of_output(N),))


@pytest.mark.usefixtures("always")
def test_a_part_that_moves_out_of_its_buffer_is_refused() -> None:
    tables = tables_of(moving_part())
    for n in (0, 2, 4, 6, 8):
        assert tables.sizes({"N": n}).root_offsets.tolist() == [0, 0, 0, 4 * n]
    with pytest.raises(VerificationError, match="exceeds the one that it aliases"):
        tables.sizes({"N": 9})


def layers(*second: Any, dims: tuple[Any, ...] = (N,), read: int = 16) -> Plan:
    """Three layers, each of which copies N of 16 elements; the last is another one. second: its
    spec and its run-time sizes; read: how many elements it reads from."""
    spec, sizes = second or (None, (0,))
    copy = pointwise("copy", RuntimeDim(0))
    types = [TensorType(f32, (n,)) for n in (16, 16, read, N, 16, 16, 16)]
    kinds = [INPUT] * 4 + [OUTPUT] * 3
    numbers = [0, 1, 2, 3, 0, 1, 2]
    buffers = tuple(
        Buffer(kind, f32, type_.shape or (), n)
        for kind, type_, n in zip(kinds, types, numbers, strict=True)
    )
    steps = [KernelStep(copy, b, (0,), N) for b in ((0, 4), (1, 5))]
    steps.append(KernelStep(spec or copy, (2, 6), sizes, N))
    symbols = (SymbolSource("N", 3, 0),)
    region = Region((0, 1, 2, 3), (4, 5, 6), symbols, dims, buffers, tuple(steps))
    return make_plan(types, (0, 1, 2, 3), (4, 5, 6), (region,))


def every_other() -> ElementwiseSpec:
    """Every other element is copied."""
    read, write = Operand(f32, (2,)), Operand(f32, (1,))
    copied = Program((Instr("input", (0,), f32),), (0,))
    return ElementwiseSpec((RuntimeDim(0),), (read,), (write,), copied)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("make", "last", "kept"),
    [
        (layers, 16, 1),
        (lambda: layers(read=12), 12, 2),
        (lambda: layers(None, (1,), dims=(N, N * 2 - 8)), 12, 2),
        (lambda: layers(every_other(), (0,)), 8, 2),
    ],
    ids=["equal", "buffer", "sizes", "spec"],
)
def test_equal_steps_are_checked_once_and_others_on_their_own(
    make: Any, last: int, kept: int
) -> None:
    tables = tables_of(make())
    for n in (5, 6, 7, last):
        assert tables.sizes({"N": n}).distinct.tolist() == [True] * 6
    changes = [c for c in tables._changes.values() if c is not None]
    assert [len(c.checks.operands.buffer) for c in changes] == [2 * kept]
    assert len(changes[0].operands) == 6
    with pytest.raises(VerificationError, match="leaves its buffer"):
        tables.sizes({"N": last + 1})


def test_a_change_that_reaches_most_steps_is_checked_in_full() -> None:
    tables = tables_of(double_step())
    for n in (4, 5, 6, 7, 8):
        tables.sizes({"N": n})
    assert set(tables._changes.values()) == {None}
    with pytest.raises(VerificationError, match="leaves its buffer"):
        tables.sizes({"N": 9})


@pytest.mark.usefixtures("always")
def test_only_the_steps_that_sizes_reach_are_checked_again(compile_graph) -> None:
    """The first change is seen, the second is listed."""
    plan = compile_graph(parse_graph_of("attention_by_strides"), True, 1).plan
    tables = RegionLayoutTables(plan.regions[0], plan.constants)
    for n in range(3, 8):
        tables.sizes({"N": 1, "M": 1, "B": 1, "S": n, "D": 1})
    for n in range(3, 8):
        tables.sizes({"N": 1, "M": 1, "B": n, "S": 7, "D": 1})
    reached = [len(c.operands) for c in tables._changes.values() if c is not None]
    assert len(reached) == 2 and all(0 < n <= len(tables.operand_buffer) for n in reached)
