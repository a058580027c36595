"""The command `irc` from its first instruction on: Ctrl-C while it is loaded ends it as well.

What loading takes is imported by functions, when an interrupt has somewhere to go.
"""

from __future__ import annotations

import gc
import signal
import sys

from . import INTERRUPTED
from .loading import Loading

TYPE_CHECKING = False
# Objects that are made, and not dropped, between two collections of young ones. Modules, plans and
# vocabularies are many objects that stay: Python's own 700 take 25 ms of a start. Of commands that
# start often and end soon; others may make garbage for hours.
_YOUNG_OBJECTS = 100_000
_BRIEF_COMMANDS = ("generate",)

if TYPE_CHECKING:
    from typing import NoReturn


def defer_collections(arguments: list[str]) -> None:
    """Collect garbage less often, in a command that ends soon."""
    if arguments and arguments[0] in _BRIEF_COMMANDS:
        gc.set_threshold(_YOUNG_OBJECTS)


def entry() -> NoReturn:
    """Run the command. When main ends all is said: Ctrl-C would only tear Python's clean-up."""
    defer_collections(sys.argv[1:])
    try:
        with Loading():
            from .main import main
        code = main()
    except KeyboardInterrupt:
        print("irc: interrupted", file=sys.stderr)
        code = INTERRUPTED
    except Exception as error:  # IRC_TRACEBACK=1; the interpreter would print it unescaped
        from .console import escape_output, print_traceback

        with escape_output():
            print_traceback(error)
        code = 1
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if code == INTERRUPTED:  # what was left half made is cleared away at the very end
        sys.unraisablehook = lambda _: None
    sys.exit(code)
