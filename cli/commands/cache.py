"""irc cache: the code cache on disk."""

from __future__ import annotations

import argparse
import time

from ...runtime.jit.disk_cache import cache_bytes, cache_folder, default_cache, find_cache_fault
from ..console import print_result
from ..formatting import fit_lines, format_bytes
from ..logging import print_json

SCHEMA = 1
# `list` prints this many entries, those used last; with --json all.
MAX_LISTED_ENTRIES = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the verb."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("size", "list", "clear"),
        default="size",
        help="show its size (default), list what it holds, or empty it",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Show or empty the cache."""
    cache = default_cache()
    entries = [] if cache is None else cache.entries()
    total = sum(e.size for e in entries)
    state = {
        "schema": SCHEMA,
        "folder": str(cache_folder()) if cache is not None else None,
        "entries": len(entries),
        "size_bytes": total,
        "limit_bytes": cache_bytes(),
    }
    if args.action == "clear":
        state["removed"] = 0 if cache is None else cache.clear()
    elif args.action == "list":
        state["listed"] = [
            {"key": e.key, "size_bytes": e.size, "used_unix_s": e.used} for e in reversed(entries)
        ]
    if args.json:
        print_json(state)
    elif cache is None:
        fault = find_cache_fault()
        print_result(*(fault or "the code cache is off").split("\n"))
    elif args.action == "clear":
        removed = f"removed {state['removed']} entries, {format_bytes(total)}, from {cache.folder}"
        print_result(*fit_lines([removed], 2))
    else:
        size = f"{format_bytes(total)} of {format_bytes(cache.limit)}"
        print_result(*fit_lines([f"{cache.folder}: {len(entries)} entries, {size}"], 2))
        if args.action == "list":
            for entry in entries[: -MAX_LISTED_ENTRIES - 1 : -1]:
                used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
                print_result(
                    f"  {entry.key[:16]}  {format_bytes(entry.size):>10}  last used {used}"
                )
            if len(entries) > MAX_LISTED_ENTRIES:
                print_result(f"  ... and {len(entries) - MAX_LISTED_ENTRIES} used before these")
    return 0
