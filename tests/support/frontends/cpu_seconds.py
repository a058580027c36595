"""A bound for tests of what ends by a check: without the check they fail, and don't run on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail in Python code that takes longer, in this process's own time: other work on the machine
    does not count. (What pytest.fail raises is not an Exception, which the code might catch.)"""

    def stop(*_: Any) -> None:
        pytest.fail(f"not done after {seconds} seconds")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
