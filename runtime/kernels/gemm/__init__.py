"""Matrix products: tiling (sizes), packing, constants (copies), micro (register tiles), loops."""

from __future__ import annotations

from .constants import pack, unpack
from .kernel import generate

__all__ = ["generate", "pack", "unpack"]
