"""Formats figures and tables for a person: times, byte counts, columns that fit the terminal."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from ..ir.limits.format_bytes import format_size

# A table is as wide as its content, unless stdout is a terminal of fewer columns.
MIN_COLUMNS = 60
# A shortened cell keeps this many characters.
_MIN_CELL = 12


def format_bytes(count: float) -> str:
    """1536 -> '1.5 KiB'."""
    return format_size(int(count))


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
    import shutil

    return max(MIN_COLUMNS, shutil.get_terminal_size().columns)


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (0,),
    optional: Sequence[int] = (),
    shortened: int | None = None,
    columns: int | None = None,
) -> list[str]:
    """Lines of a table. left: columns that are aligned left. Where the table is wider than
    `columns`, optional columns are left out, the first of them first; then cells of the column
    `shortened` end in "...", and at last lines do."""
    shown = list(range(len(header)))
    widths = [max(len(r[c]) for r in (header, *rows)) for c in shown]
    for dropped in optional:
        if columns is None or sum(widths[c] + 2 for c in shown) - 2 <= columns:
            break
        shown.remove(dropped)
    if columns is not None and shortened is not None:
        excess = sum(widths[c] + 2 for c in shown) - 2 - columns
        widths[shortened] = max(_MIN_CELL, widths[shortened] - max(0, excess))
    lines: list[str] = []
    for line in (header, *rows):
        line = [shorten(cell, widths[c]) for c, cell in enumerate(line)]
        cells = [
            f"{line[c]:<{widths[c]}}" if c in left else f"{line[c]:>{widths[c]}}" for c in shown
        ]
        text = "  ".join(cells).rstrip()
        lines.append(text if columns is None else shorten(text, columns))
    return lines


def shorten(text: str, columns: int) -> str:
    """The text, or its beginning and "..."."""
    return text if len(text) <= columns else text[: columns - 3] + "..."


def fit_lines(lines: Iterable[str], indent: int = 0) -> list[str]:
    """The lines, wrapped where stdout is a terminal that is narrower. indent: spaces before the
    continuation of a line."""
    columns = terminal_columns()
    if columns is None:
        return list(lines)
    import textwrap

    found: list[str] = []
    for line in lines:
        short = len(line) <= columns
        blank = " " * indent
        found += [line] if short else textwrap.wrap(line, columns, subsequent_indent=blank)
    return found


def nearest_name(name: str, names: Collection[str]) -> str | None:
    """The name that was probably meant, None if none is near. Dashes before it do not count."""
    import difflib

    bare = {known.lstrip("-"): known for known in names}
    found = difflib.get_close_matches(name.lstrip("-"), bare, n=1, cutoff=0.6)
    return bare[found[0]] if found else None


def sizes_note(made_up: Sequence[str]) -> list[str]:
    """The line that heads measurements of a model whose sizes the command chose."""
    if not made_up:
        return []
    return fit_lines(
        [f"sizes: {', '.join(made_up)}, chosen by irc; --shape and --input set others"]
    )
