"""What `importlib.metadata` finds of an engine whose stand-in is installed: in a file of its own,
since most programs need no metadata, which take 20 ms to load."""

from __future__ import annotations

import importlib.metadata
from typing import Any


class StandInDistribution(importlib.metadata.Distribution):
    """The metadata of an engine that is not installed: its name and a version."""

    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        return path
