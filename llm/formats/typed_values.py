"""Values of a file by key, each checked for its type and range where it is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

from ...ir.errors import ModelFormatError

MAX_COUNT = 1 << 24


class TypedValues(ABC):
    """`text`, `count` and `number` give the default for a key without a value, and raise
    ModelFormatError where there is no default, or the value is of another kind."""

    @abstractmethod
    def get(self, key: str) -> Any:
        """The value, or None."""

    @abstractmethod
    def fail(self, key: str, got: object, expected: str) -> ModelFormatError:
        """The error for a value that is missing or of another kind."""

    def get_number(self, key: str) -> Any:
        """The value as a number, if it is one in this format; None where there is no value."""
        return self.get(key)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        found = self.get(key)
        if found is None and default is not None:
            return default
        if not isinstance(found, str):
            raise self.fail(key, found, "a string")
        return found

    def count(self, key: str, default: int | None = None, *, least: int = 1) -> int:
        """An integer of at least `least`."""
        found = self.get_number(key)
        if found is None and default is not None:
            return default
        if type(found) is not int or not least <= found < MAX_COUNT:
            raise self.fail(key, found, f"an integer from {least} to {MAX_COUNT}")
        return found

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number."""
        found = self.get(key)
        if found is None and default is not None:
            return default
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self.fail(key, found, "a finite number")
        if not math.isfinite(found):
            raise self.fail(key, found, "a finite number")
        return float(found)
