"""Checks of verify_plan on native control flow: loops and branches that nest, buffers that move
only where their loop runs. Every finding is a VerificationError."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.dtype import DType
from ..plan import (
    BRANCH,
    CHECK,
    JUMP,
    LOOP,
    LOOP_END,
    MAX_DEPTH,
    ControlStep,
    HostStep,
    Region,
    Step,
)
from .buffers import check_index, plan_error

_COUNTERS = (DType.i32, DType.i64)


def verify_control(region: Region, step: ControlStep, where: str) -> tuple[list[int], list[int]]:
    """(buffers read, buffers written) of a step whose fields are in range."""
    for b, wanted in (
        (step.count, _COUNTERS),
        (step.condition, (DType.boolean,)),
        (step.index, _COUNTERS),
    ):
        if b is not None:
            check_index(b, len(region.buffers), where, "buffer")
            dtype = region.buffers[b].dtype
            if dtype not in wanted:
                raise plan_error("control flow reads another element type", where, dtype)
    if step.trips is not None:
        check_index(step.trips, len(region.dims), where, "size")
    allowed = {
        LOOP: (step.trips is not None, True),
        LOOP_END: (step.trips is None and step.count is None, True),
        BRANCH: (step.trips is step.count is step.index is None, step.condition is not None),
        JUMP: (not step.buffers and step.trips is None, True),
        CHECK: (not step.buffers and step.trips is None, True),
    }
    if not all(allowed.get(step.kind, (False,))):
        raise plan_error("a control step has other parts than its kind", where, step.kind)
    reads = [b for b in (step.count, step.condition) if b is not None]
    return reads, [] if step.index is None else [step.index]


def verify_flow(region: Region, where: str) -> None:
    """Loops and branches nest, and nothing in them runs in Python."""
    nesting = _Nesting(region.steps)
    for n, step in enumerate(region.steps):
        here = f"{where}, step {n} ({step.name or 'unnamed'})"
        nesting.close(n)
        if nesting.open and isinstance(step, HostStep):
            raise plan_error("a Python step is inside native control flow", here, "")
        if isinstance(step, ControlStep):
            nesting.enter(n, step, here)
    for check in region.checks:
        if check.step is not None:
            check_index(check.step, len(region.steps), where, "step of a check")
            step = region.steps[check.step]
            if not isinstance(step, ControlStep) or step.kind != CHECK:
                raise plan_error(
                    "a size check belongs to a step that is not a CHECK", where, check.step
                )
    _verify_moves(region, where)


class _Nesting:
    """The loops and branches that are open at a step, innermost last: where each ends, the loop it
    is (or -1), and the last step to which something inside may lead, because a loop is left, and a
    way of a branch ends, by its last step only."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.open: list[tuple[int, int, int]] = []
        self._jumps: set[int] = set()

    def close(self, n: int) -> None:
        """Leave what ends before step `n`."""
        while self.open and self.open[-1][0] == n:
            self.open.pop()

    def enter(self, n: int, step: ControlStep, here: str) -> None:
        """VerificationError where control step `n` does not fit what is open."""
        checks = {
            LOOP: self._verify_loop,
            LOOP_END: self._verify_loop_end,
            BRANCH: self._verify_branch,
            CHECK: self._verify_check,
        }
        checks.get(step.kind, self._verify_jump)(n, step, here)
        if len(self.open) > 3 * MAX_DEPTH:
            raise plan_error("control flow nests too deep", here, len(self.open))

    def _limit(self) -> int:
        return self.open[-1][2] if self.open else len(self.steps)

    def _verify_loop(self, n: int, step: ControlStep, here: str) -> None:
        end = step.target
        other = self.steps[end] if n < end < self._limit() else None
        if not isinstance(other, ControlStep) or (other.kind, other.target) != (LOOP_END, n):
            raise plan_error("a loop does not end in its LOOP_END step", here, end)
        self.open.append((end + 1, n, end))

    def _verify_loop_end(self, n: int, step: ControlStep, here: str) -> None:
        if not self.open or self.open[-1][:2] != (n + 1, step.target):
            raise plan_error("a LOOP_END step does not end the innermost loop", here, step.target)

    def _verify_branch(self, n: int, step: ControlStep, here: str) -> None:
        first, limit = step.target, self._limit()
        other = self.steps[first - 1] if n < first - 1 < limit else None
        if not isinstance(other, ControlStep) or other.kind != JUMP:
            raise plan_error("a branch has no JUMP before its second way", here, first)
        if not first <= other.target <= limit:
            raise plan_error(
                "a branch ends beyond the loop or branch around it", here, other.target
            )
        self._jumps.add(first - 1)
        if other.target > first:
            self.open.append((other.target, -1, other.target))
        self.open.append((first, -1, first - 1))

    def _verify_check(self, n: int, step: ControlStep, here: str) -> None:
        # The steps that it guards are not looked at where it fails: no step may jump past it.
        if not self.open or not n < step.target <= self._limit():
            raise plan_error("a CHECK guards steps beyond its loop or branch", here, step.target)

    def _verify_jump(self, n: int, step: ControlStep, here: str) -> None:
        if n not in self._jumps or self.open[-1][:2] != (n + 1, -1):
            raise plan_error("a JUMP step ends no branch", here, step.target)


def _verify_moves(region: Region, where: str) -> None:
    """Buffers that move alias others and are used only inside their loops."""
    loops: dict[int, set[int]] = {}
    for b, buffer in enumerate(region.buffers):
        found = set(loops.get(b, ()))
        if buffer.loop is not None:
            here = f"{where}, buffer {b} ({buffer.name})"
            check_index(buffer.loop, len(region.steps), here, "loop of a buffer that moves")
            step = region.steps[buffer.loop]
            if not isinstance(step, ControlStep) or step.kind != LOOP:
                raise plan_error("a buffer moves with a step that is not a loop", here, buffer.loop)
            if buffer.alias_of is None:
                raise plan_error("a moving buffer aliases no other", here, buffer.loop)
            found.add(buffer.loop)
        if found:
            loops[b] = found
    if not loops:
        return
    around = [_chain_loops(region, loops, b) for b in range(len(region.buffers))]
    for n, step in enumerate(region.steps):
        touched = step.inputs + step.outputs if isinstance(step, HostStep) else step.buffers
        for b in touched:
            if b is None or not 0 <= b < len(around):
                continue
            for loop in around[b]:
                begin = region.steps[loop]
                assert isinstance(begin, ControlStep)
                if not loop < n < begin.target:
                    raise plan_error(
                        "a buffer that moves is used outside its loop", f"{where}, step {n}", b
                    )


def _chain_loops(region: Region, loops: dict[int, set[int]], b: int) -> set[int]:
    """The loops with which a buffer moves, by itself or with the one that it aliases."""
    found: set[int] = set()
    at: int | None = b
    while at is not None:
        found |= loops.get(at, set())
        at = region.buffers[at].alias_of
    return found
