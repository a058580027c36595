"""Frozen dataclasses to JSON and back, strictly by their annotations.

One mechanism serves the graph's text, the plan's text and the artefact. Decoding trusts nothing:
a value of another type than the annotation allows, an unknown field or class, or a missing field
raises VerificationError. Nothing is ever executed or looked up outside the class given.
"""

from __future__ import annotations

import dataclasses
import enum
import math
import types
import typing
from typing import Any, get_args, get_origin, get_type_hints

from .dim import Expr, from_json, to_json
from .dtype import DType
from .errors import VerificationError
from .op import Op
from .specs import SPECS, Spec
from .types import OptionalType, SequenceType, TensorType
from .types import from_json as type_from_json
from .types import to_json as type_to_json

_HINTS: dict[type, dict[str, Any]] = {}


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
    if isinstance(value, TensorType | SequenceType | OptionalType):
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
    origin = get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(get_args(annotation), data)
    if origin is tuple:
        return _decode_tuple(get_args(annotation), data)
    if annotation is type(None):
        return _expect(data is None, data, "null", None)
    if annotation is bool:
        return _expect(isinstance(data, bool), data, "a boolean", data)
    if annotation is int:
        return _expect(isinstance(data, int) and not isinstance(data, bool), data, "an int", data)
    if annotation is float:
        return _decode_float(data)
    if annotation is str:
        return _expect(isinstance(data, str), data, "a string", data)
    if annotation is Expr:
        return from_json(_tagged(data, "dim", "a size"))
    if annotation in (TensorType, SequenceType, OptionalType):
        found = type_from_json(_tagged(data, "type", "a type"))
        return _expect(type(found) is annotation, data, f"a {annotation.__name__}", found)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        values = {m.value: m for m in annotation}
        known = isinstance(data, str | int) and data in values
        return _expect(known, data, f"a {annotation.__name__}", values.get(data) if known else None)
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        return _decode_dataclass(annotation, data)
    raise VerificationError(f"data of type {annotation} cannot be read")


def _expect(good: bool, data: Any, expected: str, value: Any) -> Any:
    if not good:
        raise VerificationError("stored data is broken", got=repr(data)[:80], expected=expected)
    return value


def _tagged(data: Any, tag: str, expected: str) -> Any:
    """The content of {tag: content}."""
    items = typing.cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    return _expect(set(items) == {tag}, data, expected, items.get(tag))


def _decode_float(data: Any) -> float:
    if isinstance(data, dict):
        word = _tagged(data, "float", "a number")
        return float(_expect(word in ("inf", "-inf", "nan"), data, "a number", word))
    good = isinstance(data, int | float) and not isinstance(data, bool)
    try:
        return float(_expect(good, data, "a number", data))
    except OverflowError:  # an int beyond every float
        return float(_expect(False, data, "a number", 0))


def _decode_union(options: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in options:
        return None
    # int before float, so that a whole number stays one.
    for option in sorted(options, key=lambda o: o is float):
        if option is type(None):
            continue
        try:
            return decode(option, data)
        except VerificationError:
            continue
    return _expect(False, data, " or ".join(str(o) for o in options), None)


def _decode_tuple(args: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    _expect(isinstance(data, list), data, "a list", None)
    items = typing.cast("list[Any]", data)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(decode(args[0], v) for v in items)
    _expect(len(items) == len(args), data, f"{len(args)} entries", None)
    return tuple(decode(a, v) for a, v in zip(args, items, strict=True))


def _decode_dataclass(annotation: type, data: Any) -> Any:
    _expect(isinstance(data, dict) and "$" in data, data, f"a {annotation.__name__}", None)
    fields = dict(typing.cast("dict[str, Any]", data))
    name = fields.pop("$")
    cls = _find_class(annotation, name)
    if cls is None:
        raise VerificationError("stored data is broken", got=name, expected=annotation.__name__)
    hints = _HINTS.get(cls)
    if hints is None:
        hints = _HINTS[cls] = get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    if set(names) != set(fields):
        raise VerificationError(f"stored {name} is broken", got=sorted(fields), expected=names)
    return cls(**{n: decode(hints[n], fields[n]) for n in names})


def _find_class(annotation: type, name: Any) -> Any:
    if annotation is Op:
        from .ops import find_exact

        kind, _, version = str(name).rpartition(".")
        return find_exact(kind, int(version)) if version.isdecimal() and len(version) < 9 else None
    if annotation is Spec:
        return {s.__name__: s for s in SPECS.values()}.get(str(name))
    return annotation if annotation.__name__ == name else None
