"""Weights read where they lie: the raw bytes of initialisers, found without parsing the model.

Parsing copies every byte of a model into protobuf's memory, and reading `raw_data` copies it
again. Here the wire format is walked on three levels (ModelProto.graph, GraphProto.initializer,
TensorProto.raw_data; protobuf's encoding document) and large payloads are cut out, so that only a
small rest is parsed. Whatever looks unusual is left in the text, where protobuf checks it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from .....ir.op import Array
from ...xml.source import HeldBytes, OpenFile
from .wire import GRAPH, LENGTH_DELIMITED, Unusual, WireField, encode_varint, read_fields

_INITIALIZER, _RAW_DATA = 5, 9
_MIN_PAYLOAD_BYTES = 4096
_READER_THREADS = 4


class _Text:
    """A model's bytes: single ones, for walking, from a window that moves along; parts, copied."""

    _WINDOW = 1 << 16

    def __init__(self, source: OpenFile | HeldBytes) -> None:
        self.source, self.size = source, source.size
        self._start, self._bytes = 0, b""

    def byte(self, at: int) -> int:
        if not 0 <= at - self._start < len(self._bytes):
            last = min(at + self._WINDOW, self.size)
            self._start, self._bytes = at, self.source.part(at, last).tobytes()
        return self._bytes[at - self._start]

    def part(self, first: int, last: int) -> bytes:
        return self.source.part(first, last).tobytes()


def lift_payloads(source: OpenFile | HeldBytes) -> tuple[bytes, dict[int, Array]]:
    """The model without large payloads, and those payloads by position of their initialiser, each
    in memory of its own, aligned for any element type."""
    text = _Text(source)
    if source.size < _MIN_PAYLOAD_BYTES:
        return text.part(0, source.size), {}
    payloads: dict[int, tuple[int, int]] = {}
    graphs: list[WireField] = []
    graph: list[bytes] = []
    try:
        graphs = [f for f in read_fields(text.byte, 0, text.size) if f.number == GRAPH]
        if len(graphs) == 1 and graphs[0].wire == LENGTH_DELIMITED:
            graph = _without_payloads(text, graphs[0].content, graphs[0].end, payloads)
    except Unusual:
        payloads.clear()
    if not payloads:
        return text.part(0, source.size), {}
    head = bytes([GRAPH << 3 | LENGTH_DELIMITED]) + encode_varint(sum(map(len, graph)))
    parts = [text.part(0, graphs[0].start), head, *graph, text.part(graphs[0].end, text.size)]
    rest = b"".join(parts)

    def read(position: int) -> tuple[int, Array]:
        return position, source.part(*payloads[position])

    with ThreadPoolExecutor(_READER_THREADS, "irc-read") as pool:
        return rest, dict(pool.map(read, payloads))


def _without_payloads(
    text: _Text, start: int, end: int, payloads: dict[int, tuple[int, int]]
) -> list[bytes]:
    """The pieces of a GraphProto; where its large payloads lie is added to `payloads`."""
    pieces: list[bytes] = []
    copied_to = start
    position = -1
    for number, wire, field, first, last in read_fields(text.byte, start, end):
        if number != _INITIALIZER or wire != LENGTH_DELIMITED:
            continue
        position += 1
        if last - first < _MIN_PAYLOAD_BYTES:
            continue
        raws = [f for f in read_fields(text.byte, first, last) if f.number == _RAW_DATA]
        if len(raws) != 1 or raws[0].wire != LENGTH_DELIMITED:
            continue
        raw = raws[0]
        if raw.end - raw.content < _MIN_PAYLOAD_BYTES:
            continue
        size = (raw.start - first) + (last - raw.end)
        pieces += [
            text.part(copied_to, field),
            bytes([_INITIALIZER << 3 | LENGTH_DELIMITED]) + encode_varint(size),
        ]
        pieces += [text.part(first, raw.start), text.part(raw.end, last)]
        copied_to = last
        payloads[position] = (raw.content, raw.end)
    return [*pieces, text.part(copied_to, end)]
