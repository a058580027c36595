"""The formula of packed panels, against the packer that fills them."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.layouts import PackedB, PackedConv, PackedLayout
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack

SIZES = [(1, 2), (7, 16), (8, 17), (33, 40)]


@pytest.mark.parametrize(("k", "n"), SIZES)
@pytest.mark.parametrize("kr", [1, 2, 4])
@pytest.mark.parametrize("sums", [False, True])
def test_packer_puts_each_element_and_sum_where_the_layout_says(
    k: int, n: int, kr: int, sums: bool
) -> None:
    if sums and kr == 1:
        return  # sums belong to cells
    matrix = np.random.default_rng(k).integers(-128, 128, (k, n)).astype(np.int8)
    layout = PackedB(16, kr, column_sums=sums)
    packed = pack(matrix, PlanConstant(0, DType.i8, (k, n), layout))
    of = PackedLayout.of(layout, k, n)
    assert packed.nbytes == of.nbytes(8) and packed.size == of.size == of.panels * of.panel_size
    for i, j in np.ndindex(k, n):
        assert packed[of.address(i, j)] == matrix[i, j]
    for j in range(n if sums else 0):
        at = j // 16 * of.panel_size + of.sums_at
        stored = packed[at : at + 64].view(np.int32)
        assert stored[j % 16] == matrix[:, j].sum(dtype=np.int32)


def test_four_bits_take_half_a_byte_each() -> None:
    matrix = np.random.default_rng(0).integers(0, 16, (24, 20)).astype(np.uint8)
    layout = PackedB(16, 8)
    of = PackedLayout.of(layout, 24, 20)
    packed = pack(matrix, PlanConstant(0, DType.u4, (24, 20), layout))
    assert packed.nbytes == of.nbytes(4) == of.size // 2
    for k, n in np.ndindex(24, 20):
        byte, half = divmod(of.address(k, n), 2)
        assert packed[byte] >> 4 * half & 15 == matrix[k, n]


def test_filters_are_matrices_of_taps() -> None:
    filters = np.arange(20 * 3 * 3 * 3, dtype=np.float32).reshape(20, 3, 3, 3)
    layout = PackedConv(16)
    packed = pack(filters, PlanConstant(0, DType.f32, filters.shape, layout))
    of = PackedLayout.of(layout, layout.depth(3, (3, 3)), 20)
    for o, c, y, x in np.ndindex(filters.shape):
        assert packed[of.address((y * 3 + x) * 3 + c, o)] == filters[o, c, y, x]
