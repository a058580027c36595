"""Weights read where they lie: the raw bytes of initialisers, found without parsing the model.

Parsing copies every byte of a model into protobuf's memory, and reading `raw_data` copies it
again. Here the wire format is walked on three levels (ModelProto.graph, GraphProto.initializer,
TensorProto.raw_data; protobuf's encoding document) and large payloads are cut out, so that only a
small rest is parsed. Whatever looks unusual is left in the text, where protobuf judges it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from ....ir.op import Array
from ....ir.provenance import note, place_of

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_LEN = 2
_FIXED = {1: 8, 5: 4}
_LEAST = 4096
_MAX_VARINT = 10


class _Unusual(Exception):
    """The bytes are not what an ONNX model usually is."""


def lift_payloads(data: Array) -> tuple[bytes, dict[int, Array]]:
    """The model without large payloads, and those payloads by position of their initialiser.

    Payloads are copies, aligned for any element type, so that the file's bytes can go.
    """
    if data.size < _LEAST:
        return data.tobytes(), {}
    view = memoryview(cast(Any, data))
    try:
        graphs = [f for f in _fields(view, 0, len(view)) if f[0] == _GRAPH]
        if len(graphs) != 1 or graphs[0][1] != _LEN:
            return data.tobytes(), {}
        payloads: dict[int, tuple[int, int]] = {}
        graph = _without_payloads(view, graphs[0][3], graphs[0][4], payloads)
    except _Unusual:
        return data.tobytes(), {}
    if not payloads:
        return data.tobytes(), {}
    _, _, start, _, end = graphs[0]
    head = bytes([_GRAPH << 3 | _LEN]) + _varint(sum(map(len, graph)))
    text = b"".join([view[:start], head, *graph, view[end:]])
    return text, {i: _copied(data, first, last) for i, (first, last) in payloads.items()}


def _copied(data: Array, first: int, last: int) -> Array:
    payload = data[first:last].copy()
    if (place := place_of(data)) is not None:
        note(payload, place.file, place.start + first)
    return payload


def _without_payloads(
    view: memoryview, start: int, end: int, payloads: dict[int, tuple[int, int]]
) -> list[bytes | memoryview]:
    """The pieces of a GraphProto; where its large payloads lie is added to `payloads`."""
    pieces: list[bytes | memoryview] = []
    kept = start
    position = -1
    for number, wire, field, first, last in _fields(view, start, end):
        if number != _INITIALIZER or wire != _LEN:
            continue
        position += 1
        if last - first < _LEAST:
            continue
        raws = [f for f in _fields(view, first, last) if f[0] == _RAW_DATA]
        if len(raws) != 1 or raws[0][1] != _LEN or raws[0][4] - raws[0][3] < _LEAST:
            continue
        _, _, raw_field, raw_first, raw_last = raws[0]
        size = (raw_field - first) + (last - raw_last)
        pieces += [view[kept:field], bytes([_INITIALIZER << 3 | _LEN]) + _varint(size)]
        pieces += [view[first:raw_field], view[raw_last:last]]
        kept = last
        payloads[position] = (raw_first, raw_last)
    return [*pieces, view[kept:end]]


def _fields(view: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Number, wire type, where the field begins, where its content begins, and where it ends."""
    at = start
    while at < end:
        field = at
        tag, at = _read_varint(view, at, end)
        number, wire = tag >> 3, tag & 7
        first = at
        if wire == _LEN:
            size, first = _read_varint(view, at, end)
            at = first + size
        elif wire == 0:
            _, at = _read_varint(view, at, end)
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise _Unusual
        if at > end or not number:
            raise _Unusual
        yield number, wire, field, first, at


def _read_varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT, 7):
        if at >= end:
            raise _Unusual
        byte = view[at]
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
