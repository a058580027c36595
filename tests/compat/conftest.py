"""Fixtures of the tests of stand-ins for other packages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from irc_compiler.compat.warn import forget_warnings


@pytest.fixture
def warn_again() -> Iterator[None]:
    """Each warning that is shown once per process is shown again, before and after a test."""
    forget_warnings()
    yield
    forget_warnings()
