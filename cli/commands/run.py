"""irc run: a model on arrays from .npy and .npz files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...compiler.export.files import replace_files
from ...ir.errors import UsageError
from ...ir.random_seed import set_seed
from ..arguments import (
    add_compilation,
    add_inputs,
    add_model,
    add_threads,
    add_trust,
    compile_from_args,
    given_inputs,
)
from ..console import print_result
from ..logging import print_json, report
from ..values import by_name

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser, ".onnx, .xml, .irc")
    add_compilation(parser)
    add_threads(parser)
    add_trust(parser)
    add_inputs(parser)
    parser.add_argument("-o", "--output", help="the .npz (or, of one output, .npy) to write")
    parser.add_argument(
        "--seed", type=int, help="what random operations without a seed draw from (default: any)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Run; prints each output's name, type and shape, and the values of small ones. The arrays of
    a sequence or a dictionary are outputs of their own."""
    suffix = "" if args.output is None else args.output[-4:].lower()
    if suffix not in ("", ".npz", ".npy"):
        raise UsageError(
            "the output's name has the wrong ending", got=args.output, expected="*.npz or *.npy"
        )
    net = compile_from_args(args)
    if args.seed is not None:
        set_seed(args.seed)
    inputs = given_inputs(args, net.inputs)
    names = [p.name or str(i) for i, p in enumerate(net.outputs)]
    arrays: dict[str, Any] = by_name(zip(names, net(inputs), strict=True))
    if suffix == ".npy" and len(arrays) != 1:
        raise UsageError("an .npy file holds one array", got=f"{len(arrays)} outputs", fix="*.npz")
    if args.output is not None:
        with replace_files(Path(args.output)) as (stream,):
            if suffix == ".npz":
                np.savez(stream, **arrays)
            else:
                np.save(stream, *arrays.values())
    if args.json:
        print_json(as_json(arrays))
        return 0
    # Without a file they are the result, which -q leaves in.
    say = print_result if args.output is None else report
    for name, array in arrays.items():
        say(f"{name}  {array.dtype}{list(array.shape)}")
        if array.size <= 16:
            shown = np.array2string(array, separator=", ", threshold=16)
            say(*(f"  {line}" for line in shown.split("\n")))
    return 0


def as_json(arrays: Mapping[str, Any]) -> dict[str, object]:
    """Names, types and shapes; the values of small outputs, as text where JSON has no number."""
    listed: list[dict[str, object]] = []
    for name, array in arrays.items():
        entry: dict[str, object] = {
            "name": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
        }
        if array.size <= 16:
            values = array.reshape(-1).tolist()
            entry["values"] = [v if isinstance(v, float | int | str) else str(v) for v in values]
        listed.append(entry)
    return {"schema": SCHEMA, "outputs": listed}
