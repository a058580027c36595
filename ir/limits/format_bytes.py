"""Bytes as a person reads them. Imports nothing: messages of the command line begin here."""

from __future__ import annotations


def format_size(size: int) -> str:
    """1536 -> '1.5 KiB'."""
    value = float(min(size, 1 << 1000))
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} EiB"
