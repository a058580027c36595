"""What verify_plan asks of native control flow: loops and branches that nest, buffers that move
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
from .buffers import broken, check_index

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
                raise broken("control flow reads another element type", where, dtype)
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
        raise broken("a control step has other parts than its kind", where, step.kind)
    reads = [b for b in (step.count, step.condition) if b is not None]
    return reads, [] if step.index is None else [step.index]


def verify_flow(region: Region, where: str) -> None:
    """Loops and branches nest, and nothing in them runs in Python."""
    nesting = _Nesting(region.steps)
    for n, step in enumerate(region.steps):
        here = f"{where}, step {n} ({step.name or 'unnamed'})"
        nesting.close(n)
        if nesting.open and isinstance(step, HostStep):
            raise broken("a step in Python stands inside native control flow", here, "")
        if isinstance(step, ControlStep):
            nesting.enter(n, step, here)
    for check in region.checks:
        if check.step is not None:
            check_index(check.step, len(region.steps), where, "step of a check")
            asks = region.steps[check.step]
            if not isinstance(asks, ControlStep) or asks.kind != CHECK:
                raise broken("a check belongs to a step that asks none", where, check.step)
    _verify_moves(region, where)


class _Nesting:
    """The loops and branches that are open at a step, innermost last: where each ends, the loop it
    is (or -1), and the last step to which something inside may lead, because a loop is left, and a
    way of a branch ends, by its last step only."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.open: list[tuple[int, int, int]] = []
        self._skips: set[int] = set()

    def close(self, n: int) -> None:
        """Leave what ends before step `n`."""
        while self.open and self.open[-1][0] == n:
            self.open.pop()

    def enter(self, n: int, step: ControlStep, here: str) -> None:
        """VerificationError where control step `n` does not fit what is open."""
        checks = {LOOP: self._loop, LOOP_END: self._again, BRANCH: self._branch, CHECK: self._check}
        checks.get(step.kind, self._skip)(n, step, here)
        if len(self.open) > 3 * MAX_DEPTH:
            raise broken("control flow nests too deep", here, len(self.open))

    def _limit(self) -> int:
        return self.open[-1][2] if self.open else len(self.steps)

    def _loop(self, n: int, step: ControlStep, here: str) -> None:
        end = step.target
        other = self.steps[end] if n < end < self._limit() else None
        if not isinstance(other, ControlStep) or (other.kind, other.target) != (LOOP_END, n):
            raise broken("a loop does not end in a step that leads back", here, end)
        self.open.append((end + 1, n, end))

    def _again(self, n: int, step: ControlStep, here: str) -> None:
        if not self.open or self.open[-1][:2] != (n + 1, step.target):
            raise broken("a step leads back into no loop", here, step.target)

    def _branch(self, n: int, step: ControlStep, here: str) -> None:
        first, limit = step.target, self._limit()
        other = self.steps[first - 1] if n < first - 1 < limit else None
        if not isinstance(other, ControlStep) or other.kind != JUMP:
            raise broken("a branch has no other way", here, first)
        if not first <= other.target <= limit:
            raise broken("a branch leads out of what it stands in", here, other.target)
        self._skips.add(first - 1)
        if other.target > first:
            self.open.append((other.target, -1, other.target))
        self.open.append((first, -1, first - 1))

    def _check(self, n: int, step: ControlStep, here: str) -> None:
        # The steps that it guards are not looked at where it fails: nothing may lead past it.
        if not self.open or not n < step.target <= self._limit():
            raise broken("a check guards more than its loop or way", here, step.target)

    def _skip(self, n: int, step: ControlStep, here: str) -> None:
        if n not in self._skips or self.open[-1][:2] != (n + 1, -1):
            raise broken("a step leads on that ends no branch", here, step.target)


def _verify_moves(region: Region, where: str) -> None:
    """Buffers that move lie inside others and are used only inside their loops."""
    loops: dict[int, set[int]] = {}
    for b, buffer in enumerate(region.buffers):
        found = set(loops.get(b, ()))
        if buffer.loop is not None:
            here = f"{where}, buffer {b} ({buffer.name})"
            check_index(buffer.loop, len(region.steps), here, "loop of a buffer that moves")
            step = region.steps[buffer.loop]
            if not isinstance(step, ControlStep) or step.kind != LOOP:
                raise broken("a buffer moves with a step that is not a loop", here, buffer.loop)
            if buffer.alias_of is None:
                raise broken("a buffer moves that lies inside no other", here, buffer.loop)
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
                    raise broken(
                        "a buffer that moves is used outside its loop", f"{where}, step {n}", b
                    )


def _chain_loops(region: Region, loops: dict[int, set[int]], b: int) -> set[int]:
    """The loops with which a buffer moves, by itself or with what it lies inside."""
    found: set[int] = set()
    at: int | None = b
    while at is not None:
        found |= loops.get(at, set())
        at = region.buffers[at].alias_of
    return found
