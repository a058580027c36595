"""Axes whose elements are neighbours: the same bits as along any other axis."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.specs.base import EMPTY_AXIS, Operand
from irc_compiler.plan.specs.resample import ResampleSpec
from support.kernels.harness import ISAS, Sizes, run, same_bits

NUMPY = {
    DType.f32: np.float32,
    DType.f64: np.float64,
    DType.bf16: ml_dtypes.bfloat16,
    DType.u8: np.uint8,
    DType.i64: np.int64,
}
# (rule, type of data, type of the result)
CASES = [
    ("nearest", DType.f32, DType.f32),
    ("nearest", DType.u8, DType.u8),
    ("nearest", DType.i64, DType.i64),
    ("linear", DType.f32, DType.f32),
    ("linear", DType.f32, DType.bf16),
    ("linear", DType.bf16, DType.bf16),
    ("linear", DType.f64, DType.f64),
    ("cubic", DType.f32, DType.f32),
    ("cubic", DType.f64, DType.f64),
]


def resample_both_ways(
    data: np.ndarray,
    count: int,
    isa: str,
    case: tuple[str, DType, DType],
    *,
    dynamic: bool = False,
    scale: float | None = None,
) -> np.ndarray:
    """Axis 2 of [rows, planes, axis], once with its elements side by side, once with the rows'."""
    rows, planes, axis = data.shape
    rule, dtype, stored = case
    how = {"coordinate_mode": "half_pixel", "scale": scale}
    acc = DType.f32 if dtype.bits <= 16 else dtype
    found: list[np.ndarray] = []
    for along, workers in ((True, 1), (True, 3), (False, 2)):
        sizes = Sizes(dynamic)
        dims = [sizes(n) for n in (1, axis, count, rows, planes)]
        if along:
            strides = [(0, 1, sizes(planes * n), sizes(n)) for n in (axis, count)]
            given, shape = data, (rows, planes, count)
        else:
            strides = [(0, sizes(rows * planes), sizes(planes), 1)] * 2
            given, shape = data.transpose(2, 0, 1).copy(), (count, rows, planes)
        operands = [Operand(t, s) for t, s in zip((dtype, stored), strides, strict=True)]
        spec = ResampleSpec(rule, *dims, *operands, acc, **how)  # type: ignore[arg-type]
        made = run(spec, [given], [shape], isa=isa, dims=sizes.dims, workers=workers)
        assert made.status == 0
        found.append(made.outs[0] if along else made.outs[0].transpose(1, 2, 0).copy())
    assert same_bits(found[0], found[1]) and same_bits(found[0], found[2])
    return found[0]


def make_noise(dtype: DType, *shape: int) -> np.ndarray:
    noise = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (noise * (50 if dtype.is_int else 1)).astype(NUMPY[dtype])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_of_elements_side_by_side(
    dynamic: bool, case: tuple[str, DType, DType], isa: str
) -> None:
    """Longer and shorter than a vector, than a turn of the loop and than a block of columns."""
    for axis, count in ((7, 13), (40, 64), (19, 5), (130, 547)):
        data = make_noise(case[1], 3, 2, axis)
        resample_both_ways(data, count, isa, case, dynamic=dynamic, scale=count / axis)
        resample_both_ways(data, count, isa, case, dynamic=dynamic)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("rule", ["linear", "cubic"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_axis_that_stays_as_long_keeps_infinities(dynamic: bool, rule: str, isa: str) -> None:
    for length in (33, 300):
        data = make_noise(DType.f32, 2, 1, length)
        data[0, 0, 3], data[1, 0, -1] = np.inf, np.nan
        case = (rule, DType.f32, DType.f32)
        found = resample_both_ways(data, length, isa, case, dynamic=dynamic)
        np.testing.assert_array_equal(found, data)


@pytest.mark.parametrize("isa", ISAS)
def test_rows_of_nothing(isa: str) -> None:
    for axis, count, rows in ((0, 4, 3), (4, 0, 3), (4, 4, 0)):
        for dynamic in (False, True):
            sizes = Sizes(dynamic)
            dims = [sizes(n) for n in (1, axis, count, 1, rows)]
            strides = [(0, 1, 0, sizes(n)) for n in (axis, count)]
            operands = [Operand(DType.f32, s) for s in strides]
            spec = ResampleSpec("linear", *dims, *operands, DType.f32)
            data = np.zeros((rows, axis), np.float32)
            made = run(spec, [data], [(rows, count)], isa=isa, dims=sizes.dims, workers=2)
            assert made.status == (EMPTY_AXIS if axis == 0 else 0)
