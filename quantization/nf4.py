"""The 16 values of nf4: quantiles of a normal distribution (QLoRA, Dettmers et al., 2023)."""

from __future__ import annotations

import numpy as np

from ..ir.dtype import NF4_CODES, DType
from ..ir.op import Array
from ..ir.scalar.builder import cast_array


def as_records(codes: Array) -> Array:
    """Positions in the table as irc holds nf4 data."""
    return codes.astype(np.uint8).view(NF4_CODES)


NF4_TABLE: Array = cast_array(as_records(np.arange(16)), DType.f32)
