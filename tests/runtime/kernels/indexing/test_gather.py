"""Gather kernels: block sizes, index types, negative and wrong indices, strides, workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.int4 import pack_int4
from irc_compiler.plan.packing.layouts import PackedB
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import GATHER_OUT_OF_RANGE, Operand, RuntimeDim
from irc_compiler.plan.specs.gather_scatter import GatherSpec
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import ISAS, run, same_bits

I64 = DType.i64


def block(outer: int, axis: int, inner: int, dtype: DType) -> np.ndarray:
    bits = np.random.default_rng(inner).integers(0, 2, (outer, axis, inner))
    count = np.arange(outer * axis * inner).reshape(outer, axis, inner)
    return (bits if dtype is DType.boolean else count % 251).astype(dtype.numpy)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [DType.f32, DType.i64, DType.f16, DType.boolean], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("out_of_range", ["error", "zeros"])
def test_blocks(isa: str, dtype: DType, dynamic: bool, out_of_range: str) -> None:
    outer, axis, count = 2, 9, 7
    index = np.array([0, 8, -1, -9, 3, 3, 5])
    inners = (1, 17, 65, 0, 2, 3, 16, 64, 300)
    for inner in inners if dtype is DType.f32 else inners[:3]:
        data = block(outer, axis, inner, dtype)
        dims = (outer, axis, count, inner, axis * inner, count * inner)
        d = [RuntimeDim(i) for i in range(6)] if dynamic else dims
        spec = GatherSpec(
            d[0],
            d[1],
            d[2],
            d[3],
            Operand(dtype, (d[4], d[3], 1)),
            Operand(I64, (1,)),
            Operand(dtype, (d[5], d[3], 1)),
            out_of_range,
        )
        for workers in (1, 2, 3, 4):
            found = run(
                spec, [data, index], [(outer, count, inner)], isa=isa, workers=workers, dims=dims
            )
            assert found.status == 0
            assert same_bits(found.outs[0], data[:, index])


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [I64, DType.i32, DType.u8, DType.i8], ids=str)
def test_wrong_indices(isa: str, dtype: DType) -> None:
    data = block(2, 5, 20, DType.f32)
    wrong = [5, 100] if not dtype.is_signed else [5, -6, int(dtype.min), int(dtype.max)]
    for bad in wrong:
        index = np.array([0, 1, bad, 2], dtype.numpy)
        for out_of_range in ("error", "zeros"):
            spec = GatherSpec(
                2,
                5,
                4,
                20,
                Operand(DType.f32, (100, 20, 1)),
                Operand(dtype, (1,)),
                Operand(DType.f32, (80, 20, 1)),
                out_of_range,
            )
            for workers in (1, 3):
                found = run(spec, [data, index], [(2, 4, 20)], isa=isa, workers=workers)
                if out_of_range == "error":
                    assert (found.status, found.element) == (GATHER_OUT_OF_RANGE, 2)
                    continue
                want = data[:, [0, 1, 0, 2]]
                want[:, 2] = 0
                assert found.status == 0
                assert same_bits(found.outs[0], want)


@pytest.mark.parametrize("isa", ISAS)
def test_any_strides_and_offsets(isa: str) -> None:
    """Columns of a transposed matrix, every other index, into a wider output."""
    data = block(1, 6, 40, DType.f32)  # read as outer 1, axis 40 (stride 1), inner 6 (stride 40)
    index = np.array([99, 3, 99, 39, 99, -40])
    spec = GatherSpec(
        1,
        40,
        3,
        6,
        Operand(DType.f32, (0, 1, 40)),
        Operand(I64, (2,), 1),
        Operand(DType.f32, (0, 10, 1), 2),
    )
    for workers in (1, 2):
        found = run(spec, [data, index], [(3, 10)], isa=isa, workers=workers).outs[0]
        assert same_bits(found[:2, 2:8], np.ascontiguousarray(data[0].T[[3, 39]]))
        assert np.isnan(found[0, :2]).all() and np.isnan(found[0, 8:]).all()
        assert same_bits(found[2, 2:8], data[0].T[-40].copy())


def packed_spec(dtype: DType, nr: int, rows: int, depth: int, **changes: Any) -> GatherSpec:
    """Rows of `depth` elements of a table, which is the transposed right operand of a product."""
    layout = PackedB(nr, 32 // dtype.bits)
    width = depth * dtype.bits // 8
    out = Operand(DType.u8 if dtype is DType.u4 else dtype, (0, width + 3, 1), 2)
    data, index = Operand(dtype, (0, 0, 0)), Operand(I64, (1,))
    return replace(GatherSpec(1, rows, 5, depth, data, index, out, packed=layout), **changes)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("nr", [8, 16, 32])
@pytest.mark.parametrize("dtype", [DType.u4, DType.i8, DType.u8], ids=str)
def test_columns_of_packed_matrices(isa: str, nr: int, dtype: DType) -> None:
    rows, depth, index = 37, 24, np.array([0, 36, -1, 17, -37])
    codes = np.random.default_rng(nr).integers(0, 1 << dtype.bits, (rows, depth)).astype(np.uint8)
    spec = packed_spec(dtype, nr, rows, depth)
    constant = PlanConstant(0, dtype, (rows, depth), spec.packed, True)
    table = pack(codes.view(dtype.numpy), constant)
    if dtype is DType.u4:
        codes = pack_int4(codes).reshape(rows, -1)
    wanted = codes[index].view(spec.out.dtype.numpy)
    shape, width = (5, wanted.shape[1] + 3), wanted.shape[1]
    for count in (5, RuntimeDim(0)):
        for workers in (1, 2, 3):
            sized = replace(spec, count=count)
            found = run(sized, [table, index], [shape], isa=isa, workers=workers, dims=(5,))
            assert found.status == 0
            assert np.array_equal(found.outs[0][:, 2 : 2 + width], wanted)
    for bad in (rows, -rows - 1):
        wrong = np.array([1, 2, bad, 3, 4])
        found = run(spec, [table, wrong], [shape], isa=isa)
        assert (found.status, found.element) == (GATHER_OUT_OF_RANGE, 2)
        found = run(replace(spec, out_of_range="zeros"), [table, wrong], [shape], isa=isa)
        assert found.status == 0 and not found.outs[0][2, 2 : 2 + width].any()
        assert np.array_equal(found.outs[0][3, 2 : 2 + width].view(np.uint8), codes[3])


def test_packed_specs_that_no_kernel_reads() -> None:
    spec, target = packed_spec(DType.u4, 16, 37, 24), host_target()
    spec.verify(target)
    for changes in (
        {"inner": 20},
        {"inner": RuntimeDim(0)},
        {"axis": RuntimeDim(0)},
        {"outer": 2},
        {"packed": PackedB(16, 4)},
        {"packed": PackedB(16, 8, column_sums=True)},
        {"data": Operand(DType.f32, (0, 0, 0))},
        {"out": Operand(DType.i8, (0, 12, 1))},
        {"out": Operand(DType.u8, (0, 24, 2))},
    ):
        with pytest.raises(VerificationError):
            replace(spec, **changes).verify(target)
