"""irc compile: a model into one .irc file, with the report of how it will run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

from ...api import CompiledModel, compile_model
from ...ir.errors import UsageError
from ..arguments import (
    add_compilation,
    add_kv_cache,
    add_model,
    default_output,
    limits,
    parse_shapes,
    require_file,
    require_suffix,
)
from ..formatting import fit_lines, format_bytes, format_microseconds
from ..logging import log, print_json, report

SCHEMA = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser, ".onnx, .xml, .gguf, or a folder with a language model")
    add_compilation(parser)
    add_kv_cache(parser)
    parser.add_argument(
        "-o", "--output", help="the .irc to write (default: MODEL.irc in this folder)"
    )
    parser.add_argument(
        "--with-code",
        action="store_true",
        help="store the machine code, too",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Compile; prints the report and the file written."""
    from ...llm.compiled_language_model import is_language_model

    output = require_suffix(args.output or default_output(args.model, ".irc"), ".irc")
    started = time.perf_counter()
    language = is_language_model(args.model)
    net, export = _compile_language_model(args) if language else _compile_graph(args)
    seconds = time.perf_counter() - started
    export(output, code=args.with_code)
    size = output.stat().st_size
    if net.trace is not None:
        for name, spent in net.trace.seconds.items():
            log(f"pass {name}: {spent * 1e3:.1f} ms")
    if args.json:
        print_json(as_json(net, output, size, seconds))
        return 0
    lines = net.report().split("\n")
    lines += [f"compiled   in {format_microseconds(seconds * 1e6)}"]
    lines += [f"written    {output}, {format_bytes(size)}"]
    report(*fit_lines(lines, 11))
    return 0


def _compile_graph(args: argparse.Namespace) -> tuple[CompiledModel, Callable[..., None]]:
    if args.kv_cache is not None:
        raise UsageError(
            "--kv-cache is for language models", got=args.model, expected="a .gguf file or a folder"
        )
    net = compile_model(
        require_file(args.model),
        precision=args.precision,
        denormals=args.denormals,
        activations=args.activations,
        shapes=parse_shapes(args.shape) or None,
        **limits(args),
    )
    return net, net.export


def _compile_language_model(args: argparse.Namespace) -> tuple[CompiledModel, Callable[..., None]]:
    from ...llm.llm import LLM

    graph_options = (
        ("--shape", args.shape),
        ("--denormals", args.denormals),
        ("--extension", args.extension),
        ("--declared-shapes", args.declared_shapes != "check"),
    )
    for option, given in graph_options:
        if given:
            raise UsageError(
                f"{option} does not apply to a language model",
                got=args.model,
                fix=f"leave {option} out",
            )
    llm = LLM(
        args.model,
        max_memory=args.max_memory,
        kv_cache=args.kv_cache,
        activations=args.activations,
        precision=args.precision,
    )
    return llm.decoder.net, llm.export


def as_json(net: CompiledModel, output: Path, size: int, seconds: float) -> dict[str, object]:
    """The report as data."""
    hosts = [{"name": s.name, "kind": s.op.kind, "why": s.reason} for s in net.plan.host_steps()]
    return {
        "schema": SCHEMA,
        "output": str(output),
        "size_bytes": size,
        "compile_s": seconds,
        "precision": net.plan.precision,
        "denormals": "flush" if net.plan.denormals.flush else "keep",
        "native_steps": len(net.plan.kernel_steps()),
        "python_steps": hosts,
        "kernels": len(net.plan.specs()),
        "regions": len(net.plan.regions),
        "rewrites": dict(net.trace.hits()) if net.trace is not None else {},
    }
