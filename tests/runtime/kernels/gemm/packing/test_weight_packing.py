"""Constants in panels: element by element, however many pieces and threads make them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.packing.layouts import Layout, PackedB, PackedConv, PackedGates
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.runtime.kernels.gemm.packing import weight_packing as constants
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack


def matrices(array: np.ndarray, layout: Layout, transposed: bool) -> list[np.ndarray]:
    """The K x N matrices that a layout stores, rows of taps (where cells begin anew) apart."""
    if isinstance(layout, PackedB):
        both = array.swapaxes(-1, -2) if transposed else array
        return [m[None] for m in both.reshape(-1, *both.shape[-2:])]
    if isinstance(layout, PackedGates):
        hidden, wide, found = array.shape[-1], layout.nr // layout.gates, []
        for direction in array:
            columns = []
            for first in range(0, hidden, wide):
                for gate in range(layout.gates):
                    some = direction[gate * hidden :][: min(hidden, first + wide)][first:]
                    columns += [*some, *np.zeros((wide - len(some), hidden), array.dtype)]
            found.append(np.array(columns).T[None])
        return found
    groups = array if layout.grouped else array[None]
    if layout.depthwise:
        return [groups.reshape(groups.shape[0] * groups.shape[1], -1).T[None]]
    found = []
    for filters in groups:
        outputs, channels, *kernel = filters.shape
        taps = np.moveaxis(filters, (0, 1), (-1, -2)).reshape(math.prod(kernel), channels, outputs)
        if layout.runs:
            taps = taps.reshape(-1, kernel[-1] * channels, outputs)
        found.append(taps if layout.kr > 1 else taps.reshape(1, -1, outputs))
    return found


def expected(array: np.ndarray, constant: PlanConstant) -> np.ndarray:
    layout = constant.layout
    nr, kr = layout.nr, layout.kr
    flip = layout.column_sums and kr == 4 and constant.dtype is DType.u8
    out = []
    for rows in matrices(array, layout, constant.transposed):
        if flip:
            rows = rows ^ np.uint8(128)
        n = rows.shape[-1]
        for first in range(0, n, nr):
            for run in rows:
                for k in range(0, len(run), kr):
                    cell = np.zeros((nr, kr), rows.dtype)
                    part = run[k : k + kr, first : first + nr]
                    cell[: part.shape[1], : part.shape[0]] = part.T
                    out.append(cell.tobytes())
            if layout.column_sums:
                total = np.zeros(nr, np.int32)
                stored = rows.view(np.int8) if flip else rows
                part = stored[..., first : first + nr].astype(np.int64).sum((0, 1))
                total[: len(part)] = part
                out.append(total.tobytes())
    return np.frombuffer(b"".join(out), np.uint8)


CASES = [
    ((70, 100), PackedB(32), DType.f32, False),
    ((3, 33, 65), PackedB(32), DType.f32, True),
    ((31, 65), PackedB(32, 4, True), DType.u8, False),
    ((64, 31), PackedB(16, 4, True), DType.i8, True),
    ((30, 40), PackedB(32, 2), DType.bf16, False),
    ((40, 7, 3, 3), PackedConv(32), DType.f32, False),
    ((64, 5, 1, 2, 3), PackedConv(32), DType.f32, False),
    ((40, 8, 3, 3), PackedConv(32, kr=4, column_sums=True), DType.u8, False),
    ((33, 6, 2, 3), PackedConv(32, kr=4, runs=True, column_sums=True), DType.i8, False),
    ((3, 40, 5, 3, 3), PackedConv(32, grouped=True), DType.f32, False),
    ((40, 1, 1, 3, 3), PackedConv(32, grouped=True, depthwise=True), DType.f32, False),
    ((2, 4 * 40, 40), PackedGates(4 * 16, 4), DType.f32, False),
    ((1, 3 * 21, 21), PackedGates(3 * 8, 3, 2), DType.bf16, False),
]


@pytest.mark.parametrize("pieces", [1 << 22, 900])
@pytest.mark.parametrize(("shape", "layout", "dtype", "transposed"), CASES)
def test_pack_stores_every_element_at_its_position(
    shape: tuple[int, ...],
    layout: Layout,
    dtype: DType,
    transposed: bool,
    pieces: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(constants, "_MIN_PARALLEL_PACK_BYTES", pieces)
    rng = np.random.default_rng(5)
    array = rng.integers(0 if dtype is DType.u8 else -100, 100, shape).astype(dtype.numpy)
    constant = PlanConstant(0, dtype, shape, layout, transposed)
    for threads in (1, 3):
        found = pack(array, constant, threads=threads)
        assert found.ctypes.data % 64 == 0
        np.testing.assert_array_equal(found.view(np.uint8), expected(array, constant))


@pytest.mark.parametrize("m", [2, 4])
def test_pack_transforms_filters_piece_by_piece(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(6).standard_normal((40, 9, 3, 3)).astype(np.float32)
    constant = PlanConstant(0, DType.f32, array.shape, PackedConv(32, winograd=m))
    whole = pack(array, constant, threads=1)
    monkeypatch.setattr(constants, "_MIN_PARALLEL_PACK_BYTES", 1000)
    np.testing.assert_array_equal(pack(array, constant, threads=2), whole)
    # The transform's first row and column are the filter's first tap.
    scale = 1 if m == 2 else 1 / 16
    matrices = whole.reshape((m + 2) ** 2 + 9, 2, 9, 32)
    first = matrices[0, 0, :, :32]
    np.testing.assert_allclose(first, array[:32, :, 0, 0].T * scale, rtol=1e-6)
    # The taps as they are follow.
    taps = array[:32].reshape(32, 9, 9).transpose(2, 1, 0)
    np.testing.assert_array_equal(matrices[(m + 2) ** 2 :, 0], taps)


@pytest.mark.parametrize("m", [2, 4])
def test_slices_of_transformed_filters_are_channels(m: int) -> None:
    array = np.random.default_rng(6).standard_normal((40, 5, 3, 3, 3)).astype(np.float32)
    flat = array.swapaxes(1, 2).reshape(40, 15, 3, 3)
    layout = PackedConv(32, winograd=m)
    found, wanted = (pack(a, PlanConstant(0, DType.f32, a.shape, layout)) for a in (array, flat))
    np.testing.assert_array_equal(found, wanted)
