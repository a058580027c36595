"""Rows that join and leave one request have the logits that they have alone, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.llm.batching.row_pool import BLOCK, RowPool, Rows, SeparateRows, takes_gaps
from irc_compiler.llm.decoder import TokenCache
from support.models.reference_generation import tiny_llm
from support.models.tiny_decoder import VOCABULARY, tiny_language_model

RNG = np.random.default_rng(3)


class Pair:
    """A pool, and the same rows alone."""

    def __init__(self, pool: Rows) -> None:
        self.pool = pool
        self.alone: list[TokenCache] = []

    def join(self, length: int) -> None:
        ids = RNG.integers(0, VOCABULARY, (1, length))
        caches = [tiny_llm(context_length=1024).decoder.start() for _ in range(2)]
        for cache in caches:
            cache.read(ids)
        self.pool.join(caches[0])
        self.alone.append(caches[1])

    def keep(self, rows: list[int]) -> None:
        self.pool.keep(rows)
        self.alone = [self.alone[r] for r in rows]

    def step(self, count: int) -> None:
        for _ in range(count):
            tokens = RNG.integers(0, VOCABULARY, len(self.alone)).tolist()
            found = self.pool.step(tokens)
            wanted = [
                cache.read(np.array([[token]]))[0, -1]
                for cache, token in zip(self.alone, tokens, strict=True)
            ]
            np.testing.assert_array_equal(found, wanted)


def make(kind: str) -> Rows:
    return RowPool(tiny_llm(context_length=1024).decoder) if kind == "pool" else SeparateRows()


@pytest.mark.parametrize("kind", ["pool", "separate"])
def test_rows_that_join_and_leave_have_the_logits_that_they_have_alone(kind: str) -> None:
    pair = Pair(make(kind))
    pair.join(5)
    pair.step(2)
    pair.join(BLOCK - 2)  # fills its block while others are in theirs
    pair.step(3)
    pair.join(2 * BLOCK - 6)
    pair.join(30)
    pair.step(8)
    pair.keep([0, 2, 3])
    pair.step(2)
    pair.join(BLOCK)
    pair.keep([0, 2, 3])  # the longest leaves, and one leaves before its first step joins
    pair.step(3)
    pair.keep([0, 1])  # the last one leaves
    pair.step(1)
    pair.keep([])
    assert pair.pool.nbytes == 0
    pair.join(7)
    pair.step(2)


@pytest.mark.slow
def test_rows_of_many_lengths_over_several_blocks() -> None:
    pair = Pair(make("pool"))
    for turn in range(60):
        if len(pair.alone) < 5:
            pair.join(int(RNG.integers(1, 3 * BLOCK)))
        pair.step(int(RNG.integers(1, 12)))
        if turn % 3 == 2:
            pair.keep(sorted(RNG.permutation(len(pair.alone))[1:].tolist()))


def test_what_a_removed_row_held_does_not_reach_the_others() -> None:
    pool = RowPool(tiny_llm(context_length=1024).decoder)
    pair = Pair(pool)
    pair.join(4)
    pair.join(50)
    pair.step(1)
    for values in pool._request.state_views():
        values[1] = np.nan
    pair.keep([0])
    pair.join(9)
    pair.step(3)


def test_windows_count_columns() -> None:
    config = tiny_language_model().config
    assert takes_gaps(config, 512)
    assert not takes_gaps(replace(config, left_padding=False), 512)
    assert not takes_gaps(replace(config, sliding_window=512), 512)
    assert takes_gaps(replace(config, sliding_window=4096), 512)
