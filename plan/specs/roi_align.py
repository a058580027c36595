"""The spec of pooled regions: bilinear samples of parts of feature maps (ROIAlign)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Operand, Size, Spec


@dataclass(frozen=True)
class ROIAlignSpec(Spec):
    """out[r, i, j, c]: the mean of the samples of bin (i, j) of region r in channel c of its image,
    or, with `most`, the largest of their weighted corners.

    A region's corners x1, y1, x2, y2 are (v + before) * scale - after, computed in f32; its sides
    are at least `least`. A bin has `ratio` samples along each side, evenly, or as many as its side
    is long, rounded up, where `ratio` is 0. A sample more than 1 outside the image is 0, one less
    far counts as at the edge. numbers[r] is the region's image; one outside of them gives status
    GATHER_OUT_OF_RANGE. data walks (image, y, x, channel). Buffers: data, rois, numbers, out.
    """

    family: ClassVar[str] = "regions"

    images: Size
    height: Size
    width: Size
    channels: Size
    regions: Size
    rows: int
    columns: int
    ratio: int
    scale: float
    before: float
    after: float
    least: float
    most: bool
    data: Operand
    rois: Operand
    numbers: Operand
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.rois, self.numbers, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        return [
            (self.images, self.height, self.width, self.channels),
            (self.regions, 4),
            (self.regions,),
            (self.regions, self.rows, self.columns, self.channels),
        ]
