"""The graph: operations as nodes of a networkx MultiDiGraph, edges keyed by input port.

A plain DiGraph would merge the two edges of `x + x`; a MultiDiGraph keyed by the consumer's input
port keeps both. Nodes are dense integers that are never used twice; names are attributes that
need not be unique. Tensor names sit on output ports, as do types and known values.

Only the rewrite engine and the frontends mutate a graph (docs/dev/architecture.md, rules). Nothing
here recurses over nodes, so a chain of a million nodes is as good as ten.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .dims import Dim
from .dims.constraints import ShapeConstraint
from .errors import VerificationError
from .op import Array, Fact, Op
from .types import TensorType, Type

# Operations that `parameters`, `results` and `sinks` list.
_ROOTS = frozenset({"Parameter", "TypedParameter", "Result", "Assign"})


class Value(NamedTuple):
    """One output of one node."""

    node: int
    port: int = 0


class Use(NamedTuple):
    """One use of a value: an input port of a node."""

    node: int
    port: int


@dataclass
class Node:
    """What a node carries. `types` and `known` have one entry per output once inferred."""

    op: Op
    name: str = ""
    # Where the node came from, for messages: "layer 4 'fc1', line 12" or "node 'MatMul_3'".
    origin: str = ""
    types: list[Type] = field(default_factory=list[Type])
    known: list[Array | None] = field(default_factory=list["Array | None"])
    names: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    # Names of the model's operations that this node computes, where rewrites merged several.
    sources: tuple[str, ...] = ()
    # rt_info of the XML layer, kept for the writer: (attribute name, version) -> other pairs.
    rt_info: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])


class Graph:
    """A dataflow graph with ordered parameters and results.

    `parameters`, `results` and `sinks` (nodes kept for their effects) hold node ids in the order
    in which a caller passes and receives them. `needs` is what the model takes for granted about
    its inputs' sizes, also in nodes that passes removed since
    (compiler/shape_analysis/unify_dims.py).
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.parameters: list[int] = []
        self.results: list[int] = []
        self.sinks: list[int] = []
        self.rt_info: dict[str, Any] = {}
        self.needs: tuple[ShapeConstraint, ...] = ()
        from networkx import MultiDiGraph  # not loaded where a stored plan runs

        self._bind(MultiDiGraph())
        self._next = 0
        self._order: list[int] | None = None

    def _bind(self, graph: Any) -> None:
        """Take a networkx graph as ours. Reading goes through its plain dicts: the views that
        networkx puts before them would be half of the compiler's time."""
        self._g = graph
        self._node: dict[int, dict[str, Node]] = graph._node
        self._pred: dict[int, dict[int, dict[int, dict[str, int]]]] = graph._pred
        self._succ: dict[int, dict[int, dict[int, dict[str, int]]]] = graph._succ
        # What nodes read, by port; no list ends with None.
        self._reads: dict[int, list[Value | None]] = {}
        # Ports that read a value, by their nodes, and how many there are: kept with every edge,
        # since listing the edges of a value once per reader is quadratic. Unread values have none.
        self._uses: dict[Value, dict[int, set[int]]] = {}
        self._use_counts: dict[Value, int] = {}

    def clear(self) -> None:
        """Drop every node of a graph that is not used again. Graphs are cycles of
        references: without this their constants stay until Python next looks for such cycles."""
        self._g.clear()
        self._reads.clear()
        self._uses.clear()
        self._use_counts.clear()
        self.parameters, self.results, self.sinks, self._order = [], [], [], None

    def __len__(self) -> int:
        return len(self._node)

    def __contains__(self, node: int) -> bool:
        return node in self._node

    # Building ---------------------------------------------------------------------------------

    def add(
        self,
        op: Op,
        inputs: Sequence[Value | None] = (),
        *,
        name: str = "",
        origin: str = "",
        names: Sequence[frozenset[str]] = (),
    ) -> int:
        """Add a node and return its id. `inputs` holds None where an optional input is absent."""
        node = self._next
        self._next += 1
        count = op.output_count()
        known: list[Array | None] = [None] * count
        listed = [*names, *[frozenset[str]()] * (count - len(names))]
        self._g.add_node(node, node=Node(op, name, origin, [], known, listed))
        self._reads[node] = []
        for port, value in enumerate(inputs):
            if value is not None:
                self._add_use(value, Use(node, port))
        if op.kind in ("Parameter", "TypedParameter"):
            self.parameters.append(node)
        elif op.kind == "Result":
            self.results.append(node)
        elif op.kind == "Assign":
            self.sinks.append(node)
        self._order = None
        return node

    def connect(self, value: Value, use: Use) -> None:
        """Make `use` read `value`, replacing what it read before."""
        reads = self._reads[use.node]
        before = reads[use.port] if use.port < len(reads) else None
        if before is not None:
            self._g.remove_edge(before.node, use.node, key=use.port)
            self._drop_use(before, use)
        self._add_use(value, use)
        self._order = None

    def remove(self, node: int) -> None:
        """Remove a node whose outputs have no uses."""
        if self.op(node).kind in _ROOTS:
            for roots in (self.parameters, self.results, self.sinks):
                if node in roots:
                    roots.remove(node)
        for port, value in enumerate(self._reads.pop(node)):
            if value is not None:
                self._drop_use(value, Use(node, port))
        self._g.remove_node(node)
        self._order = None

    def _add_use(self, value: Value, use: Use) -> None:
        """Add the edge of a use and count it."""
        self._g.add_edge(value.node, use.node, key=use.port, out=value.port)
        reads = self._reads[use.node]
        reads.extend([None] * (use.port + 1 - len(reads)))
        reads[use.port] = value = Value(*value)
        self._uses.setdefault(value, {}).setdefault(use.node, set()).add(use.port)
        self._use_counts[value] = self._use_counts.get(value, 0) + 1

    def _drop_use(self, value: Value, use: Use) -> None:
        """Take a use out of the counts; its edge is removed by the caller."""
        readers = self._uses[value]
        readers[use.node].remove(use.port)
        self._use_counts[value] -= 1
        if not readers[use.node]:
            del readers[use.node]
        if not readers:
            del self._uses[value], self._use_counts[value]

    # Reading ----------------------------------------------------------------------------------

    def node(self, node: int) -> Node:
        """The record of a node."""
        return self._node[node]["node"]

    def op(self, node: int) -> Op:
        """The operation of a node."""
        return self._node[node]["node"].op

    def ids(self) -> list[int]:
        """All node ids, ascending (not an execution order)."""
        return sorted(self._node)

    def inputs(self, node: int) -> list[Value | None]:
        """What a node reads, by port; None where an optional input is absent."""
        return list(self._reads[node])

    def input(self, node: int, port: int) -> Value:
        """The value at an input port that is known to be connected."""
        value = self._reads[node][port]
        assert value is not None
        return value

    def uses(self, value: Value) -> list[Use]:
        """All uses of a value, sorted. A rule that is tried at every reader of a value uses
        `use_count`, `only_reader` or `readers`, which list nothing."""
        listed = self._uses.get(value, {})
        return sorted(Use(node, port) for node, ports in listed.items() for port in ports)

    def use_count(self, value: Value) -> int:
        """The number of input ports that read a value."""
        return self._use_counts.get(value, 0)

    def readers(self, value: Value) -> KeysView[int]:
        """The nodes that read a value, each once, in no particular order."""
        return self._uses.get(value, {}).keys()

    def only_reader(self, value: Value) -> int | None:
        """The node that alone reads a value, at one port or several; None if there are others."""
        readers = self._uses.get(value, {})
        return next(iter(readers)) if len(readers) == 1 else None

    def only_use(self, value: Value) -> Use | None:
        """The one input port that reads a value; None if there are others."""
        if self.use_count(value) != 1:
            return None
        ((node, ports),) = self._uses[value].items()
        return Use(node, next(iter(ports)))

    def unread(self) -> list[int]:
        """Nodes whose outputs have no uses, ascending."""
        return sorted(n for n, readers in self._succ.items() if not readers)

    def kinds(self) -> set[str]:
        """The kinds of operations that there are."""
        return {data["node"].op.kind for data in self._node.values()}

    def nodes_of_kinds(self, kinds: Container[str]) -> set[int]:
        """The nodes whose operation is of one of these kinds."""
        return {n for n, data in self._node.items() if data["node"].op.kind in kinds}

    def has_uses(self, node: int) -> bool:
        """Whether any output of the node is read."""
        return bool(self._succ[node])

    def consumers(self, node: int) -> list[int]:
        """Nodes that read any output of the node, sorted."""
        return sorted(self._succ[node])

    def producers(self, node: int) -> list[int]:
        """Nodes that the node reads, sorted."""
        return sorted(self._pred[node])

    def needed_nodes(self, also: Iterable[int] = ()) -> set[int]:
        """Results, sinks and the nodes `also`, with all nodes that their values depend on."""
        needed: set[int] = set()
        pending = [*self.results, *self.sinks, *also]
        while pending:
            node = pending.pop()
            if node not in needed:
                needed.add(node)
                pending.extend(self._pred[node])
        return needed

    def type(self, value: Value) -> Type:
        """The type of a value; the graph has been inferred."""
        return self.node(value.node).types[value.port]

    def tensor(self, value: Value) -> TensorType:
        """The type of a value that is a tensor. VerificationError for another value."""
        type_ = self.type(value)
        if not isinstance(type_, TensorType):
            raise VerificationError("a tensor is needed here", got=str(type_))
        return type_

    def shape(self, value: Value) -> tuple[Dim, ...]:
        """The shape of a tensor of known rank. VerificationError for another value."""
        shape = self.tensor(value).shape
        if shape is None:
            raise VerificationError(
                "a tensor of known rank is needed here", got=str(self.type(value))
            )
        return shape

    def known_value(self, value: Value) -> Array | None:
        """The compile-time value, if there is one."""
        known = self.node(value.node).known
        return known[value.port] if value.port < len(known) else None

    def fact(self, value: Value | None) -> Fact | None:
        """Type and known value of an input, or None where it is absent."""
        return None if value is None else Fact(self.type(value), self.known_value(value))

    def values(self, node: int) -> Iterator[Value]:
        """The outputs of a node."""
        for port in range(self.op(node).output_count()):
            yield Value(node, port)

    def order(self) -> list[int]:
        """All nodes, producers first. The order depends on the graph's structure and its roots'
        order, not on the order of insertion: depth first from results and sinks; then what no
        root reaches, by id. Cycles are `verify`'s to report; here their nodes come out once."""
        if self._order is None:
            done: set[int] = set()
            order: list[int] = []
            ids = self.ids()
            rest = [n for n in ids if not self._succ[n]]
            for root in (*self.parameters, *self.results, *self.sinks, *rest, *ids):
                if root in done:
                    continue
                stack = [(root, iter(self._reads[root]))]
                done.add(root)
                while stack:
                    node, values = stack[-1]
                    for value in values:
                        if value is not None and value.node not in done:
                            done.add(value.node)
                            stack.append((value.node, iter(self._reads[value.node])))
                            break
                    else:
                        order.append(node)
                        stack.pop()
            self._order = order
        return list(self._order)

    def find_cycle(self) -> list[int]:
        """The nodes of one cycle in order, or an empty list."""
        import networkx as nx

        find_cycle: Any = nx.find_cycle  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        # networkx.find_cycle takes quadratic time in a graph without cycles.
        if nx.is_directed_acyclic_graph(self._g):
            return []
        edges: list[tuple[int, int, int]] = list(find_cycle(self._g))
        return [edge[0] for edge in edges]

    def copy(self) -> Graph:
        """A graph of its own that shares operations, types and constant data."""
        other = Graph(self.name)
        for i, data in self._g.nodes(data=True):
            n: Node = data["node"]
            twin = Node(n.op, n.name, n.origin, list(n.types), list(n.known), list(n.names))
            twin.rt_info, twin.sources = dict(n.rt_info), n.sources
            other._g.add_node(i, node=twin)
        other._g.add_edges_from(
            (u, v, k, dict(d)) for u, v, k, d in self._g.edges(keys=True, data=True)
        )
        other._reads = {node: list(values) for node, values in self._reads.items()}
        other._uses = {
            value: {node: set(ports) for node, ports in readers.items()}
            for value, readers in self._uses.items()
        }
        other._use_counts = dict(self._use_counts)
        other.parameters, other.results = list(self.parameters), list(self.results)
        other.sinks, other.rt_info = list(self.sinks), dict(self.rt_info)
        other.needs = self.needs
        other._next = self._next
        return other
