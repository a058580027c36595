"""Sampling: the distribution that is drawn from, seeds and penalties."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.llm.sampling import GenerationOptions, Sampler, cut_distribution, find_top

LOGITS = np.log(np.array([0.5, 0.05, 0.2, 0.15, 0.1], np.float32))


def draw(options: GenerationOptions, count: int = 4000) -> list[float]:
    sampler = Sampler(options)
    chosen = [sampler.choose(LOGITS)[0] for _ in range(count)]
    return [chosen.count(t) / count for t in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [0.5, 0.05, 0.2, 0.15, 0.1]),
        ({"top_k": 2}, [5 / 7, 0, 2 / 7, 0, 0]),
        ({"top_p": 0.7}, [5 / 7, 0, 2 / 7, 0, 0]),
        ({"top_p": 0.71}, [50 / 85, 0, 20 / 85, 15 / 85, 0]),
        ({"top_p": 0.01}, [1, 0, 0, 0, 0]),
        ({"min_p": 0.29}, [50 / 85, 0, 20 / 85, 15 / 85, 0]),
        ({"temperature": 0.5}, [100 / 130, 1 / 130, 16 / 130, 9 / 130, 4 / 130]),
    ],
)  # fmt: skip
def test_tokens_are_drawn_by_their_probabilities(
    options: dict[str, float], wanted: list[float]
) -> None:
    found = draw(GenerationOptions(**{"temperature": 1.0, "seed": 1, **options}))  # type: ignore[arg-type]
    np.testing.assert_allclose(found, wanted, atol=0.03)
    assert [f > 0 for f in found] == [w > 0 for w in wanted]


def test_a_seed_gives_the_same_draws() -> None:
    one, two, other = (
        [Sampler(GenerationOptions(temperature=1.0, seed=s)).choose(LOGITS)[0] for _ in range(1)]
        + draw(GenerationOptions(temperature=1.0, seed=s), 50)
        for s in (3, 3, 4)
    )
    assert one == two != other


def test_the_penalty_lowers_what_was_seen() -> None:
    logits = np.array([2.0, 1.5, -1.0, -2.0], np.float32)
    sampler = Sampler(GenerationOptions(repetition_penalty=2.0), seen=[0, 2, 900])
    np.testing.assert_array_equal(sampler.penalize(logits), [1.0, 1.5, -2.0, -2.0])
    assert [sampler.choose(logits)[0] for _ in range(2)] == [1, 0]
    np.testing.assert_array_equal(logits, [2.0, 1.5, -1.0, -2.0])


def test_the_top_is_ordered_and_ties_take_the_first() -> None:
    values = np.array([1.0, 3.0, 2.0, 3.0, 3.0])
    assert find_top(values, 2).tolist() == [1, 3]
    assert find_top(values, 9).tolist() == [1, 3, 4, 2, 0]
    assert find_top(values, 0).tolist() == []


def test_the_most_likely_token_always_stays() -> None:
    options = GenerationOptions(temperature=1.0, top_p=1e-9, min_p=1.0, top_k=1)
    kept, weights = cut_distribution(LOGITS, options)
    assert kept.tolist() == [0] and weights.tolist() == [1.0]
