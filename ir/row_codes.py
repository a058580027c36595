"""The layout of rows of floats in codes of 8 or 4 bits, which carry their own scales and minima.

A row of `size` values is stored as bytes: the codes, then an f16 pair (scale, minimum) per group of
values. Codes of 8 bits are one byte per value in order, and the row is one group. Codes of 4 bits
are two per byte, value i in the low half of byte i and value i + size / 2 in its high half, and a
group is 32 values. A value is code * scale + minimum. The product of a code and an f16 scale is
exact in f32, so that a fused multiply-add gives the same bits.
"""

from __future__ import annotations

from typing import Final

from .lazy_dataclass import dataclass

# Values of a row are a multiple of it, by bits of a code: no vector of up to 16 values crosses
# the end of a group, or the middle of a row of 4-bit codes.
ROW_MULTIPLE: Final = {8: 16, 4: 32}
_GROUP_OF_4_BITS: Final = 32


@dataclass(frozen=True)
class RowCodes:
    """The layout of one row of `size` values in codes of `bits`."""

    size: int
    bits: int

    @property
    def group(self) -> int:
        """Values that share a scale and a minimum."""
        return self.size if self.bits == 8 else _GROUP_OF_4_BITS

    @property
    def groups(self) -> int:
        """Pairs of scale and minimum of a row."""
        return self.size // self.group

    @property
    def code_bytes(self) -> int:
        """Bytes of the codes, which the pairs follow."""
        return self.size * self.bits // 8

    @property
    def nbytes(self) -> int:
        """Bytes of a row."""
        return self.code_bytes + 4 * self.groups

    @property
    def is_valid(self) -> bool:
        """Whether rows of this size have codes of these bits."""
        multiple = ROW_MULTIPLE.get(self.bits)
        return multiple is not None and self.size > 0 and self.size % multiple == 0

    @classmethod
    def of_bytes(cls, nbytes: int, bits: int) -> RowCodes | None:
        """The layout whose rows have this many bytes."""
        if bits == 8:
            found = cls(nbytes - 4, bits)
        else:
            found = cls(nbytes // (_GROUP_OF_4_BITS // 2 + 4) * _GROUP_OF_4_BITS, bits)
        return found if found.is_valid and found.nbytes == nbytes else None
