"""Plans with native control flow come from files, too: whatever is wrong in one is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import irc_compiler as irc
import irc_compiler.ir.ops
import pytest
from irc_compiler.ir.errors import VerificationError
from irc_compiler.plan.plan import (
    BRANCH,
    CHECK,
    JUMP,
    LOOP,
    LOOP_END,
    Buffer,
    ControlStep,
    HostStep,
    Plan,
    Region,
)
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from onnx import parser
from support.models.control_flow import control_flow

Change = Callable[[ControlStep], ControlStep]


def plan_of(name: str) -> Plan:
    return irc.compile_model(control_flow(name)).plan


def check(plan: Plan, **env: int) -> None:
    verify_plan(plan)
    for region in plan.regions:
        RegionLayoutTables(region, plan.constants).sizes(env)


def changed(plan: Plan, kind: str, change: Change) -> Plan:
    """The plan with its first step of that kind changed."""
    (region,) = plan.regions
    steps = list(region.steps)
    n = next(i for i, s in enumerate(steps) if isinstance(s, ControlStep) and s.kind == kind)
    found = steps[n]
    assert isinstance(found, ControlStep)
    steps[n] = change(found)
    return replace(plan, regions=(replace(region, steps=tuple(steps)),))


def test_verify_plan_accepts_control_flow() -> None:
    check(plan_of("choose"), N=3)
    check(plan_of("nested"))
    check(plan_of("scan"), T=5)


BROKEN: list[tuple[str, str, Change]] = [
    ("choose", LOOP, lambda s: replace(s, target=s.target - 1)),
    ("choose", LOOP, lambda s: replace(s, target=1 << 40)),
    ("choose", LOOP, lambda s: replace(s, target=-1)),
    ("choose", LOOP, lambda s: replace(s, trips=99)),
    ("choose", LOOP, lambda s: replace(s, trips=None)),
    ("choose", LOOP, lambda s: replace(s, count=10_000)),
    ("choose", LOOP, lambda s: replace(s, condition=s.count)),
    ("choose", LOOP, lambda s: replace(s, kind="leap")),
    ("choose", LOOP_END, lambda s: replace(s, target=s.target + 1)),
    ("choose", LOOP_END, lambda s: replace(s, kind=JUMP)),
    ("choose", BRANCH, lambda s: replace(s, condition=None)),
    ("choose", BRANCH, lambda s: replace(s, target=s.target + 1)),
    ("choose", BRANCH, lambda s: replace(s, target=0)),
    ("choose", JUMP, lambda s: replace(s, target=s.target + 2)),
    ("choose", JUMP, lambda s: replace(s, target=0)),
    ("nested", LOOP, lambda s: replace(s, target=s.target - 1)),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", range(len(BROKEN)))
def test_verify_plan_rejects_broken_control_steps(case: int) -> None:
    name, kind, change = BROKEN[case]
    with pytest.raises(VerificationError):
        check(changed(plan_of(name), kind, change), N=3)


def test_verify_flow_rejects_a_jump_out_of_its_loop() -> None:
    """What moved would not be put back."""
    plan = plan_of("choose")
    (region,) = plan.regions
    end = next(n for n, s in enumerate(region.steps) if getattr(s, "kind", "") == LOOP_END)
    with pytest.raises(VerificationError, match="ends beyond"):
        check(changed(plan, JUMP, lambda s: replace(s, target=end + 1)), N=3)


def moved(plan: Plan, change: Callable[[Buffer], Buffer]) -> Plan:
    (region,) = plan.regions
    buffers = tuple(b if b.loop is None else change(b) for b in region.buffers)
    return replace(plan, regions=(replace(region, buffers=buffers),))


def test_verify_plan_keeps_moving_buffers_inside_in_every_iteration() -> None:
    plan = plan_of("scan")
    with pytest.raises(VerificationError, match="exceeds the one that it aliases"):
        check(moved(plan, lambda b: replace(b, stride=b.stride * 2)), T=5)
    with pytest.raises(VerificationError, match="exceeds the one that it aliases"):
        check(moved(plan, lambda b: replace(b, stride=b.stride * -1)), T=5)
    with pytest.raises(VerificationError, match="is not a loop"):
        check(moved(plan, lambda b: replace(b, loop=0)), T=5)
    with pytest.raises(VerificationError):
        check(moved(plan, lambda b: replace(b, loop=-3)), T=5)
    with pytest.raises(VerificationError):
        check(moved(plan, lambda b: replace(b, alias_of=None)), T=5)


def test_verify_plan_keeps_moving_buffers_in_their_loop() -> None:
    plan = plan_of("scan")
    (region,) = plan.regions
    moving = {b for b, buffer in enumerate(region.buffers) if buffer.loop is not None}
    inside = next(s for s in region.steps if moving & set(getattr(s, "buffers", ())))
    late = replace(region, steps=(*region.steps, inside))
    with pytest.raises(VerificationError, match="outside its loop"):
        verify_plan(replace(plan, regions=(late,)))


def test_verify_flow_rejects_python_in_a_native_loop() -> None:
    plan = plan_of("choose")
    (region,) = plan.regions
    n = next(i for i, s in enumerate(region.steps) if getattr(s, "kind", "") == LOOP) + 1
    steps = list(region.steps)
    steps[n] = HostStep(irc.ir.ops.Identity(), (), ())
    broken: Region = replace(region, steps=tuple(steps))
    with pytest.raises(VerificationError, match="a Python step"):
        verify_plan(replace(plan, regions=(broken,)))


def test_verify_flow_rejects_a_check_beyond_its_branch() -> None:
    """What a check guards is not looked at where it fails, so it has to be unable to run."""
    plan = irc.compile_model(parser.parse_model(_TAKEN_FOR_GRANTED)).plan
    sizes = {"B": 2, "C": 4, "N": 3, "M": 5}
    check(plan, **sizes)
    (region,) = plan.regions
    asks = next(n for n, s in enumerate(region.steps) if getattr(s, "kind", "") == CHECK)
    assert [c.step for c in region.checks] == [asks]
    for target in (asks, -1, len(region.steps), 1 << 40):
        with pytest.raises(VerificationError, match="guards steps beyond its loop or branch"):
            check(changed(plan, CHECK, lambda s, to=target: replace(s, target=to)), **sizes)
    with pytest.raises(VerificationError, match="other parts"):
        check(changed(plan, CHECK, lambda s: replace(s, trips=0)), **sizes)
    for step in (asks - 1, asks + 1, -1, len(region.steps)):
        checks = tuple(replace(c, step=step) for c in region.checks)
        with pytest.raises(VerificationError):
            check(replace(plan, regions=(replace(region, checks=checks),)), **sizes)
    first = (ControlStep(CHECK, 1), *region.steps)
    with pytest.raises(VerificationError, match="guards steps beyond its loop or branch"):
        verify_plan(replace(plan, regions=(replace(region, steps=first),)))
    # Without the check the same sizes are refused: the branch would read what is not there.
    bare = replace(plan, regions=(replace(region, checks=()),))
    with pytest.raises(VerificationError, match="leaves its buffer"):
        check(bare, **sizes)


_TAKEN_FOR_GRANTED = """<ir_version: 8, opset_import: ["" : 17]>
net (bool c, float[B, N] x, float[M, C] y, float[N, C] z) => (float[B, C] o) {
    o = If (c) <then_branch = t () => (float[B, C] p) { p = MatMul (x, y) },
        else_branch = e () => (float[B, C] q) { q = MatMul (x, z) }>
}"""
