"""Weights read where they lie: the raw bytes of initialisers, found without parsing the model.

Parsing copies every byte of a model into protobuf's memory, and reading `raw_data` copies it
again. Here the wire format is walked on three levels (ModelProto.graph, GraphProto.initializer,
TensorProto.raw_data; protobuf's encoding document) and large payloads are cut out, so that only a
small rest is parsed. Whatever looks unusual is left in the text, where protobuf checks it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from .....ir.op import Array
from ...xml.source import HeldBytes, OpenFile

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_WIRE_LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}
_MIN_PAYLOAD_BYTES = 4096
_MAX_VARINT = 10
_READER_THREADS = 4


class _Unusual(Exception):
    """The bytes are not what an ONNX model usually is."""


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
    graphs: list[tuple[int, int, int, int, int]] = []
    graph: list[bytes] = []
    try:
        graphs = [f for f in _fields(text, 0, text.size) if f[0] == _GRAPH]
        if len(graphs) == 1 and graphs[0][1] == _WIRE_LENGTH_DELIMITED:
            graph = _without_payloads(text, graphs[0][3], graphs[0][4], payloads)
    except _Unusual:
        payloads.clear()
    if not payloads:
        return text.part(0, source.size), {}
    _, _, start, _, end = graphs[0]
    head = bytes([_GRAPH << 3 | _WIRE_LENGTH_DELIMITED]) + _varint(sum(map(len, graph)))
    rest = b"".join([text.part(0, start), head, *graph, text.part(end, text.size)])

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
    for number, wire, field, first, last in _fields(text, start, end):
        if number != _INITIALIZER or wire != _WIRE_LENGTH_DELIMITED:
            continue
        position += 1
        if last - first < _MIN_PAYLOAD_BYTES:
            continue
        raws = [f for f in _fields(text, first, last) if f[0] == _RAW_DATA]
        if (
            len(raws) != 1
            or raws[0][1] != _WIRE_LENGTH_DELIMITED
            or raws[0][4] - raws[0][3] < _MIN_PAYLOAD_BYTES
        ):
            continue
        _, _, raw_field, raw_first, raw_last = raws[0]
        size = (raw_field - first) + (last - raw_last)
        pieces += [
            text.part(copied_to, field),
            bytes([_INITIALIZER << 3 | _WIRE_LENGTH_DELIMITED]) + _varint(size),
        ]
        pieces += [text.part(first, raw_field), text.part(raw_last, last)]
        copied_to = last
        payloads[position] = (raw_first, raw_last)
    return [*pieces, text.part(copied_to, end)]


def _fields(text: _Text, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Number, wire type, where the field begins, where its content begins, and where it ends."""
    at = start
    while at < end:
        field = at
        tag, at = _read_varint(text, at, end)
        number, wire = tag >> 3, tag & 7
        first = at
        if wire == _WIRE_LENGTH_DELIMITED:
            size, first = _read_varint(text, at, end)
            at = first + size
        elif wire == 0:
            _, at = _read_varint(text, at, end)
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise _Unusual
        if at > end or not number:
            raise _Unusual
        yield number, wire, field, first, at


def _read_varint(text: _Text, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT, 7):
        if at >= end:
            raise _Unusual
        byte = text.byte(at)
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _Unusual


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
