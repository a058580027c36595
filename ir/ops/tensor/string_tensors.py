"""Strings as bytes and their bounds: StringTensorUnpack and StringTensorPack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...limits.memory_budget import active_budget, charge_bytes
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..math.elementwise import INTEGERS
from ..shape_inference import fresh_symbol, one_dtype, require_dtype, require_rank, same_size

# Bytes that are not UTF-8 pass through Python's strings unchanged.
_ERRORS = "surrogateescape"
# Strings are charged together as soon as they take this much.
_MAX_UNCHARGED_BYTES = 1 << 20
# A bytes object, a reference to it, and what growing lists of them leave behind.
_BYTES_PER_STRING = 96


class StringTensorUnpack(Op):
    """The bytes of all strings in one row, and where each string begins and ends in it."""

    kind: ClassVar[str] = "StringTensorUnpack"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    outputs: ClassVar[tuple[Port, ...]] = (Port("begins"), Port("ends"), Port("symbols"))
    data_dependent: ClassVar[bool] = True

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        return 24 * outputs[0].elements

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", frozenset([DType.string]), "strings")
        bounds = TensorType(DType.i32, data.tensor.shape)
        return (bounds, bounds, TensorType(DType.u8, (fresh_symbol(self),)))

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        parts, total, pending = list[bytes](), 0, 0
        for text in data.reshape(-1).tolist():
            parts.append(str(text).encode("utf-8", _ERRORS))
            total += len(parts[-1])
            pending += len(parts[-1]) + _BYTES_PER_STRING
            if pending > _MAX_UNCHARGED_BYTES:
                charge_bytes(pending, "the bytes of strings")
                pending = 0
        if total > DType.i32.max:
            raise ShapeError("strings have more bytes than i32 counts", got=total)
        ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
        charge_bytes(pending + total, "the bytes of strings")
        symbols = np.frombuffer(bytearray().join(parts), np.uint8)
        offsets = np.empty(len(parts) + 1, np.int32)
        offsets[0], offsets[1:] = 0, ends
        begins, ends = (e.copy().reshape(data.shape) for e in (offsets[:-1], offsets[1:]))
        return begins, ends, symbols


class StringTensorPack(Op):
    """Strings from bytes in UTF-8 and where each string begins and ends in them."""

    kind: ClassVar[str] = "StringTensorPack"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (Port("begins"), Port("ends"), Port("symbols"))

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        symbols = inputs[2]
        return 16 * outputs[0].elements + (0 if symbols is None else symbols.elements)

    def infer(self, begins: Fact, ends: Fact, symbols: Fact) -> tuple[Type, ...]:
        one_dtype(begins, ends)
        require_dtype(begins, "begins", INTEGERS, "an integer type")
        require_dtype(symbols, "symbols", frozenset([DType.u8]), "u8")
        require_rank(symbols, "symbols", 1)
        have, want = begins.tensor.shape, ends.tensor.shape
        if have is not None and want is not None:
            if len(have) != len(want):
                raise ShapeError(
                    "begins and ends differ in rank", got=f"{begins.type}, {ends.type}"
                )
            for a, b in zip(have, want, strict=True):
                same_size(a, b, "begins and ends differ in shape")
        return (TensorType(DType.string, want if have is None else have),)

    def evaluate(self, begins: Array, ends: Array, symbols: Array) -> tuple[Array, ...]:
        first, last, limit = begins.reshape(-1), ends.reshape(-1), symbols.size
        wrong = np.flatnonzero((first < 0) | (first > last) | (last > limit))
        if wrong.size:
            raise ShapeError(
                "the bounds of a string are out of range",
                got=f"{first[wrong[0]]}..{last[wrong[0]]}",
                expected=f"0 <= begin <= end <= {limit}",
            )
        out = np.empty(begins.shape, object)
        flat, data, pending = out.reshape(-1), symbols.tobytes(), 0
        # Strings may overlap, so that their sum is not bounded by the bytes.
        for n in range(len(flat)):
            begin, end = int(first[n]), int(last[n])
            if end - begin > _MAX_UNCHARGED_BYTES:  # a character takes up to 4 bytes, and its byte
                active_budget().require(pending + 5 * (end - begin), "a string")
            flat[n] = data[begin:end].decode("utf-8", _ERRORS)
            pending += sys.getsizeof(flat[n])
            if pending > _MAX_UNCHARGED_BYTES:
                charge_bytes(pending, "strings")
                pending = 0
        return (out,)
