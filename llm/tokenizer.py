"""Text to token numbers and back, by the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_REPLACEMENT = "\ufffd"  # what decoding gives for bytes that are not UTF-8 (yet)


class Tokenizer:
    """`library` is the tokenizer itself. Special tokens in a text (`<|im_end|>`) are recognized:
    a chat template writes them."""

    def __init__(self, library: Library, vocabulary: int | None = None) -> None:
        self.library = library
        self.guide: Any = None  # llguidance's form of it, once a text is constrained
        self.vocabulary = vocabulary or library.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """add_special: put the tokens that begin (or end) a text around it."""
        return list(self.library.encode(text, add_special_tokens=add_special).ids)

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Bytes that are not UTF-8 become U+FFFD."""
        self._check(ids)
        return self.library.decode(list(ids), skip_special_tokens=skip_special)

    def tokens(self) -> dict[str, int]:
        """Every token and its number."""
        return self.library.get_vocab(with_added_tokens=True)

    def token_id(self, token: str) -> int | None:
        """The number of a token, None where the vocabulary lacks it."""
        return self.library.token_to_id(token)

    def stream(self, skip_special: bool = True) -> DecodeStream:
        """Decode token by token."""
        return DecodeStream(self, skip_special)

    def _check(self, ids: Sequence[int]) -> None:
        wrong = next((i for i in ids if not 0 <= i < self.vocabulary), None)
        if wrong is not None:
            raise UsageError("no such token", got=wrong, expected=f"0 to {self.vocabulary - 1}")


class DecodeStream:
    """Text of one token after another. Bytes of a character that later tokens complete wait."""

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True) -> None:
        self._tokenizer, self._skip = tokenizer, skip_special
        # Tokens of which `_shown` characters were returned. The first of them were decoded before:
        # a decoder strips the space at the beginning of what it decodes.
        self._ids: list[int] = []
        self._start, self._shown = 0, ""

    def step(self, token: int) -> str:
        """The text that this token adds, "" where it completes nothing."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids, self._skip)
        if text.endswith(_REPLACEMENT) and len(self._ids) - self._start < 16:
            return ""
        return self._emit(text)

    def flush(self) -> str:
        """The text that still waits, at the end of a sequence."""
        return self._emit(self._tokenizer.decode(self._ids, self._skip))

    def _emit(self, text: str) -> str:
        new = text[len(self._shown) :]
        last = self._tokenizer.decode(self._ids[self._start :], self._skip)
        if last:  # tokens without text of their own do not show whether a space follows
            self._ids, self._shown = self._ids[self._start :], last
        else:
            self._shown = text
        self._start = len(self._ids)
        return new
