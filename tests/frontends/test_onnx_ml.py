"""ai.onnx.ml against onnxruntime: converted models of scikit-learn, and operators one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from .ml_models import compare, one_node

MODELS = Path(__file__).resolve().parent.parent / "models" / "sklearn"
ML = "ai.onnx.ml"
X = (np.random.default_rng(7).standard_normal((50, 6)) * 2).astype(np.float32)


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


# Trees ----------------------------------------------------------------------------------------

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(
    seed: int, targets: int, modes: list[str], kind: str, *, named: list[int] | None = None,
    lowest: float = -1.0,
) -> dict[str, Any]:  # fmt: skip
    """Random trees of random shapes on values 0..3, so that splits meet values exactly."""
    r = np.random.default_rng(seed)
    nodes: dict[str, list[Any]] = {
        k: []
        for k in (
            "treeids", "nodeids", "featureids", "modes", "truenodeids", "falsenodeids", "values",
            "missing_value_tracks_true",
        )
    }  # fmt: skip
    leaves: dict[str, list[Any]] = {k: [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(5):
        counter: Iterator[int] = iter(range(1, 1000))
        pending = [(0, 0)]
        while pending:
            node, depth = pending.pop()
            leaf = depth == 4 or (depth > 0 and r.random() < 0.2)
            then, other = (0, 0) if leaf else (next(counter), next(counter))
            mode = "LEAF" if leaf else str(r.choice(modes))
            row = (
                tree, node, int(r.integers(0, 3)), mode, then, other,
                float(r.integers(0, 4)), int(r.integers(0, 2)),
            )  # fmt: skip
            for key, value in zip(nodes, row, strict=True):
                nodes[key].append(value)
            if not leaf:
                pending += [(then, depth + 1), (other, depth + 1)]
                continue
            for target in named or range(targets):
                if r.random() < 0.7 or named:
                    entry = (tree, node, target, float(r.uniform(lowest, 1)))
                    for key, value in zip(leaves, entry, strict=True):
                        leaves[key].append(value)
    return {f"nodes_{k}": v for k, v in nodes.items()} | {
        f"{kind}_{k}": v for k, v in leaves.items()
    }


def values(dtype: str = "float32") -> Any:
    r = np.random.default_rng(11)
    x = r.integers(0, 4, (60, 3)).astype(dtype)
    if x.dtype.kind == "f":
        x[r.random(x.shape) < 0.15] = np.nan
    return x


# onnxruntime sets the order in which it adds over its threads, so sums may differ by roundings.
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("modes", [*([m] for m in MODES), MODES], ids=lambda m: m[0] + str(len(m)))
def test_tree_regressor(modes: list[str], aggregate: str) -> None:
    attributes = forest(len(modes[0]), 2, modes, "target")
    model, feeds = one_node(
        "TreeEnsembleRegressor", [values()], ["y"], domain=ML, n_targets=2,
        aggregate_function=aggregate, base_values=[0.25, -0.5], **attributes,
    )  # fmt: skip
    compare(model, feeds)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tree_post_transforms(post: str, dtype: str) -> None:
    attributes = forest(3, 3, MODES[:1], "target")
    model, feeds = one_node(
        "TreeEnsembleRegressor", [values(dtype)], ["y"], domain=ML, n_targets=3,
        post_transform=post, **attributes,
    )  # fmt: skip
    compare(model, feeds, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("lowest", [-1.0, 0.0])
@pytest.mark.parametrize(
    ("classes", "named"), [(2, [0]), (2, [1]), (3, None)], ids=["first", "second", "three"]
)
def test_tree_classifier(classes: int, named: list[int] | None, lowest: float, post: str) -> None:
    attributes = forest(5, classes, MODES[:1], "class", named=named, lowest=lowest)
    model, feeds = one_node(
        "TreeEnsembleClassifier", [values()], ["label", "scores"], domain=ML,
        classlabels_strings=["a", "b", "c"][:classes], post_transform=post, **attributes,
    )  # fmt: skip
    compare(model, feeds, rtol=1e-5, atol=1e-5)


def test_the_top_class_of_two() -> None:
    """ONNX says the top class; onnxruntime takes the second one wherever its score is above 0."""
    attributes = forest(5, 2, MODES[:1], "class")
    model, feeds = one_node(
        "TreeEnsembleClassifier", [values()], ["label", "scores"], domain=ML,
        classlabels_int64s=[7, 9], **attributes,
    )  # fmt: skip
    labels, scores = irc.compile_model(model)(feeds)
    np.testing.assert_array_equal(labels, np.where(scores[:, 1] > scores[:, 0], 9, 7))


def test_whole_numbers_are_compared_as_floats() -> None:
    attributes = forest(3, 3, MODES[:1], "target")
    whole = values("int64")
    results = []
    for x in (whole, whole.astype(np.float32)):
        model, feeds = one_node(
            "TreeEnsembleRegressor", [x], ["y"], domain=ML, n_targets=3, **attributes
        )
        results.append(irc.compile_model(model)(feeds)[0])
    np.testing.assert_array_equal(*results)


def test_tree_ensemble_5_with_sets_of_members() -> None:
    def tensor(data: Any, dtype: Any) -> onnx.TensorProto:
        return numpy_helper.from_array(np.array(data, dtype))

    model, feeds = one_node(
        "TreeEnsemble",
        [np.array([1.2, 3.4, -0.12, 1.66, 4.14, 1.77, 3, np.nan, 6], np.float32).reshape(-1, 1)],
        ["y"], domain=ML, version=5, n_targets=2, aggregate_function=1, post_transform=0,
        membership_values=tensor([1.2, 3.7, 8, 9, np.nan, 12, 7, np.nan], np.float32),
        tree_roots=[0], nodes_modes=tensor([0, 6, 6], np.uint8), nodes_featureids=[0, 0, 0],
        nodes_splits=tensor([11, 232344.0, np.nan], np.float32),
        nodes_truenodeids=[1, 0, 1], nodes_trueleafs=[0, 1, 1],
        nodes_falsenodeids=[2, 2, 3], nodes_falseleafs=[1, 0, 1],
        leaf_targetids=[0, 1, 0, 1], leaf_weights=tensor([5.23, 12.12, -12.23, 7.21], np.float32),
    )  # fmt: skip
    compare(model, feeds)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes_truenodeids": 99}, "does not exist"),
        ({"nodes_featureids": 99}, "does not exist"),
        ({"target_ids": 99}, "does not exist"),
        ({"target_nodeids": 0}, "belongs to no leaf"),
        ({"nodes_modes": "BRANCH_HIGH"}, "unknown mode"),
    ],
)
def test_broken_trees(change: dict[str, Any], message: str) -> None:
    attributes = forest(1, 1, MODES[:1], "target")
    for name, value in change.items():
        attributes[name] = [value, *attributes[name][1:]]
    model, _ = one_node("TreeEnsembleRegressor", [values()], ["y"], domain=ML, **attributes)
    with pytest.raises(irc.Error, match=message):
        irc.read_model(model)


def test_a_cycle_of_nodes_is_refused() -> None:
    attributes = forest(1, 1, MODES[:1], "target")
    inner = [i for i, m in enumerate(attributes["nodes_modes"]) if m != "LEAF"]
    last = next(i for i in inner[1:] if attributes["nodes_treeids"][i] == 0)
    attributes["nodes_truenodeids"][last] = attributes["nodes_nodeids"][last]
    model, _ = one_node("TreeEnsembleRegressor", [values()], ["y"], domain=ML, **attributes)
    with pytest.raises(irc.Error, match="cycle"):
        irc.read_model(model)


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
      "coefficients": [0.5, -1, 2.0], "support_vectors": X[:3].reshape(-1).tolist()})
    for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
]  # fmt: skip


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


def test_zip_map_is_refused_with_a_way_out() -> None:
    model, _ = one_node("ZipMap", [X], ["y"], domain=ML, classlabels_int64s=list(range(6)))
    with pytest.raises(irc.UnsupportedOperationError, match="zipmap=False"):
        irc.read_model(model)


def test_the_dialect_keeps_trees(tmp_path: Path) -> None:
    from irc.compiler.export.xml import write_xml

    model = irc.read_model(MODELS / "random_forest_binary.onnx")
    write_xml(model.graph, tmp_path / "forest.xml", dialect=True)
    before, after = irc.compile_model(model)(X), irc.compile_model(tmp_path / "forest.xml")(X)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
