"""Checks that hold for every graph between passes: valid in, valid out."""

from __future__ import annotations

from .dims import Expr, eq
from .errors import Error, ModelFormatError, VerificationError
from .graph import Graph, Node
from .infer import infer_node, locate_error
from .op import Array
from .types import compatible


def verify(graph: Graph) -> None:
    """Raise where the graph breaks an invariant.

    ModelFormatError: a cycle (its path is printed). VerificationError: an edge from an output
    that does not exist, a missing or surplus input, stored types or known values that contradict
    inference, or lists of parameters, results and sinks that are not the graph's.
    """
    cycle = graph.find_cycle()
    if cycle:
        path = " -> ".join(graph.node(n).name or f"#{n}" for n in [*cycle, cycle[0]])
        raise ModelFormatError("the graph has a cycle", got=path, expected="no cycle")
    for node in graph.order():
        record = graph.node(node)
        _check_inputs(graph, node, record)
        _check_facts(graph, node, record)
        for body in record.op.bodies():
            verify(body)
    roots = (
        (("Parameter", "TypedParameter"), graph.parameters),
        (("Result",), graph.results),
        (("Assign",), graph.sinks),
    )
    for kinds, listed in roots:
        present = [n for n in graph.ids() if graph.op(n).kind in kinds]
        if sorted(listed) != present:
            what = f"the list of {kinds[0]}s is wrong"
            raise VerificationError(what, got=listed, expected=present)


def _check_inputs(graph: Graph, node: int, record: Node) -> None:
    inputs = graph.inputs(node)
    for value in inputs:
        if value is not None and value.port >= graph.op(value.node).output_count():
            raise VerificationError(
                "an edge leaves from an output that does not exist",
                where=_describe_node(record),
                got=f"output {value.port} of {graph.op(value.node).kind}",
            )
    try:
        record.op.slots(list(inputs))
    except Error as error:
        raise locate_error(error, record) from error


def _check_facts(graph: Graph, node: int, record: Node) -> None:
    """Infer the node again and compare; the stored facts stay."""
    count = record.op.output_count()
    if len(record.types) != count or len(record.known) != count or len(record.names) != count:
        raise VerificationError("types are not inferred", where=_describe_node(record))
    stored, known = list(record.types), list(record.known)
    infer_node(graph, node)
    for before, after in zip(stored, record.types, strict=True):
        if not compatible(before, after):
            raise VerificationError(
                "a stored type contradicts inference",
                where=_describe_node(record),
                got=before,
                expected=after,
            )
    for old, new in zip(known, record.known, strict=True):
        if old is not None and not _may_be_equal(old, new):
            raise VerificationError(
                "a known value contradicts inference",
                where=_describe_node(record),
                got=str(old)[:200],
                expected=str(new)[:200],
            )
    record.types, record.known = stored, known


def _may_be_equal(old: Array, new: Array | None) -> bool:
    """Whether two known values may be the same."""
    if old is new:
        return True
    if new is None or old.shape != new.shape:
        return False
    pairs = zip(old.reshape(-1).tolist(), new.reshape(-1).tolist(), strict=True)
    return all(
        eq(a, b) is not False if _size(a) or _size(b) else a == b or (a != a and b != b)
        for a, b in pairs
    )


def _size(value: object) -> bool:
    return isinstance(value, Expr)


def _describe_node(record: Node) -> str:
    return record.origin or f"{record.op.kind} {record.name!r}"
