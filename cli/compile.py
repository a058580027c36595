"""irc compile: a model into one .irc file, with the report of how it will run."""

from __future__ import annotations

import argparse
import time

from ..api import compile_model
from .arguments import (
    add_compilation,
    add_model,
    default_output,
    parse_shapes,
    require_file,
    require_suffix,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    add_compilation(parser)
    parser.add_argument("-o", "--output", help="the .irc to write (default: beside you, same name)")


def run(args: argparse.Namespace) -> int:
    """Compile; prints the report and the file written."""
    output = require_suffix(args.output or default_output(args.model, ".irc"), ".irc")
    started = time.perf_counter()
    net = compile_model(
        require_file(args.model), precision=args.precision, shapes=parse_shapes(args.shape) or None
    )
    seconds = time.perf_counter() - started
    net.export(output)
    print(net.report())
    print(f"compiled   in {seconds:.2f} s")
    print(f"written    {output}, {output.stat().st_size} bytes")
    return 0
