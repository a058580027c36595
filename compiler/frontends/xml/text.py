"""Strict readings of the words of a model file: numbers, booleans, lists, shapes.

Each function takes the text of an attribute or element and returns its value; anything else is a
`BadText` that says what was expected. OpenVINO's reader truncates "1.5" to 1 and turns "maybe"
into a default; here both are errors. Only ASCII digits count, there is no leading "+", and numbers
have to fit their type.
"""

from __future__ import annotations

import re

from ....ir.escape import escape_text

_UNSIGNED = re.compile(r"[0-9]{1,20}", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_REAL = re.compile(
    r"-?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?|inf(?:inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)
_BARE_COMMA = re.compile(r"(?<!\\),")
_SPACES = " \t\r\n"
_MAX_LIST = 1_000_000

MAX_U64 = 2**64 - 1
MAX_I64 = 2**63 - 1
# One more dimension than NumPy allows is refused here, where the file can be named.
MAX_RANK = 64
# NumPy multiplies a constant's sizes, those that are 0 left out, by up to 16 bytes an element.
MAX_PRODUCT = 1 << 59


class BadText(ValueError):
    """The text is not what was `expected`."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def parse_unsigned(text: str) -> int:
    """An unsigned 64-bit integer."""
    if not _UNSIGNED.fullmatch(text) or int(text) > MAX_U64:
        raise BadText("an unsigned 64-bit integer")
    return int(text)


def integer(text: str) -> int:
    """A signed 64-bit integer; spaces around it are tolerated."""
    text = text.strip(_SPACES)
    if not _INTEGER.fullmatch(text) or not -MAX_I64 - 1 <= int(text) <= MAX_I64:
        raise BadText("a signed 64-bit integer")
    return int(text)


def parse_real(text: str) -> float:
    """A decimal number, inf or nan; spaces around it are tolerated."""
    text = text.strip(_SPACES)
    if not _REAL.fullmatch(text):
        raise BadText("a number")
    return float(text)


def boolean(text: str) -> bool:
    """true, false, 1 or 0, in any case."""
    word = text.strip(_SPACES).lower()
    if word not in ("true", "false", "1", "0"):
        raise BadText("true, false, 1 or 0")
    return word in ("true", "1")


def words(text: str) -> list[str]:
    """The items of a comma-separated list without the spaces around them; [] for blank text."""
    if not text.strip(_SPACES):
        return []
    items = [item.strip(_SPACES) for item in text.split(",")]
    if len(items) > _MAX_LIST or not all(items):
        raise BadText("a comma-separated list without empty items")
    return items


def static_shape(text: str) -> tuple[int, ...]:
    """A list of sizes; blank for a scalar. Brackets around it are tolerated."""
    dims: list[int] = []
    for word in words(_without_brackets(text)):
        if not _UNSIGNED.fullmatch(word) or int(word) > MAX_I64:
            raise BadText("sizes of 0 or more, such as 2, 3")
        dims.append(int(word))
    if len(dims) > MAX_RANK:
        raise BadText(f"at most {MAX_RANK} dimensions")
    return tuple(dims)


_NO_NAMES: frozenset[str] = frozenset()

# Smallest and largest size; the largest is None where there is no bound.
Interval = tuple[int, int | None]


def partial_shape(text: str) -> tuple[Interval, ...] | None:
    """A shape with sizes, `?` or `-1`, `2..10`, `5..` and `..7`; None for `...` (unknown rank)."""
    inner = _without_brackets(text)
    if inner.strip(_SPACES) == "...":
        return None
    dims = tuple(_interval(word) for word in words(inner))
    if len(dims) > MAX_RANK:
        raise BadText(f"at most {MAX_RANK} dimensions")
    return dims


def _interval(word: str) -> Interval:
    if word in ("?", "-1"):
        return 0, None
    if ".." not in word:
        size = _size(word)
        return size, size
    first, _, last = word.partition("..")
    if not first and not last:
        raise BadText("sizes, ? or intervals such as 2..10 (... alone for an unknown rank)")
    low = _size(first.strip(_SPACES)) if first else 0
    high = _size(last.strip(_SPACES)) if last else None
    if high is not None and high < low:
        raise BadText("an interval whose end is not below its start")
    return low, None if high == MAX_I64 else high


def _size(word: str) -> int:
    if not _UNSIGNED.fullmatch(word) or int(word) > MAX_I64:
        raise BadText("sizes, ? or intervals such as 2..10")
    return int(word)


def _without_brackets(text: str) -> str:
    text = text.strip(_SPACES)
    return text[1:-1] if len(text) > 1 and text[0] == "[" and text[-1] == "]" else text


def name_set(text: str) -> frozenset[str]:
    r"""Tensor names: separated by commas, where `\,` is a comma inside a name."""
    if not text:
        return _NO_NAMES
    parts = _BARE_COMMA.split(text)
    return frozenset(part.replace("\\,", ",") for part in parts if part)


def shorten_text(text: str, limit: int = 80) -> str:
    """A model's own text for a message: printable, quoted, and not too long."""
    shown = escape_text(text[:limit])
    return f'"{shown}..."' if len(text) > limit else f'"{shown}"'
