"""ai.onnx.ml against onnxruntime: converted models of scikit-learn, and operators one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import pytest
from onnx import numpy_helper
from support.frontends.ml_models import compare, one_node

MODELS = Path(__file__).resolve().parents[5] / "support" / "models" / "sklearn"
ML = "ai.onnx.ml"
X = (np.random.default_rng(7).standard_normal((50, 6)) * 2).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda p: p.stem)
def test_models_of_scikit_learn(path: Path) -> None:
    compare(str(path), {"X": X}, rtol=1e-5, atol=1e-5)


def test_one_row_and_no_row() -> None:
    net = irc.compile_model(MODELS / "random_forest.onnx")
    whole = net(X)
    for first, last in ((0, 1), (3, 3)):
        part = net(X[first:last])
        assert (part[0] == whole[0][first:last]).all()
        np.testing.assert_array_equal(part[1], whole[1][first:last])


# Linear models, features ----------------------------------------------------------------------

R = np.random.default_rng(13)
S = np.array([["cat", "dog"], ["eel", "cat"]], dtype=object)
I = np.array([[1, 2], [3, 1]], np.int64)  # noqa: E741
F = np.array([[1.0, np.nan], [0.0, -2.5], [0.0, 0.0]], np.float32)
THREE = {"coefficients": R.uniform(-1, 1, 18).tolist(), "intercepts": [0.1, -0.2, 0.3]}
ONE = {"coefficients": R.uniform(-1, 1, 6).tolist(), "intercepts": [0.1]}
POSTS = ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"]
NODES: list[tuple[str, list[Any], list[str], dict[str, Any]]] = [
    ("Scaler", [X], ["y"], {"offset": [1.0] * 6, "scale": [0.5, 1, 2, 3, 4, 5.0]}),
    ("Scaler", [I], ["y"], {"offset": [1.0], "scale": [0.5]}),
    ("Imputer", [F], ["y"],
     {"imputed_value_floats": [7.0, 8.0], "replaced_value_float": float("nan")}),
    ("Imputer", [F], ["y"], {"imputed_value_floats": [9.0], "replaced_value_float": 0.0}),
    ("Imputer", [I], ["y"], {"imputed_value_int64s": [9], "replaced_value_int64": 1}),
    ("Binarizer", [X], ["y"], {"threshold": 0.5}),
    ("ArrayFeatureExtractor", [X, np.array([[4, 0]])], ["y"], {}),
    ("FeatureVectorizer", [X, I[[0] * 50].astype(np.float32)], ["y"], {"inputdimensions": [6, 2]}),
    ("OneHotEncoder", [I], ["y"], {"cats_int64s": [3, 1, 2]}),
    ("OneHotEncoder", [S], ["y"], {"cats_strings": ["eel", "cat"], "zeros": 1}),
    ("OneHotEncoder", [S], ["y"], {"cats_strings": ["eel", "cat", "dog"], "zeros": 0}),
    ("OneHotEncoder", [I], ["y"], {"cats_int64s": [3, 1, 2], "zeros": 0}),
    ("OneHotEncoder", [I.astype(np.float32)], ["y"], {"cats_int64s": [3, 1, 2], "zeros": 0}),
    ("CategoryMapper", [S], ["y"], {"cats_strings": ["eel", "cat"], "cats_int64s": [5, 6]}),
    ("CategoryMapper", [I], ["y"], {"cats_strings": ["eel", "cat"], "cats_int64s": [1, 2]}),
    ("LabelEncoder", [S], ["y"], {"keys_strings": ["cat", "dog"], "values_int64s": [1, 2]}),
    ("LabelEncoder", [S], ["y"],
     {"keys_strings": ["cat"], "values_floats": [0.5], "default_float": 9.0}),
    ("LabelEncoder", [I], ["y"], {"keys_int64s": [1, 2], "values_strings": ["a", "b"]}),
    ("LabelEncoder", [I], ["y"],
     {"keys_int64s": [1], "values_strings": ["a"], "default_string": "other"}),
    ("LabelEncoder", [F], ["y"],
     {"keys_floats": [float("nan"), 1.0], "values_int64s": [5, 6], "default_int64": 0}),
]  # fmt: skip
KEYS: dict[str, tuple[list[Any], Any, list[Any]]] = {
    "strings": (["cat", "dog"], S, ["a", "b"]),
    "int64s": ([1, 2], I, [5, 6]),
    "floats": ([1.0, float("nan")], F, [0.5, 1.5]),
}
NODES += [
    ("LabelEncoder", [KEYS[k][1]], ["y"], {f"keys_{k}": KEYS[k][0], f"values_{v}": KEYS[v][2]})
    for k in KEYS
    for v in KEYS
]
NODES += [
    ("LabelEncoder", [np.array([1, 2, 3], k)], ["y"],
     {"keys_tensor": numpy_helper.from_array(np.array([1, 2], k)),
      "values_tensor": numpy_helper.from_array(np.array([7, 8], v)),
      "default_tensor": numpy_helper.from_array(np.array([9], v))})
    for k, v in (("int64", "int64"), ("float64", "float64"), ("float32", "int64"),
                 ("int64", "float64"), ("float64", "int64"))
]  # fmt: skip
NODES += [
    (name, [x], ["y"], given)
    for x in (X, X.astype(np.float64), I[[0] * 5], I.astype(np.int32))
    for name, given in (
        ("Scaler", {"offset": [1.0], "scale": [0.5]}), ("Normalizer", {"norm": "L1"}),
        ("FeatureVectorizer", {"inputdimensions": [x.shape[1]]}),
    )
]  # fmt: skip
NODES += [("Normalizer", [0 * X], ["y"], {"norm": norm}) for norm in ("MAX", "L1", "L2")]
NODES += [("ArrayFeatureExtractor", [x, np.array([1, 0])], ["y"], {}) for x in (X[0], I, S)]
NODES += [("Normalizer", [X], ["y"], {"norm": norm}) for norm in ("MAX", "L1", "L2")]
NODES += [
    ("LinearRegressor", [X], ["y"], {"targets": 3, "post_transform": p, **THREE}) for p in POSTS
]
NODES += [
    ("LinearClassifier", [X], ["l", "s"],
     {"classlabels_ints": labels, "post_transform": post, **weights})
    for labels, weights in (([4, 5, 6], THREE), ([4, 5], ONE))
    for post in POSTS[: 4 if len(labels) == 3 else 2]
]  # fmt: skip
NODES += [
    ("SVMRegressor", [X], ["y"],
     {"kernel_type": kind, "kernel_params": [0.2, 0.5, 2.0], "n_supports": 3, "rho": [0.25],
      "coefficients": [0.5, -1, 2.0], "support_vectors": X[:3].reshape(-1).tolist(),
      "one_class": one_class})
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    for one_class in (0, 1)
]  # fmt: skip
SVM = {"support_vectors": X[:5].reshape(-1).tolist(), "kernel_params": [0.2, 0.5, 2.0]}
NODES += [
    ("SVMClassifier", [X], ["l", "s"],
     SVM | {"kernel_type": kind, "coefficients": np.linspace(-0.1, 0.1, 5 * (len(rho) // 2 + 1)),
            "rho": rho, "post_transform": post, **labels, **prob})
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    for post in POSTS
    for rho, labels, prob in (
        ([0.1, 0.2, 0.3], {"classlabels_ints": [1, 2, 3], "vectors_per_class": [2, 2, 1]}, {}),
        ([0.1, 0.2, 0.3], {"classlabels_ints": [1, 2, 3], "vectors_per_class": [2, 2, 1]},
         {"prob_a": [-1.0, -2.0, -0.5], "prob_b": [0.1, 0.2, 0.3]}),
        ([0.1], {"classlabels_strings": ["n", "p"], "vectors_per_class": [3, 2]}, {}),
        ([0.1], {"classlabels_strings": ["n", "p"], "vectors_per_class": [3, 2]},
         {"prob_a": [-1.0], "prob_b": [0.1]}),
    )
]  # fmt: skip
NODES += [
    ("LinearClassifier", [x], ["l", "s"],
     {"classlabels_strings": ["a", "b", "c"][: len(w["intercepts"]) or 1], "post_transform": post,
      "multi_class": 1, **w})
    for x in (X, X.astype(np.float64), np.rint(X).astype(np.int64), np.rint(X).astype(np.int32))
    for post in POSTS
    for w in (THREE,)
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", NODES, ids=lambda c: c[0])
def test_nodes(case: tuple[str, list[Any], list[str], dict[str, Any]]) -> None:
    op_type, inputs, outputs, attributes = case
    version = 4 if op_type == "LabelEncoder" else 1
    model, feeds = one_node(op_type, inputs, outputs, domain=ML, version=version, **attributes)
    compare(model, feeds, rtol=2e-5, atol=2e-5)


def test_probit_is_the_normal_distributions_quantile() -> None:
    from statistics import NormalDist

    x = np.linspace(0.02, 0.98, 25, dtype=np.float32).reshape(-1, 1)
    model, feeds = one_node(
        "LinearRegressor", [x], ["y"], domain=ML, coefficients=[1.0], post_transform="PROBIT"
    )
    want = np.vectorize(NormalDist().inv_cdf)(x)
    np.testing.assert_allclose(irc.compile_model(model)(feeds)[0], want, atol=1e-2)


def test_a_linear_classifier_without_intercepts() -> None:
    rows = R.uniform(-1, 1, (3, 6)).astype(np.float32)
    model, feeds = one_node(
        "LinearClassifier", [X], ["l", "s"], domain=ML, classlabels_ints=[4, 5, 6],
        coefficients=rows.reshape(-1).tolist(),
    )  # fmt: skip
    labels, scores = irc.compile_model(model)(feeds)
    np.testing.assert_allclose(scores, X @ rows.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(labels, scores.argmax(1) + 4)


def test_quantiles_of_two_classes_are_adjacent_columns() -> None:
    from statistics import NormalDist

    x = np.linspace(0.1, 0.9, 9, dtype=np.float32).reshape(-1, 1)
    model, feeds = one_node(
        "LinearClassifier", [x], ["l", "s"], domain=ML, classlabels_ints=[4, 5],
        coefficients=[1.0], intercepts=[0.0], post_transform="PROBIT",
    )  # fmt: skip
    scores = irc.compile_model(model)(feeds)[1]
    want = np.vectorize(NormalDist().inv_cdf)(np.concatenate([1 - x, x], 1))
    np.testing.assert_allclose(scores, want, atol=1e-2)


def test_vectors_are_rows_of_features() -> None:
    x = X[0, :4], X[1, :2]
    model, feeds = one_node("FeatureVectorizer", x, ["y"], domain=ML, inputdimensions=[4, 2])
    np.testing.assert_array_equal(irc.compile_model(model)(feeds)[0], [np.concatenate(x)])


@pytest.mark.parametrize(
    ("x", "given", "unknown"),
    [
        (S, {"cats_strings": ["eel", "cat"]}, "'dog'"),
        (I, {"cats_int64s": [3, 1]}, "2"),
        (I.astype(np.float32), {"cats_int64s": [1, 2]}, "3"),
    ],
)
def test_an_unknown_category_is_an_error_where_zeros_are_not_asked_for(
    x: Any, given: dict[str, Any], unknown: str
) -> None:
    """onnxruntime's rule and ONNX's; by default, such a category is all zeros."""
    model, feeds = one_node("OneHotEncoder", [x], ["y"], domain=ML, version=1, zeros=0, **given)
    with pytest.raises(irc.ExecutionError, match="none of the keys") as caught:
        irc.compile_model(model)(feeds)
    assert f"got: {unknown}" in str(caught.value) and "y/LabelEncoder" in str(caught.value)
    model, feeds = one_node("OneHotEncoder", [x], ["y"], domain=ML, version=1, **given)
    assert (irc.compile_model(model)(feeds)[0].sum(-1) == 0).any()
