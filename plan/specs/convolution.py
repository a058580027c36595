"""Specs of sliding windows: convolution and pooling over 1 to 3 spatial axes.

Operands walk (batch, channel, spatial...), whatever the memory order is: strides say it, so that
channels-last and channels-first are the same spec with other strides. A window's tap that falls
outside the data is left out of the sum (it is not multiplied by a zero).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.scalar.program import Program
from ..packing.layouts import PackedConv
from ..packing.panel_params import packed_size
from .base import Operand, Size, Spec

# Places of a row, and rows, that copies of data reach over at most.
_REACH = 1 << 10


@dataclass(frozen=True)
class Window:
    """How windows slide over the spatial axes: output place o and tap k meet the data at
    o * stride - pad + k * dilation. Paddings at the end follow from the sizes."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Size, ...]

    @property
    def copyable(self) -> bool:
        """Whether the places that some windows see together are few enough to be copied."""
        reach = self.strides[-1] + (self.kernel[-1] - 1) * self.dilations[-1]
        return reach <= _REACH and math.prod(self.kernel[:-1]) <= _REACH


@dataclass(frozen=True)
class ConvSpec(Spec):
    """out[b, g, o, p...] = epilogue(sum over taps k and channels c of
    data[b, g, c, p * stride - pad + k * dilation] * weights[g, o, c, k], epilogue_operands...).

    `channels` and `outputs` count per group; data walks (batch, groups * channels, in_sizes...),
    epilogue operands and out (batch, groups * outputs, out_sizes...), weights the elements of their
    panels. Order of the sum: taps in row-major order, channels within a tap, one ascending chain in
    `acc`. Input 0 of `epilogue` is the accumulator, input 1 + i is epilogue operand i.
    `packed.depthwise` needs channels = outputs = 1, and a channel stride of 1; `packed.winograd`,
    which rounds differently (docs/numerics.md), f32, one group, 3 x 3 taps, strides and dilations
    of 1, and a channel stride of 1; of bytes, weights of i16, it gives the same bits where every
    sum is below WHOLE_SUM.

    compute_dtype: as GemmSpec's; a direct convolution then multiplies zeros by the taps that fall
    outside the data. Bytes: data is u8 or i8, weights are i8 or i16, acc is i32. zero (None: 0) is
    one element of data's type that is subtracted from the data. Buffers: data, weights, zero if
    there is one, epilogue_operands..., out.
    """

    family: ClassVar[str] = "conv"

    batch: Size
    groups: int
    channels: int
    outputs: int
    in_sizes: tuple[Size, ...]
    out_sizes: tuple[Size, ...]
    window: Window
    data: Operand
    weights: Operand
    out: Operand
    acc: DType
    packed: PackedConv
    epilogue: Program
    epilogue_operands: tuple[Operand, ...] = ()
    compute_dtype: DType | None = None
    zero_point: Operand | None = None

    @property
    def zero_points(self) -> tuple[Operand, ...]:
        """The zero point, if there is one."""
        return () if self.zero_point is None else (self.zero_point,)

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.weights, *self.zero_points, *self.epilogue_operands, self.out)

    @property
    def matrices(self) -> tuple[int, int, int]:
        """(matrices, K, N) of the packed weights."""
        k = self.packed.depth(self.channels, self.window.kernel)
        if self.packed.winograd:
            return self.packed.winograd_matrices, k, self.outputs
        if self.packed.depthwise:
            return 1, k, self.groups * self.outputs
        return self.groups, k, self.outputs

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        count, k, n = self.matrices
        data = (self.batch, self.groups * self.channels, *self.in_sizes)
        out = (self.batch, self.groups * self.outputs, *self.out_sizes)
        weights = (
            count * packed_size(k, n, self.packed.nr, self.packed.kr, self.packed.column_sums),
        )
        zeros = [(1,) for _ in self.zero_points]
        return [data, weights, *zeros, *[out] * (len(self.epilogue_operands) + 1)]
