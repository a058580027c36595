"""Decisions between pairs of classes into one class and its probabilities (support vectors)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import ClassVar

import numpy as np

from ...dtype import DType
from ...lazy_dataclass import dataclass
from ...op import Array, Fact, Op, Port
from ...types import TensorType, Type
from ..shape_inference import require_rank, tensor

_MIN_PROBABILITY, _MAX_ITERATIONS = 1e-7, 100


@dataclass(frozen=True)
class SupportVotes(Op):
    """From decisions [rows, pairs] of the pairs (i, j), i before j: the class of each row, i64
    [rows], and its probabilities, f32 [rows, classes].

    A pair votes for i where its decision is above 0, else for j; the class with most votes wins,
    the first of equal ones. Probabilities come from prob_a and prob_b (one per pair) by pairwise
    coupling (Wu, Lin, Weng: "Probability estimates for multi-class classification by pairwise
    coupling", 2004); the most probable class may be another. Where the two are empty, the shares
    of votes replace them.
    """

    kind: ClassVar[str] = "SupportVotes"
    version: ClassVar[int] = 0
    fresh: ClassVar[bool] = True
    inputs: ClassVar[tuple[Port, ...]] = (Port("decisions"), Port("prob_a"), Port("prob_b"))
    outputs: ClassVar[tuple[Port, ...]] = (Port("indices"), Port("probabilities"))
    classes: int

    def scratch_bytes(
        self, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]
    ) -> int:
        decisions, factors = inputs[:2]
        pairs, made = 0 if decisions is None else decisions.elements, outputs[1].elements
        votes = 9 * pairs + 24 * made
        if factors is None or not factors.elements:
            return votes
        # The matrix of pairs in f64, and what each round of the coupling makes of it.
        return votes + 32 * pairs + 40 * self.classes * made

    def infer(self, decisions: Fact, prob_a: Fact, prob_b: Fact) -> tuple[Type, ...]:
        require_rank(decisions, "decisions", 2)
        shape = decisions.tensor.shape
        rows = None if shape is None else shape[0]
        return (
            tensor(DType.i64, None if rows is None else (rows,)),
            tensor(DType.f32, None if rows is None else (rows, self.classes)),
        )

    def evaluate(self, decisions: Array, prob_a: Array, prob_b: Array) -> tuple[Array, ...]:
        first, second = _list_pairs(self.classes)
        rows = len(decisions)
        winner = np.where(decisions > 0, first, second)
        winner += np.arange(0, rows * self.classes, self.classes)[:, None]
        votes = np.bincount(winner.reshape(-1), minlength=rows * self.classes)
        votes = votes.reshape(rows, self.classes)
        scores = votes / max(decisions.shape[1], 1)
        if prob_a.size:
            pairs = _sigmoid(decisions, prob_a, prob_b)
            matrix = np.zeros((rows, self.classes, self.classes))
            matrix[:, first, second], matrix[:, second, first] = pairs, 1 - pairs
            scores = _couple_pairs(matrix)
        return votes.argmax(axis=1).astype(np.int64), scores.astype(np.float32)


@cache
def _list_pairs(classes: int) -> tuple[Array, Array]:
    """The classes i and j of each pair."""
    first, second = np.triu_indices(classes, 1)
    return first, second


def _sigmoid(decisions: Array, a: Array, b: Array) -> Array:
    with np.errstate(over="ignore"):
        found = 1 / (1 + np.exp(decisions.astype(np.float64) * a + b))
    return np.clip(found, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)


def _couple_pairs(r: Array) -> Array:
    """Probabilities [rows, classes] from those of pairs, by the paper's fixed-point iteration.

    Rows are the last axis here: few classes and many rows make few and long operations of NumPy's.
    """
    rows, k, _ = r.shape
    pairs: Array = np.ascontiguousarray(r.transpose(1, 2, 0))
    others = pairs.swapaxes(0, 1)
    q = -others * pairs
    q[np.arange(k), np.arange(k)] = (others * others).sum(axis=1)
    p: Array = np.full((k, rows), 1.0 / k)
    result: Array = np.empty_like(p)
    open_: Array = np.arange(rows, dtype=np.int64)
    for _ in range(max(_MAX_ITERATIONS, k)):
        qp = (q * p).sum(axis=1)
        pqp = (p * qp).sum(axis=0)
        goes_on = np.abs(qp - pqp).max(axis=0) >= 0.005 / k
        if not goes_on.all():
            result[:, open_] = p
            left = np.flatnonzero(goes_on)
            open_ = open_[left]
            if not open_.size:
                break
            p, q, qp, pqp = p[:, left], q[:, :, left], qp[:, left], pqp[left]
        _improve(p, q, qp, pqp)
    if open_.size:
        result[:, open_] = p
    return result.T


def _improve(p: Array, q: Array, qp: Array, pqp: Array) -> None:
    """One step of the iteration for each class in turn, in place."""
    for t, own in enumerate(qp):
        diff = (pqp - own) / q[t, t]
        scale = 1 / (1 + diff)
        # The next p'Qp, from what `diff` is.
        pqp += diff * (pqp + own)
        pqp *= scale * scale
        p[t] += diff
        p *= scale
        qp += diff * q[t]
        qp *= scale
