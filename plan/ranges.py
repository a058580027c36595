"""Ranges of integers in kernel specs and packed layouts: least and largest value of each field.

Every dataclass of a spec has a table `ranges`, field by field; `verify/spec_ranges.py` checks them.
Below these bounds, sums and products of a few of the numbers fit into 64 bits; `verify/step_bounds`
computes the products of more, and compares them, too. A stored plan may hold any i64.
"""

from __future__ import annotations

from typing import Final, TypeAlias

# The least and the largest value.
Range: TypeAlias = tuple[int, int]

# Elements of the largest address space, with a margin: a sum of several is far below 2^63.
MAX_ELEMENTS: Final = 1 << 48
# Operands, instructions and run-time sizes of a spec are numbered below this.
MAX_NUMBER: Final = 1 << 20
# Elements of a convolution's filter per channel, and taps of a window.
MAX_TAPS: Final = 1 << 20
# Channels that a convolution counts in one group, and groups.
MAX_CHANNELS: Final = 1 << 31
MAX_PANEL: Final = 1 << 10

COUNT: Final[Range] = (0, MAX_ELEMENTS)
OFFSET: Final[Range] = (-MAX_ELEMENTS, MAX_ELEMENTS)
# An axis of one element may have any stride, as a slice with a large step has; `RegionLayoutTables`
# checks that operands with more elements stay inside their buffers.
STRIDE: Final[Range] = (-(1 << 62), 1 << 62)
I64: Final[Range] = (-(1 << 63), (1 << 63) - 1)
# The bits of an element of any type.
BITS: Final[Range] = (-(1 << 63), (1 << 64) - 1)
NUMBER: Final[Range] = (0, MAX_NUMBER)
CHANNELS: Final[Range] = (0, MAX_CHANNELS)
BLOCK: Final[Range] = (1, MAX_PANEL)
STEP: Final[Range] = (1, MAX_ELEMENTS)
