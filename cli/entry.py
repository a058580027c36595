"""The command `irc` from its first instruction on: Ctrl-C while it is loaded ends it as well.

What loading takes is imported by functions, when an interrupt has somewhere to go.
"""

from __future__ import annotations

import signal
import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import NoReturn

INTERRUPTED = 130


class Loading:
    """While this is entered, Ctrl-C waits for its end and is a KeyboardInterrupt there: inside an
    import it may arrive as another error, and libraries in C print its traceback."""

    def __enter__(self) -> None:
        self.came, self.before = False, signal.getsignal(signal.SIGINT)
        self.ours = callable(self.before)  # neither ignored nor the system's
        try:
            if self.ours:
                signal.signal(signal.SIGINT, self.note)
        except ValueError:  # not the main thread: interrupts are not ours
            self.ours = False

    def note(self, number: int, frame: object) -> None:
        self.came = True

    def __exit__(self, *error: object) -> None:
        if self.ours:
            signal.signal(signal.SIGINT, self.before)
        if self.came:
            raise KeyboardInterrupt from None


def entry() -> NoReturn:
    """Run the command. When main ends all is said: Ctrl-C would only tear Python's clean-up."""
    try:
        with Loading():
            from .main import main
        code = main()
    except KeyboardInterrupt:
        print("irc: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except Exception as error:  # IRC_TRACEBACK=1; the interpreter would print it unescaped
        from .console import escaping, print_traceback

        with escaping():
            print_traceback(error)
        code = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == INTERRUPTED:  # what was left half made is cleared away at the very end
        sys.unraisablehook = lambda _: None
    sys.exit(code)
