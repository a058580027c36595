"""Tests that wait: for a condition, and with the steps of continuous batching held."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from irc_compiler.llm.batching.row_pool import RowPool

SECONDS = 60  # for anything that a test waits for


def hold_steps(monkeypatch: Any) -> threading.Event:
    """Steps of continuous batching wait for the event."""
    go, step = threading.Event(), RowPool.step

    def wait_and_step(self: RowPool, tokens: Any) -> Any:
        assert go.wait(60)
        return step(self, tokens)

    monkeypatch.setattr(RowPool, "step", wait_and_step)
    return go


def wait_until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Return when it holds; it must within that time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.01)
