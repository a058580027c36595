"""irc convert: ONNX (or XML) to IR version 11."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..api import read_model, save_model
from .arguments import add_model, default_output, require_file, require_suffix


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    parser.add_argument("-o", "--output", help="the .xml to write (default: beside you, same name)")
    parser.add_argument(
        "--compress-to-fp16", action="store_true", help="store f32 weights as f16 (half the size)"
    )


def run(args: argparse.Namespace) -> int:
    """Convert; prints the two files written."""
    output = require_suffix(args.output or default_output(args.model, ".xml"), ".xml")
    model = read_model(require_file(args.model))
    save_model(model, output, compress_to_fp16=args.compress_to_fp16)
    for path in (output, output.with_suffix(".bin")):
        print(f"{path}  {Path(path).stat().st_size} bytes")
    return 0
