"""Operations with graphs inside (control flow) as JSON and back; dataclass_json.py does all others.

Nodes are listed producers first and named by their index in the list. Constants' arrays are
elsewhere: `keep` takes one and returns its number, `array` returns it by that number. Reading
trusts nothing: VerificationError for anything that is not the text of a graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from ..dtype import DType
from ..errors import Error, VerificationError
from ..graph import Graph, Value
from ..infer import infer_graph
from ..op import Array, Op
from ..ops import Constant, find_exact
from .dataclass_json import decode, decoder, encode, invalid_data_error

Keep: TypeAlias = Callable[[Array, DType], int]
Arrays: TypeAlias = Callable[[int, DType, tuple[int, ...]], Array]

_inputs = decoder(tuple[tuple[int, int] | None, ...])
_names = decoder(tuple[tuple[str, ...], ...])
_numbers = decoder(tuple[int, ...])
_shape = decoder(tuple[int, ...])


def encode_op(op: Op, keep: Keep) -> Any:
    """JSON that decode_op reads."""
    if isinstance(op, Constant):
        sizes = [int(d) for d in op.data.shape]
        return {
            "$": "Constant",
            "dtype": op.dtype.value,
            "shape": sizes,
            "source": keep(op.data, op.dtype),
        }
    if not op.bodies():
        return encode(op)
    fields = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
    graphs = {n: encode_graph(v, keep) for n, v in fields.items() if isinstance(v, Graph)}
    plain = {n: encode(v) for n, v in fields.items() if n not in graphs}
    return {"$": f"{op.kind}.{op.version}", **plain, **graphs}


def encode_graph(graph: Graph, keep: Keep) -> Any:
    """JSON that decode_graph reads."""
    order = graph.order()
    number = {node: i for i, node in enumerate(order)}
    nodes: list[Any] = []
    for node in order:
        record = graph.node(node)
        inputs = [None if v is None else [number[v.node], v.port] for v in graph.inputs(node)]
        names = [sorted(given) for given in record.names]
        nodes.append([encode_op(record.op, keep), inputs, record.name, names])
    roots = (graph.parameters, graph.results, graph.sinks)
    return [graph.name, nodes, *([number[n] for n in listed] for listed in roots)]


def decode_op(data: Any, array: Arrays) -> Op:
    """The operation that encode_op wrote."""
    fields = cast("dict[str, Any]", data) if type(data) is dict else {}
    name = fields.get("$")
    if name == "Constant":
        return _constant(fields, array)
    kind, _, version = name.rpartition(".") if type(name) is str else ("", "", "")
    short = version.isdecimal() and len(version) < 9
    cls = find_exact(kind, int(version)) if short else None
    graphs = {a.name for a in cls.attributes() if a.annotation is Graph} if cls else set[str]()
    if cls is None or not graphs:
        return cast(Op, decode(Op, data))
    attributes = {a.name: a.annotation for a in cls.attributes()}
    if name != f"{cls.kind}.{cls.version}" or set(fields) != {"$", *attributes}:
        raise invalid_data_error(sorted(fields), f"the fields of {cls.kind}")
    values = {
        n: decode_graph(fields[n], array) if n in graphs else decode(annotation, fields[n])
        for n, annotation in attributes.items()
    }
    return cls(**values)


def _constant(fields: dict[str, Any], array: Arrays) -> Constant:
    if set(fields) != {"$", "dtype", "shape", "source"}:
        raise invalid_data_error(sorted(fields), "a constant")
    dtype, shape = decode(DType, fields["dtype"]), _shape(fields["shape"])
    return Constant(array(decode(int, fields["source"]), dtype, shape), dtype, shape)


def decode_graph(data: Any, array: Arrays) -> Graph:
    """The graph that encode_graph wrote, inferred."""
    parts = cast("list[Any]", data) if type(data) is list else []
    if len(parts) != 5 or type(parts[1]) is not list:
        raise invalid_data_error(data, "a graph's 5 parts")
    graph = Graph(decode(str, parts[0]))
    for entry in cast("list[Any]", parts[1]):
        listed = cast("list[Any]", entry) if type(entry) is list else []
        if len(listed) != 4:
            raise invalid_data_error(entry, "a node's 4 parts")
        _add(graph, listed, array)
    roots = [list(_numbers(part)) for part in parts[2:]]
    for given, found in zip(roots, (graph.parameters, graph.results, graph.sinks), strict=True):
        if sorted(given) != sorted(found):
            raise invalid_data_error(given, found)
        found[:] = given
    try:
        infer_graph(graph)
    except (Error, ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise VerificationError("a stored graph is broken", got=str(error)[:300]) from error
    return graph


def _add(graph: Graph, parts: list[Any], array: Arrays) -> None:
    op = decode_op(parts[0], array)
    inputs = [None if v is None else Value(*v) for v in _inputs(parts[1])]
    for value in inputs:
        # Producers come first, so there is no cycle.
        known = value is None or (
            0 <= value.node < len(graph) and 0 <= value.port < graph.op(value.node).output_count()
        )
        if not known:
            raise invalid_data_error(value, "an output of an earlier node")
    names = [frozenset(given) for given in _names(parts[3])]
    if len(names) != op.output_count():
        raise invalid_data_error(parts[3], f"names of {op.output_count()} outputs")
    graph.add(op, inputs, name=decode(str, parts[2]), names=names)
