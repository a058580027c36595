"""Protobuf's wire format, walked field by field without parsing what the fields hold.

Source: the encoding document of protobuf; field numbers: onnx.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

# ModelProto's fields.
GRAPH, OPSET_IMPORT = 7, 8
# The wire type of messages, strings and bytes.
LENGTH_DELIMITED = 2
_VARINT = 0
_FIXED = {1: 8, 5: 4}
_MAX_VARINT = 10
# More fields than the largest models have; each takes a microsecond.
_MAX_FIELDS = 1 << 20


class Unusual(Exception):
    """The bytes are not what an ONNX model usually is."""


class WireField(NamedTuple):
    """A field of a message: where it begins, where its content begins, and where it ends."""

    number: int
    wire: int
    start: int
    content: int
    end: int


def read_fields(byte: Callable[[int], int], start: int, end: int) -> Iterator[WireField]:
    """The fields of the message from `start` to `end`. byte: gives the byte at an offset.

    Raises Unusual for bytes that do not form a message, for groups, and for more fields than models
    have.
    """
    at = start
    count = 0
    while at < end:
        field = at
        tag, at = _read_varint(byte, at, end)
        number, wire = tag >> 3, tag & 7
        first = at
        if wire == LENGTH_DELIMITED:
            size, first = _read_varint(byte, at, end)
            at = first + size
        elif wire == _VARINT:
            _, at = _read_varint(byte, at, end)
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise Unusual
        count += 1
        if at > end or not number or count > _MAX_FIELDS:
            raise Unusual
        yield WireField(number, wire, field, first, at)


def _read_varint(byte: Callable[[int], int], at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MAX_VARINT, 7):
        if at >= end:
            raise Unusual
        found = byte(at)
        at += 1
        value |= (found & 127) << shift
        if found < 128:
            return value, at
    raise Unusual


def encode_varint(value: int) -> bytes:
    """A number as the wire has it."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
