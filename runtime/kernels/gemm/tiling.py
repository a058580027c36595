"""Sizes of everything a product is cut into: a pure function of (GemmSpec, Target).

The loops are Goto and van de Geijn's ("Anatomy of High-Performance Matrix Multiplication", ACM
TOMS 34(3), 2008) in BLIS's refinement (Van Zee and van de Geijn, ACM TOMS 41(3), 2015), and sizes
are derived as in Low et al., "Analytical Modeling Is Enough" (ACM TOMS 43(2), 2016):

    register tile   rows x vectors accumulators, one B vector per column and one broadcast of A
    KC              a panel of B (KC x nr) stays in L1 while the rows of a block pass by
    MC              a block of A (MC x KC) and the block's partial sums stay in L2
    NC              columns of B packed at once, and how far a block's partial sums reach

No size changes the order of additions: every element is one ascending chain over K, and a block of
K resumes the stored partial sum. So a tiling is free to be wrong about a machine; only time is lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ....ir.specs import GemmSpec, Size
from ....ir.target import Target
from ....ir.tiles import panel_width

# How rows of A reach the register tile: where they lie, copied row after row, or copied so that
# the rows of one column lie side by side (for an A whose rows are adjacent in memory).
PackA = Literal["no", "rows", "columns"]

# What tiles fetch ahead of time from a packed constant B: nothing, a piece each of the next panel,
# or, where a panel serves one tile only, what the tile itself will read a little later.
Prefetch = Literal["no", "next", "stream"]

# Two multiply-adds of four cycles latency can start per cycle on all cores of interest. A tile with
# fewer than half as many chains would wait even for the weights that it streams.
_CHAINS = 4
_MOST_ROWS = 16


@dataclass(frozen=True)
class Tiling:
    """How a product is cut. Counts of rows and columns are elements, `mc` and `nc` are counts of
    register tiles and of panels."""

    lanes: int  # accumulators per vector register
    nr: int  # columns of a panel
    vectors: int  # vector registers that a tile of one panel computes
    mr: int  # rows of the tallest tile
    heights: tuple[int, ...]  # tile heights that are compiled, tallest first
    guarded: bool  # tiles may be taller than the rows that are left (M is read at run time)
    panels: int  # panels side by side in one tile, where one panel has too few chains
    kc: int
    blocked: bool  # K may take more than one block: partial sums are stored between them
    mc: int
    nc: int
    pack_a: PackA
    a_row: int  # elements between rows (columns) of a packed strip of A
    pack_b: bool
    unroll: int
    prefetch: Prefetch

    @property
    def strip(self) -> int:
        """Elements of one packed strip of A: the rows of one tile, kc deep."""
        return self.a_row * (self.kc if self.pack_a == "columns" else self.mr)


def tile_rows(target: Target, vectors: int) -> int:
    """Rows of a tile `vectors` registers wide: accumulators, a row of B and one broadcast must fit
    the register file, with one register for the product where there is no fused multiply-add."""
    spare = target.registers - vectors - (1 if target.fma else 2)
    return max(1, min(_MOST_ROWS, spare // vectors))


def choose(spec: GemmSpec, target: Target) -> Tiling:
    """The tiling of a product with N != 1. The spec's N may be a run-time size."""
    lanes = target.lanes(spec.acc.bits)
    nr = spec.packed.nr if spec.packed else panel_width(target, spec.acc.bits)
    vectors = nr // lanes
    if isinstance(spec.n, int):
        vectors = max(1, min(vectors, -(-spec.n // lanes)))
    mr, heights, guarded = _heights(spec.m, tile_rows(target, vectors))
    panels = _panels(spec, target, mr, vectors, nr)
    bytes_ = spec.acc.bits // 8
    kc, blocked = _depth(spec, target, nr * panels * bytes_, mr)
    pack_a = _pack_a(spec, mr, nr, target)
    if pack_a == "columns":
        a_row = -(-mr // lanes) * lanes
    else:
        # One line more than the rows are long: rows of a power of two would share cache sets.
        line = 64 // bytes_
        a_row = -(-kc // line) * line + line
    pack_b = spec.packed is None and _packs_b(spec, mr, nr, target)
    mc, nc = _blocks(spec, target, mr, nr, kc, blocked, pack_a != "no", pack_b)
    nc = max(nc, panels)
    # Several tiles share the panel at hand, so each can fetch a piece of the next one in time.
    prefetch: Prefetch = "no" if spec.packed is None else "next" if mc > 1 else "stream"
    return Tiling(
        lanes=lanes,
        nr=nr,
        vectors=vectors,
        mr=mr,
        heights=heights,
        guarded=guarded,
        panels=panels,
        kc=kc,
        blocked=blocked,
        mc=mc,
        nc=nc,
        pack_a=pack_a,
        a_row=a_row,
        pack_b=pack_b,
        prefetch=prefetch,
        unroll=max(1, min(8, 24 // (mr * vectors * panels) + 1)),
    )


def _heights(m: Size, most: int) -> tuple[int, tuple[int, ...], bool]:
    """Tallest tile, tile heights, and whether tiles must look how many rows are left.

    A known M is cut evenly, so that heights differ by one at most: 64 rows are 13+13+13+13+12 and
    not 14+14+14+14+8. An M of run time takes the tallest tile and a ladder of shorter ones for the
    rest: heights for every rest would cost compile time and win little.
    """
    if isinstance(m, int):
        tiles = max(1, -(-m // most))
        low, longer = divmod(m, tiles)
        return (
            (low + 1, (low + 1, low), False)
            if longer and low
            else (m // tiles or 1, (m // tiles or 1,), False)
        )
    ladder = [most]
    while ladder[-1] > 1:
        ladder.append(ladder[-1] // 2 if ladder[-1] > 3 else ladder[-1] - 1)
    return most, tuple(ladder), True


def _panels(spec: GemmSpec, target: Target, rows: int, vectors: int, nr: int) -> int:
    """Panels side by side, until a tile has enough independent chains."""
    if not isinstance(spec.n, int) or not isinstance(spec.m, int):
        return 1
    wanted = -(-_CHAINS // (rows * vectors))
    while wanted > 1 and rows > tile_rows(target, vectors * wanted):
        wanted -= 1
    return max(1, min(wanted, spec.n // nr))


def _depth(spec: GemmSpec, target: Target, row_bytes: int, rows: int) -> tuple[int, bool]:
    """KC, and whether K may need more than one block of it.

    Goto's rule keeps a panel of B in L1; the L2 of today's cores feeds it just as fast (a row of
    the panel per `rows` multiply-adds), and every split costs a round trip of the partial sums. So
    K is split only where a panel would take more than an eighth of L2, and into blocks of a
    twelfth. A single row of tiles reads each panel once: splitting K would win it nothing.
    """
    deep = max(256, target.l2 // 8 // row_bytes)
    block = max(128, target.l2 // 12 // row_bytes // 16 * 16)
    if not isinstance(spec.k, int):
        return block, True
    if spec.k <= deep or (isinstance(spec.m, int) and spec.m <= rows):
        return max(1, spec.k), False
    return -(-spec.k // -(-spec.k // block) // 16) * 16, True


def _pack_a(spec: GemmSpec, rows: int, nr: int, target: Target) -> PackA:
    """Whether strips of A are copied before use.

    Copying an element costs about as much as two multiply-add instructions, and an element takes
    part in one such instruction per vector of columns; it pays where it makes rows addressable by
    constants, converts types once, or moves rows apart that share cache sets.
    """
    row, step = spec.a.strides[-2:]
    if spec.a.dtype is not spec.acc:
        return "columns" if row == 1 and step != 1 else "rows"
    if isinstance(spec.m, int) and spec.m == 1 and isinstance(step, int):
        return "no"
    if step == 1 and isinstance(row, int) and isinstance(spec.m, int):
        few = isinstance(spec.n, int) and spec.n <= 2 * nr
        crowded = _crowded(row * spec.a.dtype.bits // 8, rows, target)
        return "rows" if crowded and not few else "no"
    if row == 1 and isinstance(step, int) and isinstance(spec.m, int) and _few(spec.n, 2 * nr):
        return "no"
    return "columns" if row == 1 else "rows"


def _few(size: Size, limit: int) -> bool:
    return isinstance(size, int) and size <= limit


def _crowded(row_bytes: int, rows: int, target: Target) -> bool:
    """Whether the rows of a strip fall into so few sets of L1 that they push each other out.

    A way of L1 is 4096 bytes on all cores of interest (larger caches have more ways), so rows meet
    in one set when their distance is a multiple of it. A third of the ways is left to B.
    """
    way = 4096
    ways = max(1, target.l1 // way)
    sets_used = way // math.gcd(row_bytes, way)
    return -(-rows // sets_used) > ways * 2 // 3


def _packs_b(spec: GemmSpec, rows: int, nr: int, target: Target) -> bool:
    """Whether a right operand that is not a constant is copied into panels.

    Rows of contiguous columns may be read where they lie: by a single row of tiles, or if the
    matrix is so small that it stays in L1.
    """
    step, column = spec.b.strides[-2:]
    if column != 1 or spec.b.dtype is not spec.acc or not isinstance(step, int):
        return True
    if isinstance(spec.m, int) and spec.m <= 2 * rows:
        return False
    bytes_ = spec.acc.bits // 8
    return not (isinstance(spec.k, int) and spec.k * step * bytes_ <= target.l1 // 2)


def _blocks(
    spec: GemmSpec,
    target: Target,
    mr: int,
    nr: int,
    kc: int,
    blocked: bool,
    pack_a: bool,
    pack_b: bool,
) -> tuple[int, int]:
    """MC in tiles and NC in panels: a block of A takes a third of L2, and so do partial sums.

    Where K is not split there are no partial sums; where B is packed, NC bounds its scratch.
    """
    bytes_ = spec.acc.bits // 8
    l2 = max(target.l2, 256 << 10)
    mc = max(1, l2 // 3 // (mr * kc * bytes_))
    if isinstance(spec.m, int):
        tiles = max(1, -(-spec.m // mr))
        mc = -(-tiles // -(-tiles // mc))
    nc = 1 << 20
    if blocked:
        mc = min(mc, 16)
        nc = max(1, l2 // 3 // (mc * mr * nr * bytes_))
    if pack_b:
        nc = min(nc, max(1, (1 << 20) // (kc * nr * bytes_)))
    if isinstance(spec.n, int):
        panels = max(1, -(-spec.n // nr))
        nc = -(-panels // -(-panels // nc))
    return mc, nc
