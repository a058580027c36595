"""Forests as exporters write them (ai.onnx.ml 3), grown at random: no training, any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

COLUMNS = 20
CLASSES = 3


def grow_nodes(seed: int, trees: int, depth: int, mode: str, *, tracks_missing: bool) -> Any:
    """(attributes of the nodes, leaves per tree): full trees; each split halves, on average, the
    range that is left of a column, so that rows spread over the leaves."""
    rng = np.random.default_rng(seed)
    inner = 2**depth - 1
    features = rng.integers(0, COLUMNS, (trees, inner))
    splits = np.zeros((trees, inner), np.float32)
    low, high = (np.full((trees, COLUMNS, 2 * inner + 1), side) for side in (-2.0, 2.0))
    every = np.arange(trees)
    for node in range(inner):
        at = every, features[:, node], node
        splits[:, node] = low[at] + (high[at] - low[at]) * rng.uniform(0.35, 0.65, trees)
        for child in (2 * node + 1, 2 * node + 2):
            low[..., child], high[..., child] = low[..., node], high[..., node]
        high[every, features[:, node], 2 * node + 1] = splits[:, node]
        low[every, features[:, node], 2 * node + 2] = splits[:, node]
    leaves = np.zeros((trees, inner + 1), np.int64)
    nodes = np.arange(2 * inner + 1)
    children = np.where(nodes < inner, 2 * nodes + 1, 0)
    missing = rng.integers(0, 2, (trees, inner)) * tracks_missing
    return {
        "nodes_treeids": np.repeat(every, 2 * inner + 1),
        "nodes_nodeids": np.tile(nodes, trees),
        "nodes_featureids": np.concatenate([features, leaves], 1),
        "nodes_values": np.concatenate([splits, leaves.astype(np.float32)], 1),
        "nodes_modes": ([mode] * inner + ["LEAF"] * (inner + 1)) * trees,
        "nodes_truenodeids": np.tile(children, trees),
        "nodes_falsenodeids": np.tile(np.where(nodes < inner, 2 * nodes + 2, 0), trees),
        "nodes_missing_value_tracks_true": np.concatenate([missing, leaves], 1),
    }, nodes[inner:]


def make_model(kind: str, attributes: dict[str, Any]) -> ModelProto:
    """One node of ai.onnx.ml over x [N, COLUMNS]."""
    is_regressor = kind == "TreeEnsembleRegressor"
    float_, whole = TensorProto.FLOAT, TensorProto.INT64
    outputs = ["y"] if is_regressor else ["label", "y"]
    node = helper.make_node(kind, ["x"], outputs, domain="ai.onnx.ml")
    for name, value in attributes.items():
        given = value.reshape(-1).tolist() if isinstance(value, np.ndarray) else value
        node.attribute.append(helper.make_attribute(name, given))
    results = [helper.make_tensor_value_info("y", float_, None)]
    if not is_regressor:
        results.insert(0, helper.make_tensor_value_info("label", whole, None))
    x = helper.make_tensor_value_info("x", float_, ["N", COLUMNS])
    domains = [helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("", 17)]
    graph = helper.make_graph([node], "forest", [x], results)
    return helper.make_model(graph, opset_imports=domains, ir_version=9)


def _leaves(nodes: Any, kind: str, width: int, weights: np.ndarray) -> dict[str, Any]:
    """The attributes of the leaves: `width` weights each."""
    attributes, leaves = nodes
    trees = attributes["nodes_treeids"][-1] + 1
    each = len(leaves) * width
    return attributes | {
        f"{kind}_treeids": np.repeat(np.arange(trees), each),
        f"{kind}_nodeids": np.tile(np.repeat(leaves, width), trees),
        f"{kind}_ids": np.tile(np.arange(width), trees * len(leaves)),
        f"{kind}_weights": weights.astype(np.float32),
    }


def forest_regressor(trees: int, depth: int) -> ModelProto:
    """A random forest for one target, as scikit-learn's."""
    nodes = grow_nodes(1, trees, depth, "BRANCH_LEQ", tracks_missing=False)
    weights = np.random.default_rng(2).standard_normal(trees << depth) / trees
    return make_model(
        "TreeEnsembleRegressor", _leaves(nodes, "target", 1, weights) | {"n_targets": 1}
    )


def forest_classifier(trees: int, depth: int) -> ModelProto:
    """A random forest whose leaves weigh every class, as scikit-learn's."""
    nodes = grow_nodes(3, trees, depth, "BRANCH_LEQ", tracks_missing=False)
    weights = np.random.default_rng(4).dirichlet([0.5] * CLASSES, trees << depth) / trees
    labels = {"classlabels_int64s": list(range(CLASSES)), "post_transform": "NONE"}
    return make_model(
        "TreeEnsembleClassifier", _leaves(nodes, "class", CLASSES, weights.reshape(-1)) | labels
    )


def boosting(trees: int, depth: int) -> ModelProto:
    """Gradient boosting with a direction for missing values at each node, as XGBoost's."""
    nodes = grow_nodes(5, trees, depth, "BRANCH_LT", tracks_missing=True)
    weights = np.random.default_rng(6).standard_normal(trees << depth) * 0.1
    return make_model(
        "TreeEnsembleRegressor",
        _leaves(nodes, "target", 1, weights) | {"n_targets": 1, "base_values": [0.5]},
    )


FORESTS: dict[str, Callable[[int, int], ModelProto]] = {
    "forest regressor": forest_regressor,
    "forest classifier": forest_classifier,
    "boosting": boosting,
}
