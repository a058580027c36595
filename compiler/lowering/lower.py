"""Graph to plan, in two phases: a schedule, and the regions that are built from it.

`schedule` (schedule/scheduler.py) makes all decisions: which node runs where, what is fused, how
values are stored, which values leave a region. Then each region is built node by node with the
table of lowering functions (op_table.py) by a RegionLowering of its own; the PlanBuilder holds what
regions share.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.graph import Graph, Value
from ...ir.op import Array
from ...ir.ops import Identity
from ...plan.plan import Plan, Region, Terminal
from ...plan.target import Target
from ..legality import NATIVE
from ..options import Options
from ..strided_view import View
from .build.output_placement import propagate_output_buffers, symbol_sources
from .build.plan_builder import PlanBuilder
from .build.region_lowering import RegionLowering
from .build.runtime_checks import size_checks
from .control.lower_control import lower_native
from .denormals import decide_denormals
from .schedule.schedule import RegionSchedule, Schedule
from .schedule.scheduler import schedule


def lower(graph: Graph, target: Target, options: Options) -> tuple[Plan, dict[int, Array]]:
    """The plan of an optimised graph for a Target, and the arrays its constants are made from.

    Raises UnsupportedOperationError for what neither a kernel nor `evaluate` can compute.
    """
    builder = PlanBuilder()
    plan = build_plan(schedule(graph, target, options), builder)
    constants = builder.constants
    sources = {old: new for new, old in enumerate(dict.fromkeys(c.source for c in constants))}
    listed = tuple(replace(c, source=sources[c.source]) for c in constants)
    plan = replace(plan, constants=listed)
    used = {new: builder.weights[old] for old, new in sources.items()}
    return replace(plan, denormals=decide_denormals(plan, used, options)), used


def build_plan(schedule: Schedule, builder: PlanBuilder) -> Plan:
    """The plan of a scheduled graph or body, without the constants, which it adds to `builder`."""
    interface = schedule.interface
    for value in interface.constants:
        builder.fill_slot(schedule, value)
    home = schedule.region_of()
    regions = tuple(
        build_region(RegionLowering(schedule, builder), region, home) for region in schedule.regions
    )
    return Plan(
        name=schedule.graph.name,
        target_key=schedule.target.key(),
        precision=schedule.options.precision,
        inputs=interface.inputs,
        outputs=interface.outputs,
        slots=interface.types,
        constants=(),
        regions=regions,
        constant_slots=tuple(builder.constant_slots),
        variables=interface.variables,
    )


def build_region(low: RegionLowering, region: RegionSchedule, home: dict[int, int]) -> Region:
    """Build one region. home: the region of each node of the graph."""
    plan, interface = low.plan, low.schedule.interface
    for value in region.constants:
        plan.fill_slot(low.schedule, value)
    for index, (value, _) in enumerate(region.outputs):
        dtype, name = low.tensor(value).dtype, low.name(value.node)
        low.placed[value] = low.region.output(index, dtype, low.shape(value), name)
    propagate_output_buffers(low, region.members, home)
    for node in region.nodes:
        if low.schedule.roles[node].native:
            lower_native(low, node)
        else:
            lower_host(low, node)
    for index, (value, _) in enumerate(region.copies, len(region.outputs)):
        copy_to_output(low, value, index)
    terminal = None if region.end is None else lower_terminal(low, region, region.end)
    plan.slot_symbols.update(interface.slot_order, region.known_slots, interface.types)
    checks = size_checks(low, region.nodes, first=region.first)
    symbols = symbol_sources(low)
    buffers, steps, dims = low.region.finish()
    return Region(
        tuple(low.inputs),
        tuple(slot for _, slot in (*region.outputs, *region.copies)),
        symbols,
        dims,
        buffers,
        steps,
        terminal,
        checks=tuple(checks),
        initialises=region.initialises,
    )


def lower_host(low: RegionLowering, node: int) -> None:
    """A step that Python evaluates, on whole contiguous buffers."""
    inputs: list[int | None] = []
    for value in low.graph.inputs(node):
        if value is None:
            inputs.append(None)
            continue
        view = low.view(value)
        whole = low.region.whole_buffer(view)
        if whole is None:
            copied = low.region.allocate(view.dtype, view.shape, low.name(value.node))
            low.copy(view, copied, low.name(value.node), low.sources(node))
            whole = copied.buffer
        inputs.append(whole)
    outputs: list[int] = []
    moves: list[tuple[View, View]] = []
    for value in low.graph.values(node):
        out = low.result(value)
        whole = low.region.whole_buffer(out)
        if whole is None:
            fresh = low.region.allocate(out.dtype, out.shape, low.name(node))
            moves.append((fresh, out))
            whole = fresh.buffer
        outputs.append(whole)
    name, sources, reason = low.name(node), low.sources(node), low.schedule.roles[node].reason
    low.region.host(low.graph.op(node), inputs, outputs, name, reason, sources)
    for fresh, out in moves:
        low.copy(fresh, out, name, sources)


def lower_terminal(low: RegionLowering, region: RegionSchedule, node: int) -> Terminal:
    """The operation at a region's end, on slots."""
    for value in region.terminal_constants:
        low.plan.fill_slot(low.schedule, value)
    op, slot_of = low.graph.op(node), low.schedule.interface.slot_of
    slots = tuple(None if v is None else slot_of[v] for v in low.graph.inputs(node))
    outs = tuple(slot_of[v] for v in low.graph.values(node))
    bodies = tuple(
        build_plan(body, low.plan.for_body())
        for body in low.schedule.bodies.get(node, ())
        if body is not None
    )
    return Terminal(op, slots, outs, low.name(node), low.schedule.roles[node].reason, bodies)


def copy_to_output(low: RegionLowering, value: Value, index: int) -> None:
    """Copy a value (an input, a constant, or one delivered already) into a region output."""
    dtype, name = low.tensor(value).dtype, low.name(value.node)
    source = low.view(value)
    out = low.region.output(index, dtype, low.shape(value), name)
    if dtype in NATIVE:
        low.copy(source, out, name, ())
        return
    whole = low.region.whole_buffer(source)
    assert whole is not None
    low.region.host(Identity(), [whole], [out.buffer], name, f"copy of {dtype}")
