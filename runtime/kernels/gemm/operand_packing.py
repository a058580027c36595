"""Which operands of a product are copied before tiles read them, and which are read in place."""

from __future__ import annotations

import math
from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import BYTES, cell_depth, has_block_unit, left_byte_type
from ....plan.specs.gemm import GemmSpec
from ....plan.target import Target
from .block_sizes import ProductShape, is_narrow
from .schedule import PackA

# Types of A that units take as they lie, and how many neighbours they multiply at once.
_NEIGHBOURS: Final = {DType.u8: 4, DType.i8: 4, DType.bf16: 2}
# A way of L1 on all cores of interest.
_WAY_BYTES: Final = 4096
# Panels of B from which on it pays to copy rows that could be read in place two by two.
_MIN_PANELS_OF_PAIRS: Final = 8


@dataclass(frozen=True)
class OperandPacking:
    """What a schedule says of both operands (schedule.py), for tiles of vector registers."""

    pack_a: PackA
    in_place: bool
    pack_b: bool


def choose_packing(
    spec: GemmSpec, target: Target, rows: int, product: ProductShape
) -> OperandPacking:
    """The packing for tiles of so many rows."""
    pairs = _pays_to_pair_rows(spec, target, product.nr)
    pack_a: PackA = "rows" if pairs else _pack_a(spec, target, rows, product.nr)
    in_place = product.guarded and not product.brief and pack_a == "rows" and not pairs
    return OperandPacking(
        pack_a,
        in_place and _reads_in_place(spec, target, rows, product.nr),
        # Compressed weights are expanded into panels.
        spec.compressed is not None or (spec.packed is None and _packs_b(spec, target, rows)),
    )


def multiplies_blocks(spec: GemmSpec, target: Target) -> bool:
    """Whether a unit multiplies 2 x 2 blocks of cells, for which the panels of B are packed."""
    kind = spec.cell_dtype()
    packed = spec.packed is not None and spec.packed.kr == 2 * cell_depth(target, kind)
    return packed and has_block_unit(target, kind)


def _pays_to_pair_rows(spec: GemmSpec, target: Target, nr: int) -> bool:
    """Whether rows of A are copied two by two for a unit of 2 x 2 blocks.

    Two rows that are read in place take an insertion, which takes a product's time, for each vector
    of B. Copying them takes two stores and a load: as much as a few panels' insertions.
    """
    many = not isinstance(spec.n, int) or spec.n >= _MIN_PANELS_OF_PAIRS * nr
    contiguous = spec.a.strides[-1] == 1
    return multiplies_blocks(spec, target) and spec.m != 1 and contiguous and many


def needs_no_conversion(spec: GemmSpec, dtype: DType, cast: DType | None) -> bool:
    """Whether tiles can multiply an operand's elements without a conversion."""
    return dtype is spec.acc and cast is None and spec.compute_dtype is None


def _can_read_a_in_place(spec: GemmSpec, target: Target) -> bool:
    """Whether tiles can multiply A's elements where they are. Of bytes and of bf16: neighbours of
    a row are a cell if the unit takes their type, and if no cell reaches beyond a row's end. What
    is converted is packed even for one row: tiles would convert it once per panel of B."""
    if spec.a_m_split or spec.a_k_split:
        return False
    depth = cell_depth(target, spec.cell_dtype())
    taken = spec.a.dtype not in BYTES or spec.a.dtype is left_byte_type(target)
    if depth > 1 and taken and _NEIGHBOURS.get(spec.a.dtype) == depth and spec.a_cast is None:
        return isinstance(spec.k, int) and spec.k % depth == 0 and spec.a.strides[-1] == 1
    return needs_no_conversion(spec, spec.a.dtype, spec.a_cast)


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
    """How many rows that far apart stay in L1 together with a panel of B. A third of the ways is
    left to B."""
    return rows_in_ways(row_bytes, l1_ways(target) * 2 // 3)


def rows_in_ways(row_bytes: int, ways: int) -> int:
    """How many rows that far apart have lines in one set of L1 for no more than so many ways: rows
    meet in one set when their distance is a multiple of a way."""
    return _WAY_BYTES // math.gcd(row_bytes, _WAY_BYTES) * max(1, ways)


def l1_ways(target: Target) -> int:
    """The ways of L1: larger caches have more of them."""
    return target.l1 // _WAY_BYTES


def _packs_b(spec: GemmSpec, target: Target, rows: int) -> bool:
    """Whether a right operand that is not a constant is copied into panels.

    Rows of contiguous columns may be read where they lie: by one or two rows of tiles, or if the
    whole matrix stays in L1 anyway.
    """
    step, column = spec.b.strides[-2:]
    as_is = needs_no_conversion(spec, spec.b.dtype, spec.b_cast)
    if column != 1 or not as_is or not isinstance(step, int):
        return True
    if isinstance(spec.m, int) and spec.m <= 2 * rows:
        return False
    return not isinstance(spec.k, int) or spec.k * step * spec.acc.bits // 8 > target.l1 // 2
