"""Writes the nodes of one graph, or of a body, by the tables of ops/ or decomposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ....ir.graph import Graph, Value
from ....ir.ops import Assign, Constant, ReadValue
from .context import ExportContext
from .fallback import decompose_node
from .ops import find_exporter
from .scope import GraphScope
from .states import write_variable

# Decompositions of what a decomposition made: more than any table needs.
_MAX_DEPTH = 6
_PARAMETERS = ("Parameter", "TypedParameter")


def write_graph(
    scope: GraphScope, graph: Graph, names: dict[Value, str], wanted: Mapping[Value, str]
) -> None:
    """Write every node that results need. `names` holds the parameters' names and takes those
    of all values; `wanted` says which values have a name of the caller's choice."""
    needed = graph.needed_nodes()
    for node in graph.order():
        if node in needed and graph.op(node).kind not in (*_PARAMETERS, "Result"):
            _write_node(scope, graph, node, names, wanted, 0)


def _write_node(
    scope: GraphScope,
    graph: Graph,
    node: int,
    names: dict[Value, str],
    wanted: Mapping[Value, str],
    depth: int,
) -> None:
    record = graph.node(node)
    op = record.op
    if isinstance(op, Constant):
        name = wanted.get(Value(node)) or _first_name(graph, Value(node))
        where = record.origin or record.name
        names[Value(node)] = scope.initializer(op.data, op.dtype, where, name)
        return
    if isinstance(op, ReadValue | Assign):
        write_variable(scope, graph, node, names)
        return
    inputs = [None if v is None else names[v] for v in graph.inputs(node)]
    context = ExportContext(scope, graph, node, inputs, decomposed=depth > 0)
    exporter = find_exporter(op)
    made = None if exporter is None else exporter(context)
    if made is None:
        made = _write_decomposed(scope, context, depth)
    _bind(scope, context, [made] if isinstance(made, str) else list(made), names, wanted)


def _write_decomposed(scope: GraphScope, n: ExportContext, depth: int) -> Sequence[str]:
    """The names of a node's outputs, written by operations that together compute it."""
    if depth >= _MAX_DEPTH:
        raise n.error("its parts are not ONNX's either")
    found = decompose_node(n)
    if found is None:
        raise n.error("neither an operator nor a composition of operators computes it")
    inner = {Value(p): n.input(port) for p, port in found.parameters.items()}
    for node in found.graph.order():
        if found.graph.op(node).kind not in (*_PARAMETERS, "Result"):
            _write_node(scope, found.graph, node, inner, {}, depth + 1)
    n.made = []
    return [inner[found.graph.input(r, 0)] for r in found.graph.results]


def _bind(
    scope: GraphScope,
    n: ExportContext,
    made: Sequence[str],
    names: dict[Value, str],
    wanted: Mapping[Value, str],
) -> None:
    """Give a node's outputs the names that the model has for them."""
    renamed: dict[str, str] = {}
    produced = {name for node in n.made for name in node.output}
    for port, name in enumerate(made):
        value = Value(n.node, port)
        chosen = wanted.get(value)
        if name in produced and name not in renamed:
            base = _first_name(n.graph, value)
            chosen = chosen or (scope.model.unique(base) if base else name)
            renamed[name] = chosen
            names[value] = chosen
        elif chosen is not None:
            scope.copy(renamed.get(name, name), chosen)
            names[value] = chosen
        else:
            names[value] = renamed.get(name, name)
    for node in n.made:
        for port, name in enumerate(node.input):
            node.input[port] = renamed.get(name, name)
        for port, name in enumerate(node.output):
            node.output[port] = renamed.get(name, name)


def _first_name(graph: Graph, value: Value) -> str:
    """A value's tensor name, or its node's name; empty where it has none."""
    record = graph.node(value.node)
    listed = sorted(record.names[value.port]) if value.port < len(record.names) else []
    if listed:
        return listed[0]
    if not record.name:
        return ""
    return record.name if record.op.output_count() == 1 else f"{record.name}:{value.port}"
