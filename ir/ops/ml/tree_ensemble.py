"""Ensembles of decision trees (ai.onnx.ml): all rows and all trees take a step at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...errors import ShapeError
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..shape_inference import require_dtype, require_rank, tensor

_INDEX = frozenset([DType.i64])
# A step goes down one level in this many (row, tree) pairs at most, so memory stays bounded.
_MAX_PAIRS_PER_STEP = 1 << 18
AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")
# The numbers of a split's comparison x ? split; a missing x (NaN) goes by `missing` alone, except
# that NEQ holds for it as it does in IEEE arithmetic.
MODES = {"BRANCH_LEQ": 0, "BRANCH_LT": 1, "BRANCH_GTE": 2, "BRANCH_GT": 3, "BRANCH_EQ": 4,
         "BRANCH_NEQ": 5}  # fmt: skip
_COMPARE = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@dataclass(frozen=True)
class TreeEnsemble(Op):
    """Per row of x [rows, features] and target, what the leaves that it reaches add up to.

    Inner nodes are `splits` (compared in their own type: x is converted to it), `features` (a
    column of x), `modes` (MODES), `missing` (1: NaN takes the true branch), `then` and `other`.
    A reference is a node (a later one, so every path ends), or -1 - leaf; `roots` holds one per
    tree. Leaf i gives
    `leaf_weights[i, j]` to target `leaf_targets[i, j]` for every j (-1: nothing).

    aggregate: SUM and AVERAGE (over the trees) add in the order of the trees, in the type of the
    weights; MIN and MAX take 0 where no leaf names the target. Source: ONNX's ai.onnx.ml.
    """

    kind: ClassVar[str] = "TreeEnsemble"
    version: ClassVar[int] = 0
    inputs: ClassVar[tuple[Port, ...]] = tuple(
        Port(name)
        for name in (
            "x", "splits", "features", "modes", "missing", "then", "other", "roots",
            "leaf_targets", "leaf_weights",
        )
    )  # fmt: skip
    targets: int
    aggregate: str = "SUM"

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        x, splits, roots, leaves = (inputs[n] for n in (0, 1, 7, 8))
        if x is None or splits is None or roots is None or leaves is None or not outputs[0].shape:
            return 0
        rows, trees = outputs[0].shape[0], roots.elements
        first = leaves.shape[0] if leaves.shape else 1
        assert isinstance(rows, int) and isinstance(first, int)
        width = leaves.elements // max(first, 1) if leaves.shape else 0
        step = min(rows, max(_MAX_PAIRS_PER_STEP // max(trees, 1), 1))
        copied = 0 if x.dtype is splits.dtype else x.elements * splits.dtype.numpy.itemsize
        # Nodes, values and ways of all pairs of a step; the leaves' targets and weights; sums.
        return copied + step * (trees * (72 + 40 * width) + 24 * (self.targets + 1))

    def infer(
        self, x: Fact, splits: Fact, features: Fact, modes: Fact, missing: Fact, then: Fact,
        other: Fact, roots: Fact, leaf_targets: Fact, leaf_weights: Fact,
    ) -> tuple[Type, ...]:  # fmt: skip
        if self.aggregate not in AGGREGATES or self.targets < 1:
            raise ShapeError(
                "an ensemble aggregates leaves for at least one target",
                got=f"{self.aggregate} of {self.targets}",
                expected=", ".join(AGGREGATES),
            )
        require_rank(x, "x", 2)
        for name, fact in (
            ("features", features), ("modes", modes), ("missing", missing), ("then", then),
            ("other", other), ("roots", roots), ("leaf_targets", leaf_targets),
        ):  # fmt: skip
            require_dtype(fact, name, _INDEX, "i64")
        if all(f.value is not None for f in (features, then, other, roots, leaf_targets)):
            self._check(x, features, then, other, roots, leaf_targets)
        shape = x.tensor.shape
        rows = None if shape is None else (shape[0], self.targets)
        return (tensor(leaf_weights.tensor.dtype, rows),)

    def _check(
        self, x: Fact, features: Fact, then: Fact, other: Fact, roots: Fact, targets: Fact
    ) -> None:
        """Constants that come from a file: every reference has to lead somewhere, once."""
        f, a, b, r, t = (np.asarray(fact.value) for fact in (features, then, other, roots, targets))
        references = np.concatenate([a, b, r])
        columns = None if x.tensor.shape is None else x.tensor.shape[1]
        limit = columns if isinstance(columns, int) else np.iinfo(np.int64).max
        wrong = (
            ("a node", references.size and (references.max() >= f.size)),
            ("a leaf", references.size and (-1 - references.min() >= len(t))),
            ("a feature", f.size and (f.min() < 0 or f.max() >= limit)),
            ("a target", t.size and (t.min() < -1 or t.max() >= self.targets)),
        )
        for what, bad in wrong:
            if bad:
                raise ShapeError(f"an ensemble of trees names {what} that does not exist")
        below = np.arange(f.size)
        if any(((v >= 0) & (v <= below)).any() for v in (a, b)):
            raise ShapeError("a node of a tree does not lead to a later one", expected="no cycles")

    def evaluate(
        self, x: Array, splits: Array, features: Array, modes: Array, missing: Array, then: Array,
        other: Array, roots: Array, leaf_targets: Array, leaf_weights: Array,
    ) -> tuple[Array, ...]:  # fmt: skip
        data = x.astype(splits.dtype, copy=False)
        out = np.empty((len(x), self.targets), leaf_weights.dtype)
        step = max(_MAX_PAIRS_PER_STEP // max(len(roots), 1), 1)
        for start in range(0, len(x), step):
            rows = data[start : start + step]
            leaves = _find_leaves(rows, splits, features, modes, missing, then, other, roots)
            out[start : start + step] = self._gather(leaves, leaf_targets, leaf_weights)
        return (out,)

    def _gather(self, leaves: Array, targets: Array, weights: Array) -> Array:
        """[rows, targets] from the leaf that each row reached in each tree."""
        rows, trees = leaves.shape
        at = np.where(targets < 0, self.targets, targets)
        # One more column takes what names no target.
        first: Array = np.arange(rows, dtype=np.int64).reshape(rows, 1, 1)
        indices = np.reshape(first * (self.targets + 1) + at[leaves], -1)
        values = weights[leaves].reshape(-1)
        size = rows * (self.targets + 1)
        if self.aggregate in ("SUM", "AVERAGE"):
            total = np.zeros(size, weights.dtype)
            np.add.at(total, indices, values)
            if self.aggregate == "AVERAGE":
                total /= weights.dtype.type(max(trees, 1))
        else:
            lowest = self.aggregate == "MIN"
            worst = np.inf if lowest else -np.inf
            total = np.full(size, worst, weights.dtype)
            (np.minimum if lowest else np.maximum).at(total, indices, values)
            named = np.zeros(size, bool)
            named[indices] = True
            total[~named] = 0
        return total.reshape(rows, self.targets + 1)[:, : self.targets]


def _find_leaves(
    rows: Array, splits: Array, features: Array, modes: Array, missing: Array, then: Array,
    other: Array, roots: Array,
) -> Array:  # fmt: skip
    """[rows, trees]: the leaf that each row reaches in each tree."""
    at = np.broadcast_to(roots, (len(rows), len(roots))).reshape(-1).copy()
    owner = np.repeat(np.arange(len(rows)), len(roots))
    used = np.unique(modes)
    moving = np.flatnonzero(at >= 0)
    while moving.size:
        node = at[moving]
        value, split = rows[owner[moving], features[node]], splits[node]
        if used.size == 1:
            holds = _COMPARE[int(used[0])](value, split)
        else:
            choices = [_COMPARE[int(mode)](value, split) for mode in used]
            mode = modes[node]
            holds = np.select([mode == m for m in used], choices)
        holds |= (missing[node] != 0) & np.isnan(value)
        at[moving] = np.where(holds, then[node], other[node])
        moving = moving[at[moving] >= 0]
    return (-1 - at).reshape(len(rows), len(roots))
