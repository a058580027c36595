"""Layouts of constants: panels of matrices, in the order in which register tiles read them.

Every layout is a pure function of (shape, layout, transposed) to some K x N matrices, each stored
as panels of `nr` columns: K rows of nr elements, the last panel padded with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, TypeAlias

from ...ir.errors import VerificationError
from ...ir.lazy_dataclass import dataclass
from ..ranges import BLOCK, MAX_PANEL, Range

# Sums of bytes that F(4 x 4) computes are smaller than this
# (runtime/kernels/conv/winograd_matrices.py).
WHOLE_SUM: Final = 1 << 25
# Bytes of the sum of a column.
SUM_BYTES: Final = 4
# Channels of which 16 pixels fill one register of bytes at most.
_MAX_TAIL_CHANNELS = 4


@dataclass(frozen=True)
class PackedB:
    """Layout of a constant right operand: panels of `nr` columns, each K x nr row after row, the
    last panel padded with zeros; one block of panels per matrix of the batch. It depends on
    shape, type, precision and Target, never on M or the threads, so a weight is packed once.

    kr: rows that are interleaved: element (k, n) of a panel is at (k // kr * nr + n) * kr + k %
    kr, and K is padded with zeros to a multiple of kr. Units that multiply pairs want 2, those that
    multiply four bytes want 4, units that multiply 2 x 2 blocks twice as many. Elements of 4 bits
    lie two to a byte, the first in the lower half.

    column_sums: behind its rows a panel holds the sums of its columns as they are stored, nr
    numbers i32. Bytes that are multiplied as such have them. In cells of 4 and 8 these are i8: u8
    is stored less 128.
    """

    ranges: ClassVar[Mapping[str, Range]] = {"nr": BLOCK, "kr": BLOCK}

    nr: int
    kr: int = 1
    column_sums: bool = False


@dataclass(frozen=True)
class PackedConv:
    """Filters as panels of `nr` output channels; K runs over taps (kernel position, then channel).

    Not `grouped`: [O, C, kernel...] is one matrix of (kernel..., C) x O. `grouped`: [G, O, C,
    kernel...] is one such matrix per group. `depthwise` (grouped, C = 1): [G, O, 1, kernel...] is
    one matrix of (kernel...) x (G, O): the channels of all groups side by side. `winograd` m (not
    grouped, a 3 x 3 kernel): the transformed filters of F(m x m), (m + 2)^2 matrices of C x O,
    then the nine taps as they are, for tiles of extreme data; of bytes, which are stored as i16,
    the transformed filters of F(4 x 4) alone, in cells of two.

    kr: values of K in one cell, as PackedB's. Cells begin anew, after zeros, with each row of taps
    where `runs` (the last kernel axis and the channels are one run of values), else with each tap.
    `column_sums`: as PackedB's, of bytes in cells. `tails`: rows of taps are one value longer than
    whole cells, and these last values are cells of their own behind all rows, down the rows of
    taps.
    """

    ranges: ClassVar[Mapping[str, Range]] = {"nr": BLOCK, "winograd": (0, 4), "kr": BLOCK}

    nr: int
    grouped: bool = False
    depthwise: bool = False
    winograd: int = 0
    kr: int = 1
    runs: bool = False
    column_sums: bool = False
    tails: bool = False

    def with_tails(self, channels: int, kernel: Sequence[int]) -> PackedConv:
        """The same, with `tails` where filters have them: few channels, whose copies show values of
        rows below each other, in rows of taps that would begin a cell for one value."""
        run = channels * kernel[-1] if kernel else 0
        cells = (
            self.runs and self.column_sums and self.kr == 4 and run > self.kr and run % self.kr == 1
        )
        rows = len(kernel) > 1 and kernel[-2] > 1
        return replace(self, tails=cells and rows and channels <= _MAX_TAIL_CHANNELS)

    @property
    def winograd_matrices(self) -> int:
        """How many matrices hold the filters of Winograd's transform."""
        return (self.winograd + 2) ** 2 + (9 if self.kr == 1 else 0)

    def depth(self, channels: int, kernel: Sequence[int]) -> int:
        """K of the packed matrices of filters that see so many channels, with what pads runs."""
        taps = math.prod(kernel)
        if self.winograd:
            return channels * math.prod(kernel[:-2])
        if self.depthwise:
            return taps
        run = channels * (kernel[-1] if self.runs and kernel else 1)
        if self.tails:
            *planes, high, _ = kernel
            ends = -(-high // self.kr) * self.kr
            return math.prod(planes) * (high * (run // self.kr) * self.kr + ends)
        count = taps * channels // run if run else 0
        return count * -(-run // self.kr) * self.kr


@dataclass(frozen=True)
class PackedGates:
    """A recurrence [D, gates * H, H], transposed, as panels of all gates of some hidden elements.

    One matrix of K = H rows per direction. A panel's nr columns are nr / gates elements of the
    first gate, then those of the second, and so on; elements that there are not are zeros. kr: as
    PackedB's.
    """

    column_sums: ClassVar[bool] = False
    ranges: ClassVar[Mapping[str, Range]] = {"nr": BLOCK, "gates": (1, MAX_PANEL), "kr": BLOCK}

    nr: int
    gates: int
    kr: int = 1

    def columns(self, hidden: int) -> int:
        """N of a direction's matrix, with what pads the last panel."""
        return -(-hidden * self.gates // self.nr) * self.nr

    def size(self, hidden: int) -> int:
        """Elements of a direction's matrix."""
        return PackedLayout.of(self, hidden, self.columns(hidden)).size


Layout: TypeAlias = PackedB | PackedConv | PackedGates


@dataclass(frozen=True)
class PackedLayout:
    """Where the numbers of one packed K x N matrix are: the formula that packer, verifier and
    kernels share. All counts are elements of the stored type.

    Panels of `nr` columns follow one another. A panel holds `depth` rows, K padded with zeros to
    whole cells of `kr`, then, with `column_sums`, nr sums, each of SUM_BYTES elements of a byte.
    """

    k: int
    n: int
    nr: int
    kr: int = 1
    column_sums: bool = False

    @staticmethod
    def of(layout: Layout, k: int, n: int) -> PackedLayout:
        """The layout of a K x N matrix of an operand that is packed as `layout`."""
        return PackedLayout(k, n, layout.nr, layout.kr, layout.column_sums)

    @property
    def panels(self) -> int:
        return -(-self.n // self.nr)

    @property
    def cells(self) -> int:
        """Rows of cells in a panel."""
        return -(-self.k // self.kr)

    @property
    def depth(self) -> int:
        """Rows of a panel, those that pad the last cells included."""
        return self.cells * self.kr

    @property
    def sums_at(self) -> int:
        """Elements from the begin of a panel to its column sums."""
        return self.depth * self.nr

    @property
    def sums_size(self) -> int:
        """Elements that a panel's column sums take."""
        return SUM_BYTES * self.nr if self.column_sums else 0

    @property
    def panel_size(self) -> int:
        return self.sums_at + self.sums_size

    @property
    def size(self) -> int:
        """Elements of the matrix: what batch strides of a packed operand count in."""
        return self.panels * self.panel_size

    def nbytes(self, bits: int) -> int:
        """Bytes of the matrix, of elements of so many bits."""
        return self.size * bits // 8

    def address(self, k: int, n: int) -> int:
        """Elements from the begin of the matrix to element (k, n)."""
        panel, column = divmod(n, self.nr)
        cell, within = divmod(k, self.kr)
        return panel * self.panel_size + (cell * self.nr + column) * self.kr + within


def panels(shape: Sequence[int], layout: Layout, transposed: bool = False) -> tuple[int, int, int]:
    """(matrices, K, N) that an array of `shape` is packed as. VerificationError for a bad fit."""
    lead = 2
    if isinstance(layout, PackedGates):
        lead = 3
    if isinstance(layout, PackedConv):
        lead = 4 if layout.grouped else 3
    if len(shape) < lead or layout.nr < 1 or layout.kr < 1:
        raise VerificationError("a packed constant has too few axes", got=tuple(shape))
    if isinstance(layout, PackedGates):
        fits = layout.gates >= 1 and layout.nr % layout.gates == 0
        if not fits or len(shape) != 3 or shape[1] != layout.gates * shape[2]:
            raise VerificationError("a recurrence's gates do not fit", got=tuple(shape))
        return shape[0], shape[2], layout.columns(shape[2])
    if isinstance(layout, PackedB):
        k, n = (shape[-1], shape[-2]) if transposed else shape[-2:]
        return math.prod(shape[:-2]), k, n
    kernel = tuple(shape[lead - 1 :])
    slides = len(kernel) in (2, 3) and kernel[-2:] == (3, 3)
    if layout.winograd and (layout.grouped or not slides):
        raise VerificationError("filters that Winograd's transform is not for", got=shape)
    if layout.kr > 1 and layout.depthwise:
        raise VerificationError("these filters have no cells", got=layout.kr)
    outputs, channels = shape[1:3] if layout.grouped else shape[:2]
    k = layout.depth(channels, kernel)
    if layout.winograd:
        return layout.winograd_matrices, k, outputs
    if not layout.depthwise:
        return shape[0] if layout.grouped else 1, k, outputs
    if not layout.grouped or channels != 1:
        raise VerificationError("depthwise filters see one channel", got=tuple(shape))
    return 1, k, shape[0] * outputs
