"""Ensembles of trees (ai.onnx.ml) against onnxruntime: every mode, aggregate and transform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import irc_compiler as irc
import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.frontends.ml_models import compare, one_node

MODELS = Path(__file__).resolve().parents[5] / "support" / "models" / "sklearn"
ML = "ai.onnx.ml"
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
@pytest.mark.slow
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("modes", [*([m] for m in MODES), MODES], ids=lambda m: m[0] + str(len(m)))
def test_tree_regressor(modes: list[str], aggregate: str) -> None:
    attributes = forest(len(modes[0]), 2, modes, "target")
    model, feeds = one_node(
        "TreeEnsembleRegressor", [values()], ["y"], domain=ML, n_targets=2,
        aggregate_function=aggregate, base_values=[0.25, -0.5], **attributes,
    )  # fmt: skip
    compare(model, feeds)


@pytest.mark.slow
@pytest.mark.parametrize("post", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tree_post_transforms(post: str, dtype: str) -> None:
    attributes = forest(3, 3, MODES[:1], "target")
    model, feeds = one_node(
        "TreeEnsembleRegressor", [values(dtype)], ["y"], domain=ML, n_targets=3,
        post_transform=post, **attributes,
    )  # fmt: skip
    compare(model, feeds, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
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


def test_integers_are_compared_as_floats() -> None:
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


def stump(**attributes: Any) -> dict[str, Any]:
    """One comparison of one feature; the second class gets what the two leaves weigh."""
    return {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0] * 3,
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
    } | attributes  # fmt: skip


@pytest.mark.parametrize("weights", [[0.2, 0.8], [0.6, 0.4], [-0.2, 0.3]])
@pytest.mark.parametrize("named", [0, 1])
def test_a_half_divides_probabilities_and_nothing_other_scores(
    weights: list[float], named: int
) -> None:
    attributes = stump(
        nodes_values=[0.0] * 3, class_treeids=[0, 0], class_nodeids=[1, 2],
        class_ids=[named] * 2, class_weights=weights, classlabels_int64s=[7, 9],
    )  # fmt: skip
    x = np.array([[-1.0], [1.0]], np.float32)
    compare(*one_node("TreeEnsembleClassifier", [x], ["l", "s"], domain=ML, **attributes))


def test_splits_of_double_precision_are_compared_in_it() -> None:
    tensors = {
        name: numpy_helper.from_array(np.array(v, np.float64))
        for name, v in (("nodes_values", [0.1] * 3), ("target_weights", [1.0, 2.0]))
    }
    attributes = stump(
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
        **{f"{name}_as_tensor": v for name, v in tensors.items()},
    )  # fmt: skip
    x = np.array([[0.1], [0.0999]], np.float32)  # f32 has no 0.1: the next is larger
    model, feeds = one_node("TreeEnsembleRegressor", [x], ["y"], domain=ML, version=3, **attributes)
    np.testing.assert_array_equal(irc.compile_model(model)(feeds)[0], [[2], [1]])


def version_5(old: dict[str, Any], dtype: Any, **more: Any) -> dict[str, Any]:
    """The attributes of TreeEnsemble-5 for a forest, of whose leaves each names one target."""
    names = list(zip(old["nodes_treeids"], old["nodes_nodeids"], strict=True))
    inner = [i for i, mode in enumerate(old["nodes_modes"]) if mode != "LEAF"]
    leaves = [i for i, mode in enumerate(old["nodes_modes"]) if mode == "LEAF"]
    place = {names[i]: n for group in (inner, leaves) for n, i in enumerate(group)}
    is_leaf = {names[i] for i in leaves}
    at = zip(old["target_treeids"], old["target_nodeids"], strict=True)
    given = dict(zip(at, zip(old["target_ids"], old["target_weights"], strict=True), strict=True))
    ends = [given.get(names[i], (0, 0.0)) for i in leaves]
    numbers = {"nodes_modes": ([MODES.index(old["nodes_modes"][i]) for i in inner], np.uint8)}
    numbers["nodes_splits"] = [old["nodes_values"][i] for i in inner], dtype
    numbers["leaf_weights"] = [weight for _, weight in ends], dtype
    made: dict[str, Any] = {
        name: numpy_helper.from_array(np.array(*pair)) for name, pair in numbers.items()
    }
    for branch in ("true", "false"):
        to = [(names[i][0], old[f"nodes_{branch}nodeids"][i]) for i in inner]
        made[f"nodes_{branch}nodeids"] = [place[t] for t in to]
        made[f"nodes_{branch}leafs"] = [int(t in is_leaf) for t in to]
    for name in ("nodes_featureids", "nodes_missing_value_tracks_true"):
        made[name] = [old[name][i] for i in inner]
    roots = [place[name] for name in names if name[1] == 0]
    return made | more | {"leaf_targetids": [target for target, _ in ends], "tree_roots": roots}


@pytest.mark.slow
@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("modes", [*([m] for m in MODES), MODES], ids=lambda m: m[0] + str(len(m)))
def test_tree_ensemble_5(modes: list[str], dtype: str, aggregate: int) -> None:
    attributes = version_5(
        forest(len(modes[0]), 2, modes, "target"), dtype, n_targets=2, aggregate_function=aggregate
    )
    model, feeds = one_node(
        "TreeEnsemble", [values(dtype)], ["y"], domain=ML, version=5, **attributes
    )
    compare(model, feeds)


@pytest.mark.parametrize(("post", "name"), [(0, "NONE"), (1, "SOFTMAX"), (2, "LOGISTIC")])
def test_the_transforms_of_tree_ensemble_5_are_numbered_as_onnx_says(post: int, name: str) -> None:
    """onnxruntime takes 1 for LOGISTIC and 2 for SOFTMAX: so it is asked by name, of version 3."""
    old = forest(3, 2, MODES[:1], "target", named=[0])
    found = []
    for op_type, version, attributes in (
        ("TreeEnsemble", 5, version_5(old, "float32", post_transform=post)),
        ("TreeEnsembleRegressor", 3, old | {"post_transform": name}),
    ):
        model, feeds = one_node(
            op_type, [values()], ["y"], domain=ML, version=version, n_targets=2, **attributes
        )
        found.append(irc.compile_model(model)(feeds)[0])
    np.testing.assert_array_equal(*found)
    compare(model, feeds, rtol=1e-5, atol=1e-5)


def test_base_values_of_both_classes_make_two_scores() -> None:
    """ONNX adds a base value to its class; onnxruntime gives the rest up of one of the two."""
    for named in ([0], [1]):
        attributes = forest(5, 2, MODES[:1], "class", named=named)
        model, feeds = one_node(
            "TreeEnsembleClassifier", [values()], ["label", "scores"], domain=ML,
            classlabels_int64s=[7, 9], base_values=[0.25, 0.5], **attributes,
        )  # fmt: skip
        labels, scores = irc.compile_model(model)(feeds)
        np.testing.assert_array_equal(scores[:, 1 - named[0]], [0.5, 0.25][named[0]])
        np.testing.assert_array_equal(labels, np.where(scores[:, 1] > scores[:, 0], 9, 7))


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


def test_the_dialect_keeps_trees(tmp_path: Path) -> None:
    from irc_compiler.compiler.export.xml import write_xml

    model = irc.read_model(MODELS / "random_forest_binary.onnx")
    write_xml(model.graph, tmp_path / "forest.xml", dialect=True)
    x = (np.random.default_rng(7).standard_normal((50, 6)) * 2).astype(np.float32)
    before, after = irc.compile_model(model)(x), irc.compile_model(tmp_path / "forest.xml")(x)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
