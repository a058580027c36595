"""Convolution: tiling (how rows are cut), place (addresses), micro (tiles), direct, copied,
rows (what is copied), amx and unfolded (tile registers), depthwise, winograd."""

from __future__ import annotations

from ....plan.packing.panel_params import BYTES
from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ..emit.contract import Kernel
from . import depthwise, direct, winograd
from . import im2col_amx as unfolded
from . import packed_direct as copied


def generate(spec: ConvSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a convolution."""
    if spec.packed.winograd:
        return winograd.generate(spec, target, symbol)
    if spec.packed.depthwise:
        return depthwise.generate(spec, target, symbol)
    if unfolded.serves(spec, target):
        return unfolded.generate(spec, target, symbol)
    plain = spec.compute_dtype is None and spec.data.dtype not in BYTES
    made = direct if plain else copied
    return made.generate(spec, target, symbol)


__all__ = ["generate"]
