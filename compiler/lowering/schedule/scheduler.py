"""Computes the schedule of a graph: one analysis after the other, each from the ones before."""

from __future__ import annotations

from collections.abc import Mapping

from ....ir.graph import Graph
from ....ir.lazy_dataclass import dataclass
from ....plan.target import Target
from ...options import Options
from ..control.subgraph_symbols import plain_sizes
from ..control.variables import GraphVariables, split_state
from .conv_algorithm import winograd_tiles
from .fusion import Fusion, decide_fusion
from .partition import decide_roles
from .regions import RegionNodes, SlotAssignment, split_regions
from .role import Role
from .row_bands import split_row_bands
from .schedule import Schedule
from .storage_types import rounded_values, spaced_values
from .tensor_layout import channels_last_values


def schedule(graph: Graph, target: Target, options: Options) -> Schedule:
    """The schedule of an optimised graph, or of a body that Python runs, with its bodies'.

    Raises UnsupportedOperationError and ShapeError for variables that cannot be lowered.
    """
    inputs, outputs = len(graph.parameters), len(graph.results)
    graph, state = split_state(graph)
    found = _analyze(graph, state)
    tiles = winograd_tiles(graph, found.native, options, target)
    rounded = rounded_values(graph, found.native, found.fusion, options, tiles)
    kept = frozenset(tiles).union(*state.made)
    banded = split_row_bands(graph, found.native, found.fusion, rounded, kept, target)
    if banded is not graph:
        graph, found = banded, _analyze(banded, state)
        rounded = rounded_values(graph, found.native, found.fusion, options, tiles)
    roles, fusion, home = found.roles, found.fusion, found.home
    last = channels_last_values(graph, found.native)
    spaced = spaced_values(graph, found.native, fusion, target, options, rounded, last)
    bodies = _schedule_bodies(graph, roles, target, options)
    interface, regions = SlotAssignment(graph, roles, state).assign(
        found.groups, home, inputs, outputs
    )
    return Schedule(
        graph,
        target,
        options,
        roles,
        fusion,
        last,
        rounded,
        spaced,
        tiles,
        bodies,
        interface,
        regions,
    )


@dataclass(frozen=True)
class _Analysis:
    """What runs where and is fused to what. native: whether a node runs so. home: its region."""

    roles: dict[int, Role]
    native: dict[int, bool]
    groups: list[RegionNodes]
    home: dict[int, int]
    fusion: Fusion


def _analyze(graph: Graph, state: GraphVariables) -> _Analysis:
    roles = decide_roles(graph)
    native = {n: role.native for n, role in roles.items()}
    groups = split_regions(graph, roles, state)
    home = {n: i for i, g in enumerate(groups) for n in (*g.nodes, g.end) if n is not None}
    return _Analysis(roles, native, groups, home, decide_fusion(graph, native, home))


def _schedule_bodies(
    graph: Graph, roles: Mapping[int, Role], target: Target, options: Options
) -> dict[int, tuple[Schedule | None, ...]]:
    """The schedules of the bodies of control flow, by node."""
    found: dict[int, tuple[Schedule | None, ...]] = {}
    for node, role in roles.items():
        bodies = graph.op(node).bodies()
        if role.control is not None:
            found[node] = tuple(
                None if inner is None else _schedule_native_body(body, inner, target, options)
                for body, inner in zip(bodies, role.control.bodies, strict=True)
            )
        elif bodies:
            found[node] = tuple(schedule(plain_sizes(body), target, options) for body in bodies)
    return found


def _schedule_native_body(
    body: Graph, roles: Mapping[int, Role], target: Target, options: Options
) -> Schedule:
    """The schedule of a body whose steps are part of the region around it."""
    native = dict.fromkeys(roles, True)
    return Schedule(
        body,
        target,
        options,
        roles,
        fusion=decide_fusion(body, native, dict.fromkeys(roles, 0)),
        channels_last=frozenset(),
        rounded=frozenset(),
        spaced=frozenset(),
        winograd_tiles=winograd_tiles(body, native, options, target),
        bodies=_schedule_bodies(body, roles, target, options),
    )
