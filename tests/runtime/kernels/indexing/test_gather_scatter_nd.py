"""Picking and putting by several indices: against NumPy, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.base import GATHER_OUT_OF_RANGE, Operand
from irc_compiler.plan.specs.gather_scatter import GatherScatterSpec
from support.kernels.harness import ISAS, Sizes, compile_spec, guard_copy, run, same_bits

F32, I64 = DType.f32, DType.i64
TYPES = (F32, I64, DType.i8, DType.f16, DType.boolean)

JOINS = {
    "": lambda old, new: new,
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def elements(*shape: int, dtype: DType = F32) -> np.ndarray:
    found = np.random.default_rng(3).integers(-9, 9, shape)
    return (found > 0 if dtype is DType.boolean else found).astype(dtype.numpy)


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("inner", [1, 3, 16, 37, 0])
def test_points(isa: str, dynamic: bool, inner: int) -> None:
    """GatherND: two indices pick rows of `inner` elements."""
    rows, columns, count = 5, 7, 11
    points = np.random.default_rng(1).integers(-5, 5, (count, 2))
    for dtype in TYPES:
        data = elements(rows, columns, inner, dtype=dtype)
        size = Sizes(dynamic)
        spec = GatherScatterSpec(
            (size(count), size(inner)),
            (size(rows), size(columns)),
            Operand(dtype, (0, 1, size(columns * inner), size(inner))),
            (Operand(I64, (2, 0)), Operand(I64, (2, 0), 1)),
            Operand(dtype, (size(inner), 1)),
        )
        for workers in (1, 3):
            given = [data, points, points]
            found = run(spec, given, [(count, inner)], isa=isa, workers=workers, dims=size.dims)
            assert found.status == 0
            assert same_bits(found.outs[0], data[points[:, 0], points[:, 1]])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_index_for_every_element(isa: str, dynamic: bool) -> None:
    """GatherElements along the last and the first axis; the indices are transposed in memory."""
    data = elements(6, 9)
    size = Sizes(dynamic)
    index = np.random.default_rng(2).integers(-9, 9, (4, 6)).astype(np.int32)
    last = GatherScatterSpec(
        (size(6), size(4)),
        (size(9),),
        Operand(F32, (size(9), 0, 1)),
        (Operand(DType.i32, (1, size(6))),),
        Operand(F32, (size(4), 1)),
    )
    found = run(last, [data, index], [(6, 4)], isa=isa, dims=size.dims)
    assert same_bits(found.outs[0], np.take_along_axis(data, index.T.astype(np.int64), 1))
    index = np.random.default_rng(2).integers(0, 6, (4, 9)).astype(np.uint8)
    first = GatherScatterSpec(
        (4, 9), (6,), Operand(F32, (0, 1, 9)), (Operand(DType.u8, (9, 1)),), Operand(F32, (9, 1))
    )
    found = run(first, [data, index], [(4, 9)], isa=isa, workers=2)
    assert same_bits(found.outs[0], np.take_along_axis(data, index.astype(np.int64), 0))


@pytest.mark.parametrize("isa", ISAS)
def test_indices_out_of_range(isa: str) -> None:
    data = elements(5, 4)
    for bad in (5, -6, 2**40, -(2**63)):
        index = np.array([[0, 1], [bad, 2], [4, 3]])
        operands = (
            Operand(F32, (0, 4, 1)),
            (Operand(I64, (2,)), Operand(I64, (2,), 1)),
            Operand(F32, (1,)),
        )
        spec = GatherScatterSpec((3,), (5, 4), Operand(F32, (0, 4, 1)), *operands[1:])
        found = run(spec, [data, index, index], [(3,)], isa=isa)
        assert (found.status, found.element) == (GATHER_OUT_OF_RANGE, 1)
        spec = GatherScatterSpec((3,), (5, 4), *operands, out_of_range="zeros")
        found = run(spec, [data, index, index], [(3,)], isa=isa)
        assert found.status == 0
        assert same_bits(found.outs[0], np.array([data[0, 1], 0, data[4, 3]], np.float32))


@pytest.mark.parametrize("isa", ISAS)
def test_what_is_put_last_stays(isa: str) -> None:
    updates = elements(6, 5)
    index = np.array([3, 0, 3, -1, 2, 0])
    spec = GatherScatterSpec(
        (6, 5), (4,), Operand(F32, (5, 1)), (Operand(I64, (1, 0)),), Operand(F32, (0, 1, 5)), True
    )
    want = np.full((4, 5), np.nan, np.float32)
    want[index] = updates
    for workers in (1, 4):
        found = run(spec, [updates, index], [(4, 5)], isa=isa, workers=workers)
        assert found.status == 0 and same_bits(found.outs[0], want)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("combine", ["", "sum", "prod", "min", "max"])
@pytest.mark.parametrize("inner", [1, 3, 16, 37, 200])
def test_workers_put_columns_of_rows_in_their_order(isa: str, combine: str, inner: int) -> None:
    """Sums of random numbers, whose bits depend on their order, on equal rows again and again."""
    rng = np.random.default_rng(5)
    index, data = rng.integers(-4, 4, 60), rng.standard_normal((60, inner)).astype(np.float32)
    spec = GatherScatterSpec(
        (60, inner), (4,), Operand(F32, (inner, 1)), (Operand(I64, (1, 0)),),
        Operand(F32, (0, 1, inner)), True, "error", combine,
    )  # fmt: skip
    start, join = rng.standard_normal((4, inner)).astype(np.float32), JOINS[combine]
    wanted = start.copy()
    for at, row in zip(index, data, strict=True):
        wanted[at] = join(wanted[at], row)
    compiled = compile_spec(spec, isa)
    for workers in (1, 2, 3, 5):
        out = guard_copy(start)
        assert compiled([guard_copy(data), guard_copy(index), out], (), workers) == (0, 0)
        assert same_bits(out, wanted)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, DType.f64, DType.i32, I64], ids=str)
@pytest.mark.parametrize("combine", ["sum", "prod", "min", "max"])
def test_what_is_put_joins_what_was_there(isa: str, dtype: DType, combine: str) -> None:
    updates, index = elements(6, 5, dtype=dtype), np.array([3, 0, 3, -1, 2, 0])
    if dtype.is_float:
        updates[2, 1] = np.nan
    target = Operand(dtype, (0, 1, 5))
    spec = GatherScatterSpec(
        (6, 5),
        (4,),
        Operand(dtype, (5, 1)),
        (Operand(I64, (1, 0)),),
        target,
        True,
        combine=combine,
    )
    want = np.arange(20).reshape(4, 5).astype(dtype.numpy)
    out = guard_copy(want)
    status, _ = compile_spec(spec, isa)([updates, index, out])
    how = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[combine]
    how.at(want, index, updates)
    assert status == 0
    np.testing.assert_array_equal(out, want)
