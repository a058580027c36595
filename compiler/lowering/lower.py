"""Graph to plan, in two phases: a schedule, and the regions that are built from it.

`schedule` (schedule/scheduler.py) makes all decisions: which node runs where, what is fused, how
values are stored, which values leave a region. Then each region is built node by node with the
table of lowering functions (op_table.py) by a RegionLowering of its own; the PlanBuilder holds what
regions share.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.deferred_array import StoredArray
from ...ir.graph import Graph, Value
from ...ir.ops import Identity
from ...plan.packing.panel_params import BF16_PRODUCTS
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


def lower(graph: Graph, target: Target, options: Options) -> tuple[Plan, dict[int, StoredArray]]:
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
    denormals = decide_denormals(plan, used, options)
    if options.denormals == "auto" and not denormals.flush and _flushes(plan):
        plan, used = lower(graph, target, replace(options, denormals="keep"))
    return replace(plan, denormals=denormals), used


def _flushes(plan: Plan) -> bool:
    """Whether a product that is not rounded runs on tiles of bf16, which flush denormals."""
    return any(s.spec.compute_unit() in BF16_PRODUCTS for s in plan.kernel_steps())


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


def build_region(lowering: RegionLowering, region: RegionSchedule, home: dict[int, int]) -> Region:
    """Build one region. home: the region of each node of the graph."""
    plan, interface = lowering.plan, lowering.schedule.interface
    for value in region.constants:
        plan.fill_slot(lowering.schedule, value)
    for index, (value, _) in enumerate(region.outputs):
        dtype, name = lowering.tensor(value).dtype, lowering.name(value.node)
        lowering.placed[value] = lowering.region.output(index, dtype, lowering.shape(value), name)
    propagate_output_buffers(lowering, region.members, home)
    for node in region.nodes:
        if lowering.schedule.roles[node].native:
            lower_native(lowering, node)
        else:
            lower_host(lowering, node)
    for index, (value, _) in enumerate(region.copies, len(region.outputs)):
        copy_to_output(lowering, value, index)
    terminal = None if region.end is None else lower_terminal(lowering, region, region.end)
    plan.slot_symbols.update(interface.slot_order, region.known_slots, interface.types)
    checks = size_checks(lowering, region.nodes, first=region.first)
    symbols = symbol_sources(lowering)
    buffers, steps, dims = lowering.region.finish()
    return Region(
        tuple(lowering.inputs),
        tuple(slot for _, slot in (*region.outputs, *region.copies)),
        symbols,
        dims,
        buffers,
        steps,
        terminal,
        checks=tuple(checks),
        initialises=region.initialises,
    )


def lower_host(lowering: RegionLowering, node: int) -> None:
    """A step that Python evaluates, on whole contiguous buffers."""
    inputs: list[int | None] = []
    for value in lowering.graph.inputs(node):
        if value is None:
            inputs.append(None)
            continue
        view = lowering.view(value)
        whole = lowering.region.whole_buffer(view)
        if whole is None:
            copied = lowering.region.allocate(view.dtype, view.shape, lowering.name(value.node))
            lowering.copy(view, copied, lowering.name(value.node), lowering.sources(node))
            whole = copied.buffer
        inputs.append(whole)
    outputs: list[int] = []
    moves: list[tuple[View, View]] = []
    for value in lowering.graph.values(node):
        out = lowering.result(value)
        whole = lowering.region.whole_buffer(out)
        if whole is None:
            fresh = lowering.region.allocate(out.dtype, out.shape, lowering.name(node))
            moves.append((fresh, out))
            whole = fresh.buffer
        outputs.append(whole)
    name, sources = lowering.name(node), lowering.sources(node)
    reason = lowering.schedule.roles[node].reason
    lowering.region.host(lowering.graph.op(node), inputs, outputs, name, reason, sources)
    for fresh, out in moves:
        lowering.copy(fresh, out, name, sources)


def lower_terminal(lowering: RegionLowering, region: RegionSchedule, node: int) -> Terminal:
    """The operation at a region's end, on slots."""
    for value in region.terminal_constants:
        lowering.plan.fill_slot(lowering.schedule, value)
    op, slot_of = lowering.graph.op(node), lowering.schedule.interface.slot_of
    slots = tuple(None if v is None else slot_of[v] for v in lowering.graph.inputs(node))
    outs = tuple(slot_of[v] for v in lowering.graph.values(node))
    bodies = tuple(
        build_plan(body, lowering.plan.for_body())
        for body in lowering.schedule.bodies.get(node, ())
        if body is not None
    )
    return Terminal(
        op, slots, outs, lowering.name(node), lowering.schedule.roles[node].reason, bodies
    )


def copy_to_output(lowering: RegionLowering, value: Value, index: int) -> None:
    """Copy a value (an input, a constant, or one delivered already) into a region output."""
    dtype, name = lowering.tensor(value).dtype, lowering.name(value.node)
    source = lowering.view(value)
    out = lowering.region.output(index, dtype, lowering.shape(value), name)
    if dtype in NATIVE:
        lowering.copy(source, out, name, ())
        return
    whole = lowering.region.whole_buffer(source)
    assert whole is not None
    lowering.region.host(Identity(), [whole], [out.buffer], name, f"copy of {dtype}")
