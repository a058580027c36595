"""Attributes of a layer: text to the values that an operation's class declares.

The annotation of the dataclass field says how a value is read, so a plain operation needs no code
here. Unknown attributes are skipped and missing ones take the class's default, as OpenVINO does;
a value that does not parse is an error, which OpenVINO often replaces by a default.
"""

from __future__ import annotations

import enum
import functools
import json
import types
import typing
from collections.abc import Callable
from typing import Any, TypeAlias, get_args, get_origin

from ....ir.dtype import DType
from ....ir.errors import Error
from ....ir.graph import Graph
from ....ir.op import Attribute, Op
from ....ir.serialization.dataclass_json import decode
from . import text as words
from .enum_values import choices
from .schema_records import XmlLayer
from .text import BadText, shorten_text
from .weights import element_type

Parser: TypeAlias = Callable[[str], Any]

# Attributes that standard operation sets do not have are in this entry of a layer's rt_info.
EXTRA = "irc"
# The pair of that entry which lists inputs left out before others (the dialect's only).
ABSENT = "absent"
_SCALARS: dict[Any, Parser] = {
    bool: words.boolean,
    int: words.integer,
    float: words.parse_real,
    str: lambda text: text,
    DType: element_type,
}


def read_op(layer: XmlLayer, cls: type[Op], **given: Any) -> Op:
    """An instance of `cls` with the attributes of a layer; `given` are fields set already.

    Raises ModelFormatError naming layer and attribute for a bad or missing value.
    """
    values = dict(given)
    extra = layer.rt_info.get(EXTRA, {})
    for attribute in cls.attributes():
        if attribute.name in values or attribute.annotation is Graph:
            continue
        text = layer.data.get(attribute.xml, extra.get(attribute.xml))
        if text is None:
            if attribute.required:
                raise layer.lacks(f"attribute {attribute.xml!r} is missing", attribute.xml)
            continue
        values[attribute.name] = layer.read(attribute.xml, text, parser_of(cls, attribute))
    try:
        return cls(**values)
    except Error as error:
        raise layer.error(
            error.what, got=error.got, expected=error.expected, fix=error.fix
        ) from error
    except (TypeError, ValueError, OverflowError) as error:
        said = ", ".join(f"{name}={value}" for name, value in values.items())
        raise layer.error(
            "the attributes do not fit together",
            got=shorten_text(said) if said else "none",
            expected=f"attributes that {cls.kind} takes together",
        ) from error


def parser_of(cls: type[Op], attribute: Attribute) -> Parser:
    """How the text of an attribute is read."""
    allowed = choices(cls.kind, attribute.xml) if attribute.annotation is str else None
    if allowed is not None:
        return _choice({word: word for word in allowed})
    return _parser(attribute.annotation)


@functools.cache
def _parser(annotation: Any) -> Parser:
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _choice({str(member.value): member for member in annotation})
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is typing.Literal:
        return _choice({str(value): value for value in args})
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        if len(rest) == 1:
            return _parser(rest[0])
    if origin is tuple and args and all(_is_word(a) for a in args if a is not Ellipsis):
        return _list_of(args)
    return functools.partial(_json, annotation)


def _is_word(annotation: Any) -> bool:
    """Whether a value is written as one word of a comma-separated list."""
    return annotation in _SCALARS or (
        isinstance(annotation, type) and issubclass(annotation, enum.Enum)
    )


def _choice(members: dict[str, Any]) -> Parser:
    by_lower = {name.lower(): member for name, member in members.items()}

    def parse(text: str) -> Any:
        found = by_lower.get(text.strip().lower())
        if found is None:
            raise BadText(f"one of {', '.join(members)}")
        return found

    return parse


def _list_of(args: tuple[Any, ...]) -> Parser:
    if args[-1] is Ellipsis:
        item = _parser(args[0])
        if args[0] is str:
            return _strings
        return lambda text: tuple(item(word) for word in words.words(text))
    items = [_parser(a) for a in args]

    def parse(text: str) -> tuple[Any, ...]:
        found = words.words(text)
        if len(found) != len(items):
            raise BadText(f"a list of {len(items)} values")
        return tuple(item(word) for item, word in zip(items, found, strict=True))

    return parse


def _strings(text: str) -> tuple[str, ...]:
    """Words, or a JSON list where words hold commas."""
    if text.lstrip().startswith("["):
        return _json(tuple[str, ...], text)
    return tuple(words.words(text))


def _json(annotation: Any, text: str) -> Any:
    """Values that OpenVINO's IR has no format for: the dialect's, as JSON."""
    try:
        return decode(annotation, json.loads(text))
    except (ValueError, RecursionError):
        raise BadText("JSON") from None
    except Error as error:
        raise BadText(f"a value of the declared type ({error.what})") from None
