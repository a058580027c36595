"""What the generators that resample an axis may rely on."""

from __future__ import annotations

import math

from ...ir.errors import VerificationError
from ..specs.resample import COMPUTING, PICKING, PLACES, ROUNDINGS, ResampleSpec
from ..target import Target


def verify_resample(s: ResampleSpec, _: Target, where: str) -> None:
    """VerificationError where rules, numbers or types are none that lowering writes."""
    words = (s.rule, s.places, s.rounding)
    for word, listed in zip(words, ((*PICKING, *COMPUTING), PLACES, ROUNDINGS), strict=True):
        if word not in listed:
            known = ", ".join(listed)
            raise VerificationError(
                "an axis is resampled in no known way", where=where, got=word, expected=known
            )
    if s.scale is None and s.rounding == "simple" and s.rule == "nearest":
        raise VerificationError("a rounding asks for a scale", where=where, got=s.scale)
    if not (math.isfinite(s.coefficient) and (s.scale is None or 0 < s.scale < math.inf)):
        raise VerificationError("a scale is not a finite number", where=where, got=s.scale)
    types = (s.data.dtype, s.out.dtype)
    fits = types[0] is types[1]
    if s.rule in COMPUTING:
        fits = all(t.is_float and t.bits <= s.acc.bits for t in (*types, s.acc))
        fits = fits and s.acc.bits in (32, 64) and all(t.bits >= 16 for t in types)
    if not fits or min(t.bits for t in types) < 8 and any(t.is_int for t in types):
        raise VerificationError(
            "the types of an axis do not fit", where=where, got=f"{types[0]}, {types[1]}, {s.acc}"
        )
