"""Words of texts as onnxruntime's Tokenizer finds them: by a pattern, separators or characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..lazy_dataclass import dataclass
from .regex_match import compile_bounded, may_match_nothing

_START, _END = "\x02", "\x03"


@dataclass(frozen=True)
class Tokenizing:
    """Tokenizer's attributes. pad: what rows of fewer words end with. pattern: each match is a
    word. separators: patterns that words are between; one empty separator makes each character a
    word. least: characters of the shortest word that is kept. mark: words begin with \\x02 and end
    with \\x03."""

    pad: str
    pattern: str = ""
    separators: tuple[str, ...] = ()
    least: int = 1
    mark: bool = False

    @property
    def takes_characters(self) -> bool:
        """Whether each word is a character, but for line ends if the pattern is a dot."""
        plain = self.least <= 1 and not self.mark
        return plain and (self.pattern == "." or (not self.pattern and self.separators == ("",)))


def tokenize(texts: Any, how: Tokenizing) -> Any:
    """Texts [..., C] to words [..., C, D], padded to the largest number of words. ExecutionError
    for a pattern that is not one."""
    array = np.asarray(texts, object)
    words = split_words(list(map(str, array.reshape(-1).tolist())), how)
    made = pad_words(words, how.pad)
    return made.reshape(*array.shape, made.shape[1])


def pad_words(words: Sequence[Sequence[str]], pad: str) -> Any:
    """Lists of words as a matrix."""
    width = max(map(len, words), default=0)
    made = np.full((len(words), width), pad, object)
    for row, found in zip(made, words, strict=True):
        row[: len(found)] = found
    return made


def split_words(texts: Sequence[str], how: Tokenizing) -> list[list[str]]:
    """The words of each text."""
    if how.pattern:
        compiled = compile_bounded(how.pattern, texts, 0)
        # With groups, `findall` returns these instead of the matches.
        found: list[list[str]] = (
            [[m.group(0) for m in compiled.finditer(text)] for text in texts]
            if compiled.groups
            else list(map(compiled.findall, texts))
        )
    elif how.separators == ("",):
        found = [list(text) for text in texts]
    else:
        found = [[text] for text in texts]
        for separator in how.separators:
            compiled = compile_bounded(separator, texts, 0)
            found = [[p for w in words for p in _split(compiled, w)] for words in found]
    kept = found
    if not how.pattern or may_match_nothing(how.pattern):
        kept = [list(filter(None, words)) if "" in words else words for words in found]
    if how.least > 1:
        kept = [[w for w in words if len(w) >= how.least] for words in kept]
    if how.mark:
        kept = [[_START, *words, _END] for words in kept]
    return kept


def _split(compiled: Any, text: str) -> list[str]:
    """What is between the matches."""
    parts, begin = list[str](), 0
    for match in compiled.finditer(text):
        if match.end() > match.start():
            parts.append(text[begin : match.start()])
            begin = match.end()
    return [*parts, text[begin:]]
