"""JSON files of a model's folder, read with limits, and typed access to their values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from ...compiler.frontends.xml.source import OpenFile
from ...ir.errors import ModelFormatError
from .typed_values import TypedValues

MAX_JSON_BYTES = 256 << 20


def read_text(path: Path, what: str) -> str:
    """A file of UTF-8."""
    with OpenFile(path, what, max_memory=MAX_JSON_BYTES) as file:
        data = file.part(0, file.size).tobytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ModelFormatError(f"{what} is not UTF-8", where=repr(str(path))) from error


class JsonObject(TypedValues):
    """The values of a JSON object by key, each checked where it is read."""

    def __init__(self, values: dict[str, Any], where: str) -> None:
        self.values, self.where = values, where

    @classmethod
    def read(cls, path: Path, what: str) -> JsonObject:
        """The object in a file. ModelFormatError where it is none."""
        try:
            found = json.loads(read_text(path, what))
        except (ValueError, RecursionError) as error:
            raise ModelFormatError(
                f"{what} is not JSON", where=repr(str(path)), got=str(error)[:120]
            ) from error
        if not isinstance(found, dict):
            got = type(found).__name__
            raise ModelFormatError(
                f"{what} is not an object", where=repr(str(path)), got=got, expected="an object"
            )
        return cls(cast("dict[str, Any]", found), repr(str(path)))

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def fail(self, key: str, got: object, expected: str) -> ModelFormatError:
        """The error for a value that is missing or of another kind."""
        what = f"{key!r} is missing" if got is None else f"{key!r} has a wrong value"
        shown = None if got is None else str(got)[:80]
        return ModelFormatError(what, where=self.where, got=shown, expected=expected)

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self.values.get(key)

    def read_object(self, key: str) -> JsonObject | None:
        """An object inside, or None."""
        found = self.values.get(key)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise self.fail(key, found, "an object")
        return JsonObject(cast("dict[str, Any]", found), f"{self.where}, {key}")

    def numbers(self, key: str, size: int) -> list[float]:
        """A list of so many numbers."""
        found = self.values.get(key)
        listed = cast("list[Any]", found) if isinstance(found, list) else []
        if len(listed) != size or not all(type(x) in (int, float) and x > 0 for x in listed):
            raise self.fail(key, found, f"{size} positive numbers")
        return [float(x) for x in listed]
