"""Choose the register tile and the blocks of a product: a function of (GemmSpec, Target).

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

from dataclasses import fields, replace
from typing import Any, Final

from ....ir.dtype import DType
from ....plan.packing.panel_params import (
    F16_SUM_STEPS,
    adds_in_f16,
    bf16x3_group,
    has_f16_conversion,
)
from ....plan.specs.base import Operand, Size
from ....plan.specs.gemm import MAX_FEW_ROWS, MAX_VECTOR_INT8_ROWS, GemmSpec
from ....plan.target import Target
from ..emit.amx_registers import AMX_ROWS
from ..emit.byte_dots import ByteDots
from ..emit.dot_units import tile_instruction
from ..emit.gather_lanes import scatters
from .amx_tiling import choose_amx_schedule
from .bf16x3.f32_tiling import choose_f32_amx_schedule
from .bf16x3.tiling import MAX_TILE_ROWS, choose_bf16x3_schedule
from .block_sizes import ProductShape, block_sizes, expanded_depth, panel_work, strip_work
from .epilogue import is_short
from .gemv import ROWS_PER_LOAD
from .int8_amx.tiling import choose_int8_amx_schedule, uses_tiles
from .operand_packing import (
    OperandPacking,
    choose_packing,
    multiplies_blocks,
    needs_no_conversion,
)
from .packing.quantize_rows import padded_depth, row_layout
from .schedule import (
    DequantSchedule,
    F16Schedule,
    GemmSchedule,
    Int8Schedule,
    KernelSchedule,
    VectorSchedule,
    WideningSchedule,
)

_LINE_BYTES: Final = 64
# Heights of tiles of int8 activations. Registers hold weights and, for each vector, a sum of f32
# and one of i32: 32 registers have room for the second ones.
_INT8_HEIGHTS: Final = (4, 2, 1)
_TALL_INT8_HEIGHTS: Final = (6, 4, 2, 1)
# Rows up to which tiles widen half floats themselves (docs/dev/tuning/half-weights.md).
_MAX_WIDENING_ROWS: Final = 32
# Rows of a product per row that is computed twice: 1 % of the time.
_MIN_ROWS_PER_ROW_AGAIN: Final = 96


def tile_rows(target: Target, vectors: int) -> int:
    """Rows of a tile `vectors` registers wide: accumulators, a row of B and one broadcast must fit
    the register file. Without a fused multiply-add a product needs a register, and so does the copy
    of the operand that SSE's two-address multiplication overwrites."""
    spare = target.registers - vectors - (1 if target.fma else 3)
    return max(1, min(target.heuristics.gemm_max_tile_rows, spare // vectors))


def schedule_gemm(spec: GemmSpec, target: Target) -> KernelSchedule:
    """All that the generator of a product's kernel decides, as a value."""
    rows = min(ROWS_PER_LOAD, spec.m) if isinstance(spec.m, int) and spec.m else ROWS_PER_LOAD
    n_one = spec.n == 1 if isinstance(spec.n, int) else None
    exact = without_rounding(spec, target)
    few = None if n_one or isinstance(spec.m, int) else _choose_few(exact, target)
    few_rows = MAX_VECTOR_INT8_ROWS if isinstance(few, Int8Schedule) else MAX_FEW_ROWS
    if spec.compressed is not None and spec.compressed.bf16x3:
        few_rows = MAX_TILE_ROWS
    if _widens_panels(spec, target) and not isinstance(spec.m, int):
        few, few_rows = choose_vector_schedule(spec, target), _MAX_WIDENING_ROWS
    return KernelSchedule(choose_schedule(spec, target), few, rows, n_one, few_rows)


def _choose_few(spec: GemmSpec, target: Target) -> GemmSchedule | None:
    """The schedule of few rows of a dynamic M, where it is one of its own."""
    if spec.compressed is not None and spec.compressed.bf16x3:
        return choose_bf16x3_schedule(spec, target, few=True)
    if spec.compressed is not None and spec.compressed.dot_group:
        return choose_int8_schedule(spec, target) if uses_tiles(spec, target) else None
    if not tiles_may_expand(spec, target):
        return None
    return choose_dequant_schedule(spec, target, few=True)


def _widens_panels(spec: GemmSpec, target: Target) -> bool:
    """Whether panels of a constant of halves, which are multiplied as f32, are widened once for
    many rows. Tiles of AVX2 widen them in less time."""
    many = not isinstance(spec.m, int) or spec.m > _MAX_WIDENING_ROWS
    return spec.has_half_weights and many and target.isa == "avx512"


def without_rounding(spec: GemmSpec, target: Target) -> GemmSpec:
    """The product of few rows, whose factors stay as they are: as at precision "f32"."""
    if spec.compute_dtype is None:
        return spec
    exact, c = replace(spec, compute_dtype=None), spec.compressed
    if c is None or (c.rounded and c.scale.dtype is not DType.f32) or not isinstance(spec.k, int):
        return exact
    zero = c.zero_point if isinstance(c.zero_point, int) else 0
    group = bf16x3_group(spec.k, c.group, spec.b.dtype, zero, target)
    if group == 0:
        return exact
    return replace(exact, compressed=replace(c, rounded=False, dot_group=group, bf16x3=True))


def choose_schedule(spec: GemmSpec, target: Target) -> GemmSchedule:
    """The schedule of a product with N != 1, or with a dynamic N: its class first."""
    product = ProductShape.of(spec, target)
    if spec.compressed is not None and spec.compressed.bf16x3:
        few = isinstance(spec.m, int) and spec.m <= MAX_TILE_ROWS
        return choose_bf16x3_schedule(spec, target, few=few)
    if spec.compressed is not None and spec.compressed.dot_group:
        choose = choose_int8_amx_schedule if uses_tiles(spec, target) else choose_int8_schedule
        return choose(spec, target)
    if spec.bf16x3:
        return choose_f32_amx_schedule(spec, target, _heights(spec.m, 2 * AMX_ROWS))
    if adds_in_f16(target, spec.compute_dtype):
        return choose_f16_schedule(spec, target)
    if instruction := tile_instruction(target, spec.cell_dtype(), product.kr):
        rows = _heights(spec.m, tile_rows(target, product.vectors))[0]
        packing = choose_packing(spec, target, rows, product)
        heights = _heights(spec.m, 2 * AMX_ROWS)
        return choose_amx_schedule(spec, target, product, packing, instruction, heights)
    if _expands(spec, target, product):
        return choose_dequant_schedule(spec, target)
    if _widens_panels(spec, target):
        return choose_widening_schedule(spec, target)
    return choose_vector_schedule(spec, target)


def choose_vector_schedule(spec: GemmSpec, target: Target) -> VectorSchedule:
    """The schedule on vector registers, whatever else the Target has."""
    product = ProductShape.of(spec, target)
    nr, row_bytes = product.nr, product.nr * product.bytes
    heights = _heights(spec.m, tile_rows(target, product.vectors))
    panels = _panels(spec, target, heights[0], product)
    if pairs := _pairs(spec, target, nr):
        panels, heights = 2, _heights(spec.m, tile_rows(target, 2 * product.vectors))
    if _overlaps(spec, product, heights[0]):
        heights = heights[:1]
    mr, packing = heights[0], choose_packing(spec, target, heights[0], product)
    if spec.compressed is None:
        kc, blocked = _depth(spec, product.cells, target, panels * row_bytes, mr)
    else:
        kc, blocked = expanded_depth(product.cells or 1, target, row_bytes, panels if pairs else 1)
    blocks = block_sizes(spec, target, (mr, nr, kc), blocked, packing.pack_b)
    if pairs and spec.compressed is not None:
        blocks = (blocks[0], panels)
    streams = blocks[0] == 1 and not product.guarded
    stored = product.nr * product.kr * spec.b.dtype.bits // 8
    lines = max(1, stored // _LINE_BYTES)
    whole = isinstance(spec.n, int) and spec.n % nr == 0 and not spec.zero_points
    finishes = packing.in_place and whole and not blocked
    # Several tiles share a panel, so each fetches a piece of the next one: a line is enough.
    fetch = lines if streams or product.guarded else 1
    return VectorSchedule(
        **_vector_fields(spec, target, product, packing, (heights, panels), (kc, blocked), blocks),
        pack_b=packing.pack_b,
        fetch=0 if packing.pack_b or spec.packed is None else fetch,
        streams=streams,
        finishes_in_place=finishes and not _finishes_apart(spec, target, product),
    )


def choose_widening_schedule(spec: GemmSpec, target: Target) -> WideningSchedule:
    """The schedule of many rows by half floats. Tiles have few heights where those of few rows are
    compiled besides."""
    found = choose_vector_schedule(spec, target)
    values = {f.name: getattr(found, f.name) for f in fields(found)}
    heights = found.heights[:2] + found.heights[3:4] if found.guarded else found.heights
    return WideningSchedule(**values | {"heights": heights, "fetch": 1, "streams": False})


def choose_f16_schedule(spec: GemmSpec, target: Target) -> F16Schedule:
    """The schedule of f16 sums: registers hold twice the columns, and blocks of K end where f16
    sums do."""
    product = ProductShape.of(spec, target)
    row_bytes = product.nr * DType.f16.bits // 8
    registers = replace(product, vectors=-(-product.vectors // 2))
    heights = _heights(spec.m, tile_rows(target, registers.vectors))
    panels = _panels(spec, target, heights[0], registers)
    packing = choose_packing(spec, target, heights[0], product)
    kc, blocked = _depth(spec, product.cells, target, panels * row_bytes, heights[0])
    if blocked:
        kc = -(-kc // F16_SUM_STEPS) * F16_SUM_STEPS
    blocks = block_sizes(spec, target, (heights[0], product.nr, kc), blocked, packing.pack_b)
    streams = blocks[0] == 1 and not product.guarded
    lines = max(1, row_bytes // _LINE_BYTES)
    fetch = lines if streams or product.guarded else 1
    tile, k_blocks = (heights, panels), (kc, blocked)
    fields = _vector_fields(spec, target, product, packing, tile, k_blocks, blocks)
    most = target.heuristics.gemm_unrolled_multiply_adds
    fields |= {
        "buffered": True,
        "unroll": max(1, min(8, most // (heights[0] * registers.vectors * panels) + 1)),
    }
    return F16Schedule(
        **fields,
        pack_b=packing.pack_b,
        fetch=0 if packing.pack_b else fetch,
        streams=streams,
    )


def choose_dequant_schedule(
    spec: GemmSpec, target: Target, *, few: bool = False
) -> DequantSchedule:
    """The schedule whose tiles expand compressed weights themselves; few: for a dynamic M that one
    short tile holds."""
    product = ProductShape.of(spec, target)
    if few:
        wide = target.isa == "avx512"
        most = min(8 if wide else 4, tile_rows(target, product.vectors))
        heights = tuple(most >> i for i in range(most.bit_length()))
        # One panel is read faster than two; processors with AVX512-FP16 were measured with two.
        panels = 1 if wide and not target.has("avx512fp16") else 2
    else:
        heights = _heights(spec.m, tile_rows(target, product.vectors))
        panels = _panels(spec, target, heights[0], product)
    kc = product.cells or 1
    packing = choose_packing(spec, target, heights[0], product)
    blocks = block_sizes(spec, target, (heights[0], product.nr, kc), blocked=False, pack_b=False)
    fields = _vector_fields(spec, target, product, packing, (heights, panels), (kc, False), blocks)
    fields |= {"heights": heights}
    return DequantSchedule(
        **fields,
        pack_b=False,
        fetch=0,
        streams=blocks[0] == 1 and not product.guarded,
    )


def choose_int8_schedule(spec: GemmSpec, target: Target) -> Int8Schedule:
    """The schedule of int8 rows times compressed weights: all of K at once, so that each worker
    quantizes its rows once."""
    product = ProductShape.of(spec, target)
    assert isinstance(spec.k, int)
    heights = _choose_int8_heights(spec, target, product.lanes)
    scales_at, a_row = row_layout(spec, tiles=False)
    # What tiles read of a row are its codes.
    tile = (heights[0], product.nr, -(-padded_depth(spec) // product.bytes))
    blocks = block_sizes(spec, target, tile, blocked=False, pack_b=False)
    packing = OperandPacking("rows", in_place=False, pack_b=False)
    k_blocks = (product.cells or 1, False)
    fields = _vector_fields(spec, target, product, packing, (heights, 1), k_blocks, blocks)
    fields |= {"a_row": a_row, "buffered": True, "brief": False, "heights": heights}
    return Int8Schedule(
        **fields,
        pack_b=False,
        fetch=0,
        streams=False,
        scales_at=scales_at,
        common_zero=_find_common_zero(spec, ByteDots(target, product.lanes)),
    )


def _choose_int8_heights(spec: GemmSpec, target: Target, lanes: int) -> tuple[int, ...]:
    """Tile heights: tall ones with VNNI, as sums in 16 bits would need registers, too."""
    tall = target.isa == "avx512" and ByteDots(target, lanes).takes_unsigned
    ladder = _TALL_INT8_HEIGHTS if tall else _INT8_HEIGHTS
    return _heights(spec.m, ladder[0]) if isinstance(spec.m, int) else ladder


def _find_common_zero(spec: GemmSpec, dots: ByteDots) -> int:
    """The zero of all weights as they are multiplied, which dot products begin with; 0 where there
    is none, or each column has its own. Dot products of a group are exact in f32, too."""
    c = spec.compressed
    assert c is not None
    return 0 if isinstance(c.zero_point, Operand) else c.zero_point + dots.shift(spec.b.dtype)


def _vector_fields(
    spec: GemmSpec,
    target: Target,
    product: ProductShape,
    packing: OperandPacking,
    tile: tuple[tuple[int, ...], int],
    k_blocks: tuple[int, bool],
    blocks: tuple[int, int],
) -> dict[str, Any]:
    """What both schedules on vector registers have: `tile` is (heights, panels), `k_blocks` (KC,
    whether K is blocked), `blocks` (MC, NC)."""
    (heights, panels), (kc, blocked), (mc, nc) = tile, k_blocks, blocks
    mr, lanes, guarded = heights[0], product.lanes, product.guarded
    if packing.pack_a == "columns":
        a_row = -(-mr // lanes) * lanes
    else:
        # A line more than the rows are long: rows a power of two apart would share cache sets.
        line = _LINE_BYTES // product.bytes
        a_row = -(-kc // line) * line + line
    apart = _finishes_apart(spec, target, product)
    most = target.heuristics.gemm_unrolled_multiply_adds
    return {
        "lanes": lanes,
        "nr": product.nr,
        "vectors": product.vectors,
        "mr": mr,
        "heights": heights[:2] + heights[3:4] if product.brief else heights,
        "guarded": guarded,
        "buffered": blocked or guarded or not isinstance(spec.n, int) or apart,
        "panels": panels,
        "kr": product.kr,
        "kc": kc,
        "blocked": blocked,
        "mc": mc,
        "nc": max(nc // panels, 1) * panels,
        "pack_a": packing.pack_a,
        "in_place": packing.in_place,
        "a_row": a_row,
        "pairs_rows": packing.pack_a == "rows" and multiplies_blocks(spec, target),
        "fetch_distance": target.heuristics.gemm_prefetch_distance_bytes,
        "rows_of_work": mr,
        "panel_work": panel_work(target, product),
        "strip_work": strip_work(target, product, mr),
        # Small tiles have few instructions between a loop's own.
        "unroll": max(1, min(8, most // (mr * product.vectors * panels) + 1)),
        "brief": product.brief,
    }


def _finishes_apart(spec: GemmSpec, target: Target, product: ProductShape) -> bool:
    """Whether the epilogue reads sums from a buffer, even where all sizes are known."""
    # Where sums of rounded factors flush denormals by a mode, the epilogue runs outside of it.
    by_mode = spec.compute_dtype is DType.bf16 and product.kr == 1
    if by_mode or not is_short(spec.epilogue, target):
        return True
    # Zero points that differ take as many instructions per register as a long program.
    if any(z.strides[-1] != 0 for z in spec.zero_points):
        return True
    # Vectors across two blocks of columns are stored piece by piece.
    width = spec.out_n_split[1] if spec.out_n_split else product.lanes
    if not isinstance(width, int) or width % product.lanes != 0:
        return True
    # A loop over lanes per register as well.
    return spec.out.strides[-1] != 1 and not scatters(target, spec.out.dtype.bits)


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


def _overlaps(spec: GemmSpec, product: ProductShape, mr: int) -> bool:
    """Whether the last tile begins early enough to be `mr` rows tall, too, and computes rows of the
    tile before it again, so that one height is compiled instead of two. Not where the epilogue
    reads rows, which may be those of the output."""
    if product.guarded or not isinstance(spec.m, int) or spec.m <= mr:
        return False
    if spec.zero_points or spec.compute_dtype is not None or spec.a_m_split or spec.out_m_split:
        return False
    again = -spec.m % mr
    if any(o.strides[-2] != 0 for o in spec.epilogue_operands):
        return False
    return 0 < again * _MIN_ROWS_PER_ROW_AGAIN <= spec.m


def _ladder(most: int) -> tuple[int, ...]:
    ladder = [most]
    while ladder[-1] > 1:
        ladder.append(max(1, ladder[-1] * 5 // 8))
    return tuple(ladder)


def _panels(spec: GemmSpec, target: Target, rows: int, product: ProductShape) -> int:
    """Panels side by side, until a tile has enough independent chains."""
    if not isinstance(spec.n, int) or not isinstance(spec.m, int):
        return 1
    vectors, nr = product.vectors, product.nr
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
    return needs_no_conversion(spec, spec.b.dtype, spec.b_cast) and spec.m > 2 * rows


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


def _expands(spec: GemmSpec, target: Target, product: ProductShape) -> bool:
    """Whether so few tiles of rows share a panel that each should expand it for itself."""
    if not isinstance(spec.m, int) or not tiles_may_expand(spec, target):
        return False
    rows = _heights(spec.m, tile_rows(target, product.vectors))[0]
    return spec.m <= 2 * rows and not _pairs(spec, target, product.nr)


def tiles_may_expand(spec: GemmSpec, target: Target) -> bool:
    """Whether tiles can expand compressed weights themselves: not where that takes so many
    instructions that a kernel with it in every tile would take twice the time to compile."""
    c = spec.compressed
    if c is None or c.dot_group or spec.compute_dtype is not None:
        return False
    rounds = c.rounded and c.scale.dtype is not DType.f32 and not c.normal
    return not rounds or (c.scale.dtype is DType.f16 and has_f16_conversion(target))
