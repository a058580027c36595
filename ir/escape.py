"""Escape control characters of untrusted text, so that a terminal shows them and obeys none.

Names, operation types and file names come out of models. A terminal obeys ESC, BEL and CR in them;
bidirectional marks and line separators reorder or forge the text around them. Text for a person is
escaped here, and only here: by errors, reports, progress, drawings and the command line's streams.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TextIO

# Cc: control characters; Cf: format characters, among them bidirectional marks; Cs: surrogates;
# Zl, Zp: line and paragraph separators; Co, Cn: private and unassigned, of unknown effect.
_ESCAPED = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))


def escape_text(text: str) -> str:
    r"""The text on one line with control characters readable: `\x1b`, `\n`, `\u202e`.

    A backslash stays as it is: the result is for reading, and escaping it twice changes nothing.
    """
    if text.isprintable():
        return text
    return "".join(map(_escape_character, text))


def join_lines(lines: Iterable[str]) -> str:
    """Lines as one text. A line break within a line is escaped: only this function breaks lines."""
    return "\n".join(map(escape_text, lines))


def _escape_character(character: str) -> str:
    if character.isprintable() or unicodedata.category(character) not in _ESCAPED:
        return character
    return repr(character)[1:-1]


def stream_beneath(stream: TextIO) -> TextIO:
    """The stream itself, without the command line's escaping (cli/console.py)."""
    return getattr(stream, "beneath", stream)
