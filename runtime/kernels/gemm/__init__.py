"""Matrix products: tiling (sizes), packing, constants (copies), micro (register tiles), loops."""

from __future__ import annotations

from .kernel import generate
from .packing.weight_packing import pack, unpack

__all__ = ["generate", "pack", "unpack"]
