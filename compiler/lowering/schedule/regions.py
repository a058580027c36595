"""The regions of a graph in order, and the slots of the values that leave them.

The nodes that initial values need come first, by the level of their variable, then the graph
proper. A terminal ends a region. A result is delivered by the region that computes it, in place in
an output buffer where it can be, else by a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from ....ir.graph import Graph, Value
from ....ir.lazy_dataclass import dataclass
from ....ir.types import Type
from ....plan.plan import PlanPort, Variable
from ..control.variables import GraphVariables, StateNodes
from .role import Role, read_values
from .schedule import PlanInterface, RegionSchedule
from .symbols import is_host_only


@dataclass(frozen=True)
class RegionNodes:
    """The nodes of one region and the terminal that ends it; `level` as in RegionSchedule."""

    nodes: tuple[int, ...]
    end: int | None
    level: int


def split_regions(
    graph: Graph, roles: Mapping[int, Role], state: GraphVariables
) -> list[RegionNodes]:
    """Nodes by region in order: those for initial values by level, then the graph proper."""
    level_of = {n: level for level, made in enumerate(state.made) for n in made}
    proper = len(state.made)
    listed: dict[int, list[int]] = {}
    for node in graph.order():
        if node in roles:
            listed.setdefault(level_of.get(node, proper), []).append(node)
    groups: list[RegionNodes] = []
    for level in (*sorted(state.variables_to_initialize(graph)), proper):
        current: list[int] = []
        for node in listed.get(level, ()):
            if roles[node].terminal:
                groups.append(RegionNodes(tuple(current), node, level))
                current = []
            else:
                current.append(node)
        groups.append(RegionNodes(tuple(current), None, level))
    return groups


def exported_values(
    graph: Graph,
    roles: Mapping[int, Role],
    home: Mapping[int, int],
    index: int,
    group: RegionNodes,
) -> Iterator[Value]:
    """Values of a region's nodes that later regions or its terminal read."""
    # What such a node reads: listed once for all that it reads.
    read: dict[int, frozenset[Value]] = {}
    for node in group.nodes:
        for value in graph.values(node):
            for reader in graph.readers(value):
                if home.get(reader, index) <= index and reader != group.end:
                    continue
                if reader not in read:
                    read[reader] = frozenset(read_values(graph, reader, roles.get(reader)))
                if value in read[reader]:
                    yield value
                    break


@dataclass
class SlotAssignment:
    """Gives slots to the values of a graph as its regions are walked in order."""

    graph: Graph
    roles: Mapping[int, Role]
    state: GraphVariables
    types: list[Type] = field(default_factory=list[Type])
    slot_of: dict[Value, int] = field(default_factory=dict[Value, int])
    # By the node of a result.
    result_slots: dict[int, int] = field(default_factory=dict[int, int])
    variables: dict[int, Variable] = field(default_factory=dict[int, Variable])

    def assign(
        self, groups: Sequence[RegionNodes], home: Mapping[int, int], inputs: int, outputs: int
    ) -> tuple[PlanInterface, tuple[RegionSchedule, ...]]:
        """The slots and the regions. inputs, outputs: how many parameters and results are the
        model's own; those of its variables follow."""
        graph = self.graph
        for node in graph.parameters[:inputs]:
            self.add(Value(node))
        ports = [self._port_of(n, self.slot_of[Value(n)]) for n in graph.parameters[:inputs]]
        for result in graph.results:
            self.result_slots[result] = len(self.types)
            self.types.append(graph.type(graph.input(result, 0)))
        results: dict[int, list[int]] = {}
        delivery, constants = self._deliver_results(groups, home)
        for result in graph.results:
            results.setdefault(delivery[result], []).append(result)
        initialised, level = self.state.variables_to_initialize(graph), -1
        regions: list[RegionSchedule] = []
        for index, group in enumerate(groups):
            first, level = group.level != level, group.level
            if first:
                self._add_variables(level)
            region = self._schedule_region(group, index, home, results.get(index, ()), first=first)
            regions.append(replace(region, initialises=initialised.get(level, ())))
        interface = PlanInterface(
            tuple(self.types),
            self.slot_of,
            tuple(self.slot_of.values()),
            constants,
            tuple(ports),
            tuple(self._port_of(r, self.result_slots[r]) for r in graph.results[:outputs]),
            tuple(self.variables[n] for n in range(len(self.variables))),
        )
        return interface, tuple(regions)

    def add(self, value: Value) -> int:
        """The slot of a value that outlives its region."""
        if value not in self.slot_of:
            self.types.append(self.graph.type(value))
            self.slot_of[value] = len(self.types) - 1
        return self.slot_of[value]

    def _port_of(self, node: int, slot: int) -> PlanPort:
        """The model's input or output that a Parameter or Result node represents."""
        record = self.graph.node(node)
        names = tuple(sorted(record.names[0])) if record.names else ()
        # A name of its own before those of what was found to be the same value.
        name = names[0] if names and record.name not in names else record.name
        return PlanPort(name, names, record.types[0], slot)

    def _deliver_results(
        self, groups: Sequence[RegionNodes], home: Mapping[int, int]
    ) -> tuple[dict[int, int], tuple[Value, ...]]:
        """The region that delivers each result: where it is computed, or the last of its level.
        That one copies what a terminal hands out more than once, for nothing of the terminal's own
        region runs behind it. A variable's initial value that is a constant needs no region: such
        values come second."""
        graph = self.graph
        last = {group.level: i for i, group in enumerate(groups)}
        ends = {group.end for group in groups}
        handed: set[Value] = set()
        level_of = {v.initial: v.level for v in self.state.variables}
        found: dict[int, int] = {}
        constants: list[Value] = []
        for result in graph.results:
            value = graph.input(result, 0)
            level = level_of.get(result, len(self.state.made))
            if level in last:
                again = value in handed and not is_host_only(graph.type(value))
                found[result] = last[level] if again else home.get(value.node, last[level])
            if value.node in ends:
                handed.add(value)
            if result in level_of and graph.op(value.node).kind == "Constant":
                constants.append(value)
                self.result_slots[result] = self.add(value)
                found[result] = -1
        return found, tuple(constants)

    def _add_variables(self, level: int) -> None:
        """The variables whose values may be read from a level on."""
        for number, nodes in enumerate(self.state.variables):
            if nodes.level < level and number not in self.variables:
                self.variables[number] = self._variable_of(nodes)

    def _variable_of(self, nodes: StateNodes) -> Variable:
        slot = self.add(Value(nodes.parameter))
        after = slot if nodes.after is None else self.result_slots[nodes.after]
        initial = None if nodes.initial is None else self.result_slots[nodes.initial]
        if nodes.cache is None:
            return Variable(nodes.name, slot, after, initial)
        rows = None if nodes.rows is None else self.slot_of[nodes.rows]
        cache = nodes.cache
        return Variable(nodes.name, slot, after, initial, cache.axes, rows, cache.batch_axis)

    def _schedule_region(
        self,
        group: RegionNodes,
        index: int,
        home: Mapping[int, int],
        results: Sequence[int],
        *,
        first: bool,
    ) -> RegionSchedule:
        """results: those that the region delivers."""
        graph = self.graph
        outputs: dict[Value, int] = {}
        copies: list[tuple[Value, int]] = []
        constants: list[Value] = []
        for result in results:
            value, slot = graph.input(result, 0), self.result_slots[result]
            host_only = is_host_only(graph.type(value))
            if value.node == group.end and not host_only:
                self.slot_of[value] = slot
            elif value.node == group.end:
                self.result_slots[result] = self.slot_of.setdefault(value, slot)
            elif host_only:
                # Handed out from where it is: a session copies what it does not own.
                if value not in self.slot_of:
                    constants.append(value)
                self.result_slots[result] = self.add(value)
            elif home.get(value.node) == index and value not in outputs:
                outputs[value] = slot
                self.slot_of.setdefault(value, slot)
            else:
                copies.append((value, slot))
        for value in exported_values(graph, self.roles, home, index, group):
            if value not in outputs:
                outputs[value] = self.add(value)
        needed: list[Value] = []
        if group.end is not None:
            for value in graph.inputs(group.end):
                if value is not None and value not in self.slot_of:
                    needed.append(value)
                    self.add(value)
            for value in graph.values(group.end):
                self.add(value)
        return RegionSchedule(
            group.nodes,
            group.end,
            group.level,
            first,
            (),
            tuple(outputs.items()),
            tuple(copies),
            tuple(constants),
            tuple(needed),
            len(self.slot_of),
        )
