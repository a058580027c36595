"""Keys and values of token prefixes, shared by the requests of an engine.

A prefix is a chain of pages of PAGE_TOKENS tokens. A page is found by its tokens and the page
before it, so that requests with equal beginnings share the pages of these. A page counts the pages
behind it, and is dropped only when there are none; the least recently used page is dropped first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy.typing as npt

Array = npt.NDArray[Any]
# It divides a block of attention, so that a page is in one piece in a pool of rows.
PAGE_TOKENS: Final = 32
# Number of the page before, and the page's tokens.
_Key = tuple[int, tuple[int, ...]]
_NO_PAGE: Final = 0


@dataclass(eq=False)
class _Page:
    """values: [heads, PAGE_TOKENS, size] per variable. followers: pages behind it."""

    number: int
    key: _Key
    before: _Page | None
    values: list[Array]
    followers: int = 0

    @property
    def nbytes(self) -> int:
        return sum(v.nbytes for v in self.values)


class PrefixCache:
    """Pages of at most `max_bytes` together. Not for several threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes, self._number, self.nbytes = max_bytes, _NO_PAGE, 0
        self._pages: OrderedDict[_Key, _Page] = OrderedDict()  # the least recently used one first

    def find(self, tokens: Sequence[int]) -> list[list[Array]]:
        """The values of the pages that these tokens begin with, without the last token, which is
        read in any case: its logits choose the next one."""
        return [page.values for page in self._find_chain(tokens[:-1])]

    def add(self, tokens: Sequence[int], copy: Callable[[int, int], list[Array]]) -> None:
        """Keep the pages of these tokens. copy: keys and values of tokens from start to stop."""
        if self._max_bytes == 0:
            return
        chain = self._find_chain(tokens)
        before = chain[-1] if chain else None
        for start in range(len(chain) * PAGE_TOKENS, len(tokens) - PAGE_TOKENS + 1, PAGE_TOKENS):
            stop = start + PAGE_TOKENS
            key = (before.number if before else _NO_PAGE, tuple(tokens[start:stop]))
            self._number += 1
            page = _Page(self._number, key, before, copy(start, stop))
            if before is not None:
                before.followers += 1
            self._pages[key] = page
            self.nbytes += page.nbytes
            before = page
        self._touch(before)
        while self.nbytes > self._max_bytes:
            # A page is used whenever one behind it is, and later: the first one has no followers.
            _, page = self._pages.popitem(last=False)
            assert page.followers == 0
            self.nbytes -= page.nbytes
            if page.before is not None:
                page.before.followers -= 1

    def _find_chain(self, tokens: Sequence[int]) -> list[_Page]:
        chain: list[_Page] = []
        for start in range(0, len(tokens) - PAGE_TOKENS + 1, PAGE_TOKENS):
            before = chain[-1].number if chain else _NO_PAGE
            page = self._pages.get((before, tuple(tokens[start : start + PAGE_TOKENS])))
            if page is None:
                break
            chain.append(page)
        self._touch(chain[-1] if chain else None)
        return chain

    def _touch(self, page: _Page | None) -> None:
        while page is not None:
            self._pages.move_to_end(page.key)
            page = page.before
