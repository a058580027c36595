"""What the generator that pools regions may rely on."""

from __future__ import annotations

import math

from ...ir.dtype import DType
from ..specs.roi_align import ROIAlignSpec
from ..target import Target
from .scalar_program import broken


def verify_regions(s: ROIAlignSpec, _: Target, where: str) -> None:
    """VerificationError where numbers or types are none that lowering writes."""
    if not all(map(math.isfinite, (s.scale, s.before, s.after, s.least))):
        raise broken("a region is scaled by no finite number", where, s.scale, "numbers")
    types = (s.data.dtype, s.rois.dtype, s.out.dtype)
    if types != (DType.f32,) * 3 or not s.numbers.dtype.is_int or s.numbers.dtype.bits < 8:
        raise broken("no regions of these types", where, (*types, s.numbers.dtype), "f32, integers")
