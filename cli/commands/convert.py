"""irc convert: ONNX (or XML) to IR version 11."""

from __future__ import annotations

import argparse

from ...api import read_model, save_model
from ...api.progress import show_progress
from ..arguments import add_model, default_output, limits, require_file, require_suffix
from ..formatting import format_bytes
from ..logging import print_json, report

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    parser.add_argument(
        "-o", "--output", help="the .xml to write (default: MODEL.xml in this folder)"
    )
    parser.add_argument(
        "--compress-to-fp16", action="store_true", help="store f32 weights as f16 (half the size)"
    )
    parser.add_argument(
        "--dialect", action="store_true", help="keep irc's own operations, which only irc reads"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Convert; prints the two files written."""
    output = require_suffix(args.output or default_output(args.model, ".xml"), ".xml")
    with show_progress(f"converting {args.model}"):
        model = read_model(require_file(args.model), **limits(args))
        save_model(model, output, compress_to_fp16=args.compress_to_fp16, dialect=args.dialect)
    files = [(p, p.stat().st_size) for p in (output, output.with_suffix(".bin"))]
    if args.json:
        listed = [{"path": str(p), "size_bytes": size} for p, size in files]
        print_json({"schema": SCHEMA, "files": listed})
        return 0
    for path, size in files:
        report(f"{path}  {format_bytes(size)}")
    return 0
