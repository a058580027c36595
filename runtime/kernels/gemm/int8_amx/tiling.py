"""Choose the schedule of int8 activations times compressed weights on tiles of AMX."""

from __future__ import annotations

from typing import Final

from .....ir.dtype import DType
from .....ir.lazy_dataclass import dataclass
from .....plan.packing.panel_params import has_tiles
from .....plan.specs.gemm import MAX_VECTOR_INT8_ROWS, GemmSpec
from .....plan.target import Target
from ...emit.amx_registers import AMX_ROWS
from ..block_sizes import ProductShape, block_sizes, panel_work, strip_work
from ..packing.quantize_rows import dot_groups, padded_depth, row_layout
from ..schedule import Int8AmxSchedule

_CELL_BYTES: Final = 4
_TILE_ROW_BYTES: Final = 64


@dataclass(frozen=True)
class GroupTiles:
    """How tiles multiply one group of the activations. depth: bytes of K that a group takes, the
    last one included, which zeros fill up; steps: products per group; cells: rows of a right
    factor in one of them."""

    depth: int
    steps: int
    cells: int

    @staticmethod
    def of(spec: GemmSpec) -> GroupTiles:
        assert spec.compressed is not None
        one = dot_groups(spec) == 1
        depth = padded_depth(spec) if one else spec.compressed.dot_group
        steps = -(-depth // _TILE_ROW_BYTES)
        return GroupTiles(depth, steps, depth // steps // _CELL_BYTES)


def uses_tiles(spec: GemmSpec, target: Target) -> bool:
    """Whether tiles of AMX multiply int8 rows by compressed weights, where the rows are more than
    MAX_VECTOR_INT8_ROWS."""
    if not has_tiles(target, DType.i8, _CELL_BYTES):
        return False
    return not isinstance(spec.m, int) or spec.m > MAX_VECTOR_INT8_ROWS


def choose_int8_amx_schedule(spec: GemmSpec, target: Target) -> Int8AmxSchedule:
    """The schedule on tiles: one panel of B is expanded at a time, for all rows of a block of A.
    Tiles may be taller than the rows that are left, which are packed as zeros."""
    product = ProductShape.of(spec, target)
    heights = (2 * AMX_ROWS, AMX_ROWS)
    scales_at, a_row = row_layout(spec, tiles=True)
    # What tiles read of a row are its codes.
    tile = (heights[0], product.nr, -(-padded_depth(spec) // product.bytes))
    mc, nc = block_sizes(spec, target, tile, blocked=False, pack_b=False)
    return Int8AmxSchedule(
        lanes=product.lanes,
        nr=product.nr,
        vectors=product.vectors,
        mr=heights[0],
        heights=heights,
        guarded=True,
        buffered=True,
        panels=1,
        kr=product.kr,
        kc=product.cells or 1,
        blocked=False,
        mc=mc,
        nc=nc,
        pack_a="rows",
        in_place=False,
        a_row=a_row,
        pack_b=False,
        fetch=1,
        streams=False,
        unroll=1,
        fetch_distance=target.heuristics.gemm_prefetch_distance_bytes,
        rows_of_work=-(-heights[0] // target.heuristics.amx_speedup),
        panel_work=panel_work(target, product),
        strip_work=strip_work(target, product, heights[0]),
        scales_at=scales_at,
        # Left codes are signed; 4-bit weights are 0 to 15.
        instruction=f"llvm.x86.tdpb{'ss' if spec.b.dtype is DType.i8 else 'su'}d",
    )
