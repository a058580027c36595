"""rt_info of a model: a tree of values, as OpenVINO's Python API shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.errors import UsageError
from ..nearest import NamesNearest


class OVAny(NamesNearest):
    """A value of rt_info: text, or a mapping of them."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def astype(self, kind: Any) -> Any:
        """The value as bool, int, float, str or dict. TypeError for others."""
        if kind is bool:
            return str(self.value).lower() in ("true", "1", "yes")
        return self.value if isinstance(self.value, kind) else kind(self.value)

    def get(self) -> Any:
        """The value."""
        return self.value

    def __eq__(self, other: object) -> bool:
        return self.value == (other.value if isinstance(other, OVAny) else other)

    def __hash__(self) -> int:
        return hash(str(self.value))

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return f"<OVAny class: {self.value!r}>"


def wrap_tree(tree: Any) -> Any:
    """Dictionaries as they are, and each text as an OVAny."""
    if isinstance(tree, Mapping):
        return {key: wrap_tree(value) for key, value in tree.items()}
    return OVAny(tree)


def _keys(path: str | Sequence[str]) -> list[str]:
    return [path] if isinstance(path, str) else list(path)


def has_info(tree: Mapping[str, Any], path: str | Sequence[str]) -> bool:
    """Whether there is a value or a section at a path of keys."""
    found: Any = tree
    for key in _keys(path):
        if not isinstance(found, Mapping) or key not in found:
            return False
        found = found[key]
    return True


def get_info(tree: Mapping[str, Any], path: str | Sequence[str] | None) -> Any:
    """The tree, or what is at a path of keys. UsageError where nothing is."""
    if path is None:
        return wrap_tree(tree)
    if not has_info(tree, path):
        raise UsageError("rt_info has no such entry", got=path, expected=", ".join(tree) or "none")
    found: Any = tree
    for key in _keys(path):
        found = found[key]
    return OVAny(wrap_tree(found) if isinstance(found, Mapping) else found)


def with_info(tree: Mapping[str, Any], value: Any, path: str | Sequence[str]) -> dict[str, Any]:
    """A tree with another value (kept as text) at a path of keys."""
    key, *rest = _keys(path)
    inside = tree.get(key)
    section = inside if isinstance(inside, Mapping) else {}
    return {**tree, key: with_info(section, value, rest) if rest else str(value)}
