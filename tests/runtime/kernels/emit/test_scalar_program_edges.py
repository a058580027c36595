"""The edges of arithmetic that docs/numerics.md promises, on each instruction set that this machine
runs: zeros, NaN, denormals, overflow of integers, casts out of range."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, evaluate_program
from irc_compiler.ir.scalar.program import Program
from support.kernels.harness import ISAS, run

from tests.runtime.kernels.emit.test_scalar_program import FLOATS, INTS, build, spec_of

SIGNED = [t for t in INTS if t.is_signed]


def compute(program: Program, arrays: list[np.ndarray], isa: str) -> list[np.ndarray]:
    spec = spec_of(program, [DType.from_numpy(a.dtype) for a in arrays], arrays[0].size)
    found = run(spec, arrays, [arrays[0].shape for _ in program.results], isa=isa)
    assert found.status == 0
    return found.outs


def both_ways(program: Program, arrays: list[np.ndarray], isa: str) -> list[list[np.ndarray]]:
    """In native code and by evaluation; whole vectors and the rest behind them."""
    arrays = [np.resize(a, 77) for a in arrays]
    return [compute(program, arrays, isa), evaluate_program(program, arrays)]


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_max_and_min_of_both_zeros_is_a_zero(dtype: DType, isa: str) -> None:
    x = np.array([0.0, -0.0, 0.0, -0.0]).astype(dtype.numpy)
    y = np.array([-0.0, 0.0, 0.0, -0.0]).astype(dtype.numpy)
    for outs in both_ways(build(["max", "min"], 2, dtype), [x, y], isa):
        assert all((out == 0).all() for out in outs)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_stays_nan_whatever_its_payload(dtype: DType, isa: str) -> None:
    bits = f"u{dtype.numpy.itemsize}"
    quiet = np.array(np.nan).astype(dtype.numpy).view(bits)
    sign = np.array(1 << (dtype.bits - 1), bits)
    x = np.array([quiet, quiet | 1, quiet | sign, quiet | sign | 5], bits).view(dtype.numpy)
    y = np.ones(4, dtype.numpy)
    for first, second in ((x, y), (y, x)):
        for outs in both_ways(build(["add", "mul", "max", "min"], 2, dtype), [first, second], isa):
            assert all(np.isnan(out.astype(np.float64)).all() for out in outs)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [DType.f32, DType.f64], ids=str)
def test_denormals_are_kept(dtype: DType, isa: str) -> None:
    tiny = np.finfo(dtype.numpy).smallest_subnormal
    x = np.array([tiny, -tiny, 3 * tiny, tiny * 1024], dtype.numpy)
    y = np.array([tiny, 2, 0.5, tiny], dtype.numpy)
    native, want = both_ways(build(["add", "sub", "mul"], 2, dtype), [x, y], isa)
    for a, b in zip(native, want, strict=True):
        np.testing.assert_array_equal(a, b)
    assert native[0][0] == 2 * tiny


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", SIGNED, ids=str)
def test_the_least_integer_divided_by_minus_one_wraps(dtype: DType, isa: str) -> None:
    x = np.array([dtype.min, dtype.min, dtype.max], dtype.numpy)
    y = np.array([-1, 1, -1], dtype.numpy)
    for quotient, rest in both_ways(build(["div", "mod"], 2, dtype), [x, y], isa):
        assert quotient[:3].tolist() == [dtype.min, dtype.min, -int(dtype.max)]
        assert not rest.any()


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers_wrap(dtype: DType, isa: str) -> None:
    x, y = np.array([dtype.max, dtype.min], dtype.numpy), np.array([1, 1], dtype.numpy)
    for total, less in both_ways(build(["add", "sub"], 2, dtype), [x, y], isa):
        assert total[0] == dtype.min and less[1] == dtype.max


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("target", INTS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_floats_saturate_as_integers_and_nan_is_zero(
    source: DType, target: DType, isa: str
) -> None:
    b = Builder()
    program = b.finish(b.cast(b.input(0, source), target))
    x = np.array([np.nan, np.inf, -np.inf, -0.9, 0.9, -0.0]).astype(source.numpy)
    for (out,) in both_ways(program, [x], isa):
        assert out[:6].tolist() == [0, target.max, target.min, 0, 0, 0]


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("target", INTS, ids=str)
def test_integers_wrap_in_casts(target: DType, isa: str) -> None:
    b = Builder()
    program = b.finish(b.cast(b.input(0, DType.i64), target))
    x = np.array([2**63 - 1, -(2**63), -1, 2**40 + 300], np.int64)
    for (out,) in both_ways(program, [x], isa):
        np.testing.assert_array_equal(out[:4], x.astype(target.numpy))
