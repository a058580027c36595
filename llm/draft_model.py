"""Speculative decoding by a draft model: a smaller model guesses the next tokens of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir.errors import UsageError

if TYPE_CHECKING:
    from .decoder import Decoder
    from .tokenizer import Tokenizer

# Tokens that a draft model guesses per run of the model, where the caller gives no number.
DRAFT_TOKENS: Final = 4


class DraftModel:
    """Guesses greedily, with a cache of its own. One text at a time.

    A text of another model may be longer than the draft's context: guesses end there.
    """

    def __init__(self, decoder: Decoder, context_length: int, vocabulary: int) -> None:
        """vocabulary: tokens of the model that verifies the guesses."""
        self._cache = decoder.start()
        self._context_length = context_length
        self._vocabulary = vocabulary
        self._known: list[int] = []

    def guess(self, tokens: Sequence[int], count: int) -> list[int]:
        """Up to `count` tokens behind `tokens`."""
        count = min(count, self._context_length - len(tokens))
        guesses: list[int] = []
        while len(guesses) < count:
            logits = self._read([*tokens, *guesses])
            token = int(logits[: self._vocabulary].argmax())
            guesses.append(token)
        return guesses

    def _read(self, tokens: Sequence[int]) -> Any:
        """Logits f32 [V] behind the last token. What the cache shares with the text stays."""
        shared = count_shared_tokens(self._known, tokens)
        shared = self._cache.trim(min(shared, len(tokens) - 1, self._cache.columns))
        del self._known[shared:]
        try:
            return self._cache.read(np.array([tokens[shared:]], np.int64))[0, -1]
        finally:
            self._known = list(tokens[: self._cache.columns])


def check_draft(model: Tokenizer, draft: Tokenizer, name: str) -> None:
    """UsageError unless both tokenizers number the same tokens alike. name: of the draft model."""
    if model is not draft and model.tokens() != draft.tokens():
        raise UsageError(
            "the draft model has other tokens than the model",
            where=name,
            got=f"{draft.vocabulary} tokens",
            expected=f"the {model.vocabulary} tokens of the model, with equal numbers",
            fix="use a smaller model of the same family",
        )


def count_shared_tokens(a: Sequence[int], b: Sequence[int]) -> int:
    """The number of equal leading tokens."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
