"""Weights of 4 bits in panels: element by element, from arrays and from the bytes of files."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.int4 import Int4Bytes, pack_int4
from irc_compiler.plan.packing.layouts import PackedB, PackedLayout
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.runtime.kernels.gemm.packing import weight_packing
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack

# Shapes [.., N, K] of transposed weights, [.., K, N] of others, and values in a cell: whole cells
# (which are copied as numbers), rows that end within a cell or a byte, ragged panels, several
# matrices.
CASES = [
    ((70, 64), 8, True),
    ((3, 33, 48), 8, True),
    ((31, 40), 4, True),
    ((64, 6), 2, True),
    ((5, 32), 16, True),
    ((40, 30), 8, True),
    ((40, 31), 4, True),
    ((64, 40), 8, False),
    ((2, 30, 33), 4, False),
]


def read_panels(packed: np.ndarray, constant: PlanConstant) -> np.ndarray:
    """The matrices [matrices, K, N] that panels hold; what pads them must be 0."""
    *batch, k, n = constant.shape
    k, n = (n, k) if constant.transposed else (k, n)
    assert constant.layout is not None
    of = PackedLayout.of(constant.layout, k, n)
    count = int(np.prod(batch, dtype=int))
    codes = np.stack([packed & 15, packed >> 4], -1).reshape(count, of.panels, of.cells, of.nr, -1)
    rows = codes.swapaxes(-1, -2).reshape(count, of.panels, of.depth, of.nr)
    full = rows.swapaxes(1, 2).reshape(count, of.depth, of.panels * of.nr)
    assert not full[:, k:].any()
    assert not full[..., n:].any()
    return full[:, :k, :n]


@pytest.mark.parametrize("dtype", [DType.u4, DType.i4])
@pytest.mark.parametrize(("shape", "kr", "transposed"), CASES)
def test_pack_stores_every_element_from_arrays_and_from_bytes(
    shape: tuple[int, ...],
    kr: int,
    transposed: bool,
    dtype: DType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weight_packing, "_MIN_PARALLEL_PACK_BYTES", 300)
    low = 0 if dtype is DType.u4 else -8
    array = np.random.default_rng(7).integers(low, low + 16, shape).astype(dtype.numpy)
    constant = PlanConstant(0, dtype, shape, PackedB(32, kr), transposed)
    matrices = (array.view(np.uint8) & 15).reshape(-1, *shape[-2:])
    matrices = matrices.swapaxes(-1, -2) if transposed else matrices
    stored = Int4Bytes(dtype, shape, pack_int4(array))
    strided = np.asfortranarray(array)
    for source in (array, strided, stored):
        for threads in (1, 3):
            packed = pack(source, constant, threads=threads)
            np.testing.assert_array_equal(read_panels(packed, constant), matrices)


def test_bytes_without_a_layout_are_unpacked() -> None:
    array = np.arange(15, dtype=np.uint8).astype(DType.u4.numpy).reshape(3, 5)
    constant = PlanConstant(0, DType.u4, (3, 5))
    stored = Int4Bytes(DType.u4, (3, 5), pack_int4(array))
    np.testing.assert_array_equal(pack(stored, constant), array.reshape(-1))
