"""The kernel of a convolution: the generator of its schedule's algorithm."""

from __future__ import annotations

from ....plan.specs.convolution import ConvSpec
from ....plan.target import Target
from ..emit.contract import Kernel
from ..gemm.kernel import generate_product_of_windows
from . import depthwise, direct, im2col_amx, packed_direct, winograd
from .schedule import DepthwiseSchedule, DirectSchedule, Im2colSchedule, schedule_conv
from .winograd_tiles import WinogradSchedule


def generate(spec: ConvSpec, target: Target, symbol: str) -> Kernel:
    """The kernel of a convolution, by the algorithm of its schedule."""
    if spec.bf16x3:
        return generate_product_of_windows(spec, target, symbol)
    schedule = schedule_conv(spec, target)
    if isinstance(schedule, WinogradSchedule):
        return winograd.generate(spec, target, symbol, schedule)
    if isinstance(schedule, DepthwiseSchedule):
        return depthwise.generate(spec, target, symbol, schedule)
    if isinstance(schedule, Im2colSchedule):
        return im2col_amx.generate(spec, target, symbol, schedule)
    if isinstance(schedule, DirectSchedule):
        return direct.generate(spec, target, symbol, schedule)
    return packed_direct.generate(spec, target, symbol, schedule)
