"""Branches that cannot work with the sizes they would be given.

Exporters write `if a size is 1, squeeze that axis`, and what follows takes one rank only: of such
an If one branch is all that ever works. Which one is found out by inference as if it were taken.
The other branch becomes one that fails: it has no say in the types, and taking it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...ir.errors import Error, ShapeError
from ...ir.graph import Graph
from ...ir.infer import infer_node
from ...ir.ops import If
from ...ir.ops.control_flow.conditional import build_failing_body, failure, fed_body
from ...ir.ops.shape_inference import naming
from ...ir.types import TensorType, Type
from ..rewrite.engine import remove_dead

_NAMES = ("t", "e")


class UnprovenError(ShapeError):
    """A loop's body refuses its sizes: that it ever runs is not known."""


def specialize_branches(graph: Graph, start: int | None = None) -> Graph:
    """Infer a graph (from node `start` on), where branches that refuse their sizes become ones that
    fail, in place. Returns the graph.

    ShapeError where a node that always runs refuses its inputs, or both branches of an If do.
    """
    order = graph.order()
    for node in order[order.index(start) if start is not None else 0 :]:
        op = graph.op(node)
        if isinstance(op, If):
            _specialize_branches(graph, node, op)
        try:
            infer_node(graph, node)
        except ShapeError as error:
            if op.bodies() and not isinstance(op, If):
                raise UnprovenError(
                    error.what, where=error.where, got=error.got, expected=error.expected
                ) from error
            raise
    return graph


def replace_branch_by_fail(op: If, branch: int, types: Sequence[Type], why: str) -> If | None:
    """The If whose branch (0: then, 1: else) fails. None where it has results that are not
    tensors."""
    tensors = [t for t in types if isinstance(t, TensorType)]
    if len(tensors) < len(types):
        return None
    body, outputs = build_failing_body(tensors, why), tuple(range(len(tensors)))
    if branch == 0:
        return replace(op, then_body=body, then_inputs=(), then_outputs=outputs)
    return replace(op, else_body=body, else_inputs=(), else_outputs=outputs)


def reason(error: Error) -> str:
    """What a branch fails with that refuses its sizes with this error."""
    return "this branch cannot work with its sizes: " + " ".join(str(error).split())


def _specialize_branches(graph: Graph, node: int, op: If) -> None:
    """Give an If bodies whose shapes are resolved; one that refuses its sizes fails from now on."""
    facts, types = [graph.fact(v) for v in graph.inputs(node)], graph.node(node).types
    known = graph.known_value(graph.input(node, 0))
    taken = None if known is None else bool(np.asarray(known).reshape(-1)[0])
    ways = [branch for branch in (0, 1) if taken is not (branch == 1)]
    with naming(str(node)):
        given = op.body_types(facts)
    specialized: If = op
    error: ShapeError | None = None
    for branch in ways:
        if failure(op.bodies()[branch]) is not None:
            continue
        fresh = fed_body(op.bodies()[branch], given[branch])
        remove_dead(fresh, fresh.unread())  # dead nodes impose no constraint
        try:
            with naming(str(node)), naming(_NAMES[branch]):
                specialize_branches(fresh)
        except UnprovenError:
            raise
        except ShapeError as found:
            error = found
            less = replace_branch_by_fail(specialized, branch, types, reason(found))
            if less is None:
                raise
            specialized = less
            continue
        bodies = [fresh if n == branch else body for n, body in enumerate(specialized.bodies())]
        made = specialized.with_bodies(bodies)
        assert isinstance(made, If)
        specialized = made
    if error is not None and all(failure(specialized.bodies()[branch]) for branch in ways):
        raise error
    graph.node(node).op = specialized
