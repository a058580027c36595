"""The regions of a plan with their layouts by input shapes: what all runs of a session share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...ir.errors import Error, ExecutionError, InputError, ShapeError
from ...ir.op import RunBody
from ...plan.plan import Plan
from ...plan.verify.variables import initialised_after
from ..jit.program import CompiledPlan
from .region_program import CompiledRegion, Evaluate, Limits, ShapeInstance

Shapes = tuple[tuple[int, ...], ...]

# Shapes that are remembered (the oldest goes); their layouts as far as these take few bytes, since
# each text of a language model meets the lengths that the one before has met.
MAX_CACHED_SHAPES: Final = 128
_MAX_CACHED_LAYOUTS: Final = 2048
_MAX_LAYOUT_BYTES: Final = 12 << 20


def lru_put(table: dict[Any, Any], key: Any, value: Any, limit: int) -> None:
    """Keep at most `limit` entries, the oldest go; other threads may be at it too."""
    try:
        while len(table) >= limit:
            table.pop(next(iter(table)), None)
    except (RuntimeError, StopIteration):
        pass
    table[key] = value


class RegionSet:
    """A plan's compiled regions, and their layouts for the shapes seen.

    pool_address: of the thread pool, 0 for none. bodies: per region, what runs the bodies of its
    terminal. static: no size depends on the inputs. last_use: per region, the slots that no later
    one reads.
    """

    def __init__(
        self,
        program: CompiledPlan,
        limits: Limits,
        evaluate: Evaluate | None,
        pool_address: int,
        bodies: Sequence[Sequence[RunBody]],
    ) -> None:
        self.program, self.plan, self.limits = program, program.plan, limits
        self.pool_address = pool_address
        regions = self.plan.regions
        self.compiled = [CompiledRegion(program, n, limits, evaluate) for n in range(len(regions))]
        self.static = not any(r.symbols for r in regions)
        self.layouts: dict[tuple[int, Shapes], ShapeInstance] = {}
        self.bodies = bodies
        self.constants = [(slot, program.constants[n]) for slot, n in self.plan.constant_slots]
        self.last_use = _find_last_uses(self.plan)
        self.initialised = initialised_after(self.plan)
        self.hosted = bool(self.plan.host_steps())

    def layout(self, number: int, shapes: Shapes) -> ShapeInstance:
        """The region's layout for these input shapes, kept for the next time."""
        key = (number, shapes)
        found = self.layouts.get(key)
        if found is None:
            try:
                found = self.compiled[number].layout(shapes)
            except ShapeError as e:
                raise self._shape_error(number, shapes, e) from e
            lru_put(self.layouts, key, found, _count_cached_layouts(found))
        return found

    def _shape_error(self, number: int, shapes: Shapes, e: ShapeError) -> Error:
        """A size expression that has no value for these shapes: the caller's inputs, if the
        region reads the model's inputs, else what an operation made of them."""
        names = {p.slot: p.name for p in (*self.plan.inputs, *self.plan.variables)}
        slots = self.plan.regions[number].inputs
        given = [
            f"{names.get(s, f'value {s}')} {list(a)}" for s, a in zip(slots, shapes, strict=True)
        ]
        kind = InputError if all(s in names for s in slots) else ExecutionError
        return kind(
            "the model can't run at these shapes",
            where=e.where or f"region {number}",
            got=f"{', '.join(given)}: {e.what}" + (f" ({e.got})" if e.got is not None else ""),
            expected=e.expected,
        )


def _count_cached_layouts(layout: ShapeInstance) -> int:
    """How many layouts such as this one are kept."""
    affordable = _MAX_LAYOUT_BYTES // max(1, layout.nbytes)
    return min(max(MAX_CACHED_SHAPES, affordable), _MAX_CACHED_LAYOUTS)


def _find_last_uses(plan: Plan) -> list[list[int]]:
    """Per region, the slots whose last use it is."""
    used_later = {p.slot for p in plan.outputs}
    used_later |= {s for v in plan.variables for s in (v.slot, v.after, v.initial) if s is not None}
    found: list[list[int]] = []
    for region in reversed(plan.regions):
        used = {*region.inputs, *region.outputs}
        if region.terminal is not None:
            used |= {s for s in region.terminal.inputs if s is not None}
            used |= set(region.terminal.outputs)
        found.append(sorted(used - used_later))
        used_later |= used
    return found[::-1]
