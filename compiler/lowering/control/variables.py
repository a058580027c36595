"""Variables become inputs and outputs: a stateful graph as one without state.

A ReadValue turns into a Parameter and what is assigned into a Result, so that everything after
this knows nothing of state. Initial values are computed from copies of the nodes behind them:
those are apart from the graph proper, in regions that run only where a variable has no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from ....ir.errors import ShapeError, UnsupportedOperationError
from ....ir.graph import Graph, Value
from ....ir.infer import infer_node
from ....ir.ops import Assign, Constant, Parameter, ReadCache, ReadValue, Result
from ....ir.types import TensorType, compatible

_SOURCES = frozenset({"Parameter", "TypedParameter", "Constant"})


@dataclass
class StateNodes:
    """One variable in the graph without state: the Parameter that is its value, the Result that it
    is after the run (None: what it was), and the Result that is its initial value (None: zeros).
    Of a variable that grows, `cache` is what reads it, and `rows` the input of its indices.

    Variables of a higher `level` are initialised later, from the values of others.
    """

    name: str
    parameter: int
    after: int | None = None
    initial: int | None = None
    level: int = 0
    cache: ReadCache | None = None
    rows: Value | None = None


@dataclass
class GraphVariables:
    """All variables, and by level the nodes that are there for initial values only."""

    variables: list[StateNodes] = field(default_factory=list[StateNodes])
    made: list[frozenset[int]] = field(default_factory=list[frozenset[int]])

    def variables_to_initialize(self, graph: Graph) -> dict[int, tuple[int, ...]]:
        """By level, the numbers of the variables whose initial values have to be computed."""
        found: dict[int, tuple[int, ...]] = {}
        for level, several in groupby(sorted(self._list_to_compute(graph)), itemgetter(0)):
            found[level] = tuple(number for _, number in several)
        return found

    def _list_to_compute(self, graph: Graph) -> Iterator[tuple[int, int]]:
        for number, v in enumerate(self.variables):
            if v.initial is not None:
                made = graph.op(graph.input(v.initial, 0).node)
                if not isinstance(made, Constant):
                    yield v.level, number


def split_state(graph: Graph) -> tuple[Graph, GraphVariables]:
    """The graph with its variables as further parameters and results behind the model's own, in the
    order of the variables. It is the graph itself where there are none.

    What is assigned to a variable that nothing reads is dropped. UnsupportedOperationError for
    variables inside control flow, with several initial values or assigned twice; ShapeError for a
    value that does not fit its variable.
    """
    _refuse_bodies(graph)
    state = GraphVariables()
    if not any(isinstance(graph.op(n), ReadValue | Assign) for n in graph.ids()):
        return graph, state
    graph = graph.copy()
    assigned = {name: _drop_assigns(graph, n) for name, n in _by_variable(graph, Assign).items()}
    reads = _by_variable(graph, ReadValue)
    firsts = {name: _first_value(graph, name, nodes) for name, nodes in reads.items()}
    level_of = _levels(graph, reads, firsts)
    moved: dict[int, int] = {}
    caches = {name: _cache_of(graph, nodes[0]) for name, nodes in reads.items()}
    for name, nodes in reads.items():
        parameter = _to_parameter(graph, name, nodes)
        moved.update(dict.fromkeys(nodes, parameter))
        cache, rows = caches[name]
        made = StateNodes(name, parameter, level=level_of[name], cache=cache, rows=rows)
        state.variables.append(made)
    at = {node: i for i, node in enumerate(graph.order())}
    twins: list[dict[int, int]] = [{} for _ in range(1 + max(level_of.values(), default=0))]
    for variable in state.variables:
        first, after = firsts[variable.name], assigned.get(variable.name)
        if first is not None:
            first = Value(moved.get(first.node, first.node), first.port)
            _check(graph, variable, first, "initial value")
            first = _copy_behind(graph, first, twins[variable.level], at)
            variable.initial = _add_result(graph, first, f"{variable.name} at first")
        if after is not None:
            after = Value(moved.get(after.node, after.node), after.port)
            _check(graph, variable, after, "assigned value")
            if after != Value(variable.parameter):
                variable.after = _add_result(graph, after, f"{variable.name} assigned")
    state.made = [frozenset(t.values()) for t in twins]
    return graph, state


def _cache_of(graph: Graph, node: int) -> tuple[ReadCache | None, Value | None]:
    op, inputs = graph.op(node), graph.inputs(node)
    return (op, (*inputs, None)[1]) if isinstance(op, ReadCache) else (None, None)


def _refuse_bodies(graph: Graph) -> None:
    pending = [b for n in graph.ids() for b in graph.op(n).bodies()]
    while pending:
        body = pending.pop()
        for node in body.ids():
            pending.extend(body.op(node).bodies())
            if isinstance(body.op(node), ReadValue | Assign):
                raise UnsupportedOperationError(
                    "a variable inside control flow is not supported",
                    where=body.node(node).origin or body.node(node).name,
                    expected="ReadValue and Assign outside If, Loop and TensorIterator",
                )


def _by_variable(graph: Graph, kind: type[ReadValue] | type[Assign]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for node in graph.order():
        op = graph.op(node)
        if isinstance(op, kind):
            found.setdefault(op.variable_id, []).append(node)
    return found


def _first_value(graph: Graph, name: str, nodes: Sequence[int]) -> Value | None:
    """What initialises a variable: the same for all that read it."""
    found = {tuple(graph.inputs(n)[:1]) for n in nodes}
    if len(found) > 1:
        raise UnsupportedOperationError(
            f"variable {name!r} is read with different initial values",
            where=", ".join(graph.node(n).name for n in nodes),
            expected="one ReadValue, or the same input for all",
        )
    return next(iter(next(iter(found))), None)


def _levels(
    graph: Graph, reads: dict[str, list[int]], firsts: dict[str, Value | None]
) -> dict[str, int]:
    """0 for a variable that others' values do not initialise, else one more than the highest of
    those. One walk in order: levels go down the edges."""
    name_of = {node: name for name, nodes in reads.items() for node in nodes}
    level_of: dict[str, int] = dict.fromkeys(reads, 0)
    reached: dict[int, int] = {}
    for node in graph.order():
        level = max((reached[v.node] for v in graph.inputs(node) if v is not None), default=0)
        if node in name_of:
            name = name_of[node]
            level_of[name] = max(level_of[name], level)
            level = level_of[name] + 1
        reached[node] = level
    for name, first in firsts.items():
        if first is not None and reached[first.node] > level_of[name]:
            raise UnsupportedOperationError(f"variable {name!r} initialises itself")
    return level_of


def _to_parameter(graph: Graph, name: str, nodes: Sequence[int]) -> int:
    """One Parameter instead of all ReadValues of a variable."""
    record = graph.node(nodes[0])
    type_ = record.types[0]
    if not isinstance(type_, TensorType):
        raise UnsupportedOperationError(f"variable {name!r} is not a tensor", got=str(type_))
    parameter = graph.add(Parameter(type_.dtype, type_.shape), name=record.name)
    infer_node(graph, parameter)
    for node in nodes:
        for use in graph.uses(Value(node)):
            graph.connect(Value(parameter), use)
        graph.remove(node)
    return parameter


def _drop_assigns(graph: Graph, nodes: Sequence[int]) -> Value:
    """Readers of an Assign read its input; returns that."""
    if len(nodes) > 1:
        op = graph.op(nodes[0])
        raise UnsupportedOperationError(
            f"variable {getattr(op, 'variable_id', '')!r} is assigned twice",
            where=", ".join(graph.node(n).name for n in nodes),
            expected="one Assign for each variable",
        )
    value = graph.input(nodes[0], 0)
    for use in graph.uses(Value(nodes[0])):
        graph.connect(value, use)
    graph.remove(nodes[0])
    return value


def _add_result(graph: Graph, value: Value, name: str) -> int:
    result = graph.add(Result(), [value], name=name)
    infer_node(graph, result)
    return result


def _check(graph: Graph, variable: StateNodes, value: Value, what: str) -> None:
    declared, found = graph.type(Value(variable.parameter)), graph.type(value)
    if not compatible(declared, found):
        raise ShapeError(
            f"the {what} of variable {variable.name!r} does not fit it",
            where=graph.node(value.node).name,
            got=str(found),
            expected=str(declared),
        )


def _copy_behind(graph: Graph, value: Value, twins: dict[int, int], at: Mapping[int, int]) -> Value:
    """A value computed by nodes of its own, down to parameters and constants; `twins` holds them by
    the nodes that they are copies of. at: positions of the nodes in an order of execution."""
    behind: set[int] = set()
    pending = [value.node]
    while pending:
        node = pending.pop()
        if node not in behind and node not in twins and graph.op(node).kind not in _SOURCES:
            behind.add(node)
            pending.extend(graph.producers(node))
    for node in sorted(behind, key=at.__getitem__):
        record = graph.node(node)
        inputs = [v and Value(twins.get(v.node, v.node), v.port) for v in graph.inputs(node)]
        twins[node] = graph.add(record.op, inputs, name=record.name, origin=record.origin)
        infer_node(graph, twins[node])
    return Value(twins.get(value.node, value.node), value.port)
