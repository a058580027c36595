"""Pages of prefixes: found by tokens, shared, dropped in the order of their last use."""

from __future__ import annotations

import numpy as np
from irc_compiler.llm.batching.prefix_cache import PAGE_TOKENS, Array, PrefixCache

PAGE_BYTES = PAGE_TOKENS * 4


def copy(start: int, stop: int) -> list[Array]:
    return [np.arange(start, stop, dtype=np.float32).reshape(1, -1, 1)]


def tokens(pages: int, last: int = 0) -> list[int]:
    return [*range((pages - 1) * PAGE_TOKENS), *[last] * PAGE_TOKENS]


def count_found(cache: PrefixCache, given: list[int]) -> int:
    found = cache.find(given)
    for n, (values,) in enumerate(found):
        wanted = copy(n * PAGE_TOKENS, (n + 1) * PAGE_TOKENS)[0]
        np.testing.assert_array_equal(values, wanted)
    return len(found)


def test_the_longest_equal_beginning_is_found() -> None:
    cache = PrefixCache(1 << 20)
    cache.add(tokens(3), copy)
    assert cache.nbytes == 3 * PAGE_BYTES
    assert count_found(cache, [*tokens(3), 7]) == 3
    assert count_found(cache, tokens(3)) == 2, "the last token is read in any case"
    assert count_found(cache, [*tokens(3, last=1), 7]) == 2
    assert count_found(cache, [5, *tokens(3)]) == 0
    cache.add(tokens(3, last=1), copy)
    assert cache.nbytes == 4 * PAGE_BYTES, "two pages are shared"
    cache.add([*tokens(3), 1, 2, 3], copy)
    assert cache.nbytes == 4 * PAGE_BYTES, "part of a page is not kept"


def test_pages_that_were_not_used_are_dropped_and_memory_is_bounded() -> None:
    cache = PrefixCache(4 * PAGE_BYTES)
    cache.add(tokens(3), copy)
    cache.add(tokens(3, last=1), copy)
    assert count_found(cache, [*tokens(3), 7]) == 3
    cache.add([9] * PAGE_TOKENS, copy)
    assert cache.nbytes == 4 * PAGE_BYTES
    assert count_found(cache, [*tokens(3, last=1), 7]) == 2, "the page that was used first is gone"
    assert count_found(cache, [*tokens(3), 7]) == 3
    cache.add(tokens(40), copy)
    assert cache.nbytes <= 4 * PAGE_BYTES
    for seed in range(50):
        cache.add(np.random.default_rng(seed).integers(0, 2, 200).tolist(), copy)
        assert cache.nbytes <= 4 * PAGE_BYTES


def test_a_cache_without_memory_keeps_nothing() -> None:
    cache = PrefixCache(0)
    cache.add(tokens(2), copy)
    assert cache.nbytes == 0 and cache.find(tokens(3)) == []
