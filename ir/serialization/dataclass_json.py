"""Frozen dataclasses to JSON and back, strictly by their annotations.

One mechanism serves the graph's text, the plan's text and the artefact. Decoding trusts nothing:
a value of another type than the annotation allows, an unknown field or class, a missing field, an
integer beyond 64 bits or a class that refuses its fields raises VerificationError. Nothing is ever
executed or looked up outside the class given.

`decoder` makes the function that reads one annotation, once: plans have thousands of fields.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, get_args, get_origin, get_type_hints

from ..dims import Expr, from_json, to_json
from ..dtype import DType
from ..errors import Error, VerificationError
from ..op import Op
from ..types import MapType, OptionalType, SequenceType, TensorType
from ..types import from_json as type_from_json
from ..types import to_json as type_to_json

Decoder: TypeAlias = Callable[[Any], Any]

_MAX_INT = 2**63
_TYPES = (TensorType, SequenceType, OptionalType, MapType)


def encode(value: Any) -> Any:
    """A JSON value. Dataclasses become {"$": class name, field: value, ...}."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, DType):
        return value.value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Expr):
        return {"dim": to_json(value)}
    if isinstance(value, TensorType | SequenceType | OptionalType | MapType):
        return {"type": type_to_json(value)}
    if isinstance(value, tuple | list):
        return [encode(v) for v in typing.cast("list[Any]", value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        name = f"{value.kind}.{value.version}" if isinstance(value, Op) else type(value).__name__
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"$": name, **fields}
    raise VerificationError(f"a {type(value).__name__} cannot be written as data")


def decode(annotation: Any, data: Any) -> Any:
    """The value of `annotation`'s type that `data` describes."""
    return decoder(annotation)(data)


@functools.cache
def decoder(annotation: Any) -> Decoder:
    """The function that reads JSON values of `annotation`'s type."""
    origin = get_origin(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin in (typing.Union, types.UnionType):
        return _union(get_args(annotation))
    if origin is typing.Literal:
        return _choice({v: v for v in get_args(annotation)}, "one of its words")
    if origin is tuple:
        return _tuple(get_args(annotation))
    if annotation in _TYPES:
        return functools.partial(_type, annotation)
    if isinstance(annotation, type):
        if issubclass(annotation, enum.Enum):
            return _choice({m.value: m for m in annotation}, f"a {annotation.__name__}")
        if annotation is Op or "find_subclass" in annotation.__dict__:
            return functools.partial(_open_class, annotation)
        if dataclasses.is_dataclass(typing.cast(Any, annotation)):
            return _dataclass(annotation)
    raise VerificationError(f"data of type {annotation} cannot be read")


def invalid_data_error(data: Any, expected: object) -> VerificationError:
    """What to raise for data that is not what it should be."""
    return VerificationError("stored data is broken", got=repr(data)[:80], expected=expected)


# Single values ----------------------------------------------------------------------------------


def _decode_none(data: Any) -> None:
    if data is not None:
        raise invalid_data_error(data, "null")


def _bool(data: Any) -> bool:
    if data is not True and data is not False:
        raise invalid_data_error(data, "a boolean")
    return data


def _int(data: Any) -> int:
    if type(data) is not int or not -_MAX_INT <= data < _MAX_INT:
        raise invalid_data_error(data, "an integer of 64 bits")
    return data


def _element(data: Any) -> int:
    """An integer of any type of elements, u64's as well."""
    return data if type(data) is int and _MAX_INT <= data < 2 * _MAX_INT else _int(data)


def _float(data: Any) -> float:
    if type(data) is float:
        return data
    if type(data) is int:
        return float(_int(data))
    word = data.get("float") if isinstance(data, dict) and len(data) == 1 else None  # type: ignore[arg-type]
    if word not in ("inf", "-inf", "nan"):
        raise invalid_data_error(data, "a number")
    return float(typing.cast(str, word))


def _str(data: Any) -> str:
    if type(data) is not str:
        raise invalid_data_error(data, "a string")
    if not data.isascii():
        try:
            data.encode()
        except UnicodeEncodeError:
            raise invalid_data_error(data, "a string of Unicode characters") from None
    return data


def _expr(data: Any) -> Any:
    found = from_json(_decode_tagged(data, "dim", "a size"))
    if not isinstance(found, Expr):
        raise invalid_data_error(data, "a size with symbols")
    return found


def _type(annotation: Any, data: Any) -> Any:
    found = type_from_json(_decode_tagged(data, "type", "a type"))
    if type(found) is not annotation:
        raise invalid_data_error(data, f"a {annotation.__name__}")
    return found


def _decode_tagged(data: Any, tag: str, expected: str) -> Any:
    """The content of {tag: content}."""
    if type(data) is not dict or len(typing.cast("dict[str, Any]", data)) != 1 or tag not in data:
        raise invalid_data_error(data, expected)
    return typing.cast("dict[str, Any]", data)[tag]


_PLAIN: Mapping[Any, Decoder] = {
    type(None): _decode_none,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    Expr: _expr,
}


def _choice(members: dict[Any, Any], expected: str) -> Decoder:
    def read(data: Any) -> Any:
        if type(data) not in (str, int) or data not in members:
            raise invalid_data_error(data, expected)
        return members[data]

    return read


# Composed values --------------------------------------------------------------------------------


def _union(options: tuple[Any, ...]) -> Decoder:
    # An integer stays one; where any number will do, so will a boolean (scalar programs).
    ordered = sorted(options, key=lambda o: o is float)
    any_number = int in options and float in options
    if any_number:
        ordered.append(bool)
    by_kind: dict[type, list[Decoder]] = {}
    for option in ordered:
        read_one = _element if any_number and option is int else decoder(option)
        for kind in _json_types(option):
            by_kind.setdefault(kind, []).append(read_one)

    def read(data: Any) -> Any:
        readers = by_kind.get(_kind(data), ())
        for reader in readers[:-1]:
            try:
                return reader(data)
            except VerificationError:
                continue
        if not readers:
            raise invalid_data_error(
                data, " or ".join(getattr(o, "__name__", str(o)) for o in options)
            )
        return readers[-1](data)

    return read


def _kind(data: Any) -> type:
    return data.__class__


def _json_types(option: Any) -> tuple[type, ...]:
    """The types of JSON values that an option of a union may be written as."""
    if option in (type(None), bool, int, str):
        return (option,)
    if option is float:
        return (float, int, dict)
    if get_origin(option) is tuple:
        return (list,)
    if isinstance(option, type) and not issubclass(option, enum.Enum):
        return (dict,)
    return (str, int, dict, list)


def _tuple(args: tuple[Any, ...]) -> Decoder:
    if len(args) == 2 and args[1] is Ellipsis:
        item = decoder(args[0])

        def read_all(data: Any) -> tuple[Any, ...]:
            if type(data) is not list:
                raise invalid_data_error(data, "a list")
            return tuple([item(v) for v in typing.cast("list[Any]", data)])

        return read_all
    items = [decoder(a) for a in args]

    def read_each(data: Any) -> tuple[Any, ...]:
        if type(data) is not list or len(typing.cast("list[Any]", data)) != len(items):
            raise invalid_data_error(data, f"a list of {len(items)}")
        return tuple([r(v) for r, v in zip(items, typing.cast("list[Any]", data), strict=True)])

    return read_each


def _dataclass(cls: Any) -> Decoder:
    fields: dict[str, Decoder] = {}

    def read(data: Any) -> Any:
        if not fields:  # at the first use: a class may hold itself
            hints = get_type_hints(cls)
            fields.update({f.name: decoder(hints[f.name]) for f in dataclasses.fields(cls)})
        given = typing.cast("dict[str, Any]", data)
        if type(data) is not dict or given.get("$") != _name(cls):
            raise invalid_data_error(data, f"a {_name(cls)}")
        if len(given) != len(fields) + 1 or any(n not in given for n in fields):
            raise VerificationError(
                f"stored {_name(cls)} is broken",
                got=sorted(map(str, given))[:20],
                expected=list(fields),
            )
        values = {n: reader(given[n]) for n, reader in fields.items()}
        try:
            return cls(**values)
        except Error as error:
            raise VerificationError(
                f"stored {_name(cls)} is broken", got=error.what, expected=error.expected
            ) from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise VerificationError(
                f"stored {_name(cls)} is broken", got=f"{type(error).__name__}: {error}"[:200]
            ) from error

    return read


def _name(cls: Any) -> str:
    return f"{cls.kind}.{cls.version}" if issubclass(cls, Op) else cls.__name__


def _open_class(base: Any, data: Any) -> Any:
    """An instance of whichever operation or spec the data names."""
    name = typing.cast("dict[str, Any]", data).get("$") if type(data) is dict else None
    cls = _find_class(base, name) if type(name) is str else None
    if cls is None:
        raise invalid_data_error(
            name if name is not None else data, f"the name of a {base.__name__}"
        )
    return decoder(cls)(data)


def _find_class(base: Any, name: str) -> Any:
    if base is not Op:
        return base.find_subclass(name)
    from ..ops import find_exact

    kind, _, version = name.rpartition(".")
    return find_exact(kind, int(version)) if version.isdecimal() and len(version) < 9 else None
