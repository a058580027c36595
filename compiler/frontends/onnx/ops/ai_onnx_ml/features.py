"""Scalers, encoders and other feature operators of ai.onnx.ml, in standard operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Abs,
    Concat,
    Convert,
    Divide,
    Equal,
    Gather,
    Greater,
    IsNaN,
    LabelEncoder,
    Multiply,
    ReduceMax,
    ReduceSum,
    Reshape,
    Select,
    Sqrt,
    Subtract,
    Unsqueeze,
)
from ..elementary import convert_value

if TYPE_CHECKING:
    from ...import_context import ImportContext, ImportFunction


def scaler(n: ImportContext) -> Value:
    """(x - offset) * scale, per column or for all, in f32."""
    x = convert_value(n, n.input(0), DType.f32)
    offset, scale = n.numbers("offset", []), n.numbers("scale", [])
    x = n.add(Subtract(), x, n.constant(np.array(offset), DType.f32)) if offset else x
    return n.add(Multiply(), x, n.constant(np.array(scale), DType.f32)) if scale else x


def normalizer(n: ImportContext) -> Value:
    """Each row divided by its norm; rows whose norm is 0 stay. The largest element (not its
    absolute value) is the norm MAX, as onnxruntime has it."""
    x = convert_value(n, n.input(0), DType.f32)
    kind, last = n.text("norm", "MAX"), n.ints_value([-1])
    if kind == "MAX":
        norm = n.add(ReduceMax(keep_dims=True), x, last)
    elif kind == "L1":
        norm = n.add(ReduceSum(keep_dims=True), n.add(Abs(), x), last)
    elif kind == "L2":
        norm = n.add(ReduceSum(keep_dims=True), n.add(Multiply(), x, x), last)
        norm = n.add(Sqrt(), norm)
    else:
        raise n.error("unknown norm", got=kind[:40], expected="MAX, L1 or L2")
    empty = n.add(Equal(), norm, n.like(norm, 0))
    return n.add(Divide(), x, n.add(Select(), empty, n.like(x, 1), norm))


def imputer(n: ImportContext) -> Value:
    """Elements equal to replaced_value (NaN too) become the imputed value of their column."""
    x = n.input(0)
    is_int = n.dtype(x).is_int
    if is_int:
        values: Sequence[float] = n.integers("imputed_value_int64s", [])
        old: float = n.integer("replaced_value_int64", 0)
    else:
        values, old = n.numbers("imputed_value_floats", []), n.number("replaced_value_float", 0.0)
    if not values:
        raise n.error("the imputed values for this element type are missing")
    bad = n.add(IsNaN(), x) if old != old else n.add(Equal(), x, n.like(x, old))
    return n.add(Select(), bad, n.constant(np.array(values), n.dtype(x)), x)


def binarizer(n: ImportContext) -> Value:
    x = n.input(0)
    return convert_value(n, n.add(Greater(), x, n.like(x, n.number("threshold", 0.0))), n.dtype(x))


def array_feature_extractor(n: ImportContext) -> Value:
    """Columns of the last axis; a vector gives a row."""
    x, indices = n.input(0), n.add(Reshape(), n.input(1), n.ints_value([-1]))
    x = n.add(Unsqueeze(), x, n.ints_value([0])) if n.rank(x) == 1 else x
    return n.add(Gather(), x, indices, n.int_value(-1))


def feature_vectorizer(n: ImportContext) -> Value:
    """The columns of all inputs side by side, in f32; a vector is a row."""
    sizes, parts = n.integers("inputdimensions", []), list[Value]()
    for i, value in enumerate(n.all_inputs()):
        shape = n.shape(value)
        if sizes and shape and isinstance(shape[-1], int) and shape[-1] != sizes[i]:
            raise n.type_error(
                "an input has not the declared columns", got=shape[-1], expected=sizes[i]
            )
        value = convert_value(n, value, DType.f32)
        row = shape is not None and len(shape) == 1
        parts.append(n.add(Unsqueeze(), value, n.ints_value([0])) if row else value)
    return n.add(Concat(axis=-1), *parts)


def label_encoder(n: ImportContext) -> Value:
    """Version 2: the lists that are given say the types; version 4: also tensors."""
    keys, values = _read_table(n, "keys"), _read_table(n, "values")
    if keys is None or values is None:
        raise n.error("a LabelEncoder needs keys and values")
    if len(keys[1]) != len(values[1]):
        raise n.error(
            "keys and values differ in number", got=f"{len(keys[1])} and {len(values[1])}"
        )
    if n.has("default_tensor"):
        default = n.tensor("default_tensor")[1].reshape(-1)[0]
    elif values[0] is DType.string:
        default = n.text("default_string", "_Unused")
    elif values[0].is_float:
        default = n.number("default_float", -0.0)
    else:
        default = n.integer("default_int64", -1)
    return _encode_labels(n, keys, values, default)


def label_encoder_1(n: ImportContext) -> Value:
    """Version 1: strings to their positions, or positions to strings."""
    texts = np.array(n.texts("classes_strings", []), dtype=object)
    names, numbers = (DType.string, texts), (DType.i64, np.arange(len(texts)))
    if n.dtype(n.input(0)) is DType.string:
        n.seen.add("default_string")
        return _encode_labels(n, names, numbers, n.integer("default_int64", -1))
    n.seen.add("default_int64")
    return _encode_labels(n, numbers, names, n.text("default_string", "_Unused"))


def category_mapper(n: ImportContext) -> Value:
    texts = np.array(n.texts("cats_strings", []), dtype=object)
    names, numbers = (DType.string, texts), (DType.i64, np.array(n.integers("cats_int64s", [])))
    default_text, default = n.text("default_string", "_Unused"), n.integer("default_int64", -1)
    if n.dtype(n.input(0)) is DType.string:
        return _encode_labels(n, names, numbers, default)
    return _encode_labels(n, numbers, names, default_text)


def _read_table(n: ImportContext, name: str) -> tuple[DType, Any] | None:
    if n.has(f"{name}_tensor"):
        dtype, data = n.tensor(f"{name}_tensor")
        return dtype, data.reshape(-1)
    if n.has(f"{name}_strings"):
        return DType.string, np.array(n.texts(f"{name}_strings"), dtype=object)
    if n.has(f"{name}_int64s"):
        return DType.i64, np.array(n.integers(f"{name}_int64s"))
    if n.has(f"{name}_floats"):
        return DType.f32, np.array(n.numbers(f"{name}_floats"))
    return None


def _encode_labels(
    n: ImportContext, keys: tuple[DType, Any], values: tuple[DType, Any], default: Any
) -> Value:
    """By a table; a default of None makes what is not in it an error."""
    rest = np.array([default], dtype=object if values[0] is DType.string else None)
    return n.add(
        LabelEncoder(),
        convert_value(n, n.input(0), keys[0]),
        n.constant(keys[1], keys[0]),
        n.constant(values[1], values[0]),
        None if default is None else n.constant(rest, values[0]),
    )


def one_hot_encoder(n: ImportContext) -> Value:
    """A new last axis with 1 at the category's index; unknown categories are all 0, or (`zeros` is
    0) an error of the run."""
    x, zeros = n.input(0), n.flag("zeros", True)
    texts, numbers = n.texts("cats_strings", []), n.integers("cats_int64s", [])
    count = len(texts) or len(numbers)
    if not count:
        raise n.error("a OneHotEncoder has no categories")
    cats, text = n.ints_value(range(count)), n.dtype(x) is DType.string
    if text or not zeros:
        known = np.array(texts, dtype=object) if text else np.array(numbers, np.int64)
        keys = DType.string if text else DType.i64, known
        x = _encode_labels(n, keys, (DType.i64, np.arange(len(known))), -1 if zeros else None)
    else:
        x, cats = convert_value(n, x, DType.i64), n.ints_value(numbers)
    hot = n.add(Equal(), n.add(Unsqueeze(), x, n.ints_value([-1])), cats)
    return n.add(Convert(DType.f32), hot)


_ML = "ai.onnx.ml::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_ML}Scaler": {1: scaler},
    f"{_ML}Normalizer": {1: normalizer},
    f"{_ML}Imputer": {1: imputer},
    f"{_ML}Binarizer": {1: binarizer},
    f"{_ML}ArrayFeatureExtractor": {1: array_feature_extractor},
    f"{_ML}FeatureVectorizer": {1: feature_vectorizer},
    f"{_ML}LabelEncoder": {1: label_encoder_1, 2: label_encoder},
    f"{_ML}CategoryMapper": {1: category_mapper},
    f"{_ML}OneHotEncoder": {1: one_hot_encoder},
}
