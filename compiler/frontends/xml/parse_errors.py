"""The error for a text that the XML parser refuses, in words of ours.

The parser's own messages name its options, and say of a file that was cut short what its last
words might have become.
"""

from __future__ import annotations

import re
from typing import Any

from ....ir.errors import ModelFormatError
from .text import shorten_text

_IR = "an OpenVINO IR: XML with the root <net>"
_COPY = "copy the file again in full"
_END = re.compile(rb"</net\s*>")
_POSITION = re.compile(r",? line [0-9]+, column [0-9]+\Z", re.ASCII)
# What the parser's limits are called in its messages; what that means, and what is allowed.
_LIMITS = (
    (
        re.compile("amplification|entity loop", re.IGNORECASE),
        "the entities of a DOCTYPE expand to too much text",
        "<net ...> without document type and entities",
    ),
    (
        re.compile("excessive depth|xmlMaxDepth", re.IGNORECASE),
        "elements are nested too deeply for XML",
        "an IR, whose elements nest some ten levels deep, and at most 256",
    ),
    (
        re.compile("XML_PARSE_HUGE|too long|too big|huge|limit exceeded", re.IGNORECASE),
        "an attribute, a text or a name is too long",
        "attributes and texts of less than 10 MB, names of less than 50 kB",
    ),
)
# A start tag, or a text behind one, of more than the parser takes.
_LONG_TEXT = re.compile(rb"<[^<]{9500000,}")
# Bytes shown before and after the position where the parser stopped.
_BYTES_BEFORE_ERROR, _BYTES_AFTER_ERROR = 40, 20


def not_xml(error: Any, log: Any, data: bytes, file: str) -> ModelFormatError:
    """The error for `data`. `error`, or the first of `log`, says where the parser stopped."""
    line, column = error.position if error.position else (0, 0)
    said = str(error.msg or "the text ends early")
    if not line and len(log):  # "no element found", whatever the parser stopped at
        line, column, said = log[0].line, log[0].column, log[0].message
    where = f"{file}: line {line}, column {column}"
    for pattern, what, expected in _LIMITS:
        if pattern.search(said):
            got = _longest_text(data) or _text_around(data, line, column)
            return ModelFormatError(what, where=where, got=got, expected=expected)
    got, expected, fix = _explain_error(data, line, column)
    said = _POSITION.sub("", " ".join(said.split()))
    if fix == _COPY:
        said = "the text ends early"
    return ModelFormatError(
        f"not well-formed XML: {said}", where=where, got=got, expected=expected, fix=fix
    )


def _explain_error(data: bytes, line: int, column: int) -> tuple[str, str, str | None]:
    """What was found, what was expected, and how to get it."""
    head = data[:64].lstrip()
    if not head.strip(b"\x00"):
        return "an empty file", _IR, None
    if head.startswith(b"version https://git-lfs"):
        return "a git-lfs pointer: the file itself was not fetched", _IR, "git lfs pull"
    if not head.lstrip(b"\xef\xbb\xbf\xff\xfe\x00").startswith(b"<"):
        return f"a file that begins with {data[:16]!r}", _IR, None
    if b"<net" in data and not _END.search(data):
        end = _shorten_piece(data.rstrip(b" \t\r\n\x00")[-_BYTES_BEFORE_ERROR:])
        return f"a text that ends with {end}", "</net> at its end", _COPY
    return (
        _text_around(data, line, column),
        "well-formed XML, in UTF-8 unless it says otherwise",
        None,
    )


def _longest_text(data: bytes) -> str | None:
    """A piece beyond the parser's limit of a text: it says itself only how far it read ahead."""
    piece = _LONG_TEXT.search(data)
    if piece is None:
        return None
    line = data.count(b"\n", 0, piece.start()) + 1
    begin = _shorten_piece(piece[0][: 2 * _BYTES_BEFORE_ERROR])
    return f"{len(piece[0])} bytes in one, from line {line}, that begin with {begin}"


def _text_around(data: bytes, line: int, column: int) -> str:
    """The text where the parser stopped."""
    start = 0
    for _ in range(line - 1):
        start = data.find(b"\n", start) + 1
    at = min(start + column, len(data))
    return _shorten_piece(data[max(start, at - _BYTES_BEFORE_ERROR) : at + _BYTES_AFTER_ERROR])


def _shorten_piece(piece: bytes) -> str:
    return shorten_text(" ".join(piece.decode(errors="replace").split()))
