"""Choose the register tile and the block sizes of a product: a function of (GemmSpec, Target).

The loops are those of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication",
ACM TOMS 34(3), 2008), refined by BLIS (Van Zee and van de Geijn, ACM TOMS 41(3), 2015); sizes are
derived as in Low et al., "Analytical Modeling Is Enough" (ACM TOMS 43(2), 2016):

    register tile   rows x vectors accumulators, one B vector per column, one broadcast of A
    KC              how deep a panel of B is read before the next one's turn
    MC              tiles of rows whose part of A stays in L2 while the panels pass by
    NC              panels of B packed at once, and how far a block's partial sums reach

No size changes the order of additions: every element is one ascending chain over K, and a block of
K resumes the stored partial sum. So a tiling may be wrong about a machine; only time is lost.
"""

from __future__ import annotations

import math
from typing import Final

from ....ir.dtype import DType
from ....plan.packing.panel_params import cell_depth, panel_width
from ....plan.specs.base import Size
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from ...llvmir.half_conversions import has_f16_conversion
from ..emit.amx_registers import AMX_ROWS
from ..emit.dot_units import tile_instruction
from ..emit.gather_lanes import scatters
from .amx_tiling import choose_amx_tiling
from .block_sizes import block_sizes, is_narrow
from .epilogue import is_short
from .tiling_params import PackA, Tiling

_LINE_BYTES: Final = 64
# Types of A that units take as they lie, and how many neighbours they multiply at once.
_NEIGHBOURS: Final = {DType.u8: 4, DType.bf16: 2}


def tile_rows(target: Target, vectors: int) -> int:
    """Rows of a tile `vectors` registers wide: accumulators, a row of B and one broadcast must fit
    the register file. Without a fused multiply-add a product needs a register, and so does the copy
    of the operand that SSE's two-address multiplication overwrites."""
    spare = target.registers - vectors - (1 if target.fma else 3)
    return max(1, min(target.heuristics.gemm_max_tile_rows, spare // vectors))


def choose_tiling(
    spec: GemmSpec, target: Target, *, few: bool = False, tiles: bool = True
) -> Tiling:
    """The tiling of a product with N != 1, or with a dynamic N.

    few: for a dynamic M that one short tile holds, where weights are compressed. tiles: on
    tiles of AMX where the Target has them.
    """
    lanes, size = target.lanes(spec.acc.bits), spec.acc.bits // 8
    nr = spec.packed.nr if spec.packed else panel_width(target, spec.acc.bits)
    vectors = nr // lanes
    if isinstance(spec.n, int):
        vectors = max(1, min(vectors, -(-spec.n // lanes)))
    heights = _heights(spec.m, tile_rows(target, vectors))
    mr, guarded, kr = heights[0], not isinstance(spec.m, int), _cell_depth(spec, target)
    panels = _panels(spec, target, mr, vectors, nr)
    if pairs := _pairs(spec, target, nr):
        panels, heights = 2, _heights(spec.m, tile_rows(target, 2 * vectors))
        mr = heights[0]
    brief = guarded and spec.compressed is not None
    if brief:
        heights = heights[:2] + heights[3:4]
    if few:
        panels, heights = 2, _ladder(min(4, tile_rows(target, 2 * vectors)))
        mr = heights[0]
    cells = -(-spec.k // kr) if isinstance(spec.k, int) else None
    expands = False
    if spec.compressed is None:
        kc, blocked = _depth(spec, cells, target, panels * nr * size, mr)
    else:
        expands = few or _expands(spec, target, mr)
        kc, blocked = _expanded_depth(cells or 1, target, nr * size, panels if pairs else 1)
        if expands:
            kc, blocked = cells or 1, False
    pack_a = _pack_a(spec, target, mr, nr)
    pack_b = spec.packed is None and _packs_b(spec, target, mr)
    pack_b = pack_b or (spec.compressed is not None and not expands)
    mc, nc = block_sizes(spec, target, (mr, nr, kc), blocked, pack_b)
    if pairs and spec.compressed is not None:
        nc = panels
    if pack_a == "columns":
        a_row = -(-mr // lanes) * lanes
    else:
        # A line more than the rows are long: rows a power of two apart would share cache sets.
        a_row = -(-kc // (_LINE_BYTES // size)) * (_LINE_BYTES // size) + _LINE_BYTES // size
    streams = mc == 1 and not guarded
    # Where sums of rounded factors flush denormals by a mode, the epilogue runs outside of it.
    apart = not is_short(spec.epilogue, target) or (spec.compute_dtype is not None and kr == 1)
    # Zero points that differ take as many instructions per register as a long program.
    apart = apart or any(z.strides[-1] != 0 for z in spec.zero_points)
    # Vectors across two blocks of columns are stored piece by piece.
    width = spec.out_n_split[1] if spec.out_n_split else lanes
    apart = apart or not isinstance(width, int) or width % lanes != 0
    # A loop over lanes per register as well.
    apart = apart or not (spec.out.strides[-1] == 1 or scatters(target, spec.out.dtype.bits))
    lines = max(1, nr * size // _LINE_BYTES)
    tiling = Tiling(
        lanes=lanes,
        nr=nr,
        vectors=vectors,
        mr=mr,
        heights=heights,
        guarded=guarded,
        buffered=blocked or guarded or not isinstance(spec.n, int) or apart,
        panels=panels,
        kr=kr,
        kc=kc,
        blocked=blocked,
        mc=mc,
        nc=max(nc // panels, 1) * panels,
        pack_a=pack_a,
        in_place=guarded
        and not brief
        and pack_a == "rows"
        and _reads_in_place(spec, target, mr, nr),
        a_row=a_row,
        pack_b=pack_b,
        expands=expands,
        brief=brief,
        # Several tiles share a panel, so each fetches a piece of the next one: a line is enough.
        fetch=0 if pack_b or expands or spec.packed is None else lines if streams or guarded else 1,
        streams=streams,
        # Small tiles have few instructions between a loop's own.
        unroll=max(
            1, min(8, target.heuristics.gemm_unrolled_multiply_adds // (mr * vectors * panels) + 1)
        ),
    )
    instruction = tile_instruction(target, spec.cell_dtype(), kr)
    if not instruction or not tiles:
        return tiling
    return choose_amx_tiling(tiling, spec, target, instruction, _heights(spec.m, 2 * AMX_ROWS))


def _heights(m: Size, most: int) -> tuple[int, ...]:
    """Tile heights, tallest first.

    A known M is cut evenly, so that heights differ by one at most: 64 rows are 13+13+13+13+12 and
    not 14+14+14+14+8. An Dynamic m takes the tallest tile and for the rest a ladder of shorter
    ones: a height for every rest would cost compile time and win little.
    """
    if isinstance(m, int):
        low, longer = divmod(m, max(1, -(-m // most)))
        return (low + 1, low) if longer and low else (max(1, low),)
    return _ladder(most)


def _ladder(most: int) -> tuple[int, ...]:
    ladder = [most]
    while ladder[-1] > 1:
        ladder.append(max(1, ladder[-1] * 5 // 8))
    return tuple(ladder)


def _panels(spec: GemmSpec, target: Target, rows: int, vectors: int, nr: int) -> int:
    """Panels side by side, until a tile has enough independent chains."""
    if not isinstance(spec.n, int) or not isinstance(spec.m, int):
        return 1
    wanted = min(-(-target.heuristics.gemm_min_chains // (rows * vectors)), max(1, spec.n // nr))
    while wanted > 1 and rows > tile_rows(target, vectors * wanted):
        wanted -= 1
    return wanted


def _pairs(spec: GemmSpec, target: Target, nr: int) -> bool:
    """Whether tiles of rows should take two panels at once: 6 x 4 registers for 14 x 2.

    A step of K then takes 10 loads for 24 multiply-adds instead of 16 for 28. On the core with
    AVX512-FP16 that was timed, loads take time in addition to multiply-adds; on those without it
    both tiles took the same time, and tall ones waste less of few columns
    (docs/dev/tuning/gemm-two-panels.md).
    """
    if not target.has("avx512fp16") or spec.acc not in (DType.f32, DType.f64):
        return False
    if not isinstance(spec.m, int) or not isinstance(spec.n, int):
        return False
    panels, rows = spec.n // nr, tile_rows(target, nr // target.lanes(spec.acc.bits))
    # A panel that is left over alone takes 6 x 2.
    if panels < 2 or (panels < 8 and panels % 2):
        return False
    if spec.compressed is not None and spec.compute_dtype is None:
        # From L1, where they are expanded for all tiles. Where that begins and ends to pay was
        # measured: two tall tiles should expand bytes themselves.
        most = target.heuristics.gemm_max_two_panel_dequant_rows
        return (rows if spec.b.dtype.bits == 4 else 2 * rows) < spec.m <= most
    # A panel that is converted would be converted by twice as many tiles.
    return _needs_no_conversion(spec, spec.b.dtype, spec.b_cast) and spec.m > 2 * rows


def _depth(
    spec: GemmSpec, depth: int | None, target: Target, row_bytes: int, rows: int
) -> tuple[int, bool]:
    """KC, and whether K, which is `depth` steps if that is known, may need more than one block.

    Goto's rule keeps a panel of B in L1; the L2 of today's cores feeds it just as fast (a row of
    the panel per `rows` multiply-adds), and every split costs a round trip of the partial sums. So
    K is split only where a panel would take more than an eighth of L2, and into blocks of a
    twelfth. A single row of tiles reads each panel once: splitting K would win it nothing. Measured
    for cells of bf16, too: panels that fit half or a quarter of L1 win nothing.
    """
    h = target.heuristics
    deep = max(256, target.l2 // h.gemm_panel_l2_divisor // row_bytes)
    block = max(128, target.l2 // h.gemm_k_block_l2_divisor // row_bytes // 16 * 16)
    if depth is None:
        return block, True
    if depth <= deep or (isinstance(spec.m, int) and spec.m <= rows):
        return max(1, depth), False
    return -(-depth // -(-depth // block) // 16) * 16, True


def _expanded_depth(depth: int, target: Target, row_bytes: int, pair: int) -> tuple[int, bool]:
    """KC, and whether K takes more than one block, where B is expanded from a compressed operand.

    What was just expanded is read by the tiles of all rows, from L1, half of which is A's; where
    tiles take a `pair` of panels, their rows are few, and a third is A's. A block holds whole cells
    of the operand, which are 8 values deep at most.
    """
    share = target.l1 // 2 if pair == 1 else target.l1 * 2 // 3
    block = max(64, share // (pair * row_bytes) // 32 * 32)
    return (block, True) if depth > block else (depth, False)


def _expands(spec: GemmSpec, target: Target, rows: int) -> bool:
    """Whether so few tiles of rows share a panel that each should expand it for itself."""
    few = isinstance(spec.m, int) and spec.m <= 2 * rows
    return few and tiles_may_expand(spec, target)


def tiles_may_expand(spec: GemmSpec, target: Target) -> bool:
    """Whether tiles can expand compressed weights themselves: not where that takes so many
    instructions that a kernel with it in every tile would take twice the time to compile."""
    c = spec.compressed
    if c is None or spec.compute_dtype is not None:
        return False
    rounds = c.rounded and c.scale.dtype is not DType.f32 and not c.normal
    return not rounds or (c.scale.dtype is DType.f16 and has_f16_conversion(target))


def _cell_depth(spec: GemmSpec, target: Target) -> int:
    return cell_depth(target, spec.cell_dtype())


def _needs_no_conversion(spec: GemmSpec, dtype: DType, cast: DType | None) -> bool:
    """Whether tiles can multiply an operand's elements without a conversion."""
    return dtype is spec.acc and cast is None and spec.compute_dtype is None


def _can_read_a_in_place(spec: GemmSpec, target: Target) -> bool:
    """Whether tiles can multiply A's elements where they are. Of bytes and of bf16: neighbours of
    a row are a cell if the unit takes their type, and if no cell reaches beyond a row's end. What
    is converted is packed even for one row: tiles would convert it once per panel of B."""
    if spec.a_m_split or spec.a_k_split:
        return False
    depth = _cell_depth(spec, target)
    if depth > 1 and _NEIGHBOURS.get(spec.a.dtype) == depth and spec.a_cast is None:
        return isinstance(spec.k, int) and spec.k % depth == 0 and spec.a.strides[-1] == 1
    return _needs_no_conversion(spec, spec.a.dtype, spec.a_cast)


def _pack_a(spec: GemmSpec, target: Target, rows: int, nr: int) -> PackA:
    """Whether strips of A are copied before use.

    A copied element costs about two multiply-adds and is used by one per vector of columns. That
    pays where it makes rows addressable by constants, converts their type once, or moves rows
    apart that would push each other out of the cache.
    """
    row, step = spec.a.strides[-2:]
    split = spec.a_m_split or spec.a_k_split
    copied: PackA = "columns" if row == 1 and step != 1 and not split else "rows"
    if not _can_read_a_in_place(spec, target) or not isinstance(step, int):
        return copied
    if spec.m == 1:
        return "no"
    if not isinstance(spec.m, int) or not isinstance(row, int):
        return copied
    in_place = _reads_in_place(spec, target, rows, nr) or is_narrow(spec, nr)
    return "no" if in_place else copied


def _reads_in_place(spec: GemmSpec, target: Target, rows: int, nr: int) -> bool:
    """Whether tiles should read A's rows where they lie."""
    row, step = spec.a.strides[-2:]
    if not _can_read_a_in_place(spec, target) or step != 1:
        return False
    if is_narrow(spec, nr):
        return True
    return isinstance(row, int) and not _exceeds_l1_sets(row * spec.a.dtype.bits // 8, rows, target)


def _exceeds_l1_sets(row_bytes: int, rows: int, target: Target) -> bool:
    """Whether the rows of a strip fall into so few sets of L1 that they push each other out."""
    return rows > uncrowded_rows(row_bytes, target)


def uncrowded_rows(row_bytes: int, target: Target) -> int:
    """How many rows that far apart stay in L1 together with a panel of B.

    A way of L1 is 4096 bytes on all cores of interest (larger caches have more ways), so rows meet
    in one set when their distance is a multiple of it. A third of the ways is left to B.
    """
    way = 4096
    return way // math.gcd(row_bytes, way) * max(1, target.l1 // way * 2 // 3)


def _packs_b(spec: GemmSpec, target: Target, rows: int) -> bool:
    """Whether a right operand that is not a constant is copied into panels.

    Rows of contiguous columns may be read where they lie: by one or two rows of tiles, or if the
    whole matrix stays in L1 anyway.
    """
    step, column = spec.b.strides[-2:]
    as_is = _needs_no_conversion(spec, spec.b.dtype, spec.b_cast)
    if column != 1 or not as_is or not isinstance(step, int):
        return True
    if isinstance(spec.m, int) and spec.m <= 2 * rows:
        return False
    return not isinstance(spec.k, int) or spec.k * step * spec.acc.bits // 8 > target.l1 // 2
