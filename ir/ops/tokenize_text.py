"""Words of texts as onnxruntime's Tokenizer finds them: by a pattern, separators or characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .regex_match import compile_bounded

_START, _END = "\x02", "\x03"


def tokenize(
    texts: Any,
    pad: str,
    *,
    pattern: str = "",
    separators: Sequence[str] = (),
    least: int = 1,
    mark: bool = False,
) -> Any:
    """Texts [..., C] to words [..., C, D], padded to the largest number of words.

    pattern: each match is a word. separators: patterns that words are between; one empty separator
    makes each character a word. least: characters of the shortest word that is kept. mark: words
    begin with \\x02 and end with \\x03. ExecutionError for a pattern that is not one.
    """
    array = np.asarray(texts, object)
    flat = [str(text) for text in array.reshape(-1)]
    if pattern:
        compiled = compile_bounded(pattern, flat, 0)
        # With groups, `findall` returns these instead of the matches.
        found = (
            [[m.group(0) for m in compiled.finditer(text)] for text in flat]
            if compiled.groups
            else [compiled.findall(text) for text in flat]
        )
    elif list(separators) == [""]:
        found = [list(text) for text in flat]
    else:
        found = [[text] for text in flat]
        for separator in separators:
            compiled = compile_bounded(separator, flat, 0)
            found = [[p for w in words for p in _split(compiled, w)] for words in found]
    kept = [list(filter(None, words)) for words in found]
    if least > 1:
        kept = [[w for w in words if len(w) >= least] for words in kept]
    if mark:
        kept = [[_START, *words, _END] for words in kept]
    width = max(map(len, kept), default=0)
    made = np.full((len(kept), width), pad, object)
    for row, words in zip(made, kept, strict=True):
        row[: len(words)] = words
    return made.reshape(*array.shape, width)


def _split(compiled: Any, text: str) -> list[str]:
    """What is between the matches."""
    parts, begin = list[str](), 0
    for match in compiled.finditer(text):
        if match.end() > match.start():
            parts.append(text[begin : match.start()])
            begin = match.end()
    return [*parts, text[begin:]]
