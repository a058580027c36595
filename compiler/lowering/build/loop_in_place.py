"""A loop's result is computed into the carried value's buffer, which saves a copy per iteration."""

from __future__ import annotations

from dataclasses import replace

from ....plan.plan import ARENA, BRANCH, LOOP, ControlStep, KernelStep, Step
from ....plan.specs.base import has_same_access
from ...strided_view import View
from .in_place import root_of
from .region_builder import RegionBuilder, step_buffers


def write_in_place(region: RegionBuilder, begin: int, source: View, state: View) -> bool:
    """Let the step that makes `source` in the loop from step `begin` on write to `state` instead,
    if all of `source` is one step's result and nothing reads the old state after that. Returns
    whether it does."""
    base, target = region.buffers[source.buffer], region.buffers[state.buffer]
    if base.kind != ARENA or base.alias_of is not None or base.shape != target.shape:
        return False
    if replace(source, buffer=state.buffer) != state:
        return False
    if any(b.alias_of == source.buffer for b in region.buffers):
        return False
    root = root_of(region.buffers, state.buffer)
    family = {i for i in range(len(region.buffers)) if root_of(region.buffers, i) == root}
    touching = [
        n
        for n in range(begin + 1, len(region.steps))
        if source.buffer in _touched_buffers(region.steps[n])
    ]
    makers = [n for n in touching if source.buffer in _written_buffers(region.steps[n])]
    if len(makers) != 1 or makers != touching[:1] or _is_nested(region, begin, makers[0]):
        return False
    maker = region.steps[makers[0]]
    assert isinstance(maker, KernelStep)
    if maker.spec.output_count() != 1:
        return False
    operands = maker.spec.operands()
    for n, b in enumerate(maker.buffers[:-1]):
        walks_alike = maker.spec.may_alias_output(n) and has_same_access(operands[n], operands[-1])
        if b in family and not (b == state.buffer and walks_alike):
            return False
    if any(family & set(_touched_buffers(step)) for step in region.steps[makers[0] + 1 :]):
        return False
    for n in touching:
        region.steps[n] = _rename_buffer(region.steps[n], source.buffer, state.buffer)
    return True


def _touched_buffers(step: Step) -> tuple[int, ...]:
    return step.buffers if isinstance(step, KernelStep | ControlStep) else step_buffers(step)


def _written_buffers(step: Step) -> tuple[int, ...]:
    if isinstance(step, KernelStep):
        return step.buffers[-step.spec.output_count() :]
    if isinstance(step, ControlStep):
        return () if step.index is None else (step.index,)
    return step.outputs


def _is_nested(region: RegionBuilder, begin: int, at: int) -> bool:
    """Whether a step is in control flow inside the loop."""
    for n in range(begin + 1, at):
        step = region.steps[n]
        if not isinstance(step, ControlStep) or step.kind not in (LOOP, BRANCH):
            continue
        end = step.target
        if step.kind == BRANCH:
            skip = region.steps[end - 1]
            assert isinstance(skip, ControlStep)
            end = skip.target
        if n < at < end:
            return True
    return False


def _rename_buffer(step: Step, old: int, new: int) -> Step:
    if isinstance(step, KernelStep):
        return replace(step, buffers=tuple(new if b == old else b for b in step.buffers))
    assert isinstance(step, ControlStep)
    go = new if step.condition == old else step.condition
    count = new if step.count == old else step.count
    return replace(step, condition=go, count=count)
