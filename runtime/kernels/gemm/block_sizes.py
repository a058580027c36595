"""What schedules of all classes derive from a product's sizes: its shape, and its block sizes."""

from __future__ import annotations

from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import cell_depth, product_panel_width
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target

_UNLIMITED_ROWS = 1 << 20


@dataclass(frozen=True)
class ProductShape:
    """Panels and cells of a product. cells: steps of K, None for a dynamic K; bytes: of an
    accumulator; vectors, guarded, brief, kr: as in schedule.py."""

    lanes: int
    bytes: int
    nr: int
    vectors: int
    kr: int
    cells: int | None
    guarded: bool
    brief: bool

    @staticmethod
    def of(spec: GemmSpec, target: Target) -> ProductShape:
        lanes, kr = target.lanes(spec.acc.bits), cell_depth(target, spec.cell_dtype())
        width = product_panel_width(target, spec.acc, spec.compute_dtype)
        nr = spec.packed.nr if spec.packed else width
        vectors = nr // lanes
        if isinstance(spec.n, int):
            vectors = max(1, min(vectors, -(-spec.n // lanes)))
        cells = -(-spec.k // kr) if isinstance(spec.k, int) else None
        guarded = not isinstance(spec.m, int)
        brief = guarded and spec.compressed is not None
        return ProductShape(lanes, spec.acc.bits // 8, nr, vectors, kr, cells, guarded, brief)


def block_sizes(
    spec: GemmSpec,
    target: Target,
    tile: tuple[int, int, int],
    blocked: bool,
    pack_b: bool,
    most: int = _UNLIMITED_ROWS,
) -> tuple[int, int]:
    """MC in tiles, at most `most`, and NC in panels, for tiles of (MR, NR, KC): a block of A takes
    a third of L2, and so do its partial sums.

    Where K is not split there are none, and NC matters only as the scratch of a packed B.
    """
    (mr, nr, kc), size = tile, spec.acc.bits // 8
    h = target.heuristics
    third = (target.l2 or 256 << 10) // h.gemm_a_block_l2_divisor
    mc, nc = min(most, max(1, third // (mr * kc * size))), _UNLIMITED_ROWS
    if isinstance(spec.m, int):
        tiles = max(1, -(-spec.m // mr))
        mc = -(-tiles // -(-tiles // mc))
    if blocked:
        mc = min(mc, h.gemm_max_summed_tiles)
        nc = max(1, third // (mc * mr * nr * size))
    if pack_b:
        nc = min(nc, max(1, 3 * third // (kc * nr * size)))
    if isinstance(spec.n, int):
        panels = max(1, -(-spec.n // nr))
        nc = -(-panels // -(-panels // nc))
    return mc, nc


def is_narrow(spec: GemmSpec, nr: int) -> bool:
    """Whether an element of A is used too few times to be worth copying."""
    return isinstance(spec.n, int) and spec.n <= 2 * nr


def expanded_depth(depth: int, target: Target, row_bytes: int, pair: int) -> tuple[int, bool]:
    """KC, and whether K takes more than one block, where B is expanded from a compressed operand.

    What was just expanded is read by the tiles of all rows, from L1, half of which is A's; where
    tiles take a `pair` of panels, their rows are few, and a third is A's. A block holds whole cells
    of the operand, which are 8 values deep at most.
    """
    share = target.l1 // 2 if pair == 1 else target.l1 * 2 // 3
    block = max(64, share // (pair * row_bytes) // 32 * 32)
    return (block, True) if depth > block else (depth, False)


def panel_work(target: Target, product: ProductShape) -> int:
    """Multiply-adds in the time of reading one step of K of a panel from far away."""
    return _reading_work(target, product, product.nr)


def strip_work(target: Target, product: ProductShape, rows: int) -> int:
    """Multiply-adds in the time of reading one step of K of so many rows of A from far away."""
    return _reading_work(target, product, rows)


def _reading_work(target: Target, product: ProductShape, values: int) -> int:
    return max(1, values * product.bytes // target.heuristics.gemm_bytes_per_multiply_add)
