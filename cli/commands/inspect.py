"""irc inspect: what a model is."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...api import Model, PortInfo, compile_model, read_model
from ...compiler.frontends.xml.text import shorten_text
from ...compiler.inspect.summary import Summary, summarise
from ...compiler.metadata import DESCRIPTION, list_paths, read_section
from ...ir.types import format_shape
from ...plan.text import print_plan
from ..arguments import add_model, limits, require_file
from ..console import print_result
from ..formatting import fit_lines, format_bytes
from ..logging import print_json

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser, ".onnx, .xml, .irc")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--plan",
        action="store_true",
        help="print the compiled plan: regions, steps, buffers, constants and sizes",
    )


def run(args: argparse.Namespace) -> int:
    """Print inputs, outputs, operations, parameters, arithmetic and what will fuse."""
    path = require_file(args.model)
    if args.plan:
        text = print_plan(compile_model(path, **limits(args)).plan)
        if args.json:
            print_json({"schema": SCHEMA, "plan": text.splitlines()})
        else:
            print_result(*fit_lines(text.splitlines(), 6))
        return 0
    read = _read_artifact if Path(path).suffix.lower() == ".irc" else read_model
    model = read(path, **limits(args))
    summary = summarise(model.graph)
    if args.json:
        print_json(as_json(model, summary))
    else:
        print_result(*fit_lines(as_text(model, summary), 12))
    return 0


def _read_artifact(path: str, **how: Any) -> Model:
    return compile_model(path, **how).model


def as_json(model: Model, summary: Summary) -> dict[str, object]:
    """The summary as data; a FLOP count that depends on symbols is a string."""
    return {
        "schema": SCHEMA,
        "name": model.name,
        "inputs": [_port_json(p) for p in model.inputs],
        "outputs": [_port_json(p) for p in model.outputs],
        "operations": summary.operations,
        "parameters": summary.parameters,
        "parameter_bytes": summary.bytes,
        "flops": summary.flops if isinstance(summary.flops, int) else str(summary.flops),
        "rewrites": summary.fusions,
        "operations_after": summary.after,
        "bodies": summary.bodies,
        "metadata": model.metadata,
        "description": read_section(model.rt_info, DESCRIPTION),
        "rt_info": dict(list_paths(model.rt_info)),
    }


def _port_json(port: PortInfo) -> dict[str, object]:
    return {"name": port.name, "dtype": port.dtype, "shape": port.shape}


def as_text(model: Model, summary: Summary) -> list[str]:
    """The summary for a person."""
    lines = [f"model       {model.name or '(no name)'}"]
    lines += [f"input       {_port_text(p)}" for p in model.inputs]
    lines += [f"output      {_port_text(p)}" for p in model.outputs]
    lines.append(f"parameters  {summary.parameters:,} ({format_bytes(summary.bytes)})")
    lines.append(f"arithmetic  {_flops(summary.flops)} a call")
    lines.append(f"operations  {_format_counts(summary.operations)}")
    lines.append(f"rewrites    {_format_counts(summary.fusions) or 'none apply'}")
    lines.append(f"afterwards  {_format_counts(summary.after)}")
    lines += [
        f"{label:11} {shorten_text(k)}: {shorten_text(v)}"
        for label, pairs in (
            ("metadata", model.metadata),
            ("description", read_section(model.rt_info, DESCRIPTION)),
            ("rt_info", dict(list_paths(model.rt_info))),
        )
        for k, v in pairs.items()
    ]
    lines += [
        f"body        {way}: {_format_counts(kinds)}" for way, kinds in summary.bodies.items()
    ]
    return lines


def _port_text(port: PortInfo) -> str:
    shape = "of any rank" if port.shape is None else format_shape(port.shape)
    return f"{port.name or '(no name)'}  {port.dtype}{shape}"


def _format_counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _flops(flops: object) -> str:
    return f"{flops / 1e6:,.2f} MFLOP" if isinstance(flops, int) else f"{flops} FLOP"
