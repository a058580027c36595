"""Dictionaries of ai.onnx.ml: scores by label at the end of a classifier, features by name at the
start of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import CastMap, DictVectorizer, ZipMap
from ......ir.types import MapType, TensorType

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def zip_map(n: ImportContext) -> Value:
    return n.add(ZipMap(), n.input(0), _names(n, "classlabels_int64s", "classlabels_strings"))


def dict_vectorizer(n: ImportContext) -> Value:
    words = _names(n, "int64_vocabulary", "string_vocabulary")
    found = n.fact(n.input(0)).type
    element = found.element if isinstance(found, MapType) else None
    if not isinstance(element, TensorType):
        raise n.type_error(
            "the input is not a map of single values", got=found, expected="map(...)"
        )
    return n.add(DictVectorizer(element.dtype), n.input(0), words)


_CASTS = {"TO_FLOAT": DType.f32, "TO_STRING": DType.string, "TO_INT64": DType.i64}


def cast_map(n: ImportContext) -> Value:
    to, form = n.text("cast_to", "TO_FLOAT"), n.text("map_form", "DENSE")
    length = n.integer("max_map", 1)
    if to not in _CASTS:
        raise n.error("unknown type to cast to", got=to[:40], expected=", ".join(_CASTS))
    if form not in ("DENSE", "SPARSE"):
        raise n.error("unknown form of a map", got=form[:40], expected="DENSE or SPARSE")
    return n.add(CastMap(_CASTS[to], length if form == "SPARSE" else None), n.input(0))


def _names(n: ImportContext, integers_name: str, texts: str) -> Value:
    """The one list that is given, of integers or of strings."""
    numbers, words = n.integers(integers_name, []), n.texts(texts, [])
    if bool(numbers) == bool(words):
        raise n.error(
            "keys are needed, either integers or strings",
            got="both" if words else "none",
            expected=f"{integers_name} or {texts}",
        )
    if words:
        return n.constant(np.array(words, dtype=object), DType.string)
    return n.constant(np.array(numbers), DType.i64)


_ML = "ai.onnx.ml::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_ML}ZipMap": {1: zip_map},
    f"{_ML}DictVectorizer": {1: dict_vectorizer},
    f"{_ML}CastMap": {1: cast_map},
}
