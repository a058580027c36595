"""irc quantize: a float model to int8, or its weights to int8, int4 or nf4."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...compiler.export.files import replace_files
from ...ir.errors import InputFileError, UsageError
from ...ir.escape import stream_beneath
from ..arguments import add_model, add_threads, amount_of, count_of, limits, require_file
from ..formatting import fit_lines, format_bytes, format_table, terminal_columns
from ..logging import print_json, report

if TYPE_CHECKING:
    from ...quantization import QuantizedModel

SCHEMA = 1
_BAR_COLUMNS = 24
_FIRST_REPORT_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        help="the .onnx, .xml or .irc to write (default: MODEL-WEIGHTS and the model's ending)",
    )
    parser.add_argument(
        "--data",
        help="calibration batches: an .npz file (one sample per row of each array), a folder of "
        ".npz files (a batch each), or module:function, which returns an iterable of dictionaries",
    )
    parser.add_argument(
        "--weights", choices=("int8", "int4", "nf4"), default="int8", help="default: int8"
    )
    parser.add_argument(
        "--group",
        type=count_of,
        default=128,
        help="elements with one scale, where weights alone are quantized (default: 128)",
    )
    parser.add_argument(
        "--algorithm",
        choices=("rtn", "awq", "gptq", "awq-gptq"),
        default="rtn",
        help="where weights alone are quantized: round to nearest, AWQ or GPTQ (default: rtn)",
    )
    parser.add_argument(
        "--activations",
        choices=("u8", "i8", "none"),
        help="none quantizes weights alone (default: u8 with int8 weights, else none)",
    )
    parser.add_argument(
        "--calibrate",
        choices=("minmax", "percentile", "mse", "entropy"),
        default="minmax",
        help="how ranges of activations are chosen (default: minmax)",
    )
    parser.add_argument(
        "--smooth",
        type=amount_of,
        metavar="STRENGTH",
        help="SmoothQuant: move range from activations to weights, 0 to 1, such as 0.5",
    )
    parser.add_argument(
        "--metric",
        metavar="MODULE:FUNCTION",
        help="a function that takes the model (a function of inputs by name) and returns a number, "
        "the larger the better",
    )
    parser.add_argument(
        "--max-drop",
        type=amount_of,
        metavar="DROP",
        help="return the layers with the largest errors to float until the metric falls by less",
    )
    parser.add_argument(
        "--keep", metavar="NODE", nargs="+", default=[], help="layers that stay float"
    )
    parser.add_argument(
        "--min-samples",
        type=count_of,
        default=8,
        help="fewer calibration samples are an error (default: 8)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="write a page with each layer's error, time and verdict (measured here)",
    )
    add_threads(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Quantize; prints what was done and the files written."""
    from ...quantization.html_report import render_report
    from ...quantization.post_training import check_suffix, quantize

    output = Path(args.output or _default_output(args.model, args.weights))
    suffix = check_suffix(output)
    source = require_file(args.model)
    if suffix == ".onnx" and Path(source).suffix.lower() == ".xml":
        raise UsageError(
            "a model that is read from XML cannot be written as quantized ONNX",
            got=str(output),
            expected="*.xml or *.irc",
        )
    if args.report and Path(args.report).suffix.lower() not in (".html", ".htm"):
        raise UsageError("the report's name has the wrong ending", got=args.report,
                         expected="*.html")  # fmt: skip
    metric = None if args.metric is None else _load_function(args.metric, "--metric")
    data = args.data
    if data is not None and ":" in data and not os.path.exists(data):
        data = _load_function(data, "--data")
    elif data is not None and not os.path.exists(data):
        raise InputFileError("the calibration data are not there", where=data,
                             expected="an .npz file, a folder, or module:function")  # fmt: skip
    bar = _Bar()
    try:
        result = quantize(
            source,
            data,
            weights=args.weights,
            group=args.group,
            algorithm=args.algorithm,
            activations=args.activations,
            calibrate=args.calibrate,
            smooth=args.smooth,
            keep=args.keep,
            metric=metric,
            max_drop=args.max_drop,
            analyze=args.report is not None,
            min_samples=args.min_samples,
            num_threads=args.threads,
            progress=bar.show,
            **limits(args),
        )
        bar.show("writing", 0, 0)
        result.save(output)
        if args.report:
            with replace_files(Path(args.report)) as (stream,):
                stream.write(render_report(result, source).encode())
    finally:
        bar.clear()
    if args.json:
        print_json(_as_json(result, output))
    else:
        report(*fit_lines(_as_text(result, source, output), 2))
    return 0


def _default_output(model: str, weights: str) -> str:
    path = Path(model)
    return f"{path.stem}-{weights}{path.suffix}"


def _load_function(text: str, option: str) -> Callable[..., Any]:
    """The function that `module:function` names; modules of this folder are found, too."""
    name, _, function = text.partition(":")
    expected = "module:function, of a module in this folder or an installed one"
    if not name or not function:
        raise UsageError(f"{option} names no function", got=text, expected=expected)
    sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(name), function)
    except Exception as error:
        raise UsageError(
            f"the function of {option} cannot be loaded",
            where=text,
            got=f"{type(error).__name__}: {str(error)[:200]}",
            expected=expected,
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    if not callable(found):
        raise UsageError(f"{option} names no function", got=type(found).__name__, expected=expected)
    return found


def _as_text(result: QuantizedModel, source: str, output: Path) -> list[str]:
    quantized, lines = len(result.quantized_layers), list[str]()
    found = result.evaluation
    lines.append(f"quantized {quantized} of {len(result.layers)} layers")
    if found is not None and found.layers:
        rows = [
            [r.name, f"{r.sqnr:.1f}", _microseconds(r.float_us), _microseconds(r.quantized_us),
             r.verdict]
            for r in found.layers
        ]  # fmt: skip
        lines += format_table(
            ("layer", "SQNR dB", "float us", "quantized us", "verdict"),
            rows,
            left=(0, 4),
            shortened=0,
            columns=terminal_columns(),
        )
    if found is not None and found.quantized_metric is not None:
        lines.append(f"metric {found.quantized_metric:.6g}, float {found.float_metric:.6g}")
    if found is not None and found.times is not None:
        lines += found.times.describe()
    before, after = Path(source).stat().st_size, output.stat().st_size
    if output.suffix.lower() == ".xml":
        after += output.with_suffix(".bin").stat().st_size
    lines.append(f"written {output}, {format_bytes(after)} (source: {format_bytes(before)})")
    return lines


def _microseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _as_json(result: QuantizedModel, output: Path) -> dict[str, object]:
    found = result.evaluation
    state: dict[str, object] = {
        "schema": SCHEMA,
        "output": str(output),
        "layers": len(result.layers),
        "quantized": result.quantized_layers,
    }
    if found is not None and found.quantized_metric is not None:
        state |= {"metric": found.quantized_metric, "float_metric": found.float_metric}
    if found is not None and found.times is not None:
        state |= {
            "float_us": found.times.float_us,
            "quantized_us": found.times.quantized_us,
            "speedup": found.times.speedup,
            "errors": [
                {"name": r.name, "kind": r.kind, "sqnr_db": r.sqnr, "float_us": r.float_us,
                 "quantized_us": r.quantized_us, "verdict": r.verdict}
                for r in found.layers
            ],
        }  # fmt: skip
    return state


class _Bar:
    """One line on stderr, if it is a terminal, from the first second on."""

    def __init__(self) -> None:
        silent = os.environ.get("IRC_PROGRESS") == "0"
        self._on = not silent and getattr(sys.stderr, "isatty", bool)()
        self._started, self._width = time.monotonic(), 0

    def show(self, stage: str, done: int, total: int) -> None:
        """The stage, how many of its pieces are done, and of how many (0: unknown)."""
        spent = time.monotonic() - self._started
        if not self._on or spent < _FIRST_REPORT_SECONDS:
            return
        filled = _BAR_COLUMNS * done // total if total else 0
        bar = f" [{'#' * filled}{'.' * (_BAR_COLUMNS - filled)}]" if total else ""
        line = f"{stage}{bar} {done}{f' of {total}' if total else ''}, {spent:.0f} s"
        self._write(f"\r{line:<{self._width}}")
        self._width = len(line)

    def clear(self) -> None:
        """Take the line back."""
        if self._width:
            self._write(f"\r{' ' * self._width}\r")

    def _write(self, text: str) -> None:
        stream = stream_beneath(sys.stderr)
        stream.write(text)
        stream.flush()
