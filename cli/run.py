"""irc run: a model on arrays from .npy and .npz files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from ..api import compile_model
from ..compiler.export.files import replacing
from ..ir.errors import UsageError
from .arguments import (
    add_compilation,
    add_inputs,
    add_model,
    add_threads,
    load_inputs,
    parse_shapes,
    require_file,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser, ".onnx, .xml, .irc")
    add_compilation(parser)
    add_threads(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", help="the .npz (or, of one output, .npy) to write")


def run(args: argparse.Namespace) -> int:
    """Run; prints each output's name, type and shape, and the values of small ones."""
    suffix = "" if args.output is None else args.output[-4:].lower()
    if suffix not in ("", ".npz", ".npy"):
        raise UsageError(
            "the output's name has the wrong ending", got=args.output, expected="*.npz or *.npy"
        )
    inputs = load_inputs(args.input)
    net = compile_model(
        require_file(args.model),
        precision=args.precision,
        num_threads=args.threads,
        shapes=parse_shapes(args.shape) or None,
    )
    outputs = net(inputs)
    names = [p.name or str(i) for i, p in enumerate(net.outputs)]
    if suffix == ".npy" and len(outputs) != 1:
        raise UsageError("an .npy file holds one array", got=f"{len(outputs)} outputs", fix="*.npz")
    if suffix:
        arrays: dict[str, Any] = dict(zip(names, outputs, strict=True))
        with replacing(Path(args.output)) as (stream,):
            if suffix == ".npz":
                np.savez(stream, **arrays)
            else:
                np.save(stream, outputs[0])
    for name, array in zip(names, outputs, strict=True):
        print(f"{name}  {array.dtype}{list(array.shape)}")
        if array.size <= 16:
            print("  " + np.array2string(array, separator=", ", threshold=16).replace("\n", "\n  "))
    return 0
