"""Units that multiply cells: one table of instructions, and what bytes need to pass through them.

A cell is `depth` neighbours along the summed axis. A unit multiplies the cells of two vectors,
value by value, and adds each cell's products to one accumulator. How deep the cells of a Target
are says plan/packing/panel_params.py (`cell_depth`); here is the instruction for it.
"""

from __future__ import annotations

from typing import Final

from ....ir.dtype import DType
from ....ir.lazy_dataclass import dataclass
from ....plan.packing.panel_params import BYTES, has_tiles, left_byte_type
from ....plan.target import Target
from ...llvmir.builder import Function
from ...llvmir.values import I8, I16, LLVM_BF16, Value, vec


@dataclass(frozen=True)
class DotUnit:
    """An instruction for cells. `factors`: the vector type of both of its factors; `adds`: it adds
    to an accumulator itself; `left`: the type of left bytes, where right ones are i8 and neither is
    widened; `swaps`: the left factor is its second, of which LLVM multiplies by one element."""

    intrinsic: str
    factors: str
    adds: bool = True
    left: DType | None = None
    swaps: bool = False


@dataclass(frozen=True)
class BlockUnit:
    """An instruction that multiplies two rows by two columns, two cells deep, and adds to a 2 x 2
    block of sums. `factors`: the vector type of both of its factors."""

    intrinsic: str
    factors: str


# By type of the factors (`tiles.multiplied`), values per cell, accumulators per register.
UNITS: Final[dict[tuple[DType, int, int], DotUnit]] = {
    (DType.bf16, 2, 16): DotUnit("llvm.x86.avx512bf16.dpbf16ps.512", vec(LLVM_BF16, 32)),
    (DType.i8, 4, 16): DotUnit("llvm.x86.avx512.vpdpbusd.512", vec(I8, 64), left=DType.u8),
    (DType.i8, 4, 8): DotUnit("llvm.x86.avx512.vpdpbusd.256", vec(I8, 32), left=DType.u8),
    # Products of bytes as 16-bit integers, whose pairs add up in 32 bits: nothing saturates.
    (DType.i8, 2, 16): DotUnit("llvm.x86.avx512.pmaddw.d.512", vec(I16, 32), adds=False),
    (DType.i8, 2, 8): DotUnit("llvm.x86.avx2.pmadd.wd", vec(I16, 16), adds=False),
    (DType.i8, 2, 4): DotUnit("llvm.x86.sse2.pmadd.wd", vec(I16, 8), adds=False),
    (DType.bf16, 2, 4): DotUnit(
        "llvm.aarch64.neon.bfdot.v4f32.v8bf16", vec(LLVM_BF16, 8), swaps=True
    ),
    (DType.i8, 4, 4): DotUnit("llvm.aarch64.neon.usdot.v4i32.v16i8", vec(I8, 16), left=DType.u8),
}
# Of signed bytes, where I8MM is not there.
_SIGNED: Final = DotUnit(
    "llvm.aarch64.neon.sdot.v4i32.v16i8", vec(I8, 16), left=DType.i8, swaps=True
)
# Units of blocks, by their factors. They take the same cells as the unit of single cells, and add
# their products in the same order.
BLOCK_UNITS: Final = {
    unit.factors: unit
    for unit in (
        BlockUnit("llvm.aarch64.neon.bfmmla", vec(LLVM_BF16, 8)),
        BlockUnit("llvm.aarch64.neon.usmmla.v4i32.v16i8", vec(I8, 16)),
    )
}


def find_unit(target: Target, factors: DType | None, kr: int, lanes: int) -> DotUnit | None:
    """What multiplies cells of `kr` values of the type `factors`; None where a cell is a value."""
    assert factors is not None or kr == 1
    if factors is None or kr == 1:
        return None
    found = UNITS[factors, kr, lanes]
    return found if found.left in (None, left_byte_type(target)) else _SIGNED


# Instructions that multiply tiles of cells, by type of the factors. They take what the unit of the
# same cells takes: u8 by i8, where bytes are.
_TILES: Final = {DType.bf16: "llvm.x86.tdpbf16ps", DType.i8: "llvm.x86.tdpbusd"}


def tile_instruction(target: Target, factors: DType | None, kr: int) -> str:
    """The intrinsic that multiplies tiles of cells of `kr` values of that type; "" if none does."""
    return _TILES[factors] if factors is not None and has_tiles(target, factors, kr) else ""


# What 128 more or 128 less does to a byte's bits.
SIGN_FLIP: Final = 0x80


def left_shift(unit: DotUnit | None, dtype: DType) -> int:
    """What is added to left factors, and to their zero points, so that the unit takes them."""
    if unit is None or unit.left is None or dtype not in BYTES or dtype is unit.left:
        return 0
    return SIGN_FLIP if unit.left is DType.u8 else -SIGN_FLIP


def right_shift(unit: DotUnit | None, dtype: DType) -> int:
    """What is added to right factors, and to their zero points, so that the unit takes them."""
    return -SIGN_FLIP if unit is not None and unit.left and dtype is DType.u8 else 0


def xor_0x80(f: Function, x: Value, shift: int) -> Value:
    """Bytes (or words full of them) plus 128 or less 128: the same bits change."""
    if not shift:
        return x
    word = int.from_bytes(bytes([SIGN_FLIP]) * (int(x.element[1:]) // 8), "little")
    return f.xor(x, word)


def ones(unit: DotUnit | None) -> int:
    """The cell of an accumulator's 32 bits whose values are all 1: a product with it is a sum."""
    if unit is None:
        return 1
    return 0x01010101 if unit.factors.endswith("i8>") else 0x00010001


def widen_cells(f: Function, cells: Value, dtype: DType) -> Value:
    """Cells of two bytes, stored as 16-bit words, as cells of two 16-bit integers."""
    pairs = f.bitcast(cells, vec(I8, 2 * cells.lanes))
    wide = f.cast(pairs, I16, signed_=dtype.is_signed)
    return f.bitcast(wide, vec("i32", cells.lanes))
