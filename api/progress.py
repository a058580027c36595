"""Shows progress of work that takes longer than a second on stderr, if it is a terminal.

One line on stderr, which goes when the work is done; nothing where stderr is not a terminal, and
nothing with IRC_PROGRESS=0 (the command line's -q).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator

from ..ir.escape import escape_text, stream_beneath

# Seconds until the line is shown first.
FIRST_REPORT_SECONDS = 1.0
_progress_lock = threading.Lock()


def _new_lock() -> None:
    global _progress_lock
    _progress_lock = threading.Lock()  # a forked child has no progress thread of its parent


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


@contextlib.contextmanager
def show_progress(what: str, wanted: bool | None = None) -> Iterator[None]:
    """Show `what` is being done, and for how many seconds, after the first second. One piece of
    work is shown at a time: nested and concurrent ones are not. wanted: None for what IRC_PROGRESS
    sets."""
    mine = _progress_lock
    silent = os.environ.get("IRC_PROGRESS") == "0" if wanted is None else not wanted
    # stderr is None under pythonw, and may be replaced by an object without isatty.
    if silent or not getattr(sys.stderr, "isatty", bool)() or not mine.acquire(blocking=False):
        yield
        return
    import shutil

    done = threading.Event()
    # A line that wraps, or that a file's name moves elsewhere, could not be taken back.
    room = max(8, shutil.get_terminal_size().columns - 16)
    line = escape_text(what)[:room]
    stream = stream_beneath(sys.stderr)

    def show() -> None:
        started, shown = time.monotonic(), False
        while not done.wait(0.2 if shown else FIRST_REPORT_SECONDS):
            shown = True
            stream.write(f"\r{line} ... {time.monotonic() - started:.0f} s ")
            stream.flush()
        if shown:
            stream.write(f"\r{' ' * (len(line) + 12)}\r")
            stream.flush()

    thread = threading.Thread(target=show, daemon=True)
    try:
        thread.start()
        yield
    finally:
        done.set()
        if thread.ident is not None:
            thread.join()
        mine.release()
