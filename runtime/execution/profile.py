"""Timing one run step by step, from Python: the same tables, one call of the driver per step."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from ...ir.lazy_dataclass import dataclass
from ...plan.plan import BRANCH, ControlStep, HostStep, Plan
from .native_segment import NativeSegment
from .region_instance import BoundRegion, RegionInstance


@dataclass(frozen=True)
class StepTime:
    """One step of a profiled run. kind: the spec's family, or the operation's name for a step in
    Python (`native` False). step: number in the region; -1 for its terminal. operations: what it
    computes (Spec.flops), None where that is not counted, and the `unit` that does. nbytes: of the
    elements that it reads and writes (Spec.nbytes). denormals: it computed with denormals."""

    region: int
    step: int
    name: str
    kind: str
    sources: tuple[str, ...]
    native: bool
    seconds: float
    operations: int | None = None
    unit: str = "f32"
    nbytes: int = 0
    denormals: bool = False


def timed_walk(times: list[StepTime]) -> Callable[[BoundRegion], None]:
    """A walk through a region's steps that appends each one's time."""

    def walk(bound: BoundRegion) -> None:
        instance = bound.instance
        for segment in instance.segments:
            if isinstance(segment, NativeSegment):
                # Entries are made behind all steps: what Python does between two of them cools
                # caches and units down.
                parts = _split_segment(instance, segment)
                taken: list[float] = []
                for _, part in parts:
                    start = time.perf_counter()
                    part.run()
                    taken.append(time.perf_counter() - start)
                for (first, part), seconds in zip(parts, taken, strict=True):
                    number = instance.code.tables.kernels[first]
                    entry = _make_step_time(instance, number, seconds, first)
                    times.append(replace(entry, denormals=part.met_denormals()))
            else:
                start = time.perf_counter()
                bound.run_host(segment)
                times.append(_make_step_time(instance, segment, time.perf_counter() - start))

    return walk


def _split_segment(
    instance: RegionInstance, segment: NativeSegment
) -> list[tuple[int, NativeSegment]]:
    """Each kernel of a segment alone, and each loop or branch with all that is in it; with the
    number of its first native step."""
    numbers, steps = instance.code.tables.kernels, instance.code.region.steps
    first, end = segment.kernels.start, segment.kernels.stop
    found: list[tuple[int, NativeSegment]] = []
    at = first
    while at < end:
        step, after = steps[numbers[at]], at + 1
        if isinstance(step, ControlStep):
            last = step.target + 1
            if step.kind == BRANCH:
                skip = steps[step.target - 1]
                assert isinstance(skip, ControlStep)
                last = skip.target
            after = bisect_left(numbers, last)
        found.append((at, segment.part(at - first, after - first)))
        at = after
    return found


def _make_step_time(
    instance: RegionInstance, number: int, seconds: float, kernel: int = -1
) -> StepTime:
    """The entry of step `number`, the region's kernel number `kernel` if it is one."""
    step, region = instance.code.region.steps[number], instance.code.number
    if isinstance(step, HostStep):
        return StepTime(region, number, step.name, step.op.kind, step.sources, False, seconds)
    if isinstance(step, ControlStep):
        return StepTime(region, number, step.name, step.kind, step.sources, True, seconds)
    start = int(instance.code.tables.step_dims_start[kernel])
    dims = instance.dims[start : start + len(step.dims)].tolist()
    spec = step.spec
    done, unit, nbytes = spec.flops(dims), spec.compute_unit(), spec.nbytes(dims)
    kind = spec.family
    return StepTime(
        region, number, step.name, kind, step.sources, True, seconds, done, unit, nbytes
    )


@contextmanager
def timed_terminal(plan: Plan, region: int, times: list[StepTime] | None) -> Iterator[None]:
    """Append the time of a region's terminal, where times are wanted."""
    start = time.perf_counter()
    yield
    terminal = plan.regions[region].terminal
    if times is not None and terminal is not None:
        seconds = time.perf_counter() - start
        kind = terminal.op.kind
        times.append(StepTime(region, -1, terminal.name, kind, (), False, seconds))
