"""Graphs as text, one line per node, and back: for goldens, tests and dumps.

    graph "mlp"
    %0 = Parameter.1() {element_type=f32, shape=["N", 3]} "x" : f32[N, 3]
    %1 = Constant.1() {data=[1, 2, 3], dtype=f32, shape=[3, 1]} : f32[3, 1]
    %2 = MatMul.1(%0, %1) {transpose_a=false, transpose_b=false} "mm" names=y : f32[N, 1]
    %3 = Result.1(%2) "out"

Nodes are numbered in execution order, so the text does not depend on history. A second output is
`%2:1`, an absent input `_`. Constants of more than 16 elements print a digest instead of their
data; when parsing, `data=~7` stands for small whole numbers drawn from seed 7.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import numpy as np

from .codec import decode, encode
from .dim import Expr, parse
from .dtype import DType
from .errors import ModelFormatError
from .graph import Graph, Value
from .infer import infer_node
from .op import Array, Op
from .ops import Constant, find_exact

INLINE_LIMIT = 16
_LINE = re.compile(
    r"%(?P<id>\d+) = (?P<kind>[\w-]+)\.(?P<version>\d+)\((?P<inputs>[^)]*)\)"
    r"(?: (?P<attrs>\{.*\}))?(?: (?P<name>\"(?:[^\"\\]|\\.)*\"))?"
    r"(?: names=(?P<names>\S+))?(?: : (?P<types>.*))?$"
)


def print_graph(graph: Graph) -> str:
    """The graph's text; bodies of control flow follow their node, indented."""
    number = {node: i for i, node in enumerate(graph.order())}
    lines = [f"graph {json.dumps(graph.name)}"]
    for node, index in number.items():
        record = graph.node(node)
        inputs = ", ".join(_show_value(v, number) for v in graph.inputs(node))
        line = f"%{index} = {record.op.kind}.{record.op.version}({inputs})"
        attrs = _show_attributes(record.op)
        line += f" {{{attrs}}}" if attrs else ""
        line += f" {json.dumps(record.name)}" if record.name else ""
        names = "|".join(",".join(sorted(n)) for n in record.names)
        line += f" names={names.replace(' ', '~')}" if names.strip("|") else ""
        line += f" : {', '.join(str(t) for t in record.types)}" if record.types else ""
        lines.append(line)
        for body in record.op.bodies():
            lines += ["  " + text for text in print_graph(body).splitlines()]
    return "\n".join(lines) + "\n"


def _show_value(value: Value | None, number: dict[int, int]) -> str:
    if value is None:
        return "_"
    return f"%{number[value.node]}" + (f":{value.port}" if value.port else "")


def _show_attributes(op: Op) -> str:
    parts: list[str] = []
    for attribute in op.attributes():
        value = getattr(op, attribute.name)
        if isinstance(value, Graph):
            continue
        if isinstance(value, np.ndarray):
            parts.append(f"{attribute.name}={_show_data(value)}")
        else:
            parts.append(f"{attribute.name}={_show(value)}")
    return ", ".join(parts)


def _show_data(data: Array) -> str:
    if data.size <= INLINE_LIMIT:
        flat = data.reshape(-1)
        items = flat.tolist() if flat.dtype.kind in "biufU" else flat.astype("f4").tolist()
        return json.dumps(items)
    return "#" + hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()[:12]


def _show(value: Any) -> str:
    if isinstance(value, DType):
        return value.value
    if isinstance(value, Expr):
        return json.dumps(str(value))
    if isinstance(value, tuple) and any(isinstance(v, Expr) for v in value):  # pyright: ignore
        return "[" + ", ".join(_show(v) for v in value) + "]"  # pyright: ignore
    return json.dumps(encode(value))


def parse_graph(text: str) -> Graph:
    """The graph that a text describes, inferred.

    Declared types (after the colon) are ignored. Raises ModelFormatError naming the line.
    """
    lines = [line for line in text.strip().splitlines() if line.strip()]
    head = re.match(r'graph (".*")$', lines[0].strip())
    if head is None:
        raise ModelFormatError('a graph\'s text begins with: graph "name"', got=lines[0])
    graph = Graph(json.loads(head[1]))
    ids: dict[int, int] = {}
    for index, line in enumerate(lines[1:], 2):
        match = _LINE.match(line.strip())
        if match is None:
            raise ModelFormatError("this is no node", where=f"line {index}", got=line.strip())
        cls = find_exact(match["kind"], int(match["version"]))
        if cls is None:
            raise ModelFormatError("unknown operation", where=f"line {index}", got=match["kind"])
        inputs = [_read_value(v, ids) for v in match["inputs"].split(", ") if v]
        listed = [frozenset(n.split(",")) - {""} for n in (match["names"] or "").split("|")]
        op = _read_op(cls, match["attrs"] or "{}")
        node = graph.add(
            op,
            inputs,
            name=json.loads(match["name"]) if match["name"] else "",
            names=listed[: op.output_count()] if match["names"] else (),
        )
        ids[int(match["id"])] = node
        infer_node(graph, node)
    return graph


def _read_value(text: str, ids: dict[int, int]) -> Value | None:
    if text == "_":
        return None
    node, _, port = text.removeprefix("%").partition(":")
    return Value(ids[int(node)], int(port or 0))


def _read_op(cls: type[Op], text: str) -> Op:
    fields: dict[str, Any] = {}
    for part in re.split(r", (?=\w+=)", text[1:-1]):
        if not part:
            continue
        name, _, raw = part.partition("=")
        fields[name] = raw
    if issubclass(cls, Constant):
        return _read_constant(fields)
    known = {a.name: a.annotation for a in cls.attributes()}
    return cls(**{n: _read(known[n], raw) for n, raw in fields.items()})


def _read_constant(fields: dict[str, str]) -> Constant:
    dtype = DType(fields["dtype"])
    shape = tuple(json.loads(fields["shape"]))
    raw = fields["data"]
    if raw.startswith("~"):
        generator = np.random.default_rng(int(raw[1:]))
        data = generator.integers(-4, 5, shape).astype(dtype.numpy)
    else:
        data = np.array(json.loads(raw)).astype(dtype.numpy).reshape(shape)
    return Constant(data=data, dtype=dtype, shape=shape)


def _read(annotation: Any, raw: str) -> Any:
    try:
        data = json.loads(raw)
    except json.JSONDecodeError:
        data = raw
    return decode(annotation, _dims(data) if "Expr" in str(annotation) else data)


def _dims(data: Any) -> Any:
    """Sizes written as text, such as "N + 1", in the form that `decode` reads."""
    if isinstance(data, list):
        return [_dims(v) for v in data]  # pyright: ignore
    return encode(parse(data)) if isinstance(data, str) else data
