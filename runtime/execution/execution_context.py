"""Contexts: what one run at a time needs, besides code and constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy.typing as npt

from ..machine.memory_planner import ALIGN_BYTES, aligned_bytes, round_up
from .appending_run import AppendingRun
from .native_segment import Workspace
from .region_instance import MAX_COPIED_BYTES, BoundRegion, RegionInstance
from .region_program import ShapeInstance
from .region_set import RegionSet, Shapes, lru_put
from .repeat_call import RepeatCall, make_repeat_call

Array: TypeAlias = npt.NDArray[Any]

# Shapes whose tables a context keeps (the oldest goes).
_MAX_CACHED_INSTANCES: Final = 32


class ExecutionContext:
    """One run at a time: the arena, scratch, and region instances per (region, shapes)."""

    def __init__(self, regions: RegionSet) -> None:
        self.regions = regions
        ports = max((len(r.inputs) + len(r.outputs) for r in regions.plan.regions), default=0)
        # Workers' scratch areas must not share a cache line.
        stride = int(round_up(regions.program.scratch)) + ALIGN_BYTES
        self.space = Workspace(
            arena=aligned_bytes(0),
            small=aligned_bytes(ports * MAX_COPIED_BYTES),
            scratch=aligned_bytes(stride * regions.limits.parts),
            stride=stride,
            pool=regions.pool_address,
        )
        self.instances: dict[tuple[int, Shapes], RegionInstance] = {}
        # Per region, the last run, where it appended to variables.
        self._appending: dict[int, AppendingRun] = {}
        self._repeated: BoundRegion | None = None
        # How a next call runs on the binding of the last, where it may; the same by input shapes.
        self.repeat: RepeatCall | None = None
        self._repeats: dict[Shapes, tuple[BoundRegion, RepeatCall]] = {}

    def instance(self, number: int, shapes: Shapes) -> RegionInstance:
        """The region's tables for these shapes, with the arena large enough."""
        key = (number, shapes)
        found = self.instances.pop(key, None)
        if found is None:
            layout = self.regions.layout(number, shapes)
            self._reserve(layout)
            found = RegionInstance(self.regions.compiled[number], layout, self.space)
            while len(self.instances) >= _MAX_CACHED_INSTANCES:
                del self.instances[next(iter(self.instances))]
        self.instances[key] = found
        return found

    def keep_appending(self, number: int, run: AppendingRun | None) -> None:
        """Let the next run of a region continue this one; None: no one."""
        if run is None:
            self._appending.pop(number, None)
        else:
            self._appending[number] = run

    def continue_appending(self, number: int, arrays: Sequence[Array]) -> AppendingRun | None:
        """The last run of a region, prepared to append to variables again; None where it is not
        one for these inputs. It is not kept for the next time: its run may fail."""
        run = self._appending.pop(number, None)
        if run is None or not run.is_continued_by(arrays):
            return None
        shapes = tuple([a.shape for a in arrays])
        layout = self.regions.layout(number, shapes)
        old = number, tuple(run.instance.layout.inputs)
        is_prepared = run.prepare(layout, arrays)
        if run.instance.layout is layout:  # it may have new sizes and an input that does not fit
            self.instances.pop(old, None)
            self.instances[number, shapes] = run.instance
        return run if is_prepared else None

    def repeat_binding(self, bound: BoundRegion | None) -> None:
        """Let the next call run on this binding; None: on none."""
        if bound is self._repeated:
            return
        self._repeated, self.repeat = bound, None
        if bound is None:
            self._repeats.clear()
            return
        shapes = tuple(bound.instance.layout.inputs)
        known = self._repeats.get(shapes)
        if known is None or known[0] is not bound:
            known = bound, make_repeat_call(bound)
            lru_put(self._repeats, shapes, known, _MAX_CACHED_INSTANCES)
        self.repeat = known[1]

    def repeat_earlier(self, inputs: Sequence[Any]) -> list[Any] | None:
        """The outputs by the binding of an earlier call with inputs of these shapes; None where
        none of them may run."""
        try:
            known = self._repeats.get(tuple([a.shape for a in inputs]))
        except (AttributeError, TypeError):  # not arrays
            return None
        if known is None or known[0] is self._repeated:
            return None
        made = known[1](inputs)
        if made is not None:
            self._repeated, self.repeat = known
        return made

    def reset_after(self, error: BaseException) -> None:
        """Where an interrupt fell between a kernel's failure and its treatment, loops may have left
        moved addresses in the tables; where a run ended between its sizes and its key, tables are
        kept for others."""
        self._appending.clear()
        for key, instance in list(self.instances.items()):
            if key[1] != tuple(instance.layout.inputs):
                del self.instances[key]
        if not isinstance(error, Exception):
            for instance in self.instances.values():
                instance.reset()

    def _reserve(self, layout: ShapeInstance) -> None:
        need = layout.placement.peak
        if need > len(self.space.arena):
            # Pages that are never touched cost nothing: room for shapes that grow.
            room = need if self.regions.static else need + (need >> 2)
            # Instances hold addresses in the old arena: with them it can go.
            self.instances.clear()
            self._appending.clear()
            self.repeat_binding(None)
            limit = max(need, self.regions.limits.max_memory)
            self.space = replace(self.space, arena=aligned_bytes(min(room, limit)))
