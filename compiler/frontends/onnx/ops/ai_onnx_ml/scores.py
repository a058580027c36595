"""What the classifiers of ai.onnx.ml share: labels, and what becomes of their scores.

Where ONNX is vague (one score for two classes, labels of ties), onnxruntime decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Abs,
    Add,
    Concat,
    Convert,
    Divide,
    Exp,
    Gather,
    Greater,
    Less,
    Log,
    Multiply,
    Negative,
    ReduceMax,
    ReduceSum,
    Select,
    Sigmoid,
    Softmax,
    Sqrt,
    Squeeze,
    Subtract,
    TopK,
)

if TYPE_CHECKING:
    from ...import_context import ImportContext

# Winitzki's approximation of the inverse error function, as onnxruntime computes PROBIT.
_WINITZKI, _PI = 0.147, 3.14159
_SOFTMAX_ZERO_TOLERANCE = 1e-7


def transform(n: ImportContext, scores: Value, kind: str) -> Value:
    """One of ai.onnx.ml's post transforms of [rows, targets]."""
    function = _TRANSFORMS.get(kind)
    if function is None:
        raise n.error("unknown post_transform", got=kind[:40], expected=", ".join(_TRANSFORMS))
    return function(n, scores)


def _softmax_zero(n: ImportContext, x: Value) -> Value:
    """Softmax over the scores that are not 0; those that are stay near 0."""
    last = n.ints_value([-1])
    largest = n.add(ReduceMax(keep_dims=True), x, last)
    grown = n.add(Exp(), n.add(Subtract(), x, largest))
    small = n.add(Multiply(), x, n.add(Exp(), n.add(Negative(), largest)))
    is_zero = n.add(Less(), n.add(Abs(), x), n.like(x, _SOFTMAX_ZERO_TOLERANCE))
    parts = n.add(Select(), is_zero, small, grown)
    return n.add(Divide(), parts, n.add(ReduceSum(keep_dims=True), parts, last))


def _probit(n: ImportContext, x: Value) -> Value:
    """sqrt(2) * erfinv(2 x - 1)."""

    def c(value: float) -> Value:
        return n.like(x, value)

    y = n.add(Subtract(), n.add(Multiply(), x, c(2)), c(1))
    log = n.add(Log(), n.add(Multiply(), n.add(Subtract(), c(1), y), n.add(Add(), c(1), y)))
    v = n.add(Add(), n.add(Multiply(), log, c(0.5)), c(2 / (_PI * _WINITZKI)))
    inside = n.add(Subtract(), n.add(Multiply(), v, v), n.add(Multiply(), log, c(1 / _WINITZKI)))
    size = n.add(Sqrt(), n.add(Subtract(), n.add(Sqrt(), inside), v))
    signed = n.add(Select(), n.add(Less(), y, c(0)), n.add(Negative(), size), size)
    return n.add(Multiply(), signed, c(float(np.sqrt(2))))


_TRANSFORMS: dict[str, Callable[[ImportContext, Value], Value]] = {
    "NONE": lambda n, x: x,
    "LOGISTIC": lambda n, x: n.add(Sigmoid(), x),
    "SOFTMAX": lambda n, x: n.add(Softmax(axis=-1), x),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def class_labels(n: ImportContext, ints: str, strings: str) -> tuple[Value, int] | None:
    """The labels as a constant vector, and their number; None where the node has none."""
    texts, numbers = n.texts(strings, []), n.integers(ints, [])
    if texts:
        return n.constant(np.array(texts, dtype=object), DType.string), len(texts)
    if numbers:
        return n.ints_value(numbers), len(numbers)
    return None


def label_at(n: ImportContext, labels: Value, indices: Value) -> Value:
    """The labels of positions [rows]."""
    return n.add(Gather(), labels, indices, n.int_value(0))


def add_argmax(n: ImportContext, scores: Value) -> Value:
    """The position of the largest score of each row; the first of equal ones."""
    _, indices = n.add_all(TopK(-1, "max", "value", DType.i64), scores, n.int_value(1))
    return n.add(Squeeze(), indices, n.ints_value([-1]))


def add_threshold(n: ImportContext, score: Value, limit: float) -> Value:
    """1 where the one score of a row [rows, 1] exceeds the limit, else 0."""
    found = n.add(Convert(DType.i64), n.add(Greater(), score, n.like(score, limit)))
    return n.add(Squeeze(), found, n.ints_value([-1]))


def both_classes(n: ImportContext, score: Value, kind: str, *, probability: bool) -> Value:
    """[rows, 2] from the score [rows, 1] of the second class: 1 - p, p where it is a
    `probability`, else -s, s; LOGISTIC makes probabilities of both, PROBIT quantiles."""
    minus = n.add(Negative(), score)
    if kind == "LOGISTIC":
        return n.add(Sigmoid(), n.add(Concat(axis=-1), minus, score))
    first = n.add(Subtract(), n.like(score, 1), score) if probability else minus
    both = n.add(Concat(axis=-1), first, score)
    return transform(n, both, kind) if kind == "PROBIT" else both
