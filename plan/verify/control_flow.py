"""What verify_plan asks of native control flow: loops and branches that nest, buffers that move
only where their loop runs. Every finding is a VerificationError."""

from __future__ import annotations

from ...ir.dtype import DType
from ..plan import (
    AGAIN,
    BRANCH,
    CHECK,
    LOOP,
    MAX_DEPTH,
    SKIP,
    ControlStep,
    HostStep,
    Region,
)
from .buffers import broken, check_index

_COUNTERS = (DType.i32, DType.i64)


def verify_control(region: Region, step: ControlStep, where: str) -> tuple[list[int], list[int]]:
    """(buffers read, buffers written) of a step whose fields are in range."""
    for b, wanted in (
        (step.count, _COUNTERS),
        (step.go, (DType.boolean,)),
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
        AGAIN: (step.trips is None and step.count is None, True),
        BRANCH: (step.trips is step.count is step.index is None, step.go is not None),
        SKIP: (not step.buffers and step.trips is None, True),
        CHECK: (not step.buffers and step.trips is None, True),
    }
    if not all(allowed.get(step.kind, (False,))):
        raise broken("a control step has other parts than its kind", where, step.kind)
    reads = [b for b in (step.count, step.go) if b is not None]
    return reads, [] if step.index is None else [step.index]


def verify_flow(region: Region, where: str) -> None:  # noqa: C901 - one case per kind of step, over one stack
    """Loops and branches nest, and nothing in them runs in Python."""
    steps = region.steps
    # What is open, innermost last: where it ends, the loop it is (or -1), and the last step to
    # which something inside may lead: a loop is left and a way ends by its last step only.
    open_: list[tuple[int, int, int]] = []
    skips: set[int] = set()
    for n, step in enumerate(steps):
        while open_ and open_[-1][0] == n:
            open_.pop()
        here = f"{where}, step {n} ({step.name or 'unnamed'})"
        if open_ and isinstance(step, HostStep):
            raise broken("a step in Python stands inside native control flow", here, "")
        if not isinstance(step, ControlStep):
            continue
        limit = open_[-1][2] if open_ else len(steps)
        if step.kind == LOOP:
            end = step.target
            other = steps[end] if n < end < limit else None
            if not isinstance(other, ControlStep) or (other.kind, other.target) != (AGAIN, n):
                raise broken("a loop does not end in a step that leads back", here, end)
            open_.append((end + 1, n, end))
        elif step.kind == AGAIN:
            if not open_ or open_[-1][:2] != (n + 1, step.target):
                raise broken("a step leads back into no loop", here, step.target)
        elif step.kind == BRANCH:
            first = step.target
            other = steps[first - 1] if n < first - 1 < limit else None
            if not isinstance(other, ControlStep) or other.kind != SKIP:
                raise broken("a branch has no other way", here, first)
            if not first <= other.target <= limit:
                raise broken("a branch leads out of what it stands in", here, other.target)
            skips.add(first - 1)
            if other.target > first:
                open_.append((other.target, -1, other.target))
            open_.append((first, -1, first - 1))
        elif step.kind == CHECK:
            # What it guards is not looked at where it fails: nothing may lead past it.
            if not open_ or not n < step.target <= limit:
                raise broken("a check guards more than its loop or way", here, step.target)
        elif n not in skips or open_[-1][:2] != (n + 1, -1):
            raise broken("a step leads on that ends no branch", here, step.target)
        if len(open_) > 3 * MAX_DEPTH:
            raise broken("control flow nests too deep", here, len(open_))
    for check in region.checks:
        if check.step is not None:
            check_index(check.step, len(steps), where, "step of a check")
            asks = steps[check.step]
            if not isinstance(asks, ControlStep) or asks.kind != CHECK:
                raise broken("a check belongs to a step that asks none", where, check.step)
    _verify_moves(region, where)


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
