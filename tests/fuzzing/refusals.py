"""When native code may run what evaluation refuses: it does not compute what nobody asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from irc.ir.dim import Expr, evaluate, plain_symbol
from irc.ir.errors import Error, ShapeError
from irc.ir.graph import Graph, Value
from irc.ir.ops import If
from irc.ir.types import TensorType

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
    removed = late or not isinstance(why, ShapeError)
    sizes = sizes_of(graph, inputs)
    results = dict(zip(graph.results, given, strict=True))
    pending, seen = [failed[0]], set[int]()
    while pending:
        at = pending.pop()
        if at in seen or all(is_empty(t, sizes) for t in graph.node(at).types):
            continue
        seen.add(at)
        if at in results:
            if getattr(results[at], "size", 1):
                return False
        else:
            pending += [n for n in graph.ids() if at in _computed_from(graph, n, all_=not removed)]
    return True


def _computed_from(graph: Graph, node: int, *, all_: bool) -> set[int]:
    """The nodes that an operation reads, or whose elements it reads unless `all_`."""
    ports = () if all_ else _unread(graph, node)
    return {v.node for i, v in enumerate(graph.inputs(node)) if v and i not in ports}


def _unread(graph: Graph, node: int) -> tuple[int, ...]:
    """The input ports of an operation whose elements it does not read: of an If those that a
    branch which may run (all but the other one of a constant condition) has no use for."""
    op = graph.op(node)
    if not isinstance(op, If):
        return _ELEMENTS_UNREAD.get(op.kind, ())
    known = graph.known(graph.input(node, 0))
    sides = [(op.then_body, op.then_inputs), (op.else_body, op.else_inputs)]
    if known is not None:
        sides = sides[:1] if known.reshape(-1)[0] else sides[1:]
    used = {0}
    for body, ports in sides:
        used |= {port for p, port in zip(body.parameters, ports, strict=True) if _is_used(body, p)}
    return tuple(set(range(len(graph.inputs(node)))) - used)


def _is_used(body: Graph, parameter: int) -> bool:
    """Whether a result is computed from the elements of a parameter."""
    pending, seen = [parameter], set[int]()
    while pending:
        at = pending.pop()
        if at in body.results:
            return True
        if at not in seen:
            seen.add(at)
            pending += [n for n in body.ids() if at in _computed_from(body, n, all_=False)]
    return False


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
    it runs: sizes of the graph's inputs are checked before a run, whoever reads them."""
    early = {s for p in graph.parameters for s in _symbols(graph, Value(p))}
    inputs = [v for v in graph.inputs(node) if v is not None]
    unknown = any(getattr(graph.type(v), "shape", ()) is None for v in inputs)
    return unknown or any(_symbols(graph, v) - early for v in inputs)


def _symbols(graph: Graph, value: Value) -> set[Any]:
    found = graph.type(value)
    shape = found.shape if isinstance(found, TensorType) else ()
    return {s for d in shape or () if isinstance(d, Expr) for s in d.symbols()}
