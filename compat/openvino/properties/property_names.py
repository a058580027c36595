"""Properties as values: the text that OpenVINO knows them by, callable as in its Python API."""

from __future__ import annotations

from typing import Any


class Property(str):
    """A property's name; called with a value it is a (name, value) pair."""

    __slots__ = ()

    def __call__(self, *value: Any) -> Any:
        """The name, or the pair of name and value."""
        return (str(self), value[0]) if value else str(self)
