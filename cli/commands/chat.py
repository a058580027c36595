"""irc chat: a conversation with a language model on the terminal."""

from __future__ import annotations

import argparse
import contextlib
import sys

from ...ir.errors import UsageError
from ..console import print_message, print_piece
from ..interrupts import catch_interrupts
from .generate import add_language_model, add_sampling, describe_stats, load_model, options_of

HELP = "A message a line; /reset forgets the conversation, /exit (or Ctrl-D) ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_language_model(parser)
    parser.add_argument("--system", metavar="TEXT", help="the system message")
    add_sampling(parser)


def run(args: argparse.Namespace) -> int:
    """Answer each line of stdin; Ctrl-C ends an answer, at the prompt the command."""
    options = options_of(args)
    session = load_model(args).session(args.system)
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        with contextlib.suppress(ImportError):
            pass  # input() edits lines and recalls earlier ones
        print_message(HELP)
    while (line := read_line(is_terminal)) is not None:
        if line.strip() in ("/exit", "/quit"):
            break
        if line.strip() == "/reset":
            session.reset()
        elif line.strip():
            try:
                with catch_interrupts():
                    for piece in session.stream(line, options):
                        print_piece(piece.text)
                print_piece("\n")
            except KeyboardInterrupt:
                print_piece("\n")
                print_message("interrupted: this turn is forgotten")
                continue
            except UsageError as error:
                print_message(*str(error).split("\n"))
                continue
            if args.stats and session.last is not None:
                print_message(*describe_stats(session.last.stats))
    return 0


def read_line(is_terminal: bool) -> str | None:
    """The next message; None at the end of the input."""
    try:
        return input("> " if is_terminal else "")
    except EOFError:
        return None
