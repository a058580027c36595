"""irc doctor: this machine as irc sees it, and the environment variables with their values."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ...ir.errors import Error, UsageError
from ...ir.escape import escape_text
from ...ir.limits.host_memory import memory_limit
from ...plan.processors import PROCESSORS, maskable_processors
from ...plan.target import Target
from ...runtime.jit.disk_cache import DEFAULT_BYTES, cache_folder, default_cache, find_cache_fault
from ...runtime.jit.host_features import detected_features, masked_processor, without_tiles
from ...runtime.machine.cpus import usable_cores
from ...runtime.machine.detect import detected_target, host_target
from ...runtime.machine.roofline import UNITS, measured_bandwidth, measured_peak
from ..console import print_result
from ..formatting import format_bytes, terminal_columns
from ..logging import print_json

SCHEMA = 1
T = TypeVar("T")


@dataclass(frozen=True)
class Knob:
    """An environment variable: its default in words, and what it does."""

    name: str
    default: str
    help: str


KNOBS = (
    Knob("IRC_ISA", "the best this machine has", "forces avx512, avx2 or plain"),
    Knob("IRC_CPU", "this machine", "a processor (such as haswell): masks all other features"),
    Knob("IRC_AMX", "1", "0 leaves the tiles of AMX unused where there are any"),
    Knob("IRC_HEURISTICS", "none", "a TOML file of thresholds that choose schedules of kernels"),
    Knob("IRC_VERIFY", "0", "1 verifies the graph after every pass"),
    Knob("IRC_TRACE", "0", "1 prints every rewrite that fires or refuses"),
    Knob("IRC_DUMP_GRAPH", "nowhere", "folder for the graph after each pass"),
    Knob("IRC_DUMP_LLVM", "nowhere", "folder for each kernel's LLVM text and assembly"),
    Knob("IRC_CACHE_DIR", "in the user's cache folder", "folder of the code cache, or off"),
    Knob("IRC_CACHE_BYTES", format_bytes(DEFAULT_BYTES), "bytes that the code cache may take"),
    Knob("IRC_MODEL_CACHE", "1", "0 keeps compiled models out of the code cache"),
    Knob("IRC_PROGRESS", "1", "0: show no progress of work that takes more than a second"),
    Knob("IRC_TRACEBACK", "0", "1 shows Python's traceback with an error"),
    Knob("NO_COLOR", "unset", "any text leaves colours out"),
)
PACKAGES = ("numpy", "networkx", "onnx", "lxml", "ml_dtypes", "llvmlite")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the machine, the versions and the knobs. Exit code 2 if a knob is set wrongly."""
    state = examine()
    if args.json:
        print_json(state)
    else:
        print_result(*as_text(state))
    return UsageError.exit_code if state["problems"] else 0


def examine() -> dict[str, object]:
    """What `doctor` shows, as data."""
    from ... import __version__

    problems: list[str] = []
    # A knob that is set wrongly is what doctor is for: say so, and show the rest.
    target = _try_or_record(host_target, problems) or detected_target()
    cache = _try_or_record(default_cache, problems)
    versions = {"irc": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        versions[package] = importlib.metadata.version(package)
    return {
        "schema": SCHEMA,
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "isa": target.isa,
            "mask": mask(),
            "vector_bits": target.vector_bits,
            "cores": target.cores,
            "usable_cores": usable_cores(),
            "l1_bytes": target.l1,
            "l2_bytes": target.l2,
            "l3_bytes": target.l3,
            "memory_limit_bytes": memory_limit(),
            "tiles": tiles(target),
            "features": list(target.cpu_features),
        },
        "measured": {} if problems else measure_peaks(target),
        "cache": {
            "folder": str(cache_folder()) if cache is not None else None,
            "entries": len(cache.entries()) if cache is not None else 0,
            **({"refused": fault} if cache is None and (fault := find_cache_fault()) else {}),
        },
        "versions": versions,
        "knobs": [
            {
                "name": k.name,
                "value": os.environ.get(k.name, k.default),
                "source": "environment" if k.name in os.environ else "default",
                "default": k.default,
                "help": k.help,
            }
            for k in KNOBS
        ],
        "problems": problems,
    }


def mask() -> str:
    """What IRC_CPU masks the machine's features with, and which features that leaves unused."""
    name = masked_processor()
    if name not in maskable_processors(detected_features()):
        return "none"
    unused = sorted(detected_features() - PROCESSORS[name])
    return f"IRC_CPU={name}, without {' '.join(unused) or 'nothing'}"


def tiles(target: Target) -> str:
    """Whether products run on tiles of AMX; if they could and do not, why."""
    if target.has("amx-tile"):
        return "AMX"
    reason = without_tiles()
    return f"none (AMX is there, but {reason})" if reason else "none"


def _try_or_record(make: Callable[[], T], problems: list[str]) -> T | None:
    try:
        return make()
    except Error as error:
        problems.append(str(error))
        return None


def measure_peaks(target: Target) -> dict[str, float]:
    """The peaks of one core by type, and how fast it reads what fits a level of the caches."""
    peaks = {
        f"peak_{unit}_gflops": measured_peak(unit) / 1e9
        for unit, of in UNITS.items()
        if of.feature is None or target.has(of.feature)
    }
    sizes = {"l1": target.l1 // 2, "l2": target.l2 // 2, "memory": max(4 * target.l3, 64 << 20)}
    reads = {
        f"read_{name}_gb_per_s": measured_bandwidth(size, 1) / 1e9
        for name, size in sizes.items()
        if size
    }
    return {key: round(value, 1) for key, value in (peaks | reads).items()}


def as_text(state: dict[str, object]) -> list[str]:
    """The same for a person."""
    lines: list[str] = []
    for title in ("machine", "measured", "cache", "versions"):
        section = state[title]
        assert isinstance(section, dict)
        lines.append("measured, one core" if title == "measured" else title)
        for key, value in section.items():
            shown = " ".join(value) if isinstance(value, list) else str(value)
            if key.endswith("_bytes") and isinstance(value, int):
                key, shown = key.removesuffix("_bytes"), format_bytes(value)
            lines += _wrap(f"  {key:<21}", shown)
    knobs = state["knobs"]
    assert isinstance(knobs, list)
    lines.append("environment variables")
    for knob in knobs:
        value = "not set" if knob["source"] == "default" else knob["value"]
        lines += _wrap(f"  {knob['name']:<21}", f"{value} (default: {knob['default']})")
        lines += _wrap(f"{'':<23}", knob["help"])
    problems = state["problems"]
    assert isinstance(problems, list)
    for text in problems:
        lines += f"problem: {text}".split("\n")
    return lines


def _wrap(label: str, text: str) -> list[str]:
    """The text behind a label, in lines that fit the terminal."""
    return textwrap.wrap(
        escape_text(text),
        terminal_columns() or 100,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [label.rstrip()]
