"""A model's metadata, kept in `Graph.rt_info`: what callers stored in it, and what made it.

`metadata_props` of ONNX are the section "framework", where OpenVINO's own ONNX reader puts them, so
they survive `.xml` and `.irc` files; the other descriptive fields are the section "onnx".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

CUSTOM = "framework"
DESCRIPTION = "onnx"
# Keys of `metadata_props` that hold the rest of rt_info, as paths: "rt_info/conversion/version".
PATH_PREFIX = "rt_info/"
# Deeper paths of a file stay metadata: no writer makes them, and trees are walked by recursion.
_MAX_DEPTH = 16


def read_section(rt_info: Mapping[str, Any], section: str) -> dict[str, str]:
    """The texts of one section, by key."""
    found = rt_info.get(section)
    if not isinstance(found, dict):
        return {}
    pairs = cast("dict[str, Any]", found)
    return {key: value for key, value in pairs.items() if isinstance(value, str)}


def list_paths(rt_info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The leaves of rt_info but for metadata and description: paths of keys, and their texts. A key
    that a path cannot hold (empty, or with "/") is left out with what is below it."""
    sections = [(k, v) for k, v in rt_info.items() if k not in (CUSTOM, DESCRIPTION)]
    pending: list[tuple[str, Any]] = list(reversed(sections))
    while pending:
        path, found = pending.pop()
        if not isinstance(found, Mapping):
            yield path, str(found)
            continue
        items = list(cast("Mapping[str, Any]", found).items())
        pending += [(f"{path}/{k}", v) for k, v in reversed(items) if k and "/" not in k]


def store_path(rt_info: dict[str, Any], path: str, text: str) -> bool:
    """Store a leaf of rt_info. False where the path is none that `list_paths` gives."""
    *parents, last = path.split("/")
    if len(parents) >= _MAX_DEPTH or not all((*parents, last)):
        return False
    if (parents or [last])[0] in (CUSTOM, DESCRIPTION):
        return False
    tree = rt_info
    for key in parents:
        found = tree.setdefault(key, {})
        if not isinstance(found, dict):
            return False
        tree = cast("dict[str, Any]", found)
    if isinstance(tree.get(last), dict):
        return False
    tree[last] = text
    return True


class HasMetadata:
    """A model with `rt_info`, and the metadata in it."""

    rt_info: Any

    @property
    def metadata(self) -> dict[str, str]:
        """What was stored in the model for its users: `metadata_props` of ONNX, `framework` in
        the rt_info of an IR. Files (.xml, .irc) hold U+FFFD for characters that XML does not have
        (most control characters)."""
        return read_section(self.rt_info, CUSTOM)
