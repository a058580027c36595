"""Which part of a product each worker computes: all of it, once, evenly, and cut where it pays."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from support.kernels.harness import ISAS, compile_spec, guard_copy, guarded, unwritten
from support.kernels.products import Case, make

each_isa = pytest.mark.parametrize("isa", ISAS)
CASES = {
    "rows and columns": Case(60, 40, 130),
    "run-time sizes": Case(60, 40, 130, b="rows", dynamic="mnkabc"),
    "a row": Case(1, 64, 512),
    "a dynamic row": Case(1, 64, 512, dynamic="m"),
    "sixteen rows": Case(16, 64, 512),
    "a column": Case(200, 64, 1, b="rows"),
    "a dynamic column": Case(200, 64, 1, b="rows", dynamic="mnkabc"),
    "small matrices": Case(5, 16, 16, batch=(24,), b="rows"),
    "one right operand": Case(9, 16, 33, batch=(4, 3), b="rows", b_once=True),
    "bf16 factors": Case(60, 40, 130, compute_dtype=DType.bf16),
}


def parts(case: Case, isa: str, workers: int) -> list[np.ndarray]:
    """Which elements of the output each worker writes."""
    spec, inputs, dims, out, expected = make(case, isa)
    compiled = compile_spec(spec, isa)
    sizes = (ctypes.c_int64 * max(1, len(dims)))(*dims)
    found = []
    for worker in range(workers):
        own = unwritten(out.shape, np.float32)
        buffers = [*map(guard_copy, inputs), own]
        table = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
        scratch = guarded((compiled.scratch + 63) // 64 * 64)
        assert not compiled.entry(table, sizes, worker, workers, scratch.ctypes.data)
        found.append(~np.isnan(own))
        np.testing.assert_array_equal(own[found[-1]], expected[found[-1]])
    return found


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", CASES)
def test_split_work_gives_every_element_to_one_worker(isa: str, name: str) -> None:
    """From its own scratch and nothing that another one wrote."""
    for workers in (1, 2, 3, 4, 7):
        assert np.all(sum(p.astype(int) for p in parts(CASES[name], isa, workers)) == 1)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", CASES)
def test_split_work_between_two_workers(isa: str, name: str) -> None:
    """Few rows, a column and small matrices too: all threads read what memory holds."""
    case = CASES[name]
    for part in parts(case, isa, 2):
        assert 0.4 <= part.mean() <= 0.6


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: this machine has no AVX-512")
@pytest.mark.parametrize(
    "case, workers, grid",
    [
        # Tiles are 14 rows, panels 32 columns. Tall or wide: along the longer side.
        (Case(280, 16, 64), 2, (2, 1)), (Case(14, 16, 512), 2, (1, 2)),
        # Both, where neither side alone has a share for everyone, or copies would cost more.
        (Case(112, 16, 256), 4, (2, 2)), (Case(28, 16, 64), 4, (2, 2)),
        (Case(42, 16, 64), 6, (3, 2)),
        # The same work either way: by columns where rows are few, so that B is read once.
        (Case(28, 16, 64), 2, (1, 2)), (Case(140, 16, 64), 2, (2, 1)),
        # Workers that no grid has a place for stay out.
        (Case(14, 16, 96), 4, (1, 3)),
    ],
    ids=str,
)  # fmt: skip
def test_split_work_follows_work_and_bandwidth(
    case: Case, workers: int, grid: tuple[int, int]
) -> None:
    # Where loads are free; elsewhere many rows take tiles of 6 (test_gemm_pairs.py).
    found = [p for p in parts(case, "avx512 - avx512fp16", workers) if p.any()]
    corners = {(int(r.min()), int(c.min())) for r, c in (np.nonzero(p) for p in found)}
    assert (len({r for r, _ in corners}), len({c for _, c in corners})) == grid
    assert len(corners) == len(found) == grid[0] * grid[1]
    for p in found:
        rows, columns = p.any(1), p.any(0)
        assert p.sum() == rows.sum() * columns.sum()
