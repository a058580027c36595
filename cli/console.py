"""What a command writes to stdout and stderr, all of it escaped.

While `escape_output` is entered, sys.stdout and sys.stderr escape control characters of whatever is
written to them, also by argparse and by warnings of libraries. Verbs print lines with the functions
below, which escape line breaks within a line as well. Colours and the progress line, which are
irc's own control characters, go to the stream beneath.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO, cast

from ..ir.escape import escape_text, join_lines, stream_beneath


class EscapingStream:
    """A text stream that escapes what it writes, except line breaks, and writes characters that its
    encoding lacks as escapes, too. All else is the stream's `beneath`."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write the text; returns its length as given."""
        safe = "\n".join(map(escape_text, text.split("\n")))
        encoding = getattr(self.beneath, "encoding", None)
        if encoding and not safe.isascii():
            safe = safe.encode(encoding, "backslashreplace").decode(encoding)
        self.beneath.write(safe)
        return len(text)

    def writelines(self, lines: Sequence[str]) -> None:
        """Write the lines one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


@contextlib.contextmanager
def escape_output() -> Iterator[None]:
    """Escape what is written to sys.stdout and sys.stderr inside the block."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast(TextIO, s if isinstance(s, EscapingStream) else EscapingStream(s)) for s in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def print_result(*lines: str, end: str = "\n") -> None:
    """Lines of a verb's result, on stdout."""
    sys.stdout.write(join_lines(lines) + end)


def print_piece(text: str) -> None:
    """A piece of a result that goes on, on stdout at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def print_message(*lines: str, heading: str = "") -> None:
    """Lines besides a result, on stderr; `heading` may hold colours. Nothing where stderr is
    closed."""
    with contextlib.suppress(OSError):
        if heading:
            stream_beneath(sys.stderr).write(f"{heading} ")
        sys.stderr.write(join_lines(lines) + "\n")


def print_traceback(error: BaseException) -> None:
    """Python's traceback of an error, on stderr."""
    import traceback

    print_message(*"".join(traceback.format_exception(error)).rstrip("\n").split("\n"))


def to_json(value: object) -> str:
    """JSON that strict parsers take, in printable ASCII: infinities, NaN and lone surrogates, which
    JSON lacks, are text."""
    text = json.dumps(_make_strict(value), allow_nan=False)
    return text.replace("\x7f", "\\u007f")


def _make_strict(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {_make_strict(key): _make_strict(v) for key, v in items}
    if isinstance(value, list | tuple):
        return [_make_strict(v) for v in cast("Sequence[Any]", value)]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
