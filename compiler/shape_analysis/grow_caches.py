"""Store variables that grow by Concat so that new rows are appended where the others stay.

A key-value cache is ReadValue -> (Gather by beam_idx ->) Concat along an axis -> Assign. It is
stored with that axis first: a longer value then begins with the bytes of the shorter one, and the
runtime appends to memory with room (runtime/execution/variables.py). ReadCache replaces
ReadValue and Gather; identical indices cost nothing.

Variables whose initial values have one length and that grow by one length always have one length,
by induction over the runs: they share a symbol. A request whose caller sets one of them to another
length is refused by the run.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from ...ir.dims import Dim
from ...ir.dtype import DType
from ...ir.graph import Graph, Use, Value
from ...ir.infer import infer_graph
from ...ir.lazy_dataclass import dataclass
from ...ir.ops import (
    Assign,
    Concat,
    Constant,
    Gather,
    Parameter,
    ReadCache,
    ReadValue,
    Transpose,
)
from ...ir.types import TensorType

_INDICES = frozenset({DType.i32, DType.i64})


@dataclass(frozen=True)
class _GrowingVariable:
    """The nodes of one variable that grows: `past` is what the Concat reads, `rows` the indices
    that choose it (None: all in order). batch_axis: of the variable, where there are rows."""

    read: int
    past: Value
    rows: Value | None
    batch_axis: int
    concat: int
    axis: int
    assign: int
    fresh: Value


def grow_caches(graph: Graph) -> Graph:
    """Rewrite the variables that grow, in place, and infer the graph again. Returns the graph."""
    assigns = {n: graph.op(n) for n in graph.sinks}
    reads: dict[str, list[int]] = {}
    for node in graph.order():
        op = graph.op(node)
        if isinstance(op, ReadValue):
            reads.setdefault(op.variable_id, []).append(node)
    written = Counter(op.variable_id for op in assigns.values() if isinstance(op, Assign))
    found: list[_GrowingVariable] = []
    for node, op in assigns.items():
        if isinstance(op, Assign) and written[op.variable_id] == 1:
            listed = reads.get(op.variable_id, [])
            matched = _match(graph, node, listed[0]) if len(listed) == 1 else None
            if matched is not None:
                found.append(matched)
    if not found:
        return graph
    numbers: dict[tuple[Dim, Dim], int] = {}
    for variable in found:
        number = numbers.setdefault(_sizes(graph, variable), len(numbers))
        _rewrite(graph, variable, f"_past{number}")
    infer_graph(graph)
    return graph


def _shape(graph: Graph, value: Value) -> tuple[Dim, ...] | None:
    type_ = graph.type(value)
    return type_.shape if isinstance(type_, TensorType) else None


def _sizes(graph: Graph, variable: _GrowingVariable) -> tuple[Dim, Dim]:
    """The length of the initial value, and of what a run appends."""
    first = _shape(graph, graph.input(variable.read, 0))
    fresh = _shape(graph, variable.fresh)
    assert first is not None and fresh is not None
    return first[variable.axis], fresh[variable.axis]


def _match(graph: Graph, assign: int, read: int) -> _GrowingVariable | None:
    """The variable that this node assigns, if it is what the read gives and rows behind it."""
    if not graph.inputs(read) or type(graph.op(read)) is not ReadValue:
        return None
    grown = graph.input(assign, 0)
    op, inputs = graph.op(grown.node), graph.inputs(grown.node)
    declared = graph.op(read)
    assert isinstance(declared, ReadValue)
    if not isinstance(op, Concat) or len(inputs) != 2 or None in inputs:
        return None
    made = graph.type(graph.input(read, 0))
    if not isinstance(made, TensorType) or declared.variable_type not in (
        DType.dynamic,
        made.dtype,
    ):
        return None
    past, fresh = graph.input(grown.node, 0), graph.input(grown.node, 1)
    first, appended = _shape(graph, graph.input(read, 0)), _shape(graph, fresh)
    if first is None or appended is None or len(first) != len(appended):
        return None
    axis = op.axis + len(first) if op.axis < 0 else op.axis
    if past.node == read:
        return _GrowingVariable(read, past, None, 0, grown.node, axis, assign, fresh)
    rows = _match_rows(graph, past, read, len(first))
    if rows is None or rows[1] == axis:
        return None
    return _GrowingVariable(read, past, rows[0], rows[1], grown.node, axis, assign, fresh)


def _match_rows(graph: Graph, past: Value, read: int, rank: int) -> tuple[Value, int] | None:
    """(indices, axis) of the Gather that alone reads the variable, by an input of the model."""
    op = graph.op(past.node)
    if not isinstance(op, Gather) or op.batch_dims != 0 or op.out_of_range != "zeros":
        return None
    source, indices = graph.input(past.node, 0), graph.input(past.node, 1)
    axis = graph.known_value(graph.input(past.node, 2))
    type_ = graph.type(indices)
    if source.node != read or graph.use_count(source) != 1 or axis is None or axis.size != 1:
        return None
    if not isinstance(graph.op(indices.node), Parameter) or not isinstance(type_, TensorType):
        return None
    if type_.rank != 1 or type_.dtype not in _INDICES or not isinstance(axis.flat[0], np.integer):
        return None
    return indices, int(axis.flat[0]) % rank


def _rewrite(graph: Graph, variable: _GrowingVariable, length: str) -> None:
    """Store the variable with the axis that grows first."""
    read, concat = graph.node(variable.read), graph.node(variable.concat)
    assert isinstance(read.op, ReadValue)
    first = graph.input(variable.read, 0)
    rank = len(_shape(graph, first) or ())
    axes = [variable.axis, *(a for a in range(rank) if a != variable.axis)]
    back = [axes.index(a) for a in range(rank)]

    def turn(value: Value, order: list[int]) -> Value:
        if order == sorted(order):
            return value
        given = graph.add(Constant.of(np.array(order, np.int64), DType.i64))
        return Value(graph.add(Transpose(), [value, Value(given)], name=read.name))

    op = ReadCache(
        read.op.variable_id,
        read.op.variable_type,
        read.op.variable_shape,
        tuple(axes),
        length,
        axes.index(variable.batch_axis),
    )
    rows = [] if variable.rows is None else [variable.rows]
    cache = Value(graph.add(op, [turn(first, axes), *rows], name=read.name, origin=read.origin))
    past_uses = [u for u in graph.uses(variable.past) if u.node != variable.concat]
    grown_uses = [u for u in graph.uses(Value(variable.concat)) if u.node != variable.assign]
    grown_uses += graph.uses(Value(variable.assign))
    grown = Value(
        graph.add(
            Concat(0), [cache, turn(variable.fresh, axes)], name=concat.name, origin=concat.origin
        )
    )
    graph.node(grown.node).names = list(concat.names)
    graph.connect(grown, Use(variable.assign, 0))
    # A Result keeps its tensor's names, which are the turned value's.
    turned = turn(grown, back) if grown_uses else grown
    for use in grown_uses:
        graph.connect(turned, use)
    past = turn(cache, back) if past_uses else cache
    for use in past_uses:
        graph.connect(past, use)
    graph.remove(variable.concat)
    if variable.past.node != variable.read:
        graph.remove(variable.past.node)
    graph.remove(variable.read)
