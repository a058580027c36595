"""How much a verb says, and in what colour.

Results go to stdout. `-q` omits the summary of a file that was written; `-v` adds notes
on stderr, `-vv` every rewrite as well. Nothing is coloured unless a terminal reads it and NO_COLOR
(https://no-color.org) is not set.
"""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TextIO

from .console import print_message, print_result, to_json

_RED = "\x1b[1;31m"
_PLAIN = "\x1b[0m"
_level = 0


def add_verbosity(parser: argparse.ArgumentParser) -> None:
    """-q and -v, which every verb has."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-q", "--quiet", action="count", default=0, help="say less")
    group.add_argument(
        "-v", "--verbose", action="count", default=0, help="say more; -vv: every rewrite"
    )


@contextlib.contextmanager
def configure_logging(level: int) -> Iterator[None]:
    """Speak at this level (-1 quiet, 0, 1, 2) inside the block."""
    global _level
    knobs = {"IRC_TRACE": "1"} if level >= 2 else {"IRC_PROGRESS": "0"} if level < 0 else {}
    before, kept = _level, {name: os.environ.get(name) for name in knobs}
    _level = level
    os.environ.update(knobs)
    try:
        yield
    finally:
        _level = before
        for name, value in kept.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def report(*lines: str) -> None:
    """What a verb did that wrote a file, on stdout; not with -q."""
    if _level >= 0:
        print_result(*lines)


def print_json(state: Mapping[str, object]) -> None:
    """One object on stdout, whatever -q says."""
    print_result(to_json(state))


def log(text: str) -> None:
    """What helps to understand it, on stderr, with -v."""
    if _level >= 1:
        print_message(text)


def color_text(text: str, stream: TextIO) -> str:
    """The text in red where a person reads the stream on a terminal."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty()
    return text if plain else f"{_RED}{text}{_PLAIN}"
