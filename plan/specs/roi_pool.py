"""The spec of pooled regions: the largest element of each bin, or a sample of it (ROIPooling)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, MAX_TAPS, Range
from ..target import Target
from .base import Operand, Size, Spec
from .checks import FLOATS, spec_error


@dataclass(frozen=True)
class ROIPoolSpec(Spec):
    """out[r, i, j, c]: the largest element of bin (i, j) of region r in channel c of its image, 0
    where the bin is empty; or, with `samples`, one bilinear sample, 0 outside the image.

    rois[r] is (image, x0, y0, x1, y1). Corners are, without `samples`, multiplied by `scale` and
    rounded, halves away from zero; with `samples` they are relative to the sides of the image, and
    the samples of a side are spread from one corner to the other. An image that is not there, also
    NaN, gives status GATHER_OUT_OF_RANGE. f16 and bf16 are computed in f32. data walks (image, y,
    x, channel). Buffers: data, rois, out.
    """

    family: ClassVar[str] = "roi_pool"
    ranges: ClassVar[Mapping[str, Range]] = {
        **dict.fromkeys("images height width channels regions".split(), COUNT),
        "out_height": (1, MAX_TAPS),
        "out_width": (1, MAX_TAPS),
    }

    images: Size
    height: Size
    width: Size
    channels: Size
    regions: Size
    out_height: int
    out_width: int
    scale: float
    samples: bool
    data: Operand
    rois: Operand
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.rois, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [
            (self.images, self.height, self.width, self.channels),
            (self.regions, 5),
            (self.regions, self.out_height, self.out_width, self.channels),
        ]

    def reduced_axes(self) -> tuple[Size, ...]:
        return () if self.samples else (self.height, self.width)

    def distinguishes_denormals(self) -> bool:
        return self.samples

    def verify(self, target: Target) -> None:
        types = {o.dtype for o in self.operands()}
        if len(types) != 1 or not types <= FLOATS:
            expected = "one float type"
            raise spec_error("no regions of these types", self.where, types, expected)
        if not math.isfinite(self.scale):
            raise spec_error("a region's scale is not finite", self.where, self.scale, "a number")
