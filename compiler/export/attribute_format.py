"""Formats values for IR version 11: attributes, shapes, names, and XML's own escapes."""

from __future__ import annotations

import enum
import json
import re
from typing import Any, cast

from ...ir.dims import Dim, bounds
from ...ir.dtype import DType
from ...ir.serialization.dataclass_json import encode

# How to save what the standard sets cannot say.
KEEP_DIALECT = "keep irc's dialect, which irc reads back: irc convert --dialect, or dialect=True"

_ESCAPES = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}
# What XML 1.0 cannot hold, not even escaped, becomes U+FFFD.
_SPECIAL = re.compile('[&<>"\\x00-\\x1f\\ud800-\\udfff\\ufffe\\uffff]')


def escape(text: str) -> str:
    """Text for an attribute's value in double quotes."""
    return _SPECIAL.sub(lambda m: _ESCAPES.get(m[0], "\ufffd"), text)


def attribute_text(value: Any) -> str | None:
    """An attribute's text as OpenVINO writes it; None where there is nothing to write.

    Values without a format of their own (the dialect's) are JSON.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, DType):
        return value.value
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, int | str):
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, tuple):
        items = cast("tuple[Any, ...]", value)
        plain = all(isinstance(v, bool | int | float | str | enum.Enum) for v in items)
        if plain and all(_is_item(v) for v in items if isinstance(v, str)):
            return ", ".join(attribute_text(v) or "" for v in items)
    return json.dumps(encode(value))


def _is_item(word: str) -> bool:
    """Whether a comma-separated list can hold a word as it is."""
    return bool(word) and word == word.strip() and "," not in word and word[0] != "["


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number."""
    return repr(int(value)) if value.is_integer() and abs(value) < 1e15 and value else repr(value)


def names_text(names: frozenset[str]) -> str:
    r"""Tensor names sorted and joined; a comma inside a name is `\,`."""
    return ",".join(name.replace(",", "\\,") for name in sorted(names))


def shape_text(shape: tuple[Dim, ...] | None) -> str:
    """A Parameter's shape: sizes, `?` and intervals, or `...` for an unknown rank."""
    return "..." if shape is None else ",".join(_dim_text(d) for d in shape)


def _dim_text(d: Dim) -> str:
    if isinstance(d, int):
        return str(d)
    low, high = bounds(d)
    low = max(low or 0, 0)
    if high is None:
        return "?" if low == 0 else f"{low}.."
    return f"{low}..{high}" if low else f"..{high}"
