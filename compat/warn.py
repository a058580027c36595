"""Warnings about what a script requests and irc does not do: one per option and process."""

from __future__ import annotations

import warnings
from pathlib import Path

_FOLDER = str(Path(__file__).resolve().parent)
_warned: set[str] = set()


def warn_once(option: str, reason: str) -> None:
    """Warn that `option` has no effect, at the caller's line outside this package."""
    if option in _warned:
        return
    _warned.add(option)
    text = f"irc: {option} has no effect: {reason}"
    warnings.warn(text, UserWarning, stacklevel=caller_level())


def forget_warnings() -> None:
    """Each option warns once more."""
    _warned.clear()


def caller_level() -> int:
    """The `stacklevel` with which this function's caller warns at the line outside this package."""
    import sys

    # 1 is this function's caller.
    level, frame = 1, sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_FOLDER):
        level, frame = level + 1, frame.f_back
    return level
