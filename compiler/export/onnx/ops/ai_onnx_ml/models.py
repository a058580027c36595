"""Classical models of ai.onnx.ml: ensembles of trees, tables of labels, maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ......ir.dtype import DType
from ......ir.ops import LabelEncoder, TreeEnsemble, ZipMap
from ...context import ExportContext, Exported, ExportFunction
from ..elementary import narrow_output

_ML = "ai.onnx.ml"


def _label_encoder(n: ExportContext) -> Exported:
    """Keys, values and the default as tensors (version 4 and later)."""
    n.cast_op(LabelEncoder)
    found: dict[str, Any] = {}
    for port, key in ((1, "keys_tensor"), (2, "values_tensor"), (3, "default_tensor")):
        if n.optional(port) is None:
            continue
        data = n.constant_data(port)
        if data is None:
            raise n.error("a table that is not constant")
        tensor = n.writer.model.tensors.tensor("", data.reshape(-1), n.dtype(port), n.where)
        found[key] = tensor
    return n.add("LabelEncoder", n.input(0), domain=_ML, **found)


def _zip_map(n: ExportContext) -> Exported:
    n.cast_op(ZipMap)
    labels = n.constant_data(1)
    if labels is None:
        raise n.error("labels that are not constant")
    if n.dtype(1) is DType.string:
        texts = [str(v) for v in labels.reshape(-1)]
        return n.add("ZipMap", n.input(0), domain=_ML, classlabels_strings=texts)
    numbers = [int(v) for v in labels.reshape(-1)]
    return n.add("ZipMap", n.input(0), domain=_ML, classlabels_int64s=numbers)


_AGGREGATES = {"AVERAGE": 0, "SUM": 1, "MIN": 2, "MAX": 3}


def _trees(n: ExportContext) -> Exported:
    """TreeEnsemble of version 5, whose leaves name one target each: what a leaf adds to several
    targets is as many copies of the trees, for sums."""
    op = n.cast_op(TreeEnsemble)
    arrays = [n.constant_data(port) for port in range(1, 10)]
    if any(a is None for a in arrays):
        raise n.error("trees that are not constant")
    splits, features, modes, missing, then, other, roots, targets, weights = (
        np.asarray(a) for a in arrays
    )
    wide = n.dtype(1)
    if not n.takes("TreeEnsemble", wide, domain=_ML):
        raise n.error(f"trees of {wide}")
    columns = targets.shape[1]
    if (columns > 1 or (targets < 0).any()) and op.aggregate != "SUM":
        raise n.error(f"leaves of several targets or none, aggregated by {op.aggregate}")
    nodes, leaves = len(splits), len(targets)
    # A tree that is one leaf gets a node whose ways both lead to it.
    alone = np.flatnonzero(roots < 0)
    spare = nodes + np.arange(len(alone))
    inner = roots.copy()
    inner[alone] = spare
    zeros = np.zeros(len(alone), np.int64)
    ways = [np.concatenate([way, roots[alone]]) for way in (then, other)]
    ends = [(way < 0).astype(np.int64) for way in ways]
    indices = [np.where(way < 0, -1 - way, way) for way in ways]
    total = nodes + len(alone)

    def repeat(values: Any) -> list[int]:
        return [int(v) for v in np.tile(values, columns)]

    def shift(values: Any, flags: Any) -> list[int]:
        moved: list[Any] = [
            np.where(flags, values + c * leaves, values + c * total) for c in range(columns)
        ]
        return [int(v) for v in np.concatenate(moved)]

    def tensor(values: Any, dtype: DType) -> Any:
        array = np.ascontiguousarray(values, dtype.numpy)
        return n.writer.model.tensors.tensor("", array, dtype, n.where)

    flat = targets.T.reshape(-1)
    attributes: dict[str, Any] = {
        "aggregate_function": _AGGREGATES[op.aggregate],
        "n_targets": op.targets,
        "post_transform": 0,
        "tree_roots": [int(r) + c * total for c in range(columns) for r in inner],
        "nodes_featureids": repeat(np.concatenate([features, zeros])),
        "nodes_missing_value_tracks_true": repeat(np.concatenate([missing, zeros])),
        "nodes_modes": tensor(np.tile(np.concatenate([modes, zeros]), columns), DType.u8),
        "nodes_splits": tensor(np.tile(np.concatenate([splits, zeros]), columns), wide),
        "nodes_truenodeids": shift(indices[0], ends[0]),
        "nodes_falsenodeids": shift(indices[1], ends[1]),
        "nodes_trueleafs": repeat(ends[0]),
        "nodes_falseleafs": repeat(ends[1]),
        "leaf_targetids": [int(t) for t in np.maximum(flat, 0)],
        "leaf_weights": tensor(np.where(flat < 0, 0, weights.T.reshape(-1)), wide),
    }
    found = n.add("TreeEnsemble", n.input_as(0, wide), domain=_ML, **attributes)
    return narrow_output(n, found, wide)


EXPORTERS: dict[str, ExportFunction] = {
    "TreeEnsemble": _trees,
    "LabelEncoder": _label_encoder,
    "ZipMap": _zip_map,
}
