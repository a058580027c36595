"""Schedules of matrix products as values: all that the generator of a kernel decides by itself.

`tiling.schedule_gemm` makes them from (spec, Target); everything else reads them. The class of a
schedule names its micro-kernel: vector registers, those of f16 sums, vector registers that expand
compressed weights as they read them or multiply them by int8 rows, or tiles of AMX.
"""

from __future__ import annotations

from dataclasses import fields
from typing import ClassVar, Literal, TypeAlias

from ....ir.lazy_dataclass import dataclass
from ....plan.specs.gemm import MAX_FEW_ROWS

# How rows of A reach the register tile: where they lie, copied row after row, or copied so that
# the rows of one column lie side by side (for an A whose rows are adjacent in memory).
PackA = Literal["no", "rows", "columns"]


@dataclass(frozen=True)
class TileSchedule:
    """How a product is cut; `mc` counts tiles of rows, `nc` counts panels, the rest elements.

    Where a unit multiplies cells of `kr` values, one step of K is so many, which packed operands
    hold as one cell of at most the accumulator's size: `kc` and all packed sizes count cells.
    """

    # Whether a tile's sums are finished while the next tile is computed.
    defers_epilogue: ClassVar[bool] = False

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
    in_place: bool  # ... but full tiles read A unpacked: the rest of M is copied (amx.py)
    a_row: int  # elements between rows (columns) of a packed strip of A
    pack_b: bool  # panels of B are copied at run time, or expanded from compressed weights
    fetch: int  # cache lines of B that a tile fetches ahead per panel and step of K
    streams: bool  # ... of its own panel, not of the next one
    unroll: int
    fetch_distance: int  # bytes between what is read and what is fetched ahead of the same panel
    rows_of_work: int  # a tile's work, where workers share tiles: rows of vector registers
    panel_work: int  # the work of reading a panel of B per step of K, in the same unit
    strip_work: int  # that of reading a tile's rows of A, which another worker has written
    pairs_rows: bool = False  # packed rows of A lie two by two, as units of 2 x 2 blocks take them
    finishes_in_place: bool = False  # those that read A unpacked keep their sums all the same
    brief: bool = False  # fewer kinds of tiles, where two sets of them and expansions are compiled

    @property
    def width(self) -> int:
        """Columns of the widest tile, which rows of sums in a buffer are long."""
        return self.panels * self.nr

    def stores_sums(self, *, in_place: bool) -> bool:
        """Whether the sums of a tile, which reads A unpacked or packed, go to the buffer."""
        return self.buffered and not (in_place and self.finishes_in_place)

    @property
    def strip(self) -> int:
        """Elements of one packed strip of A: the rows of one tile, kc deep."""
        rows = self.mr + self.mr % 2 if self.pairs_rows else self.mr
        return self.a_row * (self.kc if self.pack_a == "columns" else rows)

    @property
    def fetch_level(self) -> int:
        """LLVM's locality of what is fetched ahead: L1 (3) for this tile, L2 (2) for later ones."""
        return 3 if self.streams or self.guarded else 2

    def __str__(self) -> str:
        """One line: the class, and each field that is not at its default."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        shown = ", ".join(f"{f.name}={value}" for f, value in values if value != f.default)
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True)
class VectorSchedule(TileSchedule):
    """Tiles of vector registers, whose panels of B are in memory as they are multiplied."""


@dataclass(frozen=True)
class WideningSchedule(VectorSchedule):
    """Tiles of vector registers, for which panels of half floats are widened to f32 in scratch, one
    at a time."""

    @property
    def fetch_level(self) -> int:
        return 2


@dataclass(frozen=True)
class F16Schedule(TileSchedule):
    """Tiles of vector registers of f16 sums, which are added to f32 sums in a buffer after every
    F16_SUM_STEPS steps of K (f16_micro_kernel.py)."""


@dataclass(frozen=True)
class DequantSchedule(TileSchedule):
    """Tiles of vector registers, which expand the cells of a compressed B themselves."""


@dataclass(frozen=True)
class Int8Schedule(TileSchedule):
    """Tiles of vector registers that multiply rows quantized to int8 by compressed weights."""

    scales_at: int = 0  # elements of a packed row of A in front of its scales
    common_zero: int = 0  # the zero of all weights that dot products begin with, as multiplied


@dataclass(frozen=True)
class Int8AmxSchedule(TileSchedule):
    """Tiles of AMX that multiply rows quantized to int8 by compressed weights (int8_amx/)."""

    scales_at: int = 0  # as in Int8Schedule
    instruction: str = ""  # what multiplies tiles


@dataclass(frozen=True)
class Bf16x3Schedule(TileSchedule):
    """Tiles of AMX that multiply rows of f32, as three bf16 numbers per value, by compressed
    weights (bf16x3/)."""

    few: bool = False  # one tile has all rows, and expands weights itself
    term_row: int = 0  # f32 elements between rows of bf16 in a strip
    sums_at: int = 0  # elements of a strip in front of the sums of its rows
    split_strip: int = 0

    @property
    def strip(self) -> int:
        return self.split_strip


@dataclass(frozen=True)
class AmxSchedule(TileSchedule):
    """Tiles of AMX (amx.py)."""

    defers_epilogue: ClassVar[bool] = True

    instruction: str = ""  # what multiplies tiles
    tail: bool = False  # the last step of K may have fewer cells than a tile register has rows
    inline_epilogue: bool = False  # the epilogue of full rows is written out where it is used
    a_fetch_rows: int = 0  # rows of A that are fetched ahead while rows are packed


@dataclass(frozen=True)
class F32AmxSchedule(AmxSchedule):
    """Tiles of AMX that multiply factors of f32, as three bf16 numbers per value (bf16x3/)."""

    term_row: int = 0  # f32 elements between rows of one term in a strip
    split_strip: int = 0

    @property
    def strip(self) -> int:
        return self.split_strip


GemmSchedule: TypeAlias = (
    VectorSchedule
    | F16Schedule
    | DequantSchedule
    | Int8Schedule
    | Int8AmxSchedule
    | Bf16x3Schedule
    | AmxSchedule
    | F32AmxSchedule
)


@dataclass(frozen=True)
class KernelSchedule:
    """The loops that one kernel has. tiles: for N > 1; few: besides those, for a dynamic M up to
    `few_rows`; dot_rows: rows that share the loads of a vector B, for N = 1.

    n_one: whether N is always 1, never 1, or read at run time (None).
    """

    tiles: GemmSchedule
    few: GemmSchedule | None
    dot_rows: int
    n_one: bool | None
    few_rows: int = MAX_FEW_ROWS

    def __str__(self) -> str:
        """One loop a line."""
        dot = f"dot products of {self.dot_rows} rows"
        if self.n_one:
            return dot
        lines = [str(self.tiles)]
        if self.few is not None:
            lines.append(f"M <= {self.few_rows}: {self.few}")
        return "\n".join(lines if self.n_one is False else [*lines, f"N = 1: {dot}"])
