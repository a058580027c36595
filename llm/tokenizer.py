"""Text to token numbers and back, by the `tokenizers` library."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError
from ..ir.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library

_REPLACEMENT = "\ufffd"  # what decoding gives for bytes that are not UTF-8 (yet)


@dataclass(frozen=True)
class StoredTokenizer:
    """A tokenizer as text that is read in two thirds of the time of the library's own form.
    definition: that form; where there are `tokens`, without its added tokens and its model's
    vocabulary and merges.

    tokens: a JSON list, by number; merges: JSON lists of left and right halves; added: the added
    tokens, as the library's form has them.
    """

    definition: str
    tokens: str = ""
    merges: str = ""
    added: str = ""

    @staticmethod
    def of(library: Library) -> StoredTokenizer:
        """The text of a tokenizer: in parts if these make the same one."""
        whole = library.to_str()
        parts = _take_apart(whole)
        with contextlib.suppress(Exception):  # the library raises Exception itself
            if parts is not None and parts.load().to_str() == whole:
                return parts
        return StoredTokenizer(whole)

    def load(self) -> Library:
        """The tokenizer. Exception, of the library or ValueError, for a text that none wrote."""
        from tokenizers import AddedToken, models
        from tokenizers import Tokenizer as Library

        if not self.tokens:
            return Library.from_str(self.definition)
        fields = json.loads(self.definition)
        how = fields["model"]
        fields["model"] = {**how, "vocab": {}, "merges": []}
        library = Library.from_str(json.dumps(fields))
        tokens, (left, right) = json.loads(self.tokens), json.loads(self.merges)
        given = {k: v for k, v in how.items() if k != "type" and v is not None}
        model: Any = models.BPE(
            dict(zip(tokens, range(len(tokens)), strict=True)),
            list(zip(left, right, strict=True)),
            **given,
        )
        setattr(library, "model", model)  # noqa: B010
        for token in json.loads(self.added):
            token.pop("id")
            added = AddedToken(token.pop("content"), **token)
            add = library.add_special_tokens if added.special else library.add_tokens
            add([added])
        return library


def _take_apart(whole: str) -> StoredTokenizer | None:
    """The parts of the text of a tokenizer by byte pairs, or None: of another, or with numbers that
    are not those of a list."""
    fields = json.loads(whole)
    model = fields["model"]
    if model.get("type") != "BPE":
        return None
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if not tokens or list(map(model["vocab"].get, tokens)) != list(range(len(tokens))):
        return None
    merges = [m if isinstance(m, list) else m.split(" ") for m in model["merges"]]
    halves = [list(side) for side in zip(*merges, strict=True)] or [[], []]
    added = fields["added_tokens"]
    rest = {k: v for k, v in model.items() if k not in ("vocab", "merges")}
    definition = json.dumps({**fields, "added_tokens": [], "model": rest})
    return StoredTokenizer(
        definition, *(json.dumps(x, ensure_ascii=False) for x in (tokens, halves, added))
    )


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
