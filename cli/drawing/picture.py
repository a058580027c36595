"""What of a graph is drawn: boxes with their texts and details, and the edges between them.

Constants are not boxes: a box names those it reads in its details. Everything here is plain data,
taken when a picture is made, so that the graph may change afterwards. Texts are escaped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir.escape import escape_text
from ...ir.graph import Graph, Node, Value
from ...ir.text.value_text import show_attributes
from .layout import DrawingLayout, lay_out

# Text is set in a monospaced face, where a character is this wide at the sizes of svg.py.
CHARACTER_WIDTH = 6.7
LINE_HEIGHT = 15.0
PADDING = 9.0
MAX_LINE_CHARACTERS = 34  # characters of a line in a box

# The module that holds an operation -> the kind of work it is, which decides its colour.
KINDS: Mapping[str, str] = {
    "core": "interface",
    "matmul": "product",
    "gemm": "product",
    "convolution": "product",
    "recurrent": "product",
    "attention": "product",
    "elementwise": "elementwise",
    "arithmetic": "elementwise",
    "unary": "elementwise",
    "activations": "elementwise",
    "activation_table": "elementwise",
    "compare": "elementwise",
    "logic": "elementwise",
    "group": "elementwise",
    "convert": "elementwise",
    "normalize": "reduction",
    "reduce": "reduction",
    "pooling": "reduction",
    "softmax": "reduction",
    "control": "control",
    "loops": "control",
}


@dataclass(frozen=True)
class Box:
    """A node: its number in the graph, texts, kind of work, and details as (title, text) rows."""

    node: int
    title: str
    name: str
    type: str
    kind: str
    details: tuple[tuple[str, str], ...]
    sources: tuple[str, ...]

    @property
    def lines(self) -> list[str]:
        """The text of the box."""
        return [self.title, *(shorten(s) for s in (self.name, self.type) if s)]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in pixels."""
        lines = self.lines
        return max(map(len, lines)) * CHARACTER_WIDTH + 2 * PADDING, len(
            lines
        ) * LINE_HEIGHT + 2 * PADDING - 4


@dataclass(frozen=True)
class Picture:
    """A graph at one moment: `stage` says which. `changes`: what led to it, one text each."""

    stage: str
    boxes: list[Box]
    edges: list[tuple[int, int, str]]  # positions in `boxes`, and the value's type
    changes: list[str]
    layout: DrawingLayout
    fresh: frozenset[int] = field(default_factory=frozenset[int])  # boxes new in this stage


def take_picture(
    graph: Graph, stage: str, changes: list[str] | None = None, before: Picture | None = None
) -> Picture:
    """Draw the graph as it is. before: the picture of the previous stage, to mark new nodes."""
    drawn = [n for n in graph.order() if not _is_hidden(graph, n)]
    position = {node: n for n, node in enumerate(drawn)}
    boxes = [_box(graph, node) for node in drawn]
    edges: list[tuple[int, int, str]] = []
    for node in drawn:
        for value in graph.inputs(node):
            if value is not None and value.node in position:
                type_ = escape_text(str(graph.type(value)))
                edges.append((position[value.node], position[node], type_))
    layout = lay_out([b.size for b in boxes], [(a, b) for a, b, _ in edges])
    old = None if before is None else {b.node: b for b in before.boxes}
    fresh = frozenset(
        n for n, b in enumerate(boxes) if old is not None and _has_changed(old.get(b.node), b)
    )
    shown = [escape_text(c) for c in changes or ()]
    return Picture(escape_text(stage), boxes, edges, shown, layout, fresh)


def _has_changed(before: Box | None, now: Box) -> bool:
    return before is None or before.title != now.title


def _is_hidden(graph: Graph, node: int) -> bool:
    """A constant that some operation reads."""
    if graph.op(node).kind != "Constant":
        return False
    readers = graph.consumers(node)
    return bool(readers) and all(graph.op(r).kind != "Result" for r in readers)


def _box(graph: Graph, node: int) -> Box:
    record = graph.node(node)
    types = [str(t) for t in record.types]
    name = record.name or (min(record.names[0]) if record.names and record.names[0] else "")
    sources = record.sources or ((record.name,) if record.name else ())
    kind = "interface" if record.op.kind in ("Parameter", "Result", "TypedParameter") else ""
    family = type(record.op).__module__.rpartition(".")[2]
    return Box(
        node,
        escape_text(record.op.kind),
        escape_text(name),
        "" if record.op.kind == "Result" or not types else escape_text(types[0]),
        kind or KINDS.get(family, "other"),
        tuple(_details(graph, node, record, types)),
        sources,
    )


def _details(graph: Graph, node: int, record: Node, types: list[str]) -> list[tuple[str, str]]:
    rows = [("operation", f"{record.op.kind}-{record.op.version}"), ("name", record.name)]
    rows.append(("from", record.origin))
    for port, value in enumerate(graph.inputs(node)):
        rows.append((f"input {port}", "absent" if value is None else _value(graph, value)))
    for port, text in enumerate(types):
        names = ", ".join(sorted(record.names[port])) if port < len(record.names) else ""
        rows.append((f"output {port}", f"{text}  {names}".rstrip()))
    attributes = show_attributes(record.op)
    rows.append(
        ("attributes", attributes if len(attributes) < 4000 else attributes[:4000] + " ...")
    )
    if record.sources and record.sources != (record.name,):
        rows.append(("computes", ", ".join(record.sources)))
    bodies = list(record.op.bodies())
    if bodies:
        sizes = ", ".join(f"{len(b)} nodes" for b in bodies)
        rows.append(("bodies", f'{sizes}: see "inside" among the passes'))
    return [(title, escape_text(text)) for title, text in rows if text]


def _value(graph: Graph, value: Value) -> str:
    """Where an input comes from: a node's name, or a small constant itself."""
    record = graph.node(value.node)
    name = record.name or f"{record.op.kind}#{value.node}"
    port = f":{value.port}" if value.port else ""
    text = f"{name}{port}  {graph.type(value)}"
    if record.op.kind != "Constant":
        return text
    known = graph.known_value(value)
    if known is not None and known.size <= 8:
        return f"constant {known.tolist()}  {graph.type(value)}"
    return f"constant {text}"


def shorten(text: str, longest: int = MAX_LINE_CHARACTERS) -> str:
    """The text on one line, its middle left out where it is too long."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    head = (longest - 1) // 2
    return f"{line[:head]}…{line[-(longest - 1 - head) :]}"
