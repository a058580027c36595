"""Sizes of a region for one set of input shapes, computed and verified by RegionLayoutTables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .runtime_checks import FailingAsserts

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RegionSizes:
    """Sizes of a region for one set of shapes, verified.

    values: of the distinct size expressions (RegionLayoutTables has their order); elements and
    nbytes: per buffer; root_offsets: bytes from the start of the buffer's root to its own start;
    work: per kernel step; failing_asserts: CHECK steps that fail. Buffers' shapes:
    RegionLayoutTables.shape(sizes, b).
    """

    values: Ints
    elements: Ints
    nbytes: Ints
    root_offsets: Ints
    work: Ints
    failing_asserts: FailingAsserts
