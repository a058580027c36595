"""Graphs as text, one line per node, and back: for goldens, tests and dumps.

    graph "mlp"
    %0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x" : f32[N, 3]
    %1 = Constant.1() {data=[1, 2, 3], dtype=f32, shape=[3, 1]} : f32[3, 1]
    %2 = MatMul.1(%0, %1) {transpose_a=false, transpose_b=false} "mm" names=y : f32[N, 1]
    %3 = Result.1(%2) "out"

Nodes are numbered in execution order, so the text does not depend on history. A second output is
`%2:1`, an absent input `_`. The names of several outputs are separated by bars: `names=a,b||c`.
Constants of more than 16 elements print a digest instead of their data; when parsing, `data=~7`
denotes small integers drawn from seed 7. Bodies of control flow follow their node, two
spaces further in, one `graph` each. Line comments begin with `//`.
"""

from __future__ import annotations

import json
import re

from ..errors import Error, ModelFormatError
from ..graph import Graph, Value
from ..infer import infer_node
from ..op import Op
from ..ops import find_exact
from .value_text import read_attributes, read_names, read_op, show_attributes, show_names

__all__ = ["parse_graph", "print_graph"]

_STRING = r"\"(?:[^\"\\]|\\.)*\""
_NODE = re.compile(r"%(?P<id>\d+) = (?P<kind>[\w-]+)\.(?P<version>\d+)\((?P<inputs>[^)]*)\)")
_TAIL = re.compile(rf"(?: (?P<name>{_STRING}))?(?: names=(?P<names>\S+))?(?: : (?P<types>.*))?$")
_HEAD = re.compile(rf"graph ({_STRING})$")
_INPUT = re.compile(r"%(\d+)(?::(\d+))?$")
# A symbol that inference made for a node (ops.rules.naming) is called after the node's id.
_FRESH = re.compile(r"(?<![\w.])_(\d+)(?=_)")


def print_graph(graph: Graph) -> str:
    """The graph's text. It has no end for a graph whose bodies hold one another, which no reader
    makes."""
    number = {node: i for i, node in enumerate(graph.order())}
    lines = [f"graph {json.dumps(graph.name)}"]
    for node, index in number.items():
        record = graph.node(node)
        inputs = ", ".join(_show_value(v, number) for v in graph.inputs(node))
        line = f"%{index} = {record.op.kind}.{record.op.version}({inputs})"
        attrs = show_attributes(record.op)
        line += f" {{{attrs}}}" if attrs else ""
        line += f" {json.dumps(record.name)}" if record.name else ""
        names = show_names(record.names)
        line += f" names={names}" if names else ""
        line += f" : {_show_types(graph, node, number)}" if record.types else ""
        lines.append(line)
        for body in record.op.bodies():
            lines += ["  " + text for text in print_graph(body).splitlines()]
    return "\n".join(lines) + "\n"


def _show_types(graph: Graph, node: int, number: dict[int, int]) -> str:
    text = ", ".join(str(t) for t in graph.node(node).types)
    return _FRESH.sub(lambda m: f"_{number.get(int(m[1]), m[1])}", text)


def _show_value(value: Value | None, number: dict[int, int]) -> str:
    if value is None:
        return "_"
    return f"%{number[value.node]}" + (f":{value.port}" if value.port else "")


def parse_graph(text: str) -> Graph:
    """The graph that a text describes, inferred.

    Declared types (after the colon) need not be there; where they are, they must be what inference
    finds. Raises ModelFormatError naming the line.
    """
    lines = [(i, s) for i, s in enumerate(text.splitlines(), 1) if _content(s)]
    if not lines:
        raise ModelFormatError('a graph\'s text begins with: graph "name"', got="nothing")
    graph, rest = _parse_block(lines, 0)
    if rest < len(lines):
        raise ModelFormatError(
            "this is not a node", where=f"line {lines[rest][0]}", got=lines[rest][1].strip()[:120]
        )
    return graph


def _content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("//")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _parse_block(lines: list[tuple[int, str]], at: int) -> tuple[Graph, int]:
    """One graph from line `at` on, and where the text goes on after it."""
    number, first = lines[at]
    head = _HEAD.match(first.strip())
    if head is None:
        raise ModelFormatError(
            'a graph\'s text begins with: graph "name"', where=f"line {number}", got=first.strip()
        )
    graph, ids, depth = Graph(json.loads(head[1])), dict[int, int](), _indent(first)
    at += 1
    while at < len(lines) and _indent(lines[at][1]) == depth:
        number, line = lines[at][0], lines[at][1].strip()
        if _HEAD.match(line):
            break  # the next body of the same operation
        at += 1
        bodies: list[Graph] = []
        while at < len(lines) and _indent(lines[at][1]) > depth:
            body, at = _parse_block(lines, at)
            bodies.append(body)
        try:
            _parse_node(graph, ids, line, bodies)
        except Error as error:
            where = f"line {number}" + (f", {error.where}" if error.where else "")
            raise ModelFormatError(
                error.what, where=where, got=error.got, expected=error.expected
            ) from error
    return graph, at


def _parse_node(graph: Graph, ids: dict[int, int], line: str, bodies: list[Graph]) -> None:
    match = _NODE.match(line)
    if match is None:
        raise ModelFormatError("this is not a node", got=line[:120])
    fields, end = read_attributes(line, match.end())
    tail = _TAIL.match(line, end)
    if tail is None:
        raise ModelFormatError("this is not a node", got=line[:120])
    kind, version = match["kind"], match["version"]
    cls = find_exact(kind, int(version)) if len(version) < 9 else None
    if cls is None:
        raise ModelFormatError("unknown operation", got=f"{kind}.{version}")
    inputs = [_read_value(v, ids, graph) for v in match["inputs"].split(", ") if v]
    op = read_op(cls, fields, bodies)
    names = read_names(tail["names"] or "", op.output_count())
    name = json.loads(tail["name"]) if tail["name"] else ""
    node = graph.add(op, inputs, name=name, names=names)
    if int(match["id"]) in ids:
        raise ModelFormatError("two nodes have one number", got=f"%{match['id']}")
    ids[int(match["id"])] = node
    infer_node(graph, node)
    number = {own: shown for shown, own in ids.items()}
    _check_types(op, _show_types(graph, node, number), tail["types"])


def _check_types(op: Op, inferred: str, declared: str | None) -> None:
    if declared is not None and declared.strip() != inferred:
        raise ModelFormatError(
            f"the declared type of {op.kind} is not the inferred one",
            got=declared.strip()[:200],
            expected=inferred[:200],
        )


def _read_value(text: str, ids: dict[int, int], graph: Graph) -> Value | None:
    if text == "_":
        return None
    match = _INPUT.match(text)
    node = ids.get(int(match[1])) if match else None
    if match is None or node is None:
        raise ModelFormatError("this value is not defined above", got=text[:80])
    port = int(match[2] or 0)
    if port >= graph.op(node).output_count():
        raise ModelFormatError("there is no such output", got=text[:80])
    return Value(node, port)
