"""irc shim: run a program in whose process onnxruntime and openvino are irc's stand-ins.

The child finds a folder before all others whose packages call `compat.install`. Nothing
outside of the child changes. `--report` prints which sessions ran where, and why.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...compat.stand_ins import SHIM_FOLDER, SHIM_REPORT, STAND_INS
from ...ir.errors import UsageError
from ..console import print_message

_PACKAGE = "from irc_compiler.compat import install\ninstall({!r})\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, help="the command, such as -- python app.py"
    )
    parser.add_argument(
        "--report", action="store_true", help="print which sessions ran where, and why, at the end"
    )


def run(args: argparse.Namespace) -> int:
    """Run the program; its exit code."""
    command: list[str] = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise UsageError("no program is given", expected="irc shim -- python app.py")
    with tempfile.TemporaryDirectory(prefix="irc-shim-") as made:
        folder, report = Path(made) / "packages", Path(made) / "sessions"
        for name in STAND_INS:
            write_package(folder, name)
        paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        changed = {"PYTHONPATH": os.pathsep.join(paths), SHIM_FOLDER: str(folder)}
        if args.report:
            changed[SHIM_REPORT] = str(report)
        try:
            code = subprocess.run(command, env=os.environ | changed, check=False).returncode
        except OSError as error:
            raise UsageError(
                "the program does not start",
                got=f"{command[0]}: {error.strerror}",
                expected="a command, such as python app.py",
            ) from error
        if args.report:
            print_message(*describe_sessions(report))
    return code if code >= 0 else 128 - code


def write_package(folder: Path, name: str) -> None:
    """A package that installs the stand-in, and metadata where the engine is not installed."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_PACKAGE.format(name), encoding="utf-8")
    try:
        version(name)
    except PackageNotFoundError:
        import importlib

        release = importlib.import_module(STAND_INS[name]).__version__
        info = folder / f"{name}-{release}.dist-info"
        info.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n"
        (info / "METADATA").write_text(text, encoding="utf-8")


def describe_sessions(report: Path) -> list[str]:
    """A line for each session that the program made."""
    if not report.exists():
        return ["irc shim: the program made no session"]
    lines = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines()]
    found = [f"irc shim: {len(lines)} sessions"]
    for line in lines:
        reason = " ".join(line["reason"].split())
        found.append(f"  {line['model']}: {line['engine']}{f' ({reason})' if reason else ''}")
    return found
