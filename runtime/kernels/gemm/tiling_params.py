"""Tiling: the register tile, the block sizes and the packing of a product, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# How rows of A reach the register tile: where they lie, copied row after row, or copied so that
# the rows of one column lie side by side (for an A whose rows are adjacent in memory).
PackA = Literal["no", "rows", "columns"]


@dataclass(frozen=True)
class Tiling:
    """How a product is cut; `mc` counts tiles of rows, `nc` counts panels, the rest elements.

    Where a unit multiplies cells of `kr` values, one step of K is so many, which packed operands
    hold as one cell of at most the accumulator's size: `kc` and all packed sizes count cells.
    """

    lanes: int  # accumulators per vector register
    nr: int  # columns of a panel
    vectors: int  # vector registers across a tile of one panel
    mr: int  # rows of the tallest tile
    heights: tuple[int, ...]  # tile heights that are compiled, tallest first
    guarded: bool  # tiles may be taller than the rows that are left (M is read at run time)
    buffered: bool  # sums are stored in a buffer, which the epilogue reads, and not kept
    panels: int  # panels side by side in one tile, where one panel has too few chains
    kr: int  # values of K per step
    kc: int
    blocked: bool  # K may take more than one block: sums wait in the buffer between them
    mc: int
    nc: int
    pack_a: PackA
    in_place: bool  # ... but full tiles read A where it lies: the rest of M is copied (amx.py)
    a_row: int  # elements between rows (columns) of a packed strip of A
    pack_b: bool
    fetch: int  # cache lines of B that a tile fetches ahead per panel and step of K
    streams: bool  # ... of its own panel, not of the next one
    unroll: int
    expands: bool = False  # tiles expand the cells of a compressed B themselves
    tile: str = ""  # the instruction that multiplies tiles of AMX (amx.py), where there is one
    brief: bool = False  # fewer kinds of tiles, where two sets of them and expansions are compiled

    @property
    def width(self) -> int:
        """Columns of the widest tile, which rows of sums in a buffer are long."""
        return self.panels * self.nr

    @property
    def strip(self) -> int:
        """Elements of one packed strip of A: the rows of one tile, kc deep."""
        return self.a_row * (self.kc if self.pack_a == "columns" else self.mr)
