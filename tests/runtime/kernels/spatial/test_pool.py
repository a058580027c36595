"""Pools against `evaluate`: small integers bit for bit, on every instruction set."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.ops.nn.pooling import AvgPool, MaxPool1
from irc_compiler.ir.scalar.builder import Builder
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.convolution import Window
from irc_compiler.plan.specs.pooling import PoolSpec
from support.kernels.harness import ISAS, Sizes, memory_strides, run

F32 = DType.f32


@dataclass(frozen=True)
class Case:
    """One pool of [2, channels, sizes...]. `counted` as in PoolSpec, "" for the largest."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    channels: int = 5
    counted: str = ""
    rounding: str = "floor"
    dtype: DType = F32
    last: bool = True
    dynamic: bool = False


def check(case: Case, isa: str, workers: int = 1, at: str = "end", special: bool = False) -> None:
    rng = np.random.default_rng(5)
    low = -4 if case.dtype.is_signed else 0
    data = rng.integers(low, 5, (2, case.channels, *case.sizes)).astype(case.dtype.numpy)
    if special:
        data.reshape(-1)[[3, 40]] = np.nan, -np.inf
    given = {
        "strides": case.strides,
        "pads_begin": case.pads,
        "pads_end": case.pads,
        "kernel": case.kernel,
        "rounding_type": case.rounding,
    }
    if case.counted:
        op = AvgPool(**given, exclude_pad=case.counted == "data")
    else:
        op = MaxPool1(**given)
    with np.errstate(all="ignore"):
        (expected,) = op.evaluate(data)
    size = Sizes(case.dynamic)

    def operand(shape: tuple[int, ...]) -> Operand:
        b, c, *rest = memory_strides(shape, case.last)
        return Operand(case.dtype, (size(b), c if case.last else size(c), *map(size, rest)))

    acc = F32 if case.dtype.is_float and case.dtype.bits == 16 else case.dtype
    b = Builder()
    x = b.input(0, acc)
    x = b.op("div", x, b.input(1, acc)) if case.counted else x
    ones = (1,) * len(case.sizes)
    spec = PoolSpec(
        kind="sum" if case.counted else "max",
        batch=size(2),
        channels=size(case.channels),
        in_sizes=tuple(map(size, case.sizes)),
        out_sizes=tuple(map(size, expected.shape[2:])),
        window=Window(case.kernel, case.strides, ones, tuple(map(size, case.pads))),
        pads_end=tuple(map(size, case.pads)),
        counted=case.counted or "window",
        data=operand(data.shape),
        out=operand(expected.shape),
        acc=acc,
        epilogue=b.finish(b.cast(x, case.dtype)),
    )
    memory = np.ascontiguousarray(np.moveaxis(data, 1, -1) if case.last else data)
    shape = np.moveaxis(expected, 1, -1).shape if case.last else expected.shape
    result = run(spec, [memory], [shape], isa=isa, dims=size.dims, workers=workers, at=at)
    assert result.status == 0
    (found,) = result.outs
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1) if case.last else found, expected)


CASES = {
    "max": Case((9, 11), (3, 3), (2, 2), (1, 1), 37),
    "max_many": Case((6, 5), (2, 2), (2, 2), (0, 0), 200),
    "max_ceil": Case((8, 8), (3, 3), (2, 2), (0, 0), 16, rounding="ceil"),
    "max_far": Case((3, 3), (2, 2), (1, 1), (3, 2)),
    "max_line": Case((20,), (4,), (3,), (2,), 3),
    "max_volume": Case((4, 5, 6), (2, 3, 2), (2, 1, 2), (1, 1, 0), 9),
    "max_bytes": Case((9, 9), (3, 3), (2, 2), (1, 1), 70, dtype=DType.u8),
    "max_half": Case((9, 9), (3, 3), (2, 2), (1, 1), 18, dtype=DType.f16),
    "mean": Case((9, 11), (3, 2), (2, 1), (1, 1), 20, "window"),
    "mean_inside": Case((9, 11), (3, 3), (2, 2), (1, 1), 33, "data"),
    "mean_ceil": Case((8, 9), (3, 3), (2, 2), (1, 1), 7, "window", "ceil"),
    "mean_torch": Case((8, 9), (3, 3), (2, 2), (1, 1), 7, "padded", "ceil_torch"),
    "mean_half": Case((8, 8), (4, 4), (4, 4), (0, 0), 7, "window", dtype=DType.bf16),
    "channels_first": Case((9, 11), (3, 3), (2, 2), (1, 1), 6, last=False),
}
each_isa = pytest.mark.parametrize("isa", ISAS)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, dynamic: bool, isa: str) -> None:
    rng = random.Random(f"{name} {isa}")
    case = replace(CASES[name], dynamic=dynamic)
    check(case, isa, rng.choice([1, 2, 3]), rng.choice(["start", "end"]))


@pytest.mark.aarch64
@each_isa
@pytest.mark.parametrize("name", ["max", "mean"])
def test_nan_is_propagated(name: str, isa: str) -> None:
    check(CASES[name], isa, special=True)
