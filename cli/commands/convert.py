"""irc convert: ONNX or IR to IR version 11 or ONNX."""

from __future__ import annotations

import argparse

from ...api import read_model, save_model
from ...api.progress import show_progress
from ..arguments import (
    add_model,
    count_of,
    default_output,
    limits,
    require_file,
    require_suffix,
)
from ..formatting import format_bytes
from ..logging import print_json, report

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output-model",
        dest="output",
        help="the .xml or .onnx to write (default: MODEL.xml in this folder)",
    )
    parser.add_argument(
        "--compress-to-fp16", action="store_true", help="store f32 weights as f16 (half the size)"
    )
    parser.add_argument(
        "--dialect", action="store_true", help="keep irc's own operations, which only irc reads"
    )
    parser.add_argument(
        "--opset", type=count_of, help="ONNX's operator set, 13 or later (default: 21)"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME[SIZES]{TYPE}",
        help="an input: any tensor cuts the model there; sizes and type change it",
    )
    parser.add_argument(
        "--output",
        dest="outputs",
        action="append",
        default=[],
        metavar="NAME",
        help="an output: any tensor",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Convert; prints the files written."""
    output = require_suffix(args.output or default_output(args.model, ".xml"), ".xml", ".onnx")
    with show_progress(f"converting {args.model}"):
        path = require_file(args.model)
        model = read_model(path, inputs=args.input, outputs=args.outputs, **limits(args))
        written = save_model(
            model,
            output,
            compress_to_fp16=args.compress_to_fp16,
            dialect=args.dialect,
            opset=args.opset,
        )
    files = [(p, p.stat().st_size) for p in written]
    if args.json:
        listed = [{"path": str(p), "size_bytes": size} for p, size in files]
        print_json({"schema": SCHEMA, "files": listed})
        return 0
    for path, size in files:
        report(f"{path}  {format_bytes(size)}")
    return 0
