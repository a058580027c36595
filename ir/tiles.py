"""Widths of packed matrix panels: the one tiling figure that both halves of irc must agree on.

Lowering writes a `PackedB` into specs and constants, the runtime's kernels read panels of that
width. It depends on the accumulator's size and the Target only (never on M, N, K or the threads),
so a weight is packed once for every product it takes part in.
"""

from __future__ import annotations

from typing import Final

from .dtype import DType
from .specs import PackedB
from .target import Isa, Target

# Vector registers across a panel. A register tile of r rows and v vectors does r*v multiply-adds
# for r broadcasts and v loads, and needs r*v + v + 1 registers (more without fused multiply-add).
# With v = 2, 32 registers give 14 x 2 (28 for 16), 16 registers 6 x 2 (12 for 8): the loads stay
# below the two per cycle that cores sustain beside two multiply-adds. Wider tiles (9 x 3, 6 x 4)
# measure the same, waste more of a ragged last panel and share worse. NEON multiplies by a lane
# of a register, so rows are as cheap as columns: 6 x 4.
_PANEL_VECTORS: Final[dict[Isa, int]] = {"avx512": 2, "avx2": 2, "neon": 4, "plain": 2}


def panel_width(target: Target, bits: int) -> int:
    """Columns of one packed panel, for accumulators of that many bits."""
    return _PANEL_VECTORS[target.isa] * target.lanes(bits)


# Features of instruction sets that multiply pairs of bf16 and add both products to one f32.
_BF16_PAIRS: Final[dict[Isa, str]] = {"avx512": "avx512bf16"}


def cell_depth(target: Target, factors: DType | None) -> int:
    """How many values of K one cell of a packed operand holds (PackedB.kr): 2 where a unit
    multiplies pairs of that type, else 1."""
    feature = _BF16_PAIRS.get(target.isa) if factors is DType.bf16 else None
    return 2 if feature is not None and target.has(feature) else 1


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


def packed_layout(
    k: int, n: int, dtype: DType, target: Target, factors: DType | None = None
) -> PackedB | None:
    """How a constant K x N right operand of element type `dtype` is laid out; None: as it stands.

    A single column (N = 1) is a vector of K elements and stays one.
    """
    if n <= 1 or k < 0:
        return None
    return PackedB(panel_width(target, accumulator(dtype).bits), cell_depth(target, factors))


def compressible(k: int, n: int, dtype: DType, group: int) -> bool:
    """Whether kernels expand a constant K x N of integers with scales per column and `group` rows
    of K: cells of 32 bits along K lie in one group each."""
    cell = 32 // max(1, dtype.bits)
    return n > 1 and k >= 1 and dtype in COMPRESSED and (group >= k or group % cell == 0)


def compressed_layout(k: int, n: int, dtype: DType, group: int, target: Target) -> PackedB | None:
    """How a constant K x N of 4 or 8-bit integers that kernels expand is laid out; None where no
    kernel does. A cell is 32 bits, so that lanes of f32 each expand their own column."""
    if not compressible(k, n, dtype, group):
        return None
    return PackedB(panel_width(target, DType.f32.bits), 32 // dtype.bits)


def packed_size(k: int, n: int, nr: int, kr: int = 1) -> int:
    """Elements of one packed K x N matrix. Batch strides of a packed operand count in these."""
    return -(-n // nr) * nr * (-(-k // kr) * kr)
