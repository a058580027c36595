"""Linear models and support vectors of ai.onnx.ml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.ops import (
    Add,
    Exp,
    Gemm,
    Greater,
    MatMul,
    Multiply,
    Power,
    ReduceSum,
    Select,
    SquaredDifference,
    SupportVotes,
    Tanh,
    Transpose,
    Unsqueeze,
)
from ..elementary import convert_value
from .scores import add_argmax, add_threshold, both_classes, class_labels, label_at, transform

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction


def _add_linear(n: ImportContext, targets: int) -> Value:
    """x times the coefficients, plus intercepts: [rows, targets] in f32."""
    x = convert_value(n, n.input(0), DType.f32)
    x = n.add(Unsqueeze(), x, n.ints_value([0])) if n.rank(x) == 1 else x
    coefficients = np.array(n.numbers("coefficients"))
    intercepts = n.numbers("intercepts", [])
    if targets < 1 or coefficients.size % targets:
        raise n.error("the coefficients do not fit the targets", got=coefficients.size)
    b = n.constant(coefficients.reshape(targets, -1), DType.f32)
    c = n.constant(np.array(intercepts), DType.f32) if intercepts else None
    return n.add(Gemm(transpose_b=True), x, b, c)


def linear_regressor(n: ImportContext) -> Value:
    return transform(n, _add_linear(n, n.integer("targets", 1)), n.text("post_transform", "NONE"))


def _rows(n: ImportContext) -> int:
    """How many rows the coefficients are, by the columns of x; 1 where those are not known."""
    columns = (n.shape(n.input(0)) or (0,))[-1]
    return len(n.numbers("coefficients")) // columns if isinstance(columns, int) and columns else 1


def linear_classifier(n: ImportContext) -> Imported:
    """One row of coefficients for two labels: the second one wins above 0."""
    labels = class_labels(n, "classlabels_ints", "classlabels_strings")
    n.seen.add("multi_class")
    kind = n.text("post_transform", "NONE")
    count = len(n.numbers("intercepts", [])) or _rows(n)
    if labels is None:
        labels = n.ints_value(range(max(count, 2))), max(count, 2)
    scores = _add_linear(n, count)
    if count > 1 or labels[1] != 2:
        return label_at(n, labels[0], add_argmax(n, scores)), transform(n, scores, kind)
    classes_at = add_threshold(n, scores, 0.0)
    return label_at(n, labels[0], classes_at), both_classes(n, scores, kind, probability=True)


def _kernel(n: ImportContext, x: Value, vectors: Value) -> Value:
    """[rows, vectors]: the kernel of each row with each support vector."""
    kind = n.text("kernel_type", "LINEAR")
    gamma, coef0, degree = (*n.numbers("kernel_params", []), 0.0, 0.0, 3.0)[:3]
    if kind == "RBF":
        # [rows, features, vectors]: the sum is over whole rows of vectors, not over a few features.
        turned = n.add(Transpose(), vectors, n.ints_value([1, 0]))
        apart = n.add(SquaredDifference(), n.add(Unsqueeze(), x, n.ints_value([2])), turned)
        far = n.add(ReduceSum(), apart, n.ints_value([1]))
        return n.add(Exp(), n.add(Multiply(), far, n.like(x, -gamma)))
    product = n.add(MatMul(transpose_b=True), x, vectors)
    if kind == "LINEAR":
        return product
    inside = n.add(Add(), n.add(Multiply(), product, n.like(x, gamma)), n.like(x, coef0))
    if kind == "POLY":
        return n.add(Power(), inside, n.like(x, degree))
    if kind == "SIGMOID":
        return n.add(Tanh(), inside)
    raise n.error("unknown kernel_type", got=kind[:40], expected="LINEAR, POLY, RBF or SIGMOID")


def _vectors(n: ImportContext, count: int, name: str) -> Value:
    data = np.array(n.numbers(name, []))
    if count < 1 or data.size % count:
        raise n.error(f"{name!r} does not fit the number of vectors", got=data.size)
    return n.constant(data.reshape(count, -1), DType.f32)


def svm_regressor(n: ImportContext) -> Value:
    """Kernels with the support vectors (none: a linear model) times coefficients, plus rho; of one
    class, 1 for what is above 0 (inside) and -1 for what is not."""
    x = convert_value(n, n.input(0), DType.f32)
    count, rho = n.integer("n_supports", 0), n.numbers("rho", [0.0])
    weights = n.constant(np.array(n.numbers("coefficients")).reshape(1, -1), DType.f32)
    values = _kernel(n, x, _vectors(n, count, "support_vectors")) if count else x
    c = n.constant(np.array(rho[:1]), DType.f32)
    result = n.add(Gemm(transpose_b=True), values, weights, c)
    n.seen.update(["kernel_params", "kernel_type"])
    kind = n.text("post_transform", "NONE")
    if n.flag("one_class"):
        inside = n.add(Greater(), result, n.like(result, 0))
        return n.add(Select(), inside, n.like(result, 1), n.like(result, -1))
    return transform(n, result, kind)


def svm_classifier(n: ImportContext) -> Imported:
    """One vote per pair of classes. Scores are probabilities, or without prob_a and prob_b the
    decisions of the pairs."""
    labels = class_labels(n, "classlabels_ints", "classlabels_strings")
    per_class = n.integers("vectors_per_class", [])
    if labels is None or not per_class or len(per_class) != labels[1]:
        raise n.unsupported_error("SVMClassifier without support vectors")
    x = convert_value(n, n.input(0), DType.f32)
    total = sum(per_class)
    kernel = _kernel(n, x, _vectors(n, total, "support_vectors"))
    coefficients = np.array(n.numbers("coefficients"))
    classes, rho = labels[1], n.numbers("rho", [])
    pairs = classes * (classes - 1) // 2
    if coefficients.size != total * (classes - 1) or len(rho) != pairs:
        raise n.error("the coefficients of an SVMClassifier do not fit its classes")
    decisions = _pairwise(n, kernel, coefficients.reshape(classes - 1, total), per_class, rho)
    prob = n.numbers("prob_a", []), n.numbers("prob_b", [])
    kind = n.text("post_transform", "NONE")
    a, b = (n.constant(np.array(p), DType.f32) for p in prob)
    classes_at, scores = n.add_all(SupportVotes(classes), decisions, a, b)
    label = label_at(n, labels[0], classes_at)
    if prob[0]:
        return label, transform(n, scores, kind)
    if classes == 2:
        return label, both_classes(n, decisions, kind, probability=kind != "NONE")
    return label, transform(n, decisions, kind)


def _pairwise(
    n: ImportContext,
    kernel: Value,
    coefficients: np.ndarray,
    per_class: list[int],
    rho: list[float],
) -> Value:
    """[rows, pairs]: the decision of each pair (i, j), i before j, as one product."""
    starts = np.cumsum([0, *per_class])
    classes, columns = len(per_class), list[np.ndarray]()
    for i in range(classes):
        for j in range(i + 1, classes):
            column = np.zeros(starts[-1])
            column[starts[i] : starts[i + 1]] = coefficients[j - 1, starts[i] : starts[i + 1]]
            column[starts[j] : starts[j + 1]] = coefficients[i, starts[j] : starts[j + 1]]
            columns.append(column)
    b = n.constant(np.stack(columns), DType.f32)
    return n.add(Gemm(transpose_b=True), kernel, b, n.constant(np.array(rho), DType.f32))


_ML = "ai.onnx.ml::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_ML}LinearRegressor": {1: linear_regressor},
    f"{_ML}LinearClassifier": {1: linear_classifier},
    f"{_ML}SVMRegressor": {1: svm_regressor},
    f"{_ML}SVMClassifier": {1: svm_classifier},
}
