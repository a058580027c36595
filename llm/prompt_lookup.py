"""Speculative decoding by prompt lookup: guess the next tokens from an earlier equal passage."""

from __future__ import annotations

from collections.abc import Sequence

MAX_MATCH = 4  # tokens at the end of a text that an earlier passage must equal, at most
MIN_MATCH = 2
MAX_SEARCHED = 8192  # tokens from the end that are searched


def guess_tokens(tokens: Sequence[int], count: int) -> list[int]:
    """Up to `count` tokens that followed the latest earlier passage that equals the end of the
    text; the longest such end counts. Empty where there is none."""
    text = list(tokens[-MAX_SEARCHED:])
    for length in range(min(MAX_MATCH, len(text) - 1), MIN_MATCH - 1, -1):
        end = text[-length:]
        for start in range(len(text) - length - 1, -1, -1):
            if text[start : start + length] == end:
                return text[start + length : start + length + count]
    return []
