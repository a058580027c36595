"""What takes longer than a second is told to a person who sits at a terminal.

One line on stderr, which goes when the work is done; nothing where stderr is no terminal, and
nothing with IRC_PROGRESS=0 (the command line's -q).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator

_telling = threading.Lock()


def _new_lock() -> None:
    global _telling
    _telling = threading.Lock()  # a forked child has no teller of its parent's


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


@contextlib.contextmanager
def telling(what: str) -> Iterator[None]:
    """Tell `what` is being done, and for how many seconds already, from the first second on. One
    piece of work is told at a time; of others meanwhile, in it or in other threads, nothing is."""
    mine, silent = _telling, os.environ.get("IRC_PROGRESS") == "0"
    # stderr is None under pythonw, and may be replaced by an object without isatty.
    if silent or not getattr(sys.stderr, "isatty", bool)() or not mine.acquire(blocking=False):
        yield
        return
    done = threading.Event()
    # A line that wraps, or that a file's name moves elsewhere, could not be taken back.
    room = max(8, shutil.get_terminal_size().columns - 16)
    line = "".join(c if c.isprintable() else "?" for c in what)[:room]

    def tell() -> None:
        started, shown = time.monotonic(), False
        while not done.wait(1 if not shown else 0.2):
            shown = True
            print(f"\r{line} ... {time.monotonic() - started:.0f} s ", end="", file=sys.stderr)
            sys.stderr.flush()
        if shown:
            print(f"\r{' ' * (len(line) + 12)}\r", end="", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    try:
        teller.start()
        yield
    finally:
        done.set()
        if teller.ident is not None:
            teller.join()
        mine.release()
