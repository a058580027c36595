"""Dictionaries as values (dialect): scores by label, and features by name.

A map is a Python dict, never changed in place; its values are Python's numbers and str, as
onnxruntime hands them out, or NumPy's scalars from a caller. Source: ONNX operators ZipMap,
DictVectorizer and CastMap (ai.onnx.ml 1); where they leave a case open, onnxruntime decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np

from ...dims import Dim, eq
from ...dtype import DType
from ...errors import ExecutionError, ShapeError
from ...lazy_dataclass import dataclass
from ...limits.memory_budget import charge_array, charge_bytes
from ...op import Array, Fact, Op, Port
from ...types import MapType, SequenceType, TensorType, Type
from ..shape_inference import fresh_symbol, require_rank

# A dict and the list that it is made of, and an entry of both: references, a hash and a number.
_DICT_BYTES, _ENTRY_BYTES = 280, 96
_CAST_FROM = (DType.f32, DType.string)
_CAST_TO = (DType.f32, DType.string, DType.i64)


class ZipMap(Op):
    """Each row of `x` as a dict by label, in a sequence; a vector is one row. Where a label occurs
    twice, its last column counts."""

    kind: ClassVar[str] = "ZipMap"
    version: ClassVar[int] = 0
    fresh: ClassVar[bool] = True
    inputs: ClassVar[tuple[Port, ...]] = (Port("x"), Port("labels"))

    def infer(self, x: Fact, labels: Fact) -> tuple[Type, ...]:
        require_rank(x, "x", 1, 2)
        require_rank(labels, "labels", 1)
        rows, names = x.tensor.shape, labels.tensor.shape
        if rows is not None and names is not None and eq(rows[-1], names[0]) is False:
            raise _other_count(rows[-1], names[0], ShapeError)
        element = TensorType(x.tensor.dtype, ())
        return (SequenceType(MapType(labels.tensor.dtype, element)),)

    def evaluate(self, x: Array, labels: Array) -> tuple[Any, ...]:
        if x.shape[-1] != len(labels):
            raise _other_count(x.shape[-1], len(labels), ExecutionError)
        names = labels.tolist()
        rows = x.reshape(-1, len(names)) if x.ndim == 1 else x
        charge_bytes(_DICT_BYTES * len(rows) + _ENTRY_BYTES * x.size, f"{len(rows)} maps")
        return ([dict(zip(names, row, strict=True)) for row in rows.tolist()],)


def _other_count(
    columns: Dim, labels: Dim, kind: type[ShapeError] | type[ExecutionError]
) -> ShapeError | ExecutionError:
    return kind("a ZipMap's labels differ from its columns in number", got=columns, expected=labels)


@dataclass(frozen=True)
class DictVectorizer(Op):
    """A map's values as a row in the order of `vocabulary`, 0 (or "") for what is not in the map.
    Keys that are not in the vocabulary are left out. `element_type`: that of the map's values."""

    kind: ClassVar[str] = "DictVectorizer"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("map"), Port("vocabulary"))
    element_type: DType

    def infer(self, map: Fact, vocabulary: Fact) -> tuple[Type, ...]:
        require_rank(vocabulary, "vocabulary", 1)
        key, value = _kinds_of(map)
        if key is not vocabulary.tensor.dtype or value is not self.element_type:
            raise ShapeError(
                "a DictVectorizer's input has other types than its attributes",
                got=map.type,
                expected=f"map({vocabulary.tensor.dtype}, {self.element_type}[])",
            )
        shape = vocabulary.tensor.shape
        return (TensorType(self.element_type, None if shape is None else (1, *shape)),)

    def evaluate(self, map: Mapping[Any, Any], vocabulary: Array) -> tuple[Any, ...]:
        charge_array(vocabulary.shape, self.element_type.numpy)
        charge_bytes(_ENTRY_BYTES * vocabulary.size, f"{vocabulary.size} features")
        rest = "" if self.element_type is DType.string else 0
        row = [_to_python(map.get(key, rest)) for key in vocabulary.tolist()]
        return (np.array(row, self.element_type.numpy).reshape(1, -1),)


@dataclass(frozen=True)
class CastMap(Op):
    """The values of a map with i64 keys as a row of type `to`, in the order of the keys; with
    `length` (ONNX's SPARSE) each at the index that its key gives, where keys of `length` and more
    are left out and other elements are 0 (as text "0.f", as onnxruntime has it).

    Numbers become text with six decimals, and integers toward 0. ExecutionError for text that
    is no such number, and for a key below 0 that should be an index.
    """

    kind: ClassVar[str] = "CastMap"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = (Port("map"),)
    to: DType = DType.f32
    length: int | None = None

    def __post_init__(self) -> None:
        if self.to not in _CAST_TO or (self.length is not None and self.length < 1):
            raise ShapeError(
                "a CastMap has attributes that are not allowed",
                got=f"{self.to}, {self.length}",
                expected=f"{', '.join(map(str, _CAST_TO))}, and a length of at least 1",
            )

    def infer(self, map: Fact) -> tuple[Type, ...]:
        key, value = _kinds_of(map)
        if key is not DType.i64 or value not in _CAST_FROM:
            raise ShapeError(
                "a CastMap takes another map", got=map.type, expected="map(i64, f32[] or string[])"
            )
        count = fresh_symbol(self) if self.length is None else self.length
        return (TensorType(self.to, (1, count)),)

    def evaluate(self, map: Mapping[int, Any]) -> tuple[Any, ...]:
        charge_bytes(2 * _ENTRY_BYTES * len(map), f"{len(map)} entries of a map")
        charge_array((self.length or len(map),), self.to.numpy)
        found = {int(key): self._cast(_to_python(map[key])) for key in sorted(map)}
        if self.length is None:
            return (np.array([list(found.values())], self.to.numpy),)
        if min(found, default=0) < 0:
            raise ExecutionError("a key of a map is not an index of a row", got=min(found))
        row = np.full((1, self.length), "0.f" if self.to is DType.string else 0, self.to.numpy)
        for key, value in found.items():
            if key < self.length:
                row[0, key] = value
        return (row,)

    def _cast(self, value: Any) -> Any:
        if isinstance(value, str):
            if self.to is DType.string:
                return value
            try:
                return int(value) if self.to is DType.i64 else float(value)
            except ValueError:
                raise ExecutionError(
                    "a value of a map is not a number", got=repr(value)[:80], expected=self.to
                ) from None
        if self.to is DType.string:
            return f"{np.float32(value):.6f}"
        return np.float32(value).astype(self.to.numpy)


def _kinds_of(fact: Fact) -> tuple[DType, DType]:
    """The types of a map's keys and values. ShapeError for what is not a map of single numbers."""
    found = fact.type
    if isinstance(found, MapType):
        element = found.element
        if isinstance(element, TensorType) and element.shape == ():
            return found.key, element.dtype
    raise ShapeError("a map of single values is needed here", got=found, expected="map(..., f32[])")


def _to_python(value: Any) -> Any:
    """A value of a map as Python has it."""
    return cast(Any, value).item() if isinstance(value, np.ndarray | np.generic) else value
