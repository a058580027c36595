"""Ensembles of trees (ai.onnx.ml 1, 3, 5): attribute lists as arrays, leaves apart from nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ......ir.dtype import DType
from ......ir.graph import Value
from ......ir.op import Array
from ......ir.ops import Add, Gather, TreeEnsemble
from ......ir.ops.ml.tree_ensemble import MODES
from ......ir.scalar.builder import cast_array
from ..elementary import convert_value
from .scores import add_argmax, add_threshold, both_classes, class_labels, label_at, transform

if TYPE_CHECKING:
    from ...import_context import ImportContext, Imported, ImportFunction

Entry = tuple[int, float]


@dataclass
class _Forest:
    """Trees under construction: inner nodes, and leaves with what they give to which target."""

    splits: list[float] = field(default_factory=list[float])
    features: list[int] = field(default_factory=list[int])
    modes: list[int] = field(default_factory=list[int])
    missing: list[int] = field(default_factory=list[int])
    then: list[int] = field(default_factory=list[int])
    other: list[int] = field(default_factory=list[int])
    roots: list[int] = field(default_factory=list[int])
    leaves: list[list[Entry]] = field(default_factory=list[list[Entry]])

    def value(
        self, n: ImportContext, x: Value, dtype: DType, targets: int, aggregate: str
    ) -> Value:
        """The sums per target in `dtype`, in which x is compared and leaves are added."""
        self._put_in_order(n)
        width = max((len(leaf) for leaf in self.leaves), default=1)
        names = np.full((len(self.leaves), max(width, 1)), -1, np.int64)
        weights = np.zeros(names.shape)
        for i, leaf in enumerate(self.leaves):
            for j, (target, weight) in enumerate(leaf):
                names[i, j], weights[i, j] = target, weight
        columns = (self.features, self.modes, self.missing, self.then, self.other, self.roots)
        return n.add(
            TreeEnsemble(targets, aggregate),
            x,
            n.constant(cast_array(np.array(self.splits, np.float64), dtype), dtype),
            *(n.ints_value(column) for column in columns),
            n.constant(names, DType.i64),
            n.constant(cast_array(weights, dtype), dtype),
        )

    def _put_in_order(self, n: ImportContext) -> None:
        """Number the nodes so that each leads to later ones only."""
        count = len(self.then)
        if not any(0 <= r <= i for r, i in _references(self.then, self.other)):
            return
        waiting = [0] * count
        for reference, _ in _references(self.then, self.other):
            if 0 <= reference < count:
                waiting[reference] += 1
        ready = [i for i in range(count) if not waiting[i]]
        for i in ready:  # grows while it is walked
            for reference in (self.then[i], self.other[i]):
                if 0 <= reference < count:
                    waiting[reference] -= 1
                    if not waiting[reference]:
                        ready.append(reference)
        if len(ready) < count:
            raise n.error("the trees have a cycle")
        renumbered = {old: new for new, old in enumerate(ready)}
        self.splits = [self.splits[i] for i in ready]
        for name in ("features", "modes", "missing"):
            setattr(self, name, [getattr(self, name)[i] for i in ready])
        for name in ("then", "other"):
            old = getattr(self, name)
            setattr(self, name, [renumbered.get(old[i], old[i]) for i in ready])
        self.roots = [renumbered.get(r, r) for r in self.roots]


def _references(then: list[int], other: list[int]) -> list[tuple[int, int]]:
    return [(r, i) for pair in (then, other) for i, r in enumerate(pair)]


def _floats(n: ImportContext, name: str) -> tuple[list[float], DType]:
    """An attribute `name`, or `name`_as_tensor, with its element type."""
    if n.has(f"{name}_as_tensor"):
        dtype, data = n.tensor(f"{name}_as_tensor")
        return [float(v) for v in data.reshape(-1).astype(np.float64)], dtype
    return n.numbers(name, []), DType.f32


def _column(n: ImportContext, name: str, count: int) -> list[int]:
    values = n.integers(name, [])
    if len(values) != count:
        raise n.error(f"attribute {name!r} has the wrong length", got=len(values), expected=count)
    return values


def _read_forest(n: ImportContext, kind: str) -> tuple[_Forest, DType, bool, set[int]]:
    """The trees of version 1 and 3; the type of their numbers; whether no weight is negative;
    and the targets that leaves name."""
    trees = n.integers("nodes_treeids", [])
    count = len(trees)
    nodes = _column(n, "nodes_nodeids", count)
    features = _column(n, "nodes_featureids", count)
    then, other = (_column(n, f"nodes_{b}nodeids", count) for b in ("true", "false"))
    missing = n.integers("nodes_missing_value_tracks_true", []) or [0] * count
    modes = n.texts("nodes_modes", [])
    values, dtype = _floats(n, "nodes_values")
    n.seen.update(["nodes_hitrates", "nodes_hitrates_as_tensor"])
    if any(len(column) != count for column in (modes, values, missing)):
        raise n.error("the attributes of the nodes differ in length", expected=count)
    index = {key: i for i, key in enumerate(zip(trees, nodes, strict=True))}
    if len(index) < count:
        raise n.error("two nodes of a tree have one id")
    forest, references = _Forest(), list[int]()
    for i, mode in enumerate(modes):
        if mode == "LEAF":
            references.append(-1 - len(forest.leaves))
            forest.leaves.append([])
            continue
        if mode not in MODES:
            raise n.error("unknown mode of a node", got=mode[:40], expected=", ".join(MODES))
        references.append(len(forest.splits))
        forest.splits.append(values[i])
        forest.features.append(features[i])
        forest.modes.append(MODES[mode])
        forest.missing.append(missing[i])
    children: set[int] = set()
    for i in range(count):
        if references[i] < 0:
            continue
        for branch, to in ((forest.then, then[i]), (forest.other, other[i])):
            target = index.get((trees[i], to))
            if target is None:
                raise n.error("a node leads to one that does not exist", got=to)
            children.add(target)
            branch.append(references[target])
    rooted: set[int] = set()
    for i, tree in enumerate(trees):
        if tree not in rooted and i not in children:
            rooted.add(tree)
            forest.roots.append(references[i])
    weights, weight_type = _floats(n, f"{kind}_weights")
    columns = [_column(n, f"{kind}_{c}", len(weights)) for c in ("treeids", "nodeids", "ids")]
    for tree, node, target, weight in zip(*columns, weights, strict=True):
        at = index.get((tree, node))
        if at is None or references[at] >= 0:
            raise n.error("a weight belongs to no leaf", got=f"node {node} of tree {tree}")
        forest.leaves[-1 - references[at]].append((target, weight))
    wide = DType.f64 in (dtype, weight_type)
    found = DType.f64 if wide else DType.f32
    return forest, found, min(weights, default=0.0) >= 0, set(columns[2])


def tree_regressor(n: ImportContext) -> Value:
    forest, dtype, _, _ = _read_forest(n, "target")
    targets = n.integer("n_targets", 1)
    aggregate = n.text("aggregate_function", "SUM")
    total = _sum_trees(n, forest, dtype, targets, aggregate)
    base, _ = _floats(n, "base_values")
    if base:
        total = n.add(Add(), total, n.constant(_base(n, base, targets), n.dtype(total)))
    total = convert_value(n, total, DType.f32)
    return transform(n, total, n.text("post_transform", "NONE"))


def _sum_trees(
    n: ImportContext, forest: _Forest, dtype: DType, targets: int, aggregate: str
) -> Value:
    x = n.input(0)
    return forest.value(n, x, DType.f64 if n.dtype(x) is DType.f64 else dtype, targets, aggregate)


def _base(n: ImportContext, base: Sequence[float], targets: int) -> Array:
    if len(base) not in (1, targets):
        raise n.error("base_values has the wrong length", got=len(base), expected=f"1 or {targets}")
    return np.array(base)


def tree_classifier(n: ImportContext) -> Imported:
    """The class with the largest score. Of two classes of which leaves name only one, the second
    wins where that score is above 1/2 (above 0 if a weight is negative); where leaves name the
    first class, their score is the second one's, and the first has the rest. Base values of both
    classes make two scores of them."""
    forest, dtype, positive, named = _read_forest(n, "class")
    labels = class_labels(n, "classlabels_int64s", "classlabels_strings")
    if labels is None:
        raise n.error("a classifier has no labels")
    kind, classes = n.text("post_transform", "NONE"), labels[1]
    base, _ = _floats(n, "base_values")
    single = classes == 2 and len(named) == 1 and len(base) < 2
    rest = single and named == {0}
    total = _sum_trees(n, forest, dtype, 1 if rest else classes, "SUM")
    if base:
        total = n.add(Add(), total, n.constant(_base(n, base, classes), n.dtype(total)))
    total = convert_value(n, total, DType.f32)
    if not single:
        return label_at(n, labels[0], add_argmax(n, total)), transform(n, total, kind)
    limit = 0.5 if positive else 0.0
    if rest:
        scores = both_classes(n, total, kind, probability=positive)
        return label_at(n, labels[0], add_threshold(n, total, limit)), scores
    second = n.add(Gather(), total, n.ints_value([1]), n.int_value(1))
    return label_at(n, labels[0], add_threshold(n, second, limit)), transform(n, total, kind)


_MODES_5 = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_AGGREGATES_5 = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS_5 = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_MEMBER = 6


def tree_ensemble(n: ImportContext) -> Value:
    """Version 5: nodes and leaves apart, modes as numbers, sets of members divided by NaN. A node
    with a set becomes one comparison per member."""
    dtype, splits = n.tensor("nodes_splits")
    modes = [int(v) for v in n.tensor("nodes_modes")[1].reshape(-1)]
    count = len(modes)
    features = _column(n, "nodes_featureids", count)
    then, other = (_column(n, f"nodes_{b}nodeids", count) for b in ("true", "false"))
    leafs = [_column(n, f"nodes_{b}leafs", count) for b in ("true", "false")]
    given = n.integers("nodes_missing_value_tracks_true", [])
    missing = given or [0] * count
    n.has("nodes_hitrates")
    members = (
        list(n.tensor("membership_values")[1].reshape(-1)) if n.has("membership_values") else []
    )
    sets = _sets([float(v) for v in members])
    weights = n.tensor("leaf_weights")[1].reshape(-1).astype(np.float64)
    targets = _column(n, "leaf_targetids", len(weights))
    forest = _Forest(leaves=[[e] for e in zip(targets, weights.tolist(), strict=True)])
    first_split: list[int] = []  # of each node, its first comparison
    tests: list[list[float]] = []
    for i, mode in enumerate(modes):
        values = next(sets, list[float]()) if mode == _MEMBER else [float(splits.reshape(-1)[i])]
        first_split.append(sum(map(len, tests)))
        tests.append(values or [float("nan")])
    for i, mode in enumerate(modes):
        if not 0 <= mode <= _MEMBER:
            raise n.error("unknown mode of a node", got=mode, expected="0 to 6")
        ends = [
            -1 - to if leaf else _checked_node(n, first_split, to)
            for to, leaf in ((then[i], leafs[0][i]), (other[i], leafs[1][i]))
        ]
        for k, value in enumerate(tests[i]):
            forest.splits.append(value)
            forest.features.append(features[i])
            forest.modes.append(MODES[_MODES_5[mode] if mode < _MEMBER else "BRANCH_EQ"])
            forest.missing.append(missing[i])
            forest.then.append(ends[0])
            forest.other.append(ends[1] if k == len(tests[i]) - 1 else first_split[i] + k + 1)
    forest.roots = [_checked_node(n, first_split, root) for root in n.integers("tree_roots")]
    aggregate = n.integer("aggregate_function", 1)
    post = n.integer("post_transform", 0)
    if aggregate not in range(4) or post not in range(5):
        raise n.error("unknown aggregate_function or post_transform", got=f"{aggregate}, {post}")
    total = forest.value(
        n, n.input(0), _compute_dtype(dtype), n.integer("n_targets", 1), _AGGREGATES_5[aggregate]
    )
    return transform(n, convert_value(n, total, dtype), _TRANSFORMS_5[post])


def _compute_dtype(dtype: DType) -> DType:
    return DType.f64 if dtype is DType.f64 else DType.f32


def _checked_node(n: ImportContext, first_split: list[int], node: int) -> int:
    if not 0 <= node < len(first_split):
        raise n.error("a node leads to one that does not exist", got=node)
    return first_split[node]


def _sets(values: list[float]) -> Iterator[list[float]]:
    """The sets of values that NaN divides."""
    current: list[float] = []
    for value in values:
        if value != value:
            yield current
            current = []
        else:
            current.append(value)
    if current:
        yield current


_ML = "ai.onnx.ml::"
IMPORTERS: dict[str, dict[int, ImportFunction]] = {
    f"{_ML}TreeEnsembleRegressor": {1: tree_regressor},
    f"{_ML}TreeEnsembleClassifier": {1: tree_classifier},
    f"{_ML}TreeEnsemble": {5: tree_ensemble},
}
