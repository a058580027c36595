"""Widths of packed matrix panels: the tiling parameter that compiler and runtime share.

Lowering writes a `PackedB` into specs and constants, the runtime's kernels read panels of that
width. It depends on the accumulator's size and the Target only (never on M, N, K or the threads),
so a weight is packed once for every product it takes part in.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ...ir.dtype import DType
from ...ir.op import Array
from ..target import Isa, Target
from .layouts import PackedB

# Vector registers across a panel. A register tile of r rows and v vectors does r*v multiply-adds
# for r broadcasts and v loads, and needs r*v + v + 1 registers (more without fused multiply-add).
# With v = 2, 32 registers give 14 x 2 (28 for 16), 16 registers 6 x 2 (12 for 8): the loads stay
# below the two per cycle that cores sustain besides two multiply-adds. Wider tiles (9 x 3, 6 x 4)
# measure the same, waste more of a ragged last panel and share worse; where they do not measure the
# same, a tile takes two panels (runtime/kernels/gemm/tiling.py). NEON multiplies by a lane of a
# register, so rows are as cheap as columns: 6 x 4.
_PANEL_VECTORS: Final[dict[Isa, int]] = {"avx512": 2, "avx2": 2, "neon": 4, "plain": 2}


def panel_width(target: Target, bits: int) -> int:
    """Columns of one packed panel, for accumulators of that many bits."""
    return _PANEL_VECTORS[target.isa] * target.lanes(bits)


# What multiplies and adds f16 as f16: the feature that has it. The sums of a register are twice as
# many as f32's, and so are the columns of a panel.
_F16_FEATURES: Final[dict[Isa, str]] = {"avx512": "avx512fp16", "neon": "fullfp16"}
# Steps of K whose products are added in f16, before their sum is added to one in f32
# (docs/dev/tuning/f16-sums.md).
F16_SUM_STEPS: Final = 64


def adds_in_f16(target: Target, factors: DType | None) -> bool:
    """Whether products of factors rounded to the type `factors` are added in f16."""
    feature = _F16_FEATURES.get(target.isa)
    return factors is DType.f16 and feature is not None and target.has(feature)


def describe_f16_sums(target: Target) -> str:
    """In which types products of f16 factors are added."""
    if adds_in_f16(target, DType.f16):
        return f"f16 over {F16_SUM_STEPS} products, whose sums are added in f32"
    return "f32: this processor has no arithmetic of f16"


def product_panel_width(target: Target, acc: DType, factors: DType | None) -> int:
    """Columns of one packed panel of a product whose factors are rounded to the type `factors`."""
    return panel_width(target, 16 if adds_in_f16(target, factors) else acc.bits)


# Units that multiply cells of several values and add their products to one sum: values per cell
# and the feature that has it, best first. Of bytes (u8 like i8), four make a cell for
# VNNI; without it pairs are multiplied as 16-bit integers, whose products' sum never saturates.
# On NEON, four by I8MM (u8 like i8) or by DotProd (both signed), and pairs of bf16.
_CELLS: Final[dict[tuple[DType, Isa], tuple[tuple[int, str], ...]]] = {
    (DType.bf16, "avx512"): ((2, "avx512bf16"),),
    (DType.i8, "avx512"): ((4, "avx512vnni"), (2, "avx512bw")),
    (DType.i8, "avx2"): ((4, "avxvnni"), (2, "avx2")),
    (DType.i8, "plain"): ((2, "sse2"),),
    (DType.bf16, "neon"): ((2, "bf16"),),
    (DType.i8, "neon"): ((4, "i8mm"), (4, "dotprod")),
}
BYTES: Final = (DType.u8, DType.i8)
# What products convert as they pack an operand.
CONVERTIBLE: Final = frozenset(
    {
        *(DType.boolean, DType.i8, DType.i16, DType.i32, DType.i64),
        *(DType.u8, DType.u16, DType.u32, DType.u64),
        *(DType.f16, DType.bf16, DType.f32, DType.f64),
    }
)


def dot_factor_dtype(dtype: DType, factors: DType | None) -> DType | None:
    """The type of the factors in cells, for operands of `dtype` that are rounded to `factors`:
    bf16, i8 for both types of bytes, None where factors have the accumulator's type."""
    return DType.i8 if dtype in BYTES else factors


def cell_depth(target: Target, factors: DType | None) -> int:
    """How many values of K one cell of a packed operand holds (PackedB.kr), for factors of that
    type (`multiplied`): 2 or 4 where a unit multiplies so many at once, else 1."""
    if factors is None:
        return 1
    found = _CELLS.get((factors, target.isa), ())
    return next((depth for depth, feature in found if target.has(feature)), 1)


# Units that multiply two rows by two columns, two cells deep: the feature that has them.
_BLOCK_FEATURES: Final[dict[tuple[DType, Isa], str]] = {
    (DType.bf16, "neon"): "bf16",
    (DType.i8, "neon"): "i8mm",
}


def has_block_unit(target: Target, factors: DType | None) -> bool:
    """Whether a unit multiplies 2 x 2 blocks of cells of factors of that type, two cells deep."""
    feature = _BLOCK_FEATURES.get((factors, target.isa)) if factors else None
    return feature is not None and target.has(feature)


def has_f16_conversion(target: Target) -> bool:
    """Whether the processor converts f16 to f32 and back."""
    return target.has("f16c") or target.isa == "neon"


def left_byte_type(target: Target) -> DType:
    """The type of left factors that the unit of four bytes takes; the right ones are i8."""
    return DType.i8 if target.isa == "neon" and not target.has("i8mm") else DType.u8


def multiplies_pairs(target: Target) -> bool:
    """Whether a unit multiplies pairs of 16-bit integers and adds them up in 32 bits."""
    return target.arch == "x86_64"


# Factors that tiles of AMX multiply: values per cell, and the feature that has them.
_TILED: Final = {DType.bf16: (2, "amx-bf16"), DType.i8: (4, "amx-int8")}


def has_tiles(target: Target, factors: DType | None, kr: int) -> bool:
    """Whether tiles multiply cells of `kr` factors of that type (`multiplied`)."""
    depth, feature = _TILED[factors] if factors in _TILED else (0, "")
    return kr == depth and target.has("amx-tile") and target.has(feature)


# Types of compressed weights.
COMPRESSED: Final = (DType.u4, DType.i4, DType.u8, DType.i8)


def accumulator(dtype: DType) -> DType:
    """The type that products of `dtype` operands accumulate in: f32 for f16 and bf16, 32 bits for
    narrower integers, else the type itself."""
    if dtype in (DType.f16, DType.bf16):
        return DType.f32
    if dtype.is_int and dtype.bits < 32:
        return DType.i32
    return dtype


def conv_panel(n: int, target: Target, bits: int) -> int:
    """Output channels of one panel of a convolution's weights: one register where that is all."""
    lanes = target.lanes(bits)
    return lanes if n <= lanes else panel_width(target, bits)


def conv_cells(target: Target, weights: DType, factors: DType | None) -> tuple[int, bool]:
    """(values per cell, whether panels hold sums) of a convolution's packed weights, as they are
    stored: bf16 `factors`, i8, or i16 for what i8 cannot hold, which has no cells."""
    kr = cell_depth(target, DType.i8 if weights is DType.i8 else factors)
    return kr, weights is DType.i8 and kr > 1


def packed_layout(
    k: int, n: int, dtype: DType, target: Target, factors: DType | None = None
) -> PackedB | None:
    """How a constant K x N right operand of element type `dtype` is laid out; None: unpacked.

    A single column (N = 1) is a vector of K elements and stays one.
    """
    if n <= 1 or k < 0:
        return None
    kind = dot_factor_dtype(dtype, factors)
    nr = product_panel_width(target, accumulator(dtype), factors)
    # A register of a block's columns holds two cells of each.
    kr = cell_depth(target, kind) * (2 if has_block_unit(target, kind) else 1)
    return PackedB(nr, kr, column_sums=kind is DType.i8)


# Scales of 16 bits whose products with a difference of two bytes have all bits of their type, with
# room for the splitting that rounds them (runtime/kernels/gemm/packing/dequant.py).
_NORMAL: Final = {DType.f16: (2.0**-14, 127.0), DType.bf16: (2.0**-100, 2.0**100)}


def normal_scales(scale: Array) -> bool:
    """Whether scales are f16 or bf16, and they times a difference of two bytes 0 or normal."""
    dtype = DType.from_numpy(scale.dtype)
    if dtype not in _NORMAL:
        return False
    size, (least, most) = np.abs(scale.astype(np.float32)), _NORMAL[dtype]
    return bool(((size == 0) | ((size >= least) & (size <= most))).all())


def compressible(k: int, n: int, dtype: DType, group: int) -> bool:
    """Whether kernels expand a constant K x N of integers with scales per column and `group` rows
    of K: cells of 32 bits along K are in one group each."""
    cell = 32 // max(1, dtype.bits)
    return n > 1 and k >= 1 and dtype in COMPRESSED and (group >= k or group % cell == 0)


# Rows of K that share a scale of int8 activations, at most where weights' groups allow it.
_MAX_DOT_GROUP: Final = 128
# Codes of activations are packed by so many.
_DOT_CELL: Final = 8


def dot_group(k: int, group: int, dtype: DType) -> int:
    """Rows of K that share a scale where int8 activations are multiplied by weights of that type,
    with scales per `group` rows of K; 0 where no kernel does: such a group is in one group of the
    weights, and whole cells."""
    if dtype not in COMPRESSED:
        return 0
    if group >= k or group % _MAX_DOT_GROUP == 0:
        return _MAX_DOT_GROUP
    return group if group % _DOT_CELL == 0 and group < _MAX_DOT_GROUP else 0


def multiplies_bf16(target: Target) -> bool:
    """Whether tiles multiply factors of bf16."""
    return has_tiles(target, DType.bf16, cell_depth(target, DType.bf16))


# Numbers of bf16, with 8 bits each, whose sum is a number of f32.
BF16_TERMS: Final = 3
# Values of K that one product of tiles of bf16 takes.
BF16_STEP_VALUES: Final = 32
# Products of bf16 in place of one of f32, by the unit (Spec.compute_unit): a number of bf16 times
# three, or three times three without those below 2^-22 of the whole.
BF16_PRODUCTS: Final = {"bf16x3": BF16_TERMS, "bf16x6": 6}
# Integers up to this magnitude are numbers of bf16.
_MAX_BF16_INTEGER: Final = 256


def bf16x3_group(k: int, group: int, dtype: DType, zero_point: int, target: Target) -> int:
    """Rows of K whose products are added before they are scaled, where tiles of AMX multiply rows
    of f32, as BF16_TERMS numbers of bf16 per value, by weights of that type less a zero point; 0
    where they do not."""
    largest = max(abs(int(bound) - zero_point) for bound in (dtype.min, dtype.max))
    if not multiplies_bf16(target) or largest > _MAX_BF16_INTEGER:
        return 0
    return dot_group(k, group, dtype)


def compressed_layout(k: int, n: int, dtype: DType, group: int, target: Target) -> PackedB | None:
    """How a constant K x N of 4 or 8-bit integers that kernels expand is laid out; None where no
    kernel does. A cell is 32 bits, so that lanes of f32 each expand their own column."""
    if not compressible(k, n, dtype, group):
        return None
    return PackedB(panel_width(target, DType.f32.bits), 32 // dtype.bits)
