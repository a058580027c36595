"""Specs of one or two axes resampled (interpolation, padding, adaptive pools), and of an image
sampled at computed coordinates (GridSample)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import BITS, COUNT, OFFSET, Range
from ..target import Target
from .base import Operand, Size, Spec, resolver
from .checks import FLOATS, require_types, spec_error

# Pad's modes; rules that pick an element, whose bits are copied; rules that compute from several.
PADDING = ("constant", "edge", "reflect", "symmetric")
PICKING = ("nearest", *PADDING)
COMPUTING = ("linear", "cubic", "mean", "max")
# Rules that resample two axes in one step.
IMAGE_RULES = ("nearest", "linear", "cubic")
# How Interpolate's input coordinates follow from output positions, and how "nearest" rounds them.
COORDINATE_MODES = (
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "align_corners",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")


@dataclass(frozen=True)
class Columns:
    """The second resampled axis: `axis` elements become `count`, as `scale` says."""

    ranges: ClassVar[Mapping[str, Range]] = {"axis": COUNT, "count": COUNT}

    axis: Size
    count: Size
    scale: float | None = None


@dataclass(frozen=True)
class ResampleSpec(Spec):
    """out[o, i, m, e] from data[o, ., m, e], where i in 0..count and `.` runs over `axis` elements.

    nearest, linear, cubic: the elements around the coordinate of i, which is computed in f32 as
    Interpolate says, by `coordinate_mode`, and for `scale` None with count / axis; nearest rounds
    it by `rounding`, cubic's coefficient is `coefficient`; with count = axis it is element i.
    Positions outside are the edge.
    constant, edge, reflect, symmetric: element i - begin; outside the axis the bits `fill`, or
    what Pad's mode says. mean, max: of the elements from floor(i * axis / count) to
    ceil((i + 1) * axis / count).
    With `columns`, by one of IMAGE_RULES: out[o, i, j, e] from data[o, ., ., e], as if the first
    axis were resampled in `acc` and then the second; `middle` is 1.

    An `axis` of 0 gives status EMPTY_AXIS where there is something to write, unless the rule is
    constant. Computing rules work in `acc`, picking ones on bits of one type. Results of f32 data
    are stored as bf16 without denormals. Buffers: data, out.
    """

    family: ClassVar[str] = "resample"
    ranges: ClassVar[Mapping[str, Range]] = {
        **dict.fromkeys("outer axis count middle inner".split(), COUNT),
        "begin": OFFSET,
        "fill": BITS,
    }

    rule: str
    outer: Size
    axis: Size
    count: Size
    middle: Size
    inner: Size
    data: Operand
    out: Operand
    acc: DType
    coordinate_mode: str = "asymmetric"
    rounding: str = "floor"
    scale: float | None = None
    coefficient: float = -0.75
    begin: Size = 0
    fill: int = 0
    columns: Columns | None = None

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        columns = self.columns or Columns(self.middle, self.middle)
        return [
            (self.outer, self.axis, columns.axis, self.inner),
            (self.outer, self.count, columns.count, self.inner),
        ]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.axis,) if self.columns is None else (self.axis, self.columns.axis)

    def verify(self, target: Target) -> None:
        where = self.where
        words = (self.rule, self.coordinate_mode, self.rounding)
        for word, listed in zip(
            words, ((*PICKING, *COMPUTING), COORDINATE_MODES, ROUNDINGS), strict=True
        ):
            if word not in listed:
                known = ", ".join(listed)
                raise spec_error("an axis is resampled in no known way", where, word, known)
        if self.scale is None and self.rounding == "simple" and self.rule == "nearest":
            raise spec_error("a rounding needs a scale", where, self.scale, None)
        scales = [self.scale] if self.columns is None else [self.scale, self.columns.scale]
        finite = all(scale is None or 0 < scale < math.inf for scale in scales)
        if not (math.isfinite(self.coefficient) and finite):
            raise spec_error("a scale is not a finite number", where, scales, None)
        if self.columns is not None:
            self._verify_columns(scales)
        self._verify_types()

    def _verify_columns(self, scales: Sequence[float | None]) -> None:
        """Weights of an axis that may stay as long as it was are those of one axis alone."""
        fits = self.rule in IMAGE_RULES and self.middle == 1
        if not fits or (self.rule in COMPUTING and None in scales):
            raise spec_error("two axes are resampled in no known way", self.where, self.rule, None)
        if None in scales and self.rounding == "simple":
            raise spec_error("a rounding needs a scale", self.where, scales, None)

    def _verify_types(self) -> None:
        types = (self.data.dtype, self.out.dtype)
        fits = types[0] is types[1]
        if self.rule in COMPUTING:
            fits = all(t.is_float and t.bits <= self.acc.bits for t in (*types, self.acc))
            fits = fits and self.acc.bits in (32, 64) and all(t.bits >= 16 for t in types)
        if not fits or min(t.bits for t in types) < 8 and any(t.is_int for t in types):
            got = f"{types[0]}, {types[1]}, {self.acc}"
            raise spec_error("the types of an axis do not fit", self.where, got, None)


@dataclass(frozen=True)
class GridSampleSpec(Spec):
    """out[n, i, j, c]: image n in channel c at the coordinates (x, y) that are grid[n, i, j], -1 to
    1 across the image: from the centre of the first element to that of the last one if
    `align_corners`, else from edge to edge.

    The nearest element (halves to even), or, with `blends`, the four around the point by their
    distances. An element outside the image is 0 or, with `clamps`, the one at the border. Computed
    in f32, or in the type of data or of grid that is f64. data walks (image, y, x, channel).
    Buffers: data, grid, out.
    """

    family: ClassVar[str] = "grid_sample"
    ranges: ClassVar[Mapping[str, Range]] = dict.fromkeys(
        "images height width channels out_height out_width".split(), COUNT
    )

    images: Size
    height: Size
    width: Size
    channels: Size
    out_height: Size
    out_width: Size
    align_corners: bool
    blends: bool
    clamps: bool
    data: Operand
    grid: Operand
    out: Operand

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.grid, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        points = (self.images, self.out_height, self.out_width)
        return [
            (self.images, self.height, self.width, self.channels),
            (*points, 2),
            (*points, self.channels),
        ]

    def distinguishes_denormals(self) -> bool:
        return True  # by the signs of coordinates

    def flops(self, dims: Sequence[int]) -> int:
        sizes = (self.images, self.out_height, self.out_width, self.channels)
        return math.prod(map(resolver(dims), sizes)) * (8 if self.blends else 0)

    def verify(self, target: Target) -> None:
        for operand in self.operands():
            if operand.dtype not in FLOATS:
                raise spec_error("no samples of this type", self.where, operand.dtype, "a float")
        require_types([self.data.dtype], [self.out.dtype], self.where)
