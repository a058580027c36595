"""Choose the schedule of f32 rows times f32 weights on tiles of AMX.

Both factors are sums of three bf16 numbers (f32_terms.py). A block of a panel of B is expanded to
scratch while the tiles of the panel before it are multiplied; the rows of A that meet them are
split once for all panels.
"""

from __future__ import annotations

from typing import Final

from .....ir.dtype import DType
from .....plan.packing.panel_params import BF16_STEP_VALUES, BF16_TERMS, cell_depth
from .....plan.specs.gemm import GemmSpec
from .....plan.target import Target
from ...emit.amx_registers import AMX_ROWS
from ...emit.dot_units import tile_instruction
from ..block_sizes import ProductShape, panel_work, strip_work
from ..schedule import F32AmxSchedule
from .f32_terms import LEFT_TERMS

_LINE_ELEMENTS: Final = 16
_BF16_BYTES: Final = 2
# Tiles of rows that share an expanded panel, if there are so many.
_SHARING_TILES: Final = 8
# How many times as fast as a row of vector registers a row of a tile is.
_ROW_SPEEDUP: Final = 2


def choose_f32_amx_schedule(
    spec: GemmSpec, target: Target, heights: tuple[int, ...]
) -> F32AmxSchedule:
    """The schedule on tiles. heights: a known M cut evenly into tiles of at most two registers."""
    product = ProductShape.of(spec, target)
    instruction = tile_instruction(target, DType.bf16, cell_depth(target, DType.bf16))
    assert instruction is not None
    if product.guarded:
        heights = (2 * AMX_ROWS, AMX_ROWS)
    mr, nr = heights[0], product.nr
    tiles = max(1, -(-spec.m // mr)) if isinstance(spec.m, int) else _SHARING_TILES
    share = target.l2 * 2 // 5
    kc, blocked = _depth(spec, share, tiles, nr)
    # An odd number of lines: rows a power of two apart would share cache sets.
    term_row = (kc // 2 // _LINE_ELEMENTS | 1) * _LINE_ELEMENTS
    # With a line for the strip's word.
    split_strip = LEFT_TERMS * mr * term_row + _LINE_ELEMENTS
    most = (share // product.bytes - BF16_TERMS * kc * nr) // split_strip
    mc = -(-tiles // -(-tiles // max(1, most)))
    return F32AmxSchedule(
        lanes=product.lanes,
        nr=nr,
        vectors=product.vectors,
        mr=mr,
        heights=heights,
        guarded=product.guarded,
        buffered=True,
        panels=1,
        kr=product.kr,
        kc=kc,
        blocked=blocked,
        mc=mc,
        nc=max(1, target.l2 // (mc * mr * nr * product.bytes)),
        pack_a="rows",
        in_place=False,
        a_row=kc + _LINE_ELEMENTS,
        pack_b=False,
        fetch=0,
        streams=False,
        unroll=1,
        fetch_distance=target.heuristics.gemm_prefetch_distance_bytes,
        rows_of_work=-(-mr // _ROW_SPEEDUP),
        panel_work=panel_work(target, product),
        strip_work=strip_work(target, product, mr),
        instruction=instruction,
        a_fetch_rows=target.heuristics.amx_prefetch_rows,
        term_row=term_row,
        split_strip=split_strip,
    )


def _depth(spec: GemmSpec, l2_share: int, tiles: int, nr: int) -> tuple[int, bool]:
    """KC in whole steps, and whether K takes more than one block: the terms of two panels, and of
    the tiles of rows that share them, take `l2_share` bytes."""
    assert isinstance(spec.k, int)
    panels = 2 * BF16_TERMS * nr * _BF16_BYTES
    rows = min(tiles, _SHARING_TILES) * LEFT_TERMS * 2 * AMX_ROWS * _BF16_BYTES
    blocks = max(1, -(-spec.k // max(2 * BF16_STEP_VALUES, l2_share // (panels + rows))))
    return max(1, -(-spec.k // (blocks * BF16_STEP_VALUES))) * BF16_STEP_VALUES, blocks > 1
