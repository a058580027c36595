"""Convolution: tiling (how rows are cut), place (addresses), micro (tiles), direct, copied,
rows (what is copied), amx and unfolded (tile registers), depthwise, winograd."""

from __future__ import annotations

from ....ir.specs_conv import ConvSpec
from ....ir.target import Target
from ....ir.tiles import BYTES
from ..contract import Kernel
from . import copied, depthwise, direct, unfolded, winograd


def generate(spec: ConvSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a convolution."""
    if spec.packed.winograd:
        return winograd.generate(spec, target, symbol)
    if spec.packed.depthwise:
        return depthwise.generate(spec, target, symbol)
    if unfolded.serves(spec, target):
        return unfolded.generate(spec, target, symbol)
    plain = spec.factors is None and spec.data.dtype not in BYTES
    made = direct if plain else copied
    return made.generate(spec, target, symbol)


__all__ = ["generate"]
