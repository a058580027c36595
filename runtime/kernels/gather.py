"""Placeholder."""

from __future__ import annotations
from typing import Any


def generate(spec: Any, target: Any, symbol: str) -> Any:
    raise NotImplementedError
