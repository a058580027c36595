"""Matrix products: tiling (sizes), packing (copies), micro (register tiles), loops (the rest)."""

from __future__ import annotations

from .kernel import generate
from .packing import pack, unpack

__all__ = ["generate", "pack", "unpack"]
