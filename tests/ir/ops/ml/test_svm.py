"""Votes of support vectors: each row alone gives what it gives among others."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.ops import SupportVotes


def couple_by_rows(r: np.ndarray) -> np.ndarray:
    """The paper's algorithm, element by element."""
    k = len(r)
    q = [[-r[j, i] * r[i, j] for j in range(k)] for i in range(k)]
    for i in range(k):
        q[i][i] = sum(r[j, i] ** 2 for j in range(k) if j != i)
    p = [1 / k] * k
    for _ in range(100):
        qp = [sum(q[i][j] * p[j] for j in range(k)) for i in range(k)]
        pqp = sum(p[i] * qp[i] for i in range(k))
        if max(abs(v - pqp) for v in qp) < 0.005 / k:
            break
        for t in range(k):
            diff = (pqp - qp[t]) / q[t][t]
            p[t] += diff
            pqp = (pqp + diff * (diff * q[t][t] + 2 * qp[t])) / (1 + diff) ** 2
            qp = [(qp[j] + diff * q[t][j]) / (1 + diff) for j in range(k)]
            p = [v / (1 + diff) for v in p]
    return np.array(p)


@pytest.mark.parametrize("rows", [0, 1, 2, 50])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_probabilities(classes: int, rows: int) -> None:
    generator = np.random.default_rng(classes)
    pairs = classes * (classes - 1) // 2
    decisions = (2 * generator.standard_normal((rows, pairs))).astype(np.float32)
    decisions[: rows // 3] *= 0.01  # rows that end after other numbers of rounds
    a, b = np.full(pairs, -1.5, np.float32), np.full(pairs, 0.1, np.float32)
    indices, found = SupportVotes(classes).evaluate(decisions, a, b)
    assert indices.shape == (rows,) and found.shape == (rows, classes)
    first, second = np.triu_indices(classes, 1)
    for row, probabilities, index in zip(decisions, found, indices, strict=True):
        r = np.zeros((classes, classes))
        share = np.clip(1 / (1 + np.exp(row.astype(float) * a + b)), 1e-7, 1 - 1e-7)
        r[first, second], r[second, first] = share, 1 - share
        np.testing.assert_allclose(probabilities, couple_by_rows(r), atol=1e-7)
        votes = np.bincount(np.where(row > 0, first, second), minlength=classes)
        assert index == votes.argmax()
