"""Decisions between pairs of classes into one class and its probabilities (support vectors)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...dtype import DType
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
        first, second = np.triu_indices(self.classes, 1)
        rows = len(decisions)
        votes = np.zeros((rows, self.classes))
        winner = np.where(decisions > 0, first, second)
        for pair in range(winner.shape[1]):
            votes[np.arange(rows), winner[:, pair]] += 1
        scores = votes / max(decisions.shape[1], 1)
        if prob_a.size:
            pairs = _sigmoid(decisions, prob_a, prob_b)
            matrix = np.zeros((rows, self.classes, self.classes))
            matrix[:, first, second], matrix[:, second, first] = pairs, 1 - pairs
            scores = _couple_pairs(matrix)
        return votes.argmax(axis=1).astype(np.int64), scores.astype(np.float32)


def _sigmoid(decisions: Array, a: Array, b: Array) -> Array:
    with np.errstate(over="ignore"):
        found = 1 / (1 + np.exp(decisions.astype(np.float64) * a + b))
    return np.clip(found, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)


def _couple_pairs(r: Array) -> Array:
    """Probabilities [rows, classes] from those of pairs, by the paper's fixed-point iteration."""
    rows, k, _ = r.shape
    q = -np.swapaxes(r, 1, 2) * r
    q[:, np.arange(k), np.arange(k)] = (np.swapaxes(r, 1, 2) ** 2).sum(axis=2)
    p = np.full((rows, k), 1.0 / k)
    open_: Array = np.arange(rows, dtype=np.int64)
    for _ in range(max(_MAX_ITERATIONS, k)):
        m, s = q[open_], p[open_]
        qp = np.einsum("nij,nj->ni", m, s)
        pqp = np.einsum("ni,ni->n", s, qp)
        ends = np.abs(qp - pqp[:, None]).max(axis=1) < 0.005 / k
        open_ = open_[~ends]
        if not open_.size:
            break
        m, s, qp, pqp = m[~ends], s[~ends], qp[~ends], pqp[~ends]
        for t in range(k):
            diff = (-qp[:, t] + pqp) / m[:, t, t]
            s[:, t] += diff
            pqp = (pqp + diff * (diff * m[:, t, t] + 2 * qp[:, t])) / (1 + diff) ** 2
            qp = (qp + diff[:, None] * m[:, t]) / (1 + diff)[:, None]
            s /= (1 + diff)[:, None]
        p[open_] = s
    return p
