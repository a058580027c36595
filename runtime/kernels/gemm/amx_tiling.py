"""Choose the schedule of a product on tiles of AMX: heights, panels, and block sizes."""

from __future__ import annotations

from typing import Final

from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ..emit.amx_registers import AMX_ROWS
from .block_sizes import (
    ProductShape,
    block_sizes,
    expanded_depth,
    is_narrow,
    panel_work,
    strip_work,
)
from .epilogue import is_short
from .operand_packing import OperandPacking
from .schedule import AmxSchedule

_LINE_BYTES: Final = 64
# Bytes of a cell.
CELL_BYTES: Final = 4


def choose_amx_schedule(
    spec: GemmSpec,
    target: Target,
    product: ProductShape,
    packing: OperandPacking,
    instruction: str,
    heights: tuple[int, ...],
) -> AmxSchedule:
    """The schedule on tiles. packing: what tiles of vector registers would copy; heights: a known M
    cut evenly into tiles of at most 2 * SIDE rows, which stay where registers can't be full.

    K is cut only where a block of A would take more than half of L2. Slices of a panel and a strip
    that fit L1 are faster where weights are in L2, and slower in whole models, whose weights do not
    (docs/dev/tuning/amx-k-depth.md).
    """
    nr, kr, guarded = product.nr, product.kr, product.guarded
    full = _full_heights(spec, target, product)
    heights = (2 * AMX_ROWS, AMX_ROWS) if guarded else full or heights
    mr, few = heights[0], not guarded and heights[0] <= AMX_ROWS and spec.m == heights[0]
    panels = 2 if few and isinstance(spec.n, int) and spec.n >= 2 * nr else 1
    if spec.compressed is None:
        kc, blocked = _depth(spec, target, product.cells, mr)
    else:
        kc, blocked = expanded_depth(product.cells or 1, target, nr * product.bytes, 1)
    full_steps = isinstance(spec.k, int) and spec.k % (AMX_ROWS * kr) == 0
    exact = guarded or len(heights) == 1 or bool(full)
    reads_in_place = full_steps and (packing.pack_a == "no" or packing.in_place) and exact
    narrow = reads_in_place and not guarded and is_narrow(spec, nr)
    tall = _tiles_in_block(spec, target, kc, mr)
    mc, nc = block_sizes(spec, target, (mr, nr, kc), blocked, packing.pack_b, tall)
    streams = mc == 1 and not guarded
    lines = 4 * AMX_ROWS * nr // _LINE_BYTES
    among = 1 if streams else target.heuristics.amx_max_block_tiles if guarded else mc
    return AmxSchedule(
        lanes=product.lanes,
        nr=nr,
        vectors=product.vectors,
        mr=mr,
        heights=heights,
        guarded=guarded,
        buffered=True,
        panels=panels,
        kr=kr,
        kc=kc,
        blocked=blocked,
        mc=mc,
        nc=max(nc, panels),
        pack_a="no" if narrow else "rows",
        in_place=reads_in_place and not narrow,
        a_row=(-(-kc // AMX_ROWS) | 1) * AMX_ROWS,
        pack_b=packing.pack_b,
        fetch=0 if packing.pack_b else -(-lines // among),
        streams=streams,
        unroll=1,
        fetch_distance=target.heuristics.gemm_prefetch_distance_bytes,
        rows_of_work=-(-mr // target.heuristics.amx_speedup),
        panel_work=panel_work(target, product),
        strip_work=strip_work(target, product, mr),
        brief=product.brief,
        instruction=instruction,
        tail=product.cells is None or product.cells % AMX_ROWS != 0,
        inline_epilogue=is_short(spec.epilogue, target),
        a_fetch_rows=target.heuristics.amx_prefetch_rows,
    )


def _full_heights(spec: GemmSpec, target: Target, product: ProductShape) -> tuple[int, ...]:
    """Heights of tiles that fill three registers, and two where that leaves a rest; else ().

    Three take turns in one register, so M has to be whole registers. They read a panel fewer times
    but load more (tiles.py): that pays where a panel and the strip of A that meets it do not fit L1
    (docs/dev/tuning/amx-tile-rows.md).
    """
    if not isinstance(spec.m, int) or not isinstance(spec.k, int) or spec.compressed:
        return ()
    if CELL_BYTES * -(-spec.k // product.kr) * (product.nr + 2 * AMX_ROWS) <= target.l1:
        return ()
    registers, rest = divmod(spec.m, AMX_ROWS)
    if rest or registers in (0, 1, 2, 4):
        return ()
    return (3 * AMX_ROWS, 2 * AMX_ROWS) if registers % 3 else (3 * AMX_ROWS,)


def _tiles_in_block(spec: GemmSpec, target: Target, kc: int, mr: int) -> int:
    """Tiles of rows in a block, at most.

    Where K is few steps, what the epilogue reads and writes is most of the traffic, and that of a
    block, but for two tiles, is limited.
    """
    h = target.heuristics
    most = min(h.amx_max_block_tiles, h.amx_max_block_rows // mr)
    if (
        not isinstance(spec.k, int)
        or not isinstance(spec.n, int)
        or kc > h.amx_max_short_k_steps * AMX_ROWS
    ):
        return most
    streamed = [o for o in (*spec.epilogue_operands, spec.out) if o.strides[-2] != 0]
    row = sum(spec.n * o.dtype.bits // 8 for o in streamed)
    return max(2, min(most, h.amx_max_epilogue_bytes // max(1, mr * row)))


def _depth(spec: GemmSpec, target: Target, cells: int | None, mr: int) -> tuple[int, bool]:
    """KC in cells, and whether K may take more than one block.

    The tallest block of A that is KC deep takes half of L2, or, besides the sums that blocks of a a
    dynamic K keep between blocks, a quarter.
    """
    cells = None if cells is None else max(1, cells)
    if cells is not None and isinstance(spec.m, int) and spec.m <= mr:
        return cells, False
    share = target.l2 // (2 if cells is not None else 4)
    most = (
        max(
            4,
            share
            // (CELL_BYTES * target.heuristics.amx_max_block_tiles * min(mr, 2 * AMX_ROWS))
            // AMX_ROWS,
        )
        * AMX_ROWS
    )
    if cells is None:
        return most, True
    blocks = -(-cells // most)
    return (cells, False) if blocks == 1 else (-(-cells // blocks // AMX_ROWS) * AMX_ROWS, True)
