"""Softmax kernels against the formula in f64, over lengths, strides, types and workers."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, identity
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.rows import SoftmaxSpec
from support.kernels.harness import ISAS, compile_spec, guard_copy, run, same_bits

F32, F16 = DType.f32, DType.f16
LENGTHS = [0, 1, 3, 4, 5, 15, 16, 17, 64, 65, 129, 300, 1000]


def softmax(x: np.ndarray, log: bool = False) -> np.ndarray:
    x = x.astype(np.float64)
    if not x.size:
        return x
    with np.errstate(all="ignore"):
        d = x - x.max(-1, keepdims=True)
        total = np.exp(d).sum(-1, keepdims=True)
        return d - np.log(total) if log else np.exp(d) / total


def spec_of(r: Size, n: Size, dtype: DType = F32, log: bool = False) -> SoftmaxSpec:
    line = Operand(dtype, (n, 1))
    b = Builder()
    x = b.cast(b.input(0, dtype), F32)
    return SoftmaxSpec((r, n), (line,), line, b.finish(x), log)


def logits(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 5).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_lengths(isa: str, log: bool, dtype: DType) -> None:
    rows = 7
    for n in LENGTHS if dtype is F32 and not log else LENGTHS[1::3]:
        x = logits((rows, n), n).astype(dtype.numpy)
        want = softmax(x, log)
        first: np.ndarray | None = None
        for spec, dims in (
            (spec_of(rows, n, dtype, log), ()),
            (spec_of(RuntimeDim(0), RuntimeDim(1), dtype, log), (rows, n)),
        ):
            for workers in (1, 2, 3, 4):
                found = run(spec, [x], [(rows, n)], isa=isa, dims=dims, workers=workers).outs[0]
                first = found if first is None else first
                assert same_bits(found, first), (n, workers, "static and run-time sizes differ")
        assert first is not None
        rel, absolute = (2e-3, 1e-3) if dtype is F16 else (3e-6, 1e-6 if log else 1e-30)
        np.testing.assert_allclose(first.astype(np.float64), want, rtol=rel, atol=absolute)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", [5, 70, 700])
@pytest.mark.parametrize("log", [False, True])
def test_special_rows(isa: str, n: int, log: bool) -> None:
    x = logits((8, n))
    x[0] = -np.inf
    x[1, n // 2] = np.inf
    x[2, n - 1] = np.nan
    x[3, : n - 1] = -np.inf
    x[4, 0] = 3e38
    x[5] = -1e30
    x[6, ::2] = -np.inf
    found = run(spec_of(8, n, log=log), [x], [(8, n)], isa=isa).outs[0]
    want = softmax(x, log)
    assert np.isnan(found[:3]).all() if not log else np.isnan(found[[0, 2]]).all()
    np.testing.assert_allclose(found, want.astype(np.float32), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_scale_and_mask_over_any_strides(isa: str, dynamic: bool) -> None:
    """Rows along the first axis of a matrix; a mask broadcast over heads; one over keys."""
    b = Builder()
    x = b.op("mul", b.input(0, F32), b.const(0.125, F32))
    x = b.op("add", x, b.op("add", b.input(1, F32), b.input(2, F32)))
    program: Program = b.finish(b.op("min", x, b.const(4.0, F32)))
    heads, rows, n = 3, 5, 37
    score, mask, bias = logits((heads, n, rows)) * 8, logits((rows, n), 1), logits((heads, 1), 2)
    mask[:, 30:] = -np.inf
    size: Size = RuntimeDim(0) if dynamic else n
    step: Size = RuntimeDim(1) if dynamic else n * rows
    spec = SoftmaxSpec(
        (heads, rows, size),
        (Operand(F32, (step, 1, rows)), Operand(F32, (0, size, 1)), Operand(F32, (1, 0, 0))),
        Operand(F32, (step, size, 1)),
        program,
    )
    full = score.transpose(0, 2, 1) * np.float32(0.125) + (mask[None] + bias[:, :, None])
    want = softmax(np.minimum(full, 4))
    for workers in (1, 2, 4):
        found = run(
            spec,
            [score, mask, bias],
            [(heads, rows, n)],
            isa=isa,
            dims=(n, n * rows),
            workers=workers,
        )
        np.testing.assert_allclose(found.outs[0], want, rtol=5e-6, atol=1e-30)


@pytest.mark.parametrize("isa", ISAS)
def test_strided_output_and_doubles(isa: str) -> None:
    f64 = DType.f64
    x = np.random.default_rng(0).standard_normal((4, 21))
    spec = SoftmaxSpec((4, 21), (Operand(f64, (21, 1)),), Operand(f64, (1, 4)), identity(f64))
    found = run(spec, [x], [(21, 4)], isa=isa, workers=2).outs[0]
    np.testing.assert_allclose(found.T, softmax(x), rtol=1e-14)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", [17, 800])
def test_output_may_be_its_input(isa: str, n: int) -> None:
    x = logits((6, n))
    spec = spec_of(6, n)
    want = run(spec, [x], [(6, n)], isa=isa).outs[0]
    memory = guard_copy(x)
    assert compile_spec(spec, isa)([memory, memory], (), 2) == (0, 0)
    assert same_bits(memory.copy(), want)
