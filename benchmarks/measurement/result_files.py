"""Result files of benchmarks: one JSON schema, its writer and its reader.

A file holds the measurements of one machine on one day: `benchmarks/results/<date>-<cpu>.json`. A
benchmark that gets `--results` adds its rows to the file of today and this machine; a row with the
same key is replaced. `python -m benchmarks.render` renders the tables and charts of docs/ from
these files. Times are seconds. A number that a source does not give is left out; where it gives a
ratio without the engine's name, the engine is "fastest reference".
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.metadata
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
FOLDER = Path(__file__).resolve().parent.parent / "results"
# In a machine's name, before the instruction set that irc is held to.
HELD = ", held to "
PACKAGES = ("numpy", "llvmlite", "onnx", "onnxruntime", "openvino", "torch")


@dataclass(frozen=True)
class Machine:
    """The processor as the system names it, the features and caches (bytes) that irc uses."""

    cpu: str
    cores: int
    features: tuple[str, ...]
    l1_bytes: int | None
    l2_bytes: int | None


@dataclass(frozen=True)
class Row:
    """One engine at one piece of work.

    median, minimum: seconds per call. ratio: this engine's median over irc's (of compile times,
    which have no median, the minimum), None for irc. error: the largest error of irc's answer
    relative to the largest value of the output (of a quantized model: the share of elements that
    differ). measures: other quantities; a name ends in its unit.
    """

    suite: str
    name: str
    engine: str
    threads: int
    precision: str
    median: float | None = None
    minimum: float | None = None
    ratio: float | None = None
    error: float | None = None
    measures: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def key(self) -> tuple[object, ...]:
        return self.suite, self.name, self.engine, self.threads, self.precision


@dataclass(frozen=True)
class Bar:
    """What a suite has to reach: the geometric mean of the ratios, and the least of them."""

    suite: str
    precision: str
    mean: float
    least: float


@dataclass(frozen=True)
class Results:
    """The content of one file. source: "measured", or the page that figures were taken from."""

    date: str
    source: str
    machine: Machine
    packages: dict[str, str]
    bars: tuple[Bar, ...]
    rows: tuple[Row, ...]


def engine_rows(
    suite: str,
    name: str,
    threads: int,
    precision: str,
    *,
    medians: dict[str, float],
    minima: dict[str, float],
    error: float | None,
    measures: dict[str, float] | None = None,
) -> list[Row]:
    """A row per engine of one piece of work; error and measures belong to irc's row. onnxruntime
    cannot be held to an instruction set: where irc is, its row has no ratio."""
    mine = medians["irc"]
    without_ratio = {"irc", "onnxruntime"} if held_isa() else {"irc"}
    return [
        Row(
            suite, name, engine, threads, precision, median, minima.get(engine),
            None if engine in without_ratio else median / mine,
            error if engine == "irc" else None,
            dict(measures or {}) if engine == "irc" else {},
        )
        for engine, median in medians.items()
    ]  # fmt: skip


def add_option(parser: argparse.ArgumentParser) -> None:
    """The option --results [FILE] of a benchmark."""
    parser.add_argument(
        "--results",
        nargs="?",
        type=Path,
        const=results_path(),
        help="add the rows to a result file (default: that of today and this machine)",
    )


def results_path() -> Path:
    """The file of today and this machine."""
    name = re.sub(r"[^a-z0-9]+", "-", cpu_name().lower()).strip("-")
    return FOLDER / f"{datetime.date.today().isoformat()}-{name}.json"


def cpu_name() -> str:
    """The model name that the system gives, and the instruction set that irc is held to by IRC_ISA.
    (ONEDNN_MAX_CPU_ISA=AVX2 holds openvino to it; onnxruntime has no such setting.)"""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    name = match[1].strip() if match else platform.processor() or platform.machine()
    isa = held_isa()
    return f"{name}{HELD}{isa.upper()}" if isa else name


def held_isa() -> str:
    """The instruction set that irc is held to; empty: to none."""
    return os.environ.get("IRC_ISA", "")


def describe_machine() -> Machine:
    """This machine, as code generation sees it."""
    from irc_compiler.runtime.machine.cpus import usable_cores
    from irc_compiler.runtime.machine.detect import host_target

    target = host_target()
    return Machine(cpu_name(), usable_cores(), target.cpu_features, target.l1, target.l2)


def package_versions() -> dict[str, str]:
    """Versions of irc, Python and the installed packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in ("irc-compiler", *PACKAGES):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def add_rows(path: Path, rows: Iterable[Row], bars: Sequence[Bar] = ()) -> None:
    """Add measured rows to a file, which is made if it does not exist.

    Raises SystemExit if the file holds results of another machine or other package versions.
    """
    machine, packages = describe_machine(), package_versions()
    kept: dict[Any, Row] = {}
    kept_bars: dict[Any, Bar] = {}
    if path.exists():
        old = read_results(path)
        if (old.machine, old.packages) != (machine, packages):
            raise SystemExit(f"{path.name} holds results of another machine or other packages")
        kept = {row.key: row for row in old.rows}
        kept_bars = {(b.suite, b.precision): b for b in old.bars}
    kept |= {row.key: row for row in rows}
    kept_bars |= {(b.suite, b.precision): b for b in bars}
    date = datetime.date.today().isoformat()
    made = Results(
        date, "measured", machine, packages, tuple(kept_bars.values()), tuple(kept.values())
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(print_results(made), encoding="utf-8")


def print_results(results: Results) -> str:
    """JSON text with one row a line, so that a change of a row is a change of a line."""
    head = {
        "schema": SCHEMA,
        "date": results.date,
        "source": results.source,
        "machine": dataclasses.asdict(results.machine),
        "packages": results.packages,
        "bars": [dataclasses.asdict(bar) for bar in results.bars],
    }
    text = json.dumps(head, indent=1)[:-2]
    lines = ",\n".join("  " + json.dumps(_compact(row), allow_nan=False) for row in results.rows)
    return f'{text},\n "rows": [\n{lines}\n ]\n}}\n'


def _compact(row: Row) -> dict[str, object]:
    fields = {k: v for k, v in dataclasses.asdict(row).items() if v is not None and v != {}}
    return {k: float(f"{v:.6g}") if isinstance(v, float) else v for k, v in fields.items()}


def read_results(path: Path) -> Results:
    """Read a file. Raises ValueError if it does not follow the schema."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.pop("schema", None) != SCHEMA:
        raise ValueError(f"{path.name}: schema is not {SCHEMA}")
    machine, bars, rows = data.pop("machine"), data.pop("bars"), data.pop("rows")
    try:
        features = tuple(machine.pop("features"))
        made = Results(
            machine=Machine(features=features, **machine),
            bars=tuple(Bar(**bar) for bar in bars),
            rows=tuple(Row(**row) for row in rows),
            **data,
        )
    except TypeError as error:  # a field is missing, or unknown
        raise ValueError(f"{path.name}: {error}") from None
    for row in made.rows:
        _check(path, row)
    if len({row.key for row in made.rows}) != len(made.rows):
        raise ValueError(f"{path.name}: two rows have the same key")
    return made


def _check(path: Path, row: Row) -> None:
    numbers = (row.median, row.minimum, row.ratio, row.error, *row.measures.values())
    good = all(n is None or (isinstance(n, int | float) and 0 <= n < math.inf) for n in numbers)
    if not good or row.threads < 1 or (row.engine == "irc" and row.ratio is not None):
        raise ValueError(f"{path.name}: wrong row {row}")


def all_results(folder: Path = FOLDER) -> list[Results]:
    """Every file of a folder, the newest first."""
    return [read_results(p) for p in sorted(folder.glob("*.json"), reverse=True)]
