"""The schedule of a graph: every decision that is made before a step of its plan is built.

schedule/scheduler.py computes it once; build/region_lowering.py builds steps from it and changes
nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.types import Type
from ....plan.plan import PlanPort, Variable
from ....plan.target import Target
from ...options import Options
from .fusion import Fusion
from .role import Role


@dataclass(frozen=True)
class RegionSchedule:
    """The nodes of one region in order, the terminal that ends it, and the values that leave it.

    outputs: values computed in the region's output buffers, with their slots. copies: values that
    are copied into further output buffers. constants, terminal_constants: values that get a slot
    of a constant before the region, and for its terminal. known_slots: how many values have a slot
    when the region ends. level: of the variables that the region initialises; above all of theirs
    in the regions of the graph proper. first: of its level.
    """

    nodes: tuple[int, ...]
    end: int | None
    level: int
    first: bool
    initialises: tuple[int, ...]
    outputs: tuple[tuple[Value, int], ...]
    copies: tuple[tuple[Value, int], ...]
    constants: tuple[Value, ...]
    terminal_constants: tuple[Value, ...]
    known_slots: int

    @property
    def members(self) -> tuple[int, ...]:
        """All nodes, the terminal included."""
        return self.nodes if self.end is None else (*self.nodes, self.end)


@dataclass(frozen=True)
class PlanInterface:
    """The slots of a plan: their types, the slot of each value that outlives its region, those
    slots in the order in which regions need them, the constants that have one before any region
    runs, and what callers and variables are bound to."""

    types: tuple[Type, ...] = ()
    slot_of: Mapping[Value, int] = field(default_factory=dict[Value, int])
    slot_order: tuple[int, ...] = ()
    constants: tuple[Value, ...] = ()
    inputs: tuple[PlanPort, ...] = ()
    outputs: tuple[PlanPort, ...] = ()
    variables: tuple[Variable, ...] = ()


@dataclass(frozen=True)
class Schedule:
    """A graph without state, and the decisions about it.

    roles: the partition, of all nodes that run. fusion: what is computed together. channels_last:
    values that lie (batch, spatial..., channel) in memory. rounded: f32 values stored as bf16.
    spaced: values whose rows or pixels have a cache line between them. winograd_tiles: by
    convolution of floats, the side of Winograd's output tiles (absent: none). bodies: the schedules
    of the graphs that control flow holds, by node; None for a branch that always fails. A body that
    the driver runs is lowered into the region around it, and has no regions and no interface.
    """

    graph: Graph
    target: Target
    options: Options
    roles: Mapping[int, Role]
    fusion: Fusion
    channels_last: frozenset[Value]
    rounded: frozenset[Value]
    spaced: frozenset[Value]
    winograd_tiles: Mapping[int, int]
    bodies: Mapping[int, tuple[Schedule | None, ...]]
    interface: PlanInterface = PlanInterface()
    regions: tuple[RegionSchedule, ...] = ()

    def region_of(self) -> dict[int, int]:
        """The number of each node's region."""
        return {n: i for i, region in enumerate(self.regions) for n in region.members}

    def describe(self) -> Iterator[str]:
        """A line per region and node: what runs it, with whom it is fused, and how it is stored."""
        for number, region in enumerate(self.regions):
            yield f"region {number}, level {region.level}: {len(region.nodes)} nodes"
            for node in region.members:
                yield "  " + self._describe_node(node)
            for value, slot in (*region.outputs, *region.copies):
                yield f"  slot {slot} = %{value.node}.{value.port}"

    def _describe_node(self, node: int) -> str:
        role, fusion, value = self.roles[node], self.fusion, Value(node)
        parts = [f"%{node} {self.graph.op(node).kind}"]
        parts.append("native" if role.native else f"host ({role.reason})")
        if role.terminal:
            parts[-1] = f"terminal ({role.reason})"
        if node in fusion.epilogues:
            parts.append("epilogue " + " ".join(f"%{n}" for n in fusion.epilogues[node]))
        if node in fusion.absorbed:
            parts.append("absorbed")
        if node in self.winograd_tiles:
            parts.append(f"winograd {self.winograd_tiles[node]}")
        stored = {
            "channels last": self.channels_last,
            "as bf16": self.rounded,
            "spaced rows": self.spaced,
        }
        return ", ".join((*parts, *(name for name, values in stored.items() if value in values)))
