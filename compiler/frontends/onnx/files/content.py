"""What identifies the content of an ONNX model: all but what converters write anew each time.

skl2onnx and its relatives draw a new name for each graph, and list operator sets in no order. A
program that converts its model at each start has the same model still.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from .....ir.lazy_dataclass import dataclass
from .wire import GRAPH, LENGTH_DELIMITED, OPSET_IMPORT, Unusual, WireField, read_fields

_GRAPH_NAME: Final = 2
# No field begins with this byte.
_SEPARATOR: Final = b"\0"


@dataclass(frozen=True)
class OnnxContent:
    """digest: SHA-256 of all but the graph's name and the order of operator sets."""

    digest: str
    graph_name: str


def identify_content(data: bytes | bytearray | memoryview) -> OnnxContent | None:
    """The content of a serialised ModelProto; None for bytes that differ from what
    protobuf writes."""
    view = memoryview(data).cast("B")
    byte = view.__getitem__
    try:
        fields = [f for f in read_fields(byte, 0, len(view)) if f.number in (GRAPH, OPSET_IMPORT)]
        graph = _only([f for f in fields if f.number == GRAPH])
        opsets = [f for f in fields if f.number == OPSET_IMPORT]
        names = [f for f in read_fields(byte, graph.content, graph.end) if f.number == _GRAPH_NAME]
        name = bytes(view[_only(names).content : names[0].end]).decode() if names else ""
    except (Unusual, UnicodeDecodeError):
        return None
    digest = hashlib.sha256()
    for piece in (
        *_leave_out(view, 0, len(view), fields),
        _SEPARATOR,
        *_leave_out(view, graph.content, graph.end, names),
        _SEPARATOR,
        *sorted(bytes(view[f.start : f.end]) for f in opsets),
    ):
        digest.update(piece)
    return OnnxContent(digest.hexdigest(), name)


def _only(fields: list[WireField]) -> WireField:
    """The one field of its number. Protobuf would merge several."""
    if len(fields) != 1 or fields[0].wire != LENGTH_DELIMITED:
        raise Unusual
    return fields[0]


def _leave_out(
    view: memoryview, start: int, end: int, left_out: list[WireField]
) -> Iterator[memoryview]:
    """The bytes from `start` to `end` but those of some fields, in pieces."""
    for field in left_out:
        yield view[start : field.start]
        start = field.end
    yield view[start:end]
