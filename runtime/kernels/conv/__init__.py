"""Convolution: tiling (how rows are cut), place (addresses), micro (tiles), direct, depthwise."""

from __future__ import annotations

from ....ir.specs_conv import ConvSpec
from ....ir.target import Target
from ..contract import Kernel
from . import depthwise, direct, winograd


def generate(spec: ConvSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a convolution."""
    if spec.packed.winograd:
        return winograd.generate(spec, target, symbol)
    made = depthwise if spec.packed.depthwise else direct
    return made.generate(spec, target, symbol)


__all__ = ["generate"]
