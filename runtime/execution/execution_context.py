"""Contexts: what one run at a time needs, besides code and constants."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy.typing as npt

from ..machine.memory_planner import ALIGN_BYTES, aligned_bytes, round_up
from .region_instance import MAX_COPIED_BYTES, RegionInstance, Workspace
from .region_program import ShapeInstance

if TYPE_CHECKING:
    from .session import Session

Array = npt.NDArray[Any]
Shapes = tuple[tuple[int, ...], ...]

# Shapes whose tables a context keeps (the oldest goes).
_MAX_CACHED_INSTANCES: Final = 32


def lru_put(table: dict[Any, Any], key: Any, value: Any, limit: int) -> None:
    """Keep at most `limit` entries, the oldest go; other threads may be at it too."""
    try:
        while len(table) >= limit:
            table.pop(next(iter(table)), None)
    except (RuntimeError, StopIteration):
        pass
    table[key] = value


class ExecutionContext:
    """One run at a time: the arena, scratch, and frames per (region, shapes)."""

    def __init__(self, session: Session) -> None:
        self.session = session
        regions = session.program.plan.regions
        ports = max((len(r.inputs) + len(r.outputs) for r in regions), default=0)
        # Workers' scratch areas must not share a cache line.
        stride = int(round_up(session.program.scratch)) + ALIGN_BYTES
        self.space = Workspace(
            arena=aligned_bytes(0),
            small=aligned_bytes(ports * MAX_COPIED_BYTES),
            scratch=aligned_bytes(stride * session.limits.threads),
            stride=stride,
            pool=session.pool_address,
        )
        self.frames: dict[tuple[int, Shapes], RegionInstance] = {}
        self.last: RegionInstance | None = None  # of the last simple run

    def frame(self, number: int, shapes: Shapes) -> RegionInstance:
        """The region's tables for these shapes, with the arena large enough."""
        key = (number, shapes)
        found = self.frames.pop(key, None)
        if found is None:
            code = self.session.codes[number]
            layout = self.session.layout(number, shapes)
            self._reserve(layout)
            found = RegionInstance(code, layout, self.space)
            while len(self.frames) >= _MAX_CACHED_INSTANCES:
                del self.frames[next(iter(self.frames))]
        self.frames[key] = found
        return found

    def reset_after(self, error: BaseException) -> None:
        """Drop the tables where an interrupt fell between a kernel's failure and its treatment:
        loops may have left moved addresses in them."""
        if not isinstance(error, Exception):
            self.frames.clear()
            self.last = None

    def _reserve(self, layout: ShapeInstance) -> None:
        need = layout.placement.peak
        if need > len(self.space.arena):
            # Pages that are never touched cost nothing: room for shapes that grow.
            room = need if self.session.static else need + (need >> 2)
            # Frames hold addresses in the old arena: with them it can go.
            self.frames.clear()
            self.last = None
            limit = max(need, self.session.limits.max_memory)
            self.space = replace(self.space, arena=aligned_bytes(min(room, limit)))
