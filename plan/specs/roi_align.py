"""The spec of pooled regions: bilinear samples of parts of feature maps (ROIAlign)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Final

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, MAX_TAPS, Range
from ..target import Target
from .base import Operand, Size, Spec
from .checks import spec_error

# Samples along each side of a bin of a region.
MAX_SAMPLES: Final = 1 << 10


@dataclass(frozen=True)
class ROIAlignSpec(Spec):
    """out[r, i, j, c]: the mean of the samples of bin (i, j) of region r in channel c of its image,
    or, with `takes_max`, the largest of their weighted corners.

    A region's corners x1, y1, x2, y2 are (v + offset_before) * scale - offset_after, computed in
    f32; its sides are at least `min_side`. A bin has `sampling_ratio` samples along each side,
    evenly, or as many as its side is long, rounded up, where `sampling_ratio` is 0. A sample more
    than 1 outside the image is 0, one less far counts as at the edge. image_indices[r] is the
    region's image; one outside of them gives status GATHER_OUT_OF_RANGE. data walks (image, y, x,
    channel). Buffers: data, rois, image_indices, out.
    """

    family: ClassVar[str] = "roi_align"
    ranges: ClassVar[Mapping[str, Range]] = {
        **dict.fromkeys("images height width channels regions".split(), COUNT),
        "out_height": (1, MAX_TAPS),
        "out_width": (1, MAX_TAPS),
        "sampling_ratio": (0, MAX_SAMPLES),
    }

    images: Size
    height: Size
    width: Size
    channels: Size
    regions: Size
    out_height: int
    out_width: int
    sampling_ratio: int
    scale: float
    offset_before: float
    offset_after: float
    min_side: float
    takes_max: bool
    data: Operand
    rois: Operand
    image_indices: Operand
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.rois, self.image_indices, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [
            (self.images, self.height, self.width, self.channels),
            (self.regions, 4),
            (self.regions,),
            (self.regions, self.out_height, self.out_width, self.channels),
        ]

    def verify(self, target: Target) -> None:
        where, numbers = self.where, self.image_indices.dtype
        if not all(
            map(math.isfinite, (self.scale, self.offset_before, self.offset_after, self.min_side))
        ):
            raise spec_error("a region is scaled by no finite number", where, self.scale, "numbers")
        types = (self.data.dtype, self.rois.dtype, self.out.dtype)
        if types != (DType.f32,) * 3 or not numbers.is_int or numbers.bits < 8:
            got = (*types, numbers)
            raise spec_error("no regions of these types", where, got, "f32, integers")
