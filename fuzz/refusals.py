"""When native code may run what evaluation refuses: it does not compute what nobody asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
from irc_compiler.ir.dims import Expr, eq, evaluate, plain_symbol
from irc_compiler.ir.errors import Error, ShapeError
from irc_compiler.ir.graph import Graph, Value
from irc_compiler.ir.op import Op
from irc_compiler.ir.ops import If, MaxPool8, Pad
from irc_compiler.ir.types import TensorType

# Inputs of which an operation reads the shape or the type only.
_ELEMENTS_UNREAD: dict[str, tuple[int, ...]] = {"ShapeOf": (0,), "ConvertLike": (1,)}


def may_pass(graph: Graph, inputs: Sequence[Any], given: Sequence[Any], why: Error) -> bool:
    """Whether a run of these inputs that gave these outputs may not have met the error: what failed
    is read by nobody, but for its shape or type, or by what has no elements. What does not fit in
    size has to be refused all the same where the inputs tell the sizes."""
    failed = [n for n in graph.ids() if why.where in _places(graph, n)]
    if len(failed) != 1:
        return False
    late = _is_late(graph, failed[0])
    if late and "auto_broadcast is none" in why.what:
        return True  # what native code broadcasts all the same where sizes are known late
    # The shape of what elements are taken from an empty axis is known.
    removed = late or not isinstance(why, ShapeError) or "an empty axis" in why.what
    starts = [Value(failed[0], port) for port in range(len(graph.node(failed[0]).types))]
    asking = _results_of(graph, starts, sizes_of(graph, inputs), all_=not removed)
    results = dict(zip(graph.results, given, strict=True))
    return not any(getattr(results[node], "size", 1) for node in asking)


def _results_of(
    graph: Graph, starts: Sequence[Value], sizes: Mapping[str, int], *, all_: bool
) -> set[int]:
    """The results that are computed from the elements of values, where these have any; from
    anything of them, their shapes and types too, with `all_`."""
    pending, seen = list(starts), set[Value]()
    while pending:
        value = pending.pop()
        if value in seen or is_empty(graph.type(value), sizes):
            continue
        seen.add(value)
        for use in graph.uses(value):
            if all_ or use.port not in _unread(graph, use.node):
                plain = () if all_ else _of_shapes(graph.op(use.node))
                ports = range(len(graph.node(use.node).types))
                pending += [Value(use.node, port) for port in ports if port not in plain]
    return {value.node for value in seen if value.node in graph.results}


def _is_read(graph: Graph, node: int, op: Pad) -> bool:
    """Whether a Pad may read its value: it pads by constants, somewhere."""
    pads = [graph.known_value(graph.input(node, port)) for port in (1, 2)]
    added = any(p is None or not all(eq(n, 0) for n in p.reshape(-1).tolist()) for p in pads)
    return op.pad_mode == "constant" and added


def _of_shapes(op: Op) -> tuple[int, ...]:
    """The outputs that follow from the shapes of an operation's inputs: where the maxima of
    windows of one element are."""
    alone = isinstance(op, MaxPool8) and prod(op.kernel) == 1
    return (1,) if alone else ()


def _unread(graph: Graph, node: int) -> tuple[int, ...]:
    """The input ports of an operation whose elements it does not read: of an If those that a
    branch which may run (all but the other one of a constant condition) has no use for."""
    op = graph.op(node)
    if isinstance(op, Pad) and not _is_read(graph, node, op):
        return (3,)
    if not isinstance(op, If):
        return _ELEMENTS_UNREAD.get(op.kind, ())
    known = graph.known_value(graph.input(node, 0))
    sides = [(op.then_body, op.then_inputs), (op.else_body, op.else_inputs)]
    if known is not None:
        sides = sides[:1] if known.reshape(-1)[0] else sides[1:]
    used = {0}
    for body, ports in sides:
        pairs = zip(body.parameters, ports, strict=True)
        used |= {port for p, port in pairs if _results_of(body, [Value(p)], {}, all_=False)}
    return tuple(set(range(len(graph.inputs(node)))) - used)


def _places(graph: Graph, node: int) -> list[str]:
    """A node and those of its bodies as errors of evaluation name them."""
    record = graph.node(node)
    inner = [p for body in record.op.bodies() for n in body.ids() for p in _places(body, n)]
    return [record.origin or f"{record.op.kind} {record.name!r}", *inner]


def sizes_of(graph: Graph, inputs: Sequence[Any]) -> dict[str, int]:
    """The sizes that inputs give to symbols."""
    found: dict[str, int] = {}
    for node, array in zip(graph.parameters, inputs, strict=True):
        type_ = graph.node(node).types[0]
        if isinstance(type_, TensorType) and type_.shape is not None:
            for dim, size in zip(type_.shape, np.shape(array), strict=True):
                symbol = plain_symbol(dim)
                if symbol is not None:
                    found[symbol.name] = int(size)
    return found


def is_empty(type_: Any, sizes: Mapping[str, int]) -> bool:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return False
    return any(size_of(d, sizes) == 0 for d in type_.shape)


def size_of(dim: Any, sizes: Mapping[str, int]) -> int | None:
    """A size as a number; None where it follows from data."""
    try:
        return evaluate(dim, sizes)
    except ShapeError:
        return None


def _is_late(graph: Graph, node: int) -> bool:
    """Whether sizes of a node's inputs follow from data, or how many axes they have is seen when
    it runs: sizes of the graph's inputs are checked before a run, for all their consumers."""
    early = {s for p in graph.parameters for s in _symbols(graph, Value(p))}
    inputs = [v for v in graph.inputs(node) if v is not None]
    unknown = any(getattr(graph.type(v), "shape", ()) is None for v in inputs)
    return unknown or any(_symbols(graph, v) - early for v in inputs)


def _symbols(graph: Graph, value: Value) -> set[Any]:
    found = graph.type(value)
    shape = found.shape if isinstance(found, TensorType) else ()
    return {s for d in shape or () if isinstance(d, Expr) for s in d.symbols()}
