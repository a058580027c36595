"""Reductions of every kind and type, along and across rows."""

from __future__ import annotations

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.scalar.builder import Builder, identity
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.rows import ReduceSpec
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.machine.detect import host_target
from support.kernels.harness import ISAS, run, same_bits, strides_of

F32, F64, I32 = DType.f32, DType.f64, DType.i32
NUMPY = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
}
START = {"max": -np.inf, "min": np.inf}
# (kept before, reduced, kept after): along rows where the last is 1, across where it is not.
SHAPES = [
    (1, 1, 1),
    (5, 1, 1),
    (3, 4, 1),
    (3, 17, 1),
    (20, 64, 1),
    (1, 1000, 1),
    (2, 129, 1),
    (3, 0, 1),
    (1, 5, 7),
    (1, 9, 130),
    (3, 4, 16),
    (2, 33, 65),
    (2, 0, 5),
    (0, 4, 5),
]

THOROUGH = [("sum", F32), ("max", F32), ("all", DType.boolean)]


def wholes(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    if dtype is DType.boolean:
        return np.random.default_rng(seed).random(shape) < 0.9
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype.numpy)


def reference(kind: str, x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    if kind in START and x.dtype.kind != "f":
        info = np.iinfo(x.dtype)
        return NUMPY[kind](x, axis, initial=info.min if kind == "max" else info.max)
    extra = {"initial": START[kind]} if kind in START else {}
    if kind in ("sum", "prod"):
        extra["dtype"] = x.dtype
    return NUMPY[kind](x, axis, **extra)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        *(("sum", t) for t in (F32, F64, I32, DType.i64, DType.u8, DType.f16)),
        *(("max", t) for t in (F32, I32, DType.u8)),
        *(("min", t) for t in (F32, DType.i64)),
        ("prod", I32),
        ("any", DType.boolean),
        ("all", DType.boolean),
    ],
    ids=str,
)
def test_kinds(kind: str, dtype: DType, isa: str) -> None:
    for a, n, c in SHAPES if (kind, dtype) in THOROUGH else SHAPES[::3]:
        x = wholes((a, n, c), dtype, n)
        want = reference(kind, x, 1)
        for size, step in ((n, n * c), (RuntimeDim(0), RuntimeDim(1))):
            spec = ReduceSpec(
                kind,
                (a, c),
                (size,),
                (Operand(dtype, (step, 1, c)),),
                (Operand(dtype, (c, 1)),),
                identity(dtype),
                identity(dtype),
            )
            for workers in (1, 2, 3, 4):
                found = run(spec, [x], [(a, c)], isa=isa, workers=workers, dims=(n, n * c)).outs[0]
                assert same_bits(found + 0, want + 0), (a, n, c, workers)


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_mean_of_squares_over_several_axes(isa: str, dynamic: bool) -> None:
    """Prologue with a broadcast input, several reduced axes, an epilogue with the count."""
    b = Builder()
    d = b.op("sub", b.input(0, F32), b.input(1, F32))
    square = b.finish(b.op("mul", d, d))
    mean = b.finish(b.op("sqrt", b.op("div", b.input(0, F32), b.input(1, F32))))
    for shape in ((2, 3, 4, 5), (3, 2, 37, 18), (1, 70, 2, 1)):
        x, m = wholes(shape, F32), wholes((shape[1],), F32, 1)
        s = strides_of(shape)
        strides: list[Size] = [RuntimeDim(i) for i in range(3)] if dynamic else list(s[:3])
        sizes: list[Size] = [RuntimeDim(i + 3) for i in range(4)] if dynamic else list(shape)
        for axes in ((0, 2, 3), (0, 2), (1, 3), (0, 1, 2, 3), (0,)):
            kept = [i for i in range(4) if i not in axes]
            order = [*kept, *axes]
            walk = [*strides, 1]
            spec = ReduceSpec(
                "sum",
                tuple(sizes[i] for i in kept),
                tuple(sizes[i] for i in axes),
                (
                    Operand(F32, tuple(walk[i] for i in order)),
                    Operand(F32, tuple(1 if i == 1 else 0 for i in order)),
                ),
                (Operand(F32, strides_of([shape[i] for i in kept])),),
                square,
                mean,
            )
            want = ((x - m[:, None, None]).astype(np.float64) ** 2).mean(axes) ** 0.5
            first = None
            for workers in (1, 2, 3, 4):
                found = run(
                    spec, [x, m], [want.shape], isa=isa, workers=workers, dims=[*s[:3], *shape]
                ).outs[0]
                first = found if first is None else first
                assert same_bits(found, first)
            np.testing.assert_allclose(first, want, rtol=1e-6)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_several_results_of_one_walk(isa: str, dynamic: bool) -> None:
    """Sums and sums of squares, along rows and across them; the second result is a quotient."""
    b = Builder()
    x = b.cast(b.input(0, F32), F64)
    sums = b.finish(x, b.op("mul", x, x))
    b = Builder()
    total, squares, count = (b.input(i, F64) for i in range(3))
    last = b.finish(b.cast(total, F32), b.op("div", squares, count))
    for a, n, c in ((3, 70, 1), (2, 9, 5), (1, 33, 16), (2, 5, 40), (1, 3, 83)):
        data = wholes((a, n, c), F32)
        size, step = (RuntimeDim(0), RuntimeDim(1)) if dynamic else (n, n * c)
        outs = (Operand(F32, (c, 1)), Operand(F64, (c, 1)))
        spec = ReduceSpec("sum", (a, c), (size,), (Operand(F32, (step, 1, c)),), outs, sums, last)
        for workers in (1, 2, 3):
            shapes = [(a, c)] * 2
            made = run(spec, [data], shapes, isa=isa, workers=workers, dims=(n, n * c)).outs
            assert same_bits(made[0], data.sum(1))
            assert same_bits(made[1], (data.astype(np.float64) ** 2).sum(1) / n)


def test_results_of_several_types_are_refused() -> None:
    b = Builder()
    x = b.input(0, F32)
    mixed = b.finish(x, b.cast(x, F64))
    outs = (Operand(F32, (1,)),) * 2
    spec = ReduceSpec("sum", (2,), (3,), (Operand(F32, (3, 1)),), outs, mixed, identity(F32))
    with pytest.raises(VerificationError, match="do not have one type"):
        verify_specs([spec], host_target())


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", ["max", "min"])
def test_nan_is_propagated(isa: str, kind: str) -> None:
    for n in (1, 5, 64, 67, 200):
        for at in {0, n // 2, n - 1}:
            x = wholes((2, n), F32)
            x[1, at] = np.nan
            for data, strides in ((x, (n, 1)), (np.ascontiguousarray(x.T), (1, 2))):
                spec = ReduceSpec(
                    kind,
                    (2,),
                    (n,),
                    (Operand(F32, strides),),
                    (Operand(F32, (1,)),),
                    identity(F32),
                    identity(F32),
                )
                found = run(spec, [data], [(2,)], isa=isa).outs[0]
                assert found[0] == NUMPY[kind](x[0]) and np.isnan(found[1])


@pytest.mark.parametrize("isa", ISAS)
def test_random_sums_have_the_same_bits_for_any_workers(isa: str) -> None:
    rng = np.random.default_rng(0)
    for a, n, c in ((9, 333, 1), (1, 5000, 1), (2, 77, 90)):
        x = rng.standard_normal((a, n, c)).astype(np.float32)
        found = []
        for size, step in ((n, n * c), (RuntimeDim(0), RuntimeDim(1))):
            spec = ReduceSpec(
                "sum",
                (a, c),
                (size,),
                (Operand(F32, (step, 1, c)),),
                (Operand(F32, (c, 1)),),
                identity(F32),
                identity(F32),
            )
            found += [
                run(spec, [x], [(a, c)], isa=isa, workers=w, dims=(n, n * c)).outs[0]
                for w in (1, 2, 3, 4)
            ]
        assert all(same_bits(f, found[0]) for f in found)
        np.testing.assert_allclose(found[0], x.astype(np.float64).sum(1), atol=3e-4)
