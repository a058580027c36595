"""`python -m irc_compiler` is the command `irc`."""

from __future__ import annotations

from .cli.entry import entry

if __name__ == "__main__":
    entry()
