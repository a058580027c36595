"""Graph to plan: regions, their steps, and the slots between them.

The nodes fall into regions by their roles (compiler/lowering/schedule/partition.py); fusions are
decided (compiler/lowering/schedule/fusion.py); then each region is built node by node with the
table of lowerings (op_table.py). What leaves a region - a result, or a value that a later region or
the region's terminal reads - is computed in place in the region's output buffer wherever its
producer can write there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...ir.errors import VerificationError
from ...ir.graph import Graph, Value
from ...ir.op import Array
from ...ir.ops import Identity
from ...ir.types import Type
from ...plan.plan import Plan, PlanConstant, PlanPort, Region, Terminal, Variable
from ...plan.target import Target
from ..legality import NATIVE
from ..options import Options
from ..strided_view import View
from .build.op_lowering import Lowering
from .build.region_builder import RegionBuilder
from .control.lower_control import CONTROL, lower_native
from .control.subgraph_symbols import plain_sizes
from .control.variables import GraphVariables, StateNodes, split_state
from .denormals import decide_denormals
from .ops.squeeze_excite import decide_excites
from .schedule.fusion import decide_fusion
from .schedule.output_placement import (
    exported_values,
    propagate_output_buffers,
    reserve_output,
    symbol_sources,
)
from .schedule.partition import decide_roles
from .schedule.role import Role
from .schedule.runtime_checks import size_checks
from .schedule.storage_types import rounded_values, spaced_values
from .schedule.symbols import is_host_only
from .schedule.tensor_layout import channels_last_values


def lower(graph: Graph, target: Target, options: Options) -> tuple[Plan, dict[int, Array]]:
    """The plan of an optimised graph for a Target, and the arrays its constants are made from.

    Raises UnsupportedOperationError for what neither a kernel nor `evaluate` can compute.
    """
    constants: dict[PlanConstant, int] = {}
    weights: dict[int, Array] = {}
    plan = lower_graph(graph, target, options, weights, constants)
    sources = {old: new for new, old in enumerate(dict.fromkeys(c.source for c in constants))}
    listed = tuple(replace(c, source=sources[c.source]) for c in constants)
    plan = replace(plan, constants=listed)
    used = {new: weights[old] for old, new in sources.items()}
    return replace(plan, denormals=decide_denormals(plan, used, options)), used


def lower_graph(
    graph: Graph,
    target: Target,
    options: Options,
    weights: dict[int, Array],
    constants: dict[PlanConstant, int],
) -> Plan:
    """The plan of a graph or body, without the constants, which it adds to `constants`."""
    ports = len(graph.parameters), len(graph.results)
    graph, state = split_state(graph)
    roles = decide_roles(graph, CONTROL)
    native = {n: r.lowerer is not None for n, r in roles.items()}
    last = channels_last_values(graph, native)
    groups = split_regions(graph, roles, state)
    home = {n: i for i, group in enumerate(groups) for n in group.members}
    fusion = decide_fusion(graph, native, home)
    decide_excites(graph, native, home, fusion, last)
    rounded = rounded_values(graph, native, fusion, options, target)
    low = Lowering(
        graph,
        target,
        options,
        fusion,
        channels_last=last,
        rounded=rounded,
        spaced=spaced_values(graph, native, fusion, target, rounded) - last,
        weights=weights,
        constants=constants,
    )
    for node in graph.parameters[: ports[0]]:
        new_slot(low, Value(node), graph.type(Value(node)))
    inputs = tuple(port_of(low, n, low.slot_of[Value(n)]) for n in graph.parameters[: ports[0]])

    result_slots = {r: len(low.slots) + i for i, r in enumerate(graph.results)}
    for result in graph.results:
        low.slots.append(graph.type(graph.input(result, 0)))
    constant_slots: list[tuple[int, int]] = []
    delivery = result_homes(low, groups, home, state, result_slots, constant_slots)
    results: dict[int, list[int]] = {}
    for result in graph.results:
        results.setdefault(delivery[result], []).append(result)
    regions: list[Region] = []
    variables: dict[int, Variable] = {}
    initialised, level = state.variables_to_initialize(graph), -1
    for index, group in enumerate(groups):
        first, level = group.level != level, group.level
        if first:
            for number, nodes in enumerate(state.variables):
                if nodes.level < level and number not in variables:
                    variables[number] = lower_variable(low, nodes, result_slots)
        region = build_region(
            low,
            roles,
            home,
            index,
            group,
            results.get(index, []),
            result_slots,
            constant_slots,
            first=first,
        )
        regions.append(replace(region, initialises=initialised.get(level, ())))
    return Plan(
        name=graph.name,
        target_key=target.key(),
        precision=options.precision,
        inputs=inputs,
        outputs=tuple(port_of(low, r, result_slots[r]) for r in graph.results[: ports[1]]),
        slots=tuple(low.slots),
        constants=(),
        regions=tuple(regions),
        constant_slots=tuple(constant_slots),
        variables=tuple(variables[n] for n in range(len(variables))),
    )


def port_of(low: Lowering, node: int, slot: int) -> PlanPort:
    """The model's input or output that a Parameter or Result node stands for."""
    record = low.graph.node(node)
    names = tuple(sorted(record.names[0])) if record.names else ()
    # A name of its own before those of what was found to be the same value.
    name = names[0] if names and record.name not in names else record.name
    return PlanPort(name, names, record.types[0], slot)


def new_slot(low: Lowering, value: Value, type_: Type) -> int:
    """The slot of a value that outlives its region."""
    if value not in low.slot_of:
        low.slots.append(type_)
        low.slot_of[value] = len(low.slots) - 1
    return low.slot_of[value]


@dataclass(frozen=True)
class RegionNodes:
    """The nodes of one region and the terminal that ends it. `level`: of the variables that the
    region initialises; above all of theirs in the regions of the graph proper."""

    nodes: list[int]
    end: int | None
    level: int

    @property
    def members(self) -> list[int]:
        """All nodes, the terminal included."""
        return [*self.nodes, *([] if self.end is None else [self.end])]


def split_regions(graph: Graph, roles: dict[int, Role], state: GraphVariables) -> list[RegionNodes]:
    """Nodes by region in order: those for initial values by level, then the graph proper."""
    level_of = {n: level for level, made in enumerate(state.made) for n in made}
    proper = len(state.made)
    listed: dict[int, list[int]] = {}
    for node in graph.order():
        if node in roles:
            listed.setdefault(level_of.get(node, proper), []).append(node)
    levels = sorted(state.variables_to_initialize(graph))
    groups: list[RegionNodes] = []
    for level in (*levels, proper):
        current: list[int] = []
        for node in listed.get(level, ()):
            if roles[node].terminal:
                groups.append(RegionNodes(current, node, level))
                current = []
            else:
                current.append(node)
        groups.append(RegionNodes(current, None, level))
    return groups


def result_homes(
    low: Lowering,
    groups: Sequence[RegionNodes],
    home: dict[int, int],
    state: GraphVariables,
    result_slots: dict[int, int],
    constant_slots: list[tuple[int, int]],
) -> dict[int, int]:
    """The region that delivers each result: where it is computed, or the last of its level. That
    one copies what a terminal hands out more than once, for nothing of the terminal's own region
    runs behind it. A variable's initial value that is a constant needs no region."""
    last = {group.level: i for i, group in enumerate(groups)}
    ends = {group.end for group in groups}
    handed: set[Value] = set()
    level_of = {v.initial: v.level for v in state.variables}
    found: dict[int, int] = {}
    for result in low.graph.results:
        value = low.graph.input(result, 0)
        level = level_of.get(result, len(state.made))
        if level in last:
            again = value in handed and not is_host_only(low.graph.type(value))
            found[result] = last[level] if again else home.get(value.node, last[level])
        if value.node in ends:
            handed.add(value)
        if result in level_of and low.graph.op(value.node).kind == "Constant":
            constant_slot(low, value, constant_slots)
            result_slots[result] = low.slot_of[value]
            found[result] = -1
    return found


def lower_variable(low: Lowering, nodes: StateNodes, result_slots: dict[int, int]) -> Variable:
    """A variable whose value may be read from now on."""
    value = Value(nodes.parameter)
    slot = new_slot(low, value, low.graph.type(value))
    after = slot if nodes.after is None else result_slots[nodes.after]
    initial = None if nodes.initial is None else result_slots[nodes.initial]
    if nodes.cache is None:
        return Variable(nodes.name, slot, after, initial)
    rows = None if nodes.rows is None else low.slot_of[nodes.rows]
    cache = nodes.cache
    return Variable(nodes.name, slot, after, initial, cache.axes, rows, cache.batch_axis)


def build_region(
    low: Lowering,
    roles: dict[int, Role],
    home: dict[int, int],
    index: int,
    group: RegionNodes,
    mine: Sequence[int],
    result_slots: dict[int, int],
    constant_slots: list[tuple[int, int]],
    *,
    first: bool,
) -> Region:
    """Build one region and leave its exported values' slots in `low.slot_of`. `mine`: the results
    that it delivers; `first`: of its level."""
    graph, nodes, end = low.graph, group.nodes, group.end
    low.region, low.region_inputs = RegionBuilder(), []
    low.views, low.placed, low.divided = {}, {}, {}
    outputs: list[int] = []

    # Results that this region can deliver, and values that later regions or the terminal read.
    late: list[int] = []
    for result in mine:
        value = graph.input(result, 0)
        if value.node != end and is_host_only(graph.type(value)):
            # Handed out from where it is: a session copies what it does not own.
            if value not in low.slot_of:
                constant_slot(low, value, constant_slots)
            result_slots[result] = low.slot_of[value]
        elif value.node == end and is_host_only(graph.type(value)):
            result_slots[result] = low.slot_of.setdefault(value, result_slots[result])
        elif value.node == end:
            low.slot_of[value] = result_slots[result]
        elif home.get(value.node) == index and value not in low.placed:
            reserve_output(low, value, result_slots[result], outputs)
        else:
            late.append(result)
    for value in exported_values(low, roles, home, index, nodes, end):
        if value not in low.placed:
            slot = new_slot(low, value, graph.type(value))
            reserve_output(low, value, slot, outputs)
    propagate_output_buffers(low, group.members, home, roles)

    for node in nodes:
        if roles[node].lowerer is None:
            lower_host(low, node, roles[node].reason)
        else:
            lower_native(low, roles, node)
    for result in late:
        deliver_copy(low, graph.input(result, 0), result_slots[result], outputs)

    terminal = None
    if end is not None:
        terminal = lower_terminal(low, end, roles[end].reason, constant_slots)
    checks = size_checks(low, roles, nodes, first=first)
    symbols = symbol_sources(low)
    buffers, steps, dims = low.region.finish()
    return Region(
        tuple(low.region_inputs),
        tuple(outputs),
        symbols,
        dims,
        buffers,
        steps,
        terminal,
        checks=tuple(checks),
    )


def lower_host(low: Lowering, node: int, reason: str) -> None:
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
    name, sources = low.name(node), low.sources(node)
    low.region.host(low.graph.op(node), inputs, outputs, name, reason, sources)
    for fresh, out in moves:
        low.copy(fresh, out, name, sources)


def lower_terminal(
    low: Lowering, node: int, reason: str, constant_slots: list[tuple[int, int]]
) -> Terminal:
    """The operation at a region's end, on slots."""
    slots: list[int | None] = []
    for value in low.graph.inputs(node):
        if value is None:
            slots.append(None)
            continue
        if value not in low.slot_of:
            constant_slot(low, value, constant_slots)
        slots.append(low.slot_of[value])
    outs = tuple(new_slot(low, v, low.graph.type(v)) for v in low.graph.values(node))
    op = low.graph.op(node)
    bodies = tuple(
        lower_graph(plain_sizes(body), low.target, low.options, low.weights, low.constants)
        for body in op.bodies()
    )
    return Terminal(op, tuple(slots), outs, low.name(node), reason, bodies)


def constant_slot(low: Lowering, value: Value, constant_slots: list[tuple[int, int]]) -> None:
    """Give a constant a slot."""
    op = low.constant_op(value)
    if op is None:
        raise VerificationError("a value has no slot", got=low.name(value.node))
    low.weights[id(op.data)] = op.data
    shape = tuple(d for d in op.shape if isinstance(d, int))
    entry = PlanConstant(id(op.data), low.tensor(value).dtype, shape)
    index = low.constants.setdefault(entry, len(low.constants))
    constant_slots.append((new_slot(low, value, low.graph.type(value)), index))


def deliver_copy(low: Lowering, value: Value, slot: int, outputs: list[int]) -> None:
    """Copy a value (an input, a constant, or one delivered already) into a result of its own."""
    type_ = low.tensor(value)
    source = low.view(value)
    out = low.region.output(len(outputs), type_.dtype, low.shape(value), low.name(value.node))
    outputs.append(slot)
    if type_.dtype in NATIVE:
        low.copy(source, out, low.name(value.node), ())
        return
    whole = low.region.whole_buffer(source)
    assert whole is not None
    name = low.name(value.node)
    low.region.host(Identity(), [whole], [out.buffer], name, f"copy of {type_.dtype}")
