"""Constrained output: tokens that a JSON schema or a grammar allows, by the library llguidance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..ir.errors import UsageError

if TYPE_CHECKING:
    from .tokenizer import Tokenizer

MAX_GRAMMAR_CHARACTERS = 1 << 18
# As json.dumps writes: with free whitespace a model may write nothing else.
_SEPARATORS: Final[Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}


class TokenConstraint:
    """Which tokens may come next. `matcher`: llguidance's LLMatcher."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def mask(self, logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A copy of logits f32 [V] with -inf for the tokens that may not come next. Where the text
        is complete, only the end tokens remain."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._require_no_error()
        allowed = np.unpackbits(bits, bitorder="little")[: len(logits)].astype(bool)
        found = np.full_like(logits, -np.inf)
        at = np.flatnonzero(allowed)
        found[at] = logits[at]
        return found

    def accept(self, token: int) -> None:
        """The token was chosen."""
        if not self._matcher.is_stopped():
            self._matcher.consume_token(token)
            self._require_no_error()

    def _require_no_error(self) -> None:
        if self._matcher.is_error():
            raise _refuse(self._matcher.get_error())


def make_constraint(
    tokenizer: Tokenizer, end_tokens: Sequence[int], json_schema: str | None, grammar: str | None
) -> TokenConstraint | None:
    """The constraint of a schema or grammar, None without one. UsageError for what llguidance
    refuses, and where the library is missing."""
    if json_schema is None and grammar is None:
        return None
    try:
        from llguidance import LLMatcher, LLTokenizer
    except ImportError:
        raise UsageError(
            "constrained output needs a package that is missing",
            got="no module llguidance",
            fix='pip install "irc-compiler[constrain]"',
        ) from None
    if not end_tokens:
        raise UsageError(
            "constrained output needs an end token",
            got="a model without one",
            expected="eos_token_id in the model's configuration",
        )
    if tokenizer.guide is None:
        tokenizer.guide = LLTokenizer(
            tokenizer.library.to_str(), n_vocab=tokenizer.vocabulary, eos_token=list(end_tokens)
        )
    if json_schema is not None:
        try:
            form = LLMatcher.grammar_from_json_schema(json_schema, _SEPARATORS)
        except ValueError as error:
            raise _refuse(str(error)) from None
    else:
        form = LLMatcher.grammar_from_lark(grammar or "")
    made = LLMatcher(tokenizer.guide, form, log_level=0)
    if made.is_error():
        raise _refuse(made.get_error())
    return TokenConstraint(made)


def _refuse(reason: str) -> UsageError:
    return UsageError(
        "the schema or grammar cannot be used",
        got=reason[:400],
        expected="a JSON schema, or a grammar in Lark's form, that llguidance takes",
    )
