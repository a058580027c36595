"""Formats figures and tables for a person: times, byte counts, columns that fit the terminal."""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Collection, Sequence

from ..ir.limits.memory_budget import human

# A table is as wide as its content, unless stdout is a terminal of fewer columns.
MIN_COLUMNS = 60


def format_bytes(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    return human(int(count))


def format_microseconds(value: float) -> str:
    """Three digits and a unit: 1.25 -> '1.25 us', 143795.7 -> '144 ms'."""
    for unit in ("us", "ms"):
        if value < 999.5:
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
        value /= 1000
    return f"{value:.3g} s"


def terminal_columns() -> int | None:
    """The columns of the terminal that stdout is; None where it is not one."""
    if not getattr(sys.stdout, "isatty", bool)():
        return None
    return max(MIN_COLUMNS, shutil.get_terminal_size().columns)


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    optional: Sequence[int] = (),
    columns: int | None = None,
) -> list[str]:
    """Lines of a table. left: columns that are aligned left. optional: columns that are left out,
    the first of them first, where the table is wider than `columns`. A line that is still too wide
    ends in "..."."""
    shown = list(range(len(header)))
    widths = [max(len(r[c]) for r in (header, *rows)) for c in shown]
    for dropped in optional:
        if columns is None or sum(widths[c] + 2 for c in shown) - 2 <= columns:
            break
        shown.remove(dropped)
    lines: list[str] = []
    for line in (header, *rows):
        cells = [
            f"{line[c]:<{widths[c]}}" if c in left else f"{line[c]:>{widths[c]}}" for c in shown
        ]
        text = "  ".join(cells).rstrip()
        if columns is not None and len(text) > columns:
            text = text[: columns - 3] + "..."
        lines.append(text)
    return lines


def nearest_name(name: str, names: Collection[str]) -> str | None:
    """The name that was probably meant, None if none is near."""
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return found[0] if found else None


def sizes_note(made_up: Sequence[str]) -> list[str]:
    """The line that heads measurements of a model whose sizes the command chose."""
    if not made_up:
        return []
    return [f"sizes: {', '.join(made_up)} (chosen by irc; set others with --shape or --input)"]
