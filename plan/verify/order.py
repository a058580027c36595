"""The order of a region's steps: values are written before they are read, and memory is alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..plan import (
    ARENA,
    CONSTANT,
    INPUT,
    OUTPUT,
    ControlStep,
    HostStep,
    KernelStep,
    PlanConstant,
    Region,
)
from .buffers import buffer_roots, check_index, is_empty, plan_error, verify_buffer
from .control_flow import verify_control, verify_flow
from .kernel_steps import verify_kernel

MAX_STEPS: Final = 1_000_000


def verify_region(region: Region, constants: Sequence[PlanConstant], where: str = "region") -> None:
    """One region's buffers, steps, order and lifetimes."""
    if len(region.steps) > MAX_STEPS:
        raise plan_error("a region has too many steps", where, len(region.steps))
    for b, buffer in enumerate(region.buffers):
        verify_buffer(region, constants, b, buffer, where)
    roots = buffer_roots(region, where)
    ports = _verify_ports(region, where)
    verify_flow(region, where)
    written: set[int] = set()
    for n, step in enumerate(region.steps):
        here = f"{where}, step {n} ({step.name or 'unnamed'})"
        if isinstance(step, KernelStep):
            reads, writes = verify_kernel(region, constants, step, here)
        elif isinstance(step, ControlStep):
            reads, writes = verify_control(region, step, here)
        else:
            reads, writes = _verify_host(region, constants, step, here)
        _verify_accesses(region, roots, written, n, (reads, writes), here)
    for (kind, n), b in ports.items():
        if kind == OUTPUT and b not in written and not is_empty(region.buffers[b]):
            raise plan_error(f"output {n} is never written", where, b)


def _verify_ports(region: Region, where: str) -> dict[tuple[str, int], int]:
    """The buffer of each input and output, by (kind, index). Every output, symbol and compared size
    refers to one that exists."""
    ports: dict[tuple[str, int], int] = {}
    for b, buffer in enumerate(region.buffers):
        if buffer.kind in (INPUT, OUTPUT) and buffer.alias_of is None:
            if ports.setdefault((buffer.kind, buffer.index), b) != b:
                raise plan_error(f"two buffers are {buffer.kind} {buffer.index}", where, b)
    for n in range(len(region.outputs)):
        if (OUTPUT, n) not in ports:
            raise plan_error(f"output {n} has no buffer", where, "no buffer")
    for source in region.symbols:
        check_index(source.input, len(region.inputs), where, "region input of a symbol")
        b = ports.get((INPUT, source.input))
        if b is None:
            raise plan_error("a symbol is read off an input without a buffer", where, source.symbol)
        check_index(source.axis, len(region.buffers[b].shape), where, "axis of a symbol")
    for check in region.checks:
        for d in (check.left, check.right):
            check_index(d, len(region.dims), where, "size to compare")
    return ports


def _verify_accesses(
    region: Region,
    roots: list[int],
    written: set[int],
    step: int,
    accesses: tuple[list[int], list[int]],
    where: str,
) -> None:
    """The buffers that a step reads hold values, those that it writes may be written, and all are
    alive. Adds the roots of the written ones to `written`."""
    reads, writes = accesses
    for b in reads:
        made = region.buffers[b].kind in (ARENA, OUTPUT)
        if made and roots[b] not in written and not is_empty(region.buffers[roots[b]]):
            raise plan_error(f"buffer {b} is read before anything is written", where, b)
    for b in writes:
        if region.buffers[b].kind not in (ARENA, OUTPUT):
            raise plan_error(f"{region.buffers[b].kind} buffer {b} is written", where, b)
        written.add(roots[b])
    for b in (*reads, *writes):
        buffer = region.buffers[b]
        if buffer.kind == ARENA and not buffer.first <= step <= buffer.last:
            got = f"alive for {buffer.first}..{buffer.last}"
            raise plan_error(f"buffer {b} is used outside its lifetime", where, got)


def _verify_host(
    region: Region, constants: Sequence[PlanConstant], step: HostStep, where: str
) -> tuple[list[int], list[int]]:
    reads = [b for b in step.inputs if b is not None]
    for b in (*reads, *step.outputs):
        check_index(b, len(region.buffers), where, "buffer")
        buffer = region.buffers[b]
        if buffer.kind == CONSTANT and constants[buffer.index].layout is not None:
            raise plan_error("an operation in Python reads a packed constant", where, b)
    return reads, list(step.outputs)
