"""A model's metadata, kept in `Graph.rt_info`: what callers stored in it, and what made it.

`metadata_props` of ONNX are the section "framework", where OpenVINO's own ONNX reader puts them, so
they survive `.xml` and `.irc` files; the other descriptive fields are the section "onnx".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

CUSTOM = "framework"
DESCRIPTION = "onnx"


def read_section(rt_info: Mapping[str, Any], section: str) -> dict[str, str]:
    """The texts of one section, by key."""
    found = rt_info.get(section)
    if not isinstance(found, dict):
        return {}
    pairs = cast("dict[str, Any]", found)
    return {key: value for key, value in pairs.items() if isinstance(value, str)}


class HasMetadata:
    """A model with `rt_info`, and the metadata in it."""

    rt_info: Any

    @property
    def metadata(self) -> dict[str, str]:
        """What was stored in the model for its users: `metadata_props` of ONNX, `framework` in
        the rt_info of an IR. Files (.xml, .irc) hold U+FFFD for characters that XML does not have
        (most control characters)."""
        return read_section(self.rt_info, CUSTOM)
