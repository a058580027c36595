"""Checks that hold for every graph between passes: valid in, valid out."""

from __future__ import annotations

from .errors import Error, ModelFormatError, VerificationError
from .graph import Graph
from .infer import infer_node, located
from .types import compatible


def verify(graph: Graph) -> None:
    """Raise where the graph breaks an invariant.

    ModelFormatError: a cycle (its path is printed). VerificationError: an edge from an output
    that does not exist, a missing or surplus input, or stored types that contradict inference.
    """
    cycle = graph.find_cycle()
    if cycle:
        path = " -> ".join(graph.node(n).name or f"#{n}" for n in [*cycle, cycle[0]])
        raise ModelFormatError("the graph has a cycle", got=path, expected="no cycle")
    for node in graph.order():
        record = graph.node(node)
        where = record.origin or f"{record.op.kind} {record.name!r}"
        for value in graph.inputs(node):
            if value is not None and value.port >= graph.op(value.node).output_count():
                raise VerificationError(
                    "an edge leaves from an output that does not exist",
                    where=where,
                    got=f"output {value.port} of {graph.op(value.node).kind}",
                )
        try:
            record.op.slots(list(graph.inputs(node)))
        except Error as error:
            raise located(error, record) from error
        if len(record.types) != record.op.output_count():
            raise VerificationError("types are not inferred", where=where)
        stored, known = list(record.types), list(record.known)
        infer_node(graph, node)
        for before, after in zip(stored, record.types, strict=True):
            if not compatible(before, after):
                raise VerificationError(
                    "a stored type contradicts inference", where=where, got=before, expected=after
                )
        record.types, record.known = stored, known
        for body in record.op.bodies():
            verify(body)
    for kind, listed in (("Parameter", graph.parameters), ("Result", graph.results)):
        present = [n for n in graph.ids() if graph.op(n).kind == kind]
        if sorted(listed) != present:
            raise VerificationError(f"the list of {kind}s is wrong", got=listed, expected=present)
