"""Typed reading of GGUF metadata: the keys of one architecture, with ranges."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.errors import ModelFormatError
from ...ir.op import Array
from .gguf_file import GgufFile
from .typed_values import TypedValues


class Metadata(TypedValues):
    """Values by key; a key that begins with "." belongs to the architecture."""

    def __init__(self, file: GgufFile) -> None:
        self.values, self.where = file.metadata, repr(file.path)
        self.architecture = self.text("general.architecture")

    def __contains__(self, key: str) -> bool:
        return self._expand_key(key) in self.values

    def _expand_key(self, key: str) -> str:
        return self.architecture + key if key.startswith(".") else key

    def fail(self, key: str, got: object, expected: str) -> ModelFormatError:
        """The error for a value that is missing or of another kind."""
        problem = "is missing" if got is None else "has another value than the format allows"
        what = f"metadata {self._expand_key(key)!r} {problem}"
        shown = None if got is None else str(got)[:80]
        return ModelFormatError(what, where=self.where, got=shown, expected=expected)

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self.values.get(self._expand_key(key))

    def get_number(self, key: str) -> Any:
        """The value; of an array of equal numbers, one of them."""
        found = self.get(key)
        if isinstance(found, np.ndarray) and found.size and (found == found[0]).all():
            return found[0].item()
        return found

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        found = self.get(key)
        return default if found is None else bool(found)

    def texts(self, key: str) -> list[str]:
        """A list of strings."""
        found = self.get(key)
        if not isinstance(found, list):
            raise self.fail(key, found, "a list of strings")
        return found

    def numbers(self, key: str, size: int) -> Array | None:
        """An array of so many numbers, or None."""
        found = self.get(key)
        if found is None:
            return None
        if not isinstance(found, np.ndarray) or found.shape != (size,):
            raise self.fail(key, found, f"{size} numbers")
        return found
