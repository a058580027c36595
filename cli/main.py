"""`irc VERB ...`: finds the verb, runs it, and turns what goes wrong into a message and a code.

Exit codes: 0 done, 1 a comparison failed, 2 usage, 3 file unreadable or invalid, 4 unsupported,
5 failed at run time, 130 interrupted. Results go to stdout, everything else to stderr. A
traceback appears only with IRC_TRACEBACK=1.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..ir.errors import Error
from ..ir.escape import escape_text
from ..ir.lazy_dataclass import dataclass
from . import FAILED, INTERRUPTED
from .console import escape_output, print_message, print_result
from .formatting import fit_lines, nearest_name
from .interrupts import interruptible
from .loading import Loading
from .logging import add_verbosity, color_text, configure_logging


@dataclass(frozen=True)
class Command:
    """One verb: its module in this folder (add_arguments, run), its line of help, an example."""

    module: str
    help: str
    example: str


COMMANDS: dict[str, Command] = {
    "demo": Command("demo", "run a real classifier on real images", "irc demo"),
    "convert": Command(
        "convert",
        "write a model as XML IR that OpenVINO reads",
        "irc convert model.onnx -o model.xml",
    ),
    "compile": Command(
        "compile", "compile a model into one .irc file", "irc compile model.xml -o model.irc"
    ),
    "run": Command(
        "run", "run a model on arrays", "irc run model.irc --input x=batch.npy -o out.npz"
    ),
    "bench": Command(
        "bench",
        "measure latency and throughput, alone or against reference engines",
        "irc bench model.onnx --threads 1,2 --against onnxruntime,openvino",
    ),
    "compare": Command(
        "compare",
        "compare the answers with the reference evaluation or another engine",
        "irc compare model.onnx --against reference --layers",
    ),
    "profile": Command(
        "profile",
        "show where the time goes, step by step",
        "irc profile model.onnx --trace trace.json",
    ),
    "inspect": Command(
        "inspect", "show what a model is and what will fuse", "irc inspect model.onnx"
    ),
    "quantize": Command(
        "quantize",
        "quantize a float model to int8, or its weights to int8, int4 or nf4",
        "irc quantize model.onnx --data samples.npz --report report.html",
    ),
    "graph": Command(
        "graph",
        "draw a model before and after each pass",
        "irc graph model.onnx -o graph.html --profile",
    ),
    "doctor": Command(
        "doctor", "show the machine, versions and environment variables", "irc doctor"
    ),
    "generate": Command(
        "generate",
        "continue a text, or answer a message, with a language model",
        'irc generate model.gguf -p "Once upon a time" --max-tokens 64',
    ),
    "chat": Command("chat", "talk with a language model", "irc chat model.gguf"),
    "serve": Command(
        "serve",
        "serve models over REST and gRPC (Open Inference Protocol)",
        "irc serve models/ --http 8000 --grpc 8001",
    ),
    "shim": Command(
        "shim",
        "run a program that imports onnxruntime or openvino on irc, unchanged",
        "irc shim --report -- python app.py",
    ),
    "cache": Command("cache", "show or empty the code cache", "irc cache list"),
    "completion": Command(
        "completion", "print a shell's completion script", 'eval "$(irc completion bash)"'
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A shell's `>&-` leaves no stream: what we say then goes nowhere, and no file gets its number.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    try:
        with escape_output(), interruptible() as interrupt:
            try:
                code = _dispatch(arguments)
                sys.stdout.flush()
                return code
            except (Exception, KeyboardInterrupt) as error:
                if interrupt.came or isinstance(error, KeyboardInterrupt):
                    print_message("irc: interrupted")
                    return INTERRUPTED
                if isinstance(error, BrokenPipeError):
                    return 0  # the reader of our output has gone: no error
                code = _report_failure(error)
                if os.environ.get("IRC_TRACEBACK") == "1":
                    raise
                return code
    finally:
        _close_streams()


def _close_streams() -> None:
    """Drop output whose reader is gone: Python would try to write it again at exit, and report an
    error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_failure(error: BaseException) -> int:
    """One message on stderr; returns the exit code."""
    heading = color_text("irc: error:", sys.stderr)
    if isinstance(error, Error):
        print_message(*str(error).split("\n"), heading=heading)
        return error.exit_code
    if isinstance(error, OSError):
        # Verbs name what they read and write; this is the rest, such as the code cache.
        where = [f"  where: {error.filename}"] if error.filename else []
        what = "a file or folder can't be read or written"
        print_message(what, *where, f"  got: {error.strerror or error}", heading=heading)
        return FAILED
    # A fault of irc itself: say so in one line.
    text = " ".join(str(error).split())[:300]
    print_message(
        f"{type(error).__name__}: {text}",
        "  fix: report this with the output of IRC_TRACEBACK=1",
        heading=color_text("irc: internal error:", sys.stderr),
    )
    return FAILED


def _dispatch(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "help":
        arguments = [arguments[1], "--help"]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        (print_result if arguments else print_message)(*_overview())
        return 0 if arguments else 2
    if arguments[0] in ("--version", "-V"):
        from .. import __version__

        print_result(f"irc {__version__}")
        return 0
    name = arguments[0]
    verb = COMMANDS.get(name)
    if verb is None:
        near = nearest_name(name, COMMANDS)
        hint = f": did you mean {near!r}?" if near else ""
        print_message(f"irc: unknown verb {name!r}{hint}", "", *_overview())
        return 2
    try:
        parsed = make_parser(name).parse_args(arguments[1:])
    except SystemExit as stop:
        return int(stop.code or 0)
    module = _module(verb)
    with configure_logging(parsed.verbose - parsed.quiet):
        return int(module.run(parsed))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2].split(" ")[0].split("=")[0]
        near = nearest_name(unknown, self._option_string_actions) if unknown[:1] == "-" else None
        super().error(escape_text(message) + (f" (did you mean {near}?)" if near else ""))


def make_parser(name: str) -> argparse.ArgumentParser:
    """The parser of a verb."""
    verb = COMMANDS[name]
    parser = _Parser(
        prog=f"irc {name}",
        description=verb.help[0].upper() + verb.help[1:] + ".",
        epilog=f"example: {verb.example}",
    )
    _module(verb).add_arguments(parser)
    add_verbosity(parser)
    return parser


def _module(verb: Command) -> Any:
    with Loading():
        return importlib.import_module(f".commands.{verb.module}", __package__)


def _overview() -> list[str]:
    width = max(len(v) for v in COMMANDS)
    lines = ["usage: irc VERB [options]", "", "verbs:"]
    verbs = (f"  {name:<{width}}  {verb.help}" for name, verb in COMMANDS.items())
    lines += fit_lines(verbs, width + 4)
    return [*lines, "", "`irc VERB --help` shows a verb's options and an example."]
