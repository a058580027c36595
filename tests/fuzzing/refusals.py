"""When native code may run what evaluation refuses: it does not compute what nobody asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from irc.ir.dim import Expr
from irc.ir.errors import Error
from irc.ir.graph import Graph, Value
from irc.ir.types import TensorType


def may_pass(graph: Graph, arrays: Sequence[Any], why: Error) -> bool:
    """Whether a run that gave these inputs and outputs may not have met the error."""
    empty = any(_is_empty(t) for n in graph.ids() for t in graph.node(n).types)
    if empty or any(isinstance(x, np.ndarray) and not x.size for x in arrays):
        return True  # what has no elements is not computed, and nothing is asked of what it needs
    if "auto_broadcast is none" in why.what:
        return True  # what native code broadcasts all the same, as where sizes are known late
    failed = [n for n in graph.ids() if _place(graph, n) == why.where]
    return len(failed) == 1 and _is_read_by_shape(graph, failed[0]) and _is_late(graph, failed[0])


def _place(graph: Graph, node: int) -> str:
    """A node as errors of evaluation name it."""
    record = graph.node(node)
    return record.origin or f"{record.op.kind} {record.name!r}"


def _is_empty(type_: Any) -> bool:
    return isinstance(type_, TensorType) and type_.shape is not None and 0 in type_.shape


def _is_read_by_shape(graph: Graph, node: int) -> bool:
    """Whether no result needs more than the shape of what a node gives: it is never computed."""
    pending = [node]
    while pending:
        at = pending.pop()
        if graph.op(at).kind == "Result":
            return False
        if graph.op(at).kind != "ShapeOf":
            pending += [n for n in graph.ids() if any(v and v.node == at for v in graph.inputs(n))]
    return True


def _is_late(graph: Graph, node: int) -> bool:
    """Whether sizes of a node's inputs follow from data: those of the graph's inputs are checked
    before a run, whoever reads them."""
    early = {s for p in graph.parameters for s in _symbols(graph, Value(p))}
    return any(_symbols(graph, v) - early for v in graph.inputs(node) if v is not None)


def _symbols(graph: Graph, value: Value) -> set[Any]:
    found = graph.type(value)
    shape = found.shape if isinstance(found, TensorType) else ()
    return {s for d in shape or () if isinstance(d, Expr) for s in d.symbols()}
