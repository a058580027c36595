"""Strings as bytes and their bounds: StringTensorUnpack and StringTensorPack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...limits.memory_budget import charge_bytes
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..math.elementwise import INTEGERS
from ..shape_inference import fresh_symbol, one_dtype, require_dtype, require_rank, same_size

# Bytes that are not UTF-8 pass through Python's strings unchanged.
_ERRORS = "surrogateescape"


@dataclass(frozen=True)
class StringTensorUnpack(Op):
    """The bytes of all strings in one row, and where each string begins and ends in it."""

    kind: ClassVar[str] = "StringTensorUnpack"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (Port("data"),)
    outputs: ClassVar[tuple[Port, ...]] = (Port("begins"), Port("ends"), Port("symbols"))
    data_dependent: ClassVar[bool] = True

    def infer(self, data: Fact) -> tuple[Type, ...]:
        require_dtype(data, "data", frozenset([DType.string]), "strings")
        place = TensorType(DType.i32, data.tensor.shape)
        return (place, place, TensorType(DType.u8, (fresh_symbol(self),)))

    def evaluate(self, data: Array) -> tuple[Array, ...]:
        parts = [str(text).encode("utf-8", _ERRORS) for text in data.reshape(-1).tolist()]
        total = sum(map(len, parts))
        if total > DType.i32.max:
            raise ShapeError("strings have more bytes than i32 counts", got=total)
        ends = np.cumsum([0, *map(len, parts)])
        charge_bytes(2 * total, "the bytes of strings")
        symbols = np.frombuffer(b"".join(parts), np.uint8).copy()
        begins, ends = (e.astype(np.int32).reshape(data.shape) for e in (ends[:-1], ends[1:]))
        return begins, ends, symbols


@dataclass(frozen=True)
class StringTensorPack(Op):
    """Strings from bytes in UTF-8 and where each string begins and ends in them."""

    kind: ClassVar[str] = "StringTensorPack"
    version: ClassVar[int] = 15
    inputs: ClassVar[tuple[Port, ...]] = (Port("begins"), Port("ends"), Port("symbols"))

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
        data, limit = symbols.tobytes(), symbols.size
        pairs = list(zip(begins.reshape(-1).tolist(), ends.reshape(-1).tolist(), strict=True))
        for begin, end in pairs:
            if not 0 <= begin <= end <= limit:
                raise ShapeError(
                    "the bounds of a string are out of range",
                    got=f"{begin}..{end}",
                    expected=f"0 <= begin <= end <= {limit}",
                )
        # Strings may overlap, so that their sum is not bounded by the bytes.
        charge_bytes(sum(end - begin for begin, end in pairs), "strings")
        out = np.empty(begins.shape, object)
        out.reshape(-1)[:] = [data[begin:end].decode("utf-8", _ERRORS) for begin, end in pairs]
        return (out,)
