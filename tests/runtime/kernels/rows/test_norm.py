"""Normalisation kernels against the formula in f64."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, identity
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.rows import NormSpec
from support.kernels.harness import (
    ISAS,
    compile_spec,
    guard_copy,
    run,
    same_bits,
)

F32, F16 = DType.f32, DType.f16
LENGTHS = [0, 1, 3, 4, 5, 16, 17, 64, 65, 200, 768, 1000]
EPS = 1e-5


def affine(dtype: DType = F32) -> Program:
    """y * gamma + beta, computed in f32."""
    b = Builder()
    y, gamma, beta = b.input(0, F32), b.input(1, dtype), b.input(2, dtype)
    return b.finish(b.op("fma", y, b.cast(gamma, F32), b.cast(beta, F32)))


def normalised(
    x: np.ndarray, centre: bool = True, scale: bool = True, outside: bool = False
) -> np.ndarray:
    x = x.astype(np.float64)
    if not x.size:
        return x
    mean = x.mean(-1, keepdims=True) if centre else 0.0
    d = x - mean
    if not scale:
        return d
    variance = (d * d).mean(-1, keepdims=True)
    return d / (np.sqrt(variance) + EPS if outside else np.sqrt(variance + EPS))


def values(shape: tuple[int, ...], seed: int = 0, dtype: DType = F32) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 3 + 1).astype(dtype.numpy)


def layer_norm(r: Size, n: Size, dtype: DType = F32) -> NormSpec:
    line, row = Operand(dtype, (n, 1)), Operand(dtype, (0, 1))
    b = Builder()
    program = b.finish(b.cast(b.input(0, dtype), F32))
    return NormSpec((r, n), (line,), (row, row), (line,), program, affine(dtype), EPS)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, F16], ids=str)
def test_layer_norm_lengths(isa: str, dtype: DType) -> None:
    rows = 6
    for n in LENGTHS if dtype is F32 else LENGTHS[1::3]:
        x, g, b = values((rows, n), n, dtype), values((n,), 1, dtype), values((n,), 2, dtype)
        want = normalised(x) * g.astype(np.float64) + b.astype(np.float64)
        first: np.ndarray | None = None
        for spec, dims in (
            (layer_norm(rows, n, dtype), ()),
            (layer_norm(RuntimeDim(0), RuntimeDim(1), dtype), (rows, n)),
        ):
            for workers in (1, 2, 3, 4):
                found = run(spec, [x, g, b], [(rows, n)], isa=isa, dims=dims, workers=workers)
                first = found.outs[0] if first is None else first
                assert same_bits(found.outs[0], first), (n, workers)
        assert first is not None
        rel, absolute = (4e-3, 4e-3) if dtype is F16 else (1e-5, 1e-5)
        np.testing.assert_allclose(first.astype(np.float64), want, rtol=rel, atol=absolute)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("outside", [True, False])
def test_variants_and_second_output(isa: str, centre: bool, scale: bool, outside: bool) -> None:
    b = Builder()
    residual = b.finish(b.op("add", b.input(0, F32), b.input(1, F32)))
    for n in (3, 50, 130):
        line = Operand(F32, (n, 1))
        x, y = values((5, n)), values((5, n), 1)
        for outs in ((line,), (line, line), (line, Operand(F16, (n, 1)))):
            spec = NormSpec(
                (5, n),
                (line, line),
                (),
                outs,
                residual,
                identity(F32),
                EPS,
                centre=centre,
                scale_variance=scale,
                eps_outside=outside,
            )
            want = normalised(x + y, centre, scale, outside)
            for workers in (1, 3):
                found = run(spec, [x, y], [(5, n)] * len(outs), isa=isa, workers=workers).outs
                np.testing.assert_allclose(found[0], want, rtol=1e-5, atol=3e-6)
                if len(outs) == 2:
                    assert same_bits(found[1], (x + y).astype(found[1].dtype))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_strides_expensive_prologue_and_doubles(isa: str, dynamic: bool) -> None:
    n, f64 = 41, DType.f64
    size: Size = RuntimeDim(0) if dynamic else n
    b = Builder()
    program = b.finish(b.op("exp", b.input(0, f64)))
    x = np.random.default_rng(0).standard_normal((n, 6))
    spec = NormSpec(
        (6, size),
        (Operand(f64, (1, 6)),),
        (Operand(f64, (1, 0)),),
        (Operand(f64, (1, 6)),),
        program,
        b.finish(b.op("mul", b.input(0, f64), b.input(1, f64))),
        EPS,
    )
    g = np.arange(6.0)
    for workers in (1, 2):
        found = run(spec, [x, g], [(n, 6)], isa=isa, dims=(n,), workers=workers).outs[0]
        np.testing.assert_allclose(found.T, normalised(np.exp(x.T)) * g[:, None], atol=1e-13)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
def test_constant_rows_and_nan(isa: str) -> None:
    x = np.full((3, 70), 2.5, np.float32)
    x[1, 69] = np.nan
    spec = NormSpec(
        (3, 70),
        (Operand(F32, (70, 1)),),
        (),
        (Operand(F32, (70, 1)),),
        identity(F32),
        identity(F32),
        EPS,
    )
    found = run(spec, [x], [(3, 70)], isa=isa).outs[0]
    assert np.isnan(found[1]).all()
    assert (found[[0, 2]] == 0).all()


@pytest.mark.parametrize("isa", ISAS)
def test_the_mean_is_taken_out_before_squaring(isa: str) -> None:
    """A large mean must not eat the variance (one-pass formulas lose it)."""
    x = (values((4, 256)) * 0.01 + 1000).astype(np.float32)
    spec = layer_norm(4, 256)
    g, b = np.ones(256, np.float32), np.zeros(256, np.float32)
    found = run(spec, [x, g, b], [(4, 256)], isa=isa).outs[0]
    np.testing.assert_allclose(found, normalised(x), rtol=2e-2, atol=2e-2)
    assert abs(float(found.std()) - 1) < 0.06


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", [20, 300])
def test_outputs_may_be_inputs(isa: str, n: int) -> None:
    b = Builder()
    double = b.finish(b.op("add", b.input(0, F32), b.input(0, F32)))
    line = Operand(F32, (n, 1))
    x = values((4, n))
    for outs in ((line,), (line, line)):
        spec = NormSpec((4, n), (line,), (), outs, double, identity(F32), EPS)
        want = run(spec, [x], [(4, n)] * len(outs), isa=isa).outs
        memory, other = guard_copy(x), guard_copy(x)
        written = [memory] if len(outs) == 1 else [other, memory]
        assert compile_spec(spec, isa)([memory, *written], (), 2) == (0, 0)
        assert all(same_bits(g.copy(), w) for g, w in zip(written, want, strict=True))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("n", [5, 300])
@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("outside", [True, False])
def test_squares_that_overflow_are_summed_in_another_unit(
    isa: str, n: int, centre: bool, outside: bool
) -> None:
    x = values((5, n), 3)
    x[1] *= np.float32(1e22)
    x[2] *= np.float32(1e36)
    x[3] *= np.float32(1e-3)
    x[4, 1] = np.inf
    line = (Operand(F32, (n, 1)),)
    identical = identity(F32)
    spec = NormSpec((5, n), line, (), line, identical, identical, EPS, centre, True, outside)
    found = run(spec, [x], [(5, n)], isa=isa).outs[0]
    want = normalised(x[:4], centre, True, outside)
    np.testing.assert_allclose(found[:4], want, rtol=1e-5, atol=1e-5)
    assert np.isnan(found[4, 1])
    assert np.isnan(found[4, 2:]).all() if centre else (found[4, 2:] == 0).all()
