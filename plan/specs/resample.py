"""The spec of one axis resampled: interpolation, padding, adaptive pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...ir.dtype import DType
from .base import Operand, Size, Spec

# Pad's modes; rules that pick an element, whose bits are copied; rules that compute from several.
PADDING = ("constant", "edge", "reflect", "symmetric")
PICKING = ("nearest", *PADDING)
COMPUTING = ("linear", "cubic", "mean", "max")
# How Interpolate's places follow from positions, and how "nearest" rounds them.
PLACES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


@dataclass(frozen=True)
class ResampleSpec(Spec):
    """out[o, i, m, e] from data[o, ., m, e], where i in 0..count and `.` runs over `axis` elements.

    nearest, linear, cubic: the elements around the place of i, which is computed in f32 as
    Interpolate says, by `places`, and for `scale` None with count / axis; nearest rounds it by
    `rounding`, cubic's coefficient is `coefficient`; with count = axis it is element i. Positions
    outside stand for the edge.
    constant, edge, reflect, symmetric: element i - begin; outside the axis the bits `fill`, or
    what Pad's mode says. mean, max: of the elements from floor(i * axis / count) to
    ceil((i + 1) * axis / count).

    An `axis` of 0 gives status EMPTY_AXIS where there is something to write, unless the rule is
    constant. Computing rules work in `acc`, picking ones on bits of one type. Buffers: data, out.
    """

    family: ClassVar[str] = "resample"

    rule: str
    outer: Size
    axis: Size
    count: Size
    middle: Size
    inner: Size
    data: Operand
    out: Operand
    acc: DType
    places: str = "asymmetric"
    rounding: str = "floor"
    scale: float | None = None
    coefficient: float = -0.75
    begin: Size = 0
    fill: int = 0

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        rest = (self.middle, self.inner)
        return [(self.outer, self.axis, *rest), (self.outer, self.count, *rest)]
