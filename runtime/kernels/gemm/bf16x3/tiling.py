"""Choose the schedule of f32 rows times compressed weights on tiles of AMX.

A row is three rows of a left factor: its values are sums of three bf16 numbers. Five rows of A
are 15 of the 16 rows of a tile register.
"""

from __future__ import annotations

from typing import Final

from .....ir.lazy_dataclass import dataclass
from .....plan.packing.panel_params import BF16_TERMS
from .....plan.specs.gemm import GemmSpec
from .....plan.target import Target
from ...emit.amx_registers import AMX_ROWS
from ..block_sizes import ProductShape, block_sizes, panel_work, strip_work
from ..packing.quantize_rows import dot_groups, padded_depth
from ..schedule import Bf16x3Schedule

_CELL_VALUES: Final = 2
_LINE_ELEMENTS: Final = 16
# Rows of A in one register of a left factor.
REGISTER_ROWS: Final = AMX_ROWS // BF16_TERMS
# The most rows of a tile.
MAX_TILE_ROWS: Final = 2 * REGISTER_ROWS
# Values of K that are expanded at once: a panel of so many and the rows that meet it fit L1.
_EXPANDED_DEPTH: Final = 256


@dataclass(frozen=True)
class SumTiles:
    """How tiles multiply the values of K whose products are scaled together. depth: how many they
    are, the last ones included, which zeros fill up; steps: products; cells: rows of a right factor
    in one of them."""

    depth: int
    steps: int
    cells: int

    @staticmethod
    def of(spec: GemmSpec) -> SumTiles:
        assert spec.compressed is not None
        depth = padded_depth(spec) if dot_groups(spec) == 1 else spec.compressed.dot_group
        cells = depth // _CELL_VALUES
        steps = next(s for s in range(-(-cells // AMX_ROWS), cells + 1) if cells % s == 0)
        return SumTiles(depth, steps, cells // steps)


def expanded_sums(spec: GemmSpec) -> int:
    """How many groups of K are expanded at once."""
    return min(dot_groups(spec), max(1, _EXPANDED_DEPTH // SumTiles.of(spec).depth))


def choose_bf16x3_schedule(spec: GemmSpec, target: Target, *, few: bool = False) -> Bf16x3Schedule:
    """The schedule on tiles, which may be taller than the rows that are left. few: all rows are one
    tile, which expands weights itself, all of K; else a block of K of one panel is expanded for the
    tiles of all rows in a block of A."""
    product = ProductShape.of(spec, target)
    heights = _heights(spec, few=few)
    mr, groups, depth = heights[0], dot_groups(spec), SumTiles.of(spec).depth
    sums = groups if few else expanded_sums(spec)
    kc, blocked = sums * depth, sums < groups
    # An odd number of lines: rows a power of two apart would share cache sets.
    term_row = (-(-kc // _CELL_VALUES // _LINE_ELEMENTS) | 1) * _LINE_ELEMENTS
    sums_at = BF16_TERMS * mr * term_row
    strip = sums_at + -(-mr * sums // _LINE_ELEMENTS) * _LINE_ELEMENTS
    mc, nc = block_sizes(spec, target, (mr, product.nr, strip // mr), blocked, pack_b=False)
    return Bf16x3Schedule(
        lanes=product.lanes,
        nr=product.nr,
        vectors=product.vectors,
        mr=mr,
        heights=heights,
        guarded=True,
        buffered=True,
        panels=1,
        kr=product.kr,
        kc=kc,
        blocked=blocked,
        mc=1 if few else mc,
        nc=nc,
        pack_a="rows",
        in_place=False,
        a_row=(-(-kc // _LINE_ELEMENTS) | 1) * _LINE_ELEMENTS,
        pack_b=False,
        fetch=0,
        streams=few,
        unroll=1,
        fetch_distance=target.heuristics.gemm_prefetch_distance_bytes,
        rows_of_work=-(-mr // target.heuristics.amx_speedup),
        panel_work=panel_work(target, product),
        strip_work=strip_work(target, product, mr),
        brief=True,
        few=few,
        term_row=term_row,
        sums_at=sums_at,
        split_strip=strip,
    )


def _heights(spec: GemmSpec, *, few: bool) -> tuple[int, ...]:
    """Heights of tiles, tallest first: those that the rows of a known M need."""
    heights = (MAX_TILE_ROWS, REGISTER_ROWS, 1)
    if not few:
        rest = spec.m % MAX_TILE_ROWS if isinstance(spec.m, int) else 1
        return heights[:2] if 0 < rest <= REGISTER_ROWS else heights[:1]
    if not isinstance(spec.m, int):
        return heights
    return (min(h for h in heights if h >= spec.m),)
