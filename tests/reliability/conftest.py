"""How long these tests run: seconds in CI; `IRC_LONG=1` is what docs/dev/testing.md reports."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Load:
    """seconds: of sustained calls. moments: at which writers are killed. interrupts: of each of
    the command line's verbs."""

    seconds: float
    moments: int
    interrupts: int


@pytest.fixture(scope="session")
def load() -> Load:
    return Load(120.0, 100, 25) if os.environ.get("IRC_LONG") == "1" else Load(2.0, 12, 1)
