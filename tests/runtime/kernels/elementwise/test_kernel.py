"""Elementwise kernels over shapes, strides, offsets, run-time sizes and workers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.builder import Builder, evaluate_program, identity
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Size
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import (
    ISAS,
    compile_spec,
    guard_copy,
    guarded,
    run,
    same_bits,
    strides_of,
    target_of,
)

F32, I64, U8 = DType.f32, DType.i64, DType.u8
SIZES = [0, 1, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 127, 200]


def add_program(dtype: DType = F32) -> Program:
    b = Builder()
    x, y = b.input(0, dtype), b.input(1, dtype)
    return b.finish(b.op("max", b.op("add", x, y), b.const(0, dtype)))


def numbers(shape: Sequence[int], dtype: DType = F32, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(dtype.numpy)


def view(buffer: np.ndarray, axes: Sequence[int], operand: Operand) -> np.ndarray:
    """The operand's elements as an array of shape `axes` (static strides)."""
    index = np.full(axes, operand.offset)
    for axis, (size, stride) in enumerate(zip(axes, operand.strides, strict=True)):
        shape = [1] * len(axes)
        shape[axis] = size
        index = index + (np.arange(size) * stride).reshape(shape)
    return buffer.reshape(-1)[index]


def check(
    spec: ElementwiseSpec,
    buffers: Sequence[np.ndarray],
    out_size: int,
    isa: str,
    *,
    axes: Sequence[int] | None = None,
    operands: Sequence[Operand] | None = None,
    dims: Sequence[int] = (),
) -> None:
    """Compare with evaluate_program for 1..4 workers; elements outside the operand stay."""
    axes = spec.axes if axes is None else axes
    operands = spec.operands() if operands is None else operands
    inputs = [view(b, axes, o) for b, o in zip(buffers, operands, strict=False)]
    wanted = evaluate_program(spec.program, inputs)
    count = len(spec.inputs)
    for workers in (1, 2, 3, 4):
        for at in ("end", "start"):
            sizes = [(out_size,)] * len(spec.outs)
            found = run(spec, buffers, sizes, isa=isa, workers=workers, dims=dims, at=at)
            assert found.status == 0
            for out, operand, want in zip(found.outs, operands[count:], wanted, strict=True):
                assert same_bits(view(out, axes, operand), want), (spec, workers, isa)
                untouched = np.ones(out.size, bool)
                untouched[view(np.arange(out.size), axes, operand).reshape(-1)] = False
                rest = out[untouched].view(np.uint8)
                blank = np.full(1, np.nan, out.dtype) if out.dtype.kind == "f" else None
                fill = np.frombuffer(b"\xa5" * 8, out.dtype)[:1] if blank is None else blank
                assert rest.tobytes() == np.repeat(fill, untouched.sum()).tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_one_axis_of_every_length(isa: str, dynamic: bool) -> None:
    for n in SIZES:
        size: Size = RuntimeDim(0) if dynamic else n
        line = Operand(F32, (1,))
        spec = ElementwiseSpec((size,), (line, line), (line,), add_program())
        x, y = numbers([n]), numbers([n], seed=1)
        check(spec, [x, y], n, isa, axes=(n,), dims=(n,))


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [F32, DType.f16, U8, I64, DType.f64], ids=str)
def test_bias_rows_and_columns(isa: str, dynamic: bool, dtype: DType) -> None:
    """(r, n) + (n), (r, n) + (r, 1), (r, n) + scalar."""
    shapes = ((7, 17), (2, 130), (1, 1), (3, 1), (1, 5), (5, 64), (0, 3), (3, 0))
    for r, n in shapes if dtype is F32 else shapes[:2]:
        for strides, count in (((0, 1), n), ((1, 0), r), ((0, 0), 1)):
            static = ElementwiseSpec(
                (r, n),
                (Operand(dtype, (n, 1)), Operand(dtype, strides)),
                (Operand(dtype, (n, 1)),),
                add_program(dtype),
            )
            spec = static
            if dynamic:
                row: Size = RuntimeDim(1)
                spec = ElementwiseSpec(
                    (RuntimeDim(0), row),
                    (Operand(dtype, (row, 1)), Operand(dtype, strides)),
                    (Operand(dtype, (row, 1)),),
                    static.program,
                )
            x, y = numbers([r, n], dtype), numbers([count], dtype, seed=1)
            check(spec, [x, y], r * n, isa, axes=(r, n), operands=static.operands(), dims=(r, n))


@pytest.mark.parametrize("isa", ISAS)
def test_strided_negative_and_offset_operands(isa: str) -> None:
    a = Operand(F32, (-12, -1), offset=11 + 4 * 12)  # both axes reversed
    b = Operand(F32, (1, 5))  # transposed
    out = Operand(F32, (30, 2), offset=3)  # every other element of a wider row
    check(
        ElementwiseSpec((5, 12), (a, b), (out,), add_program()),
        [numbers([60]), numbers([60], seed=1)],
        3 + 4 * 30 + 24,
        isa,
    )


@pytest.mark.parametrize("isa", ISAS)
def test_many_axes_with_broadcasts_between(isa: str) -> None:
    shape = (2, 3, 4, 5, 6)
    out = Operand(F32, strides_of(shape))
    x = Operand(F32, (0, 120 // 6, 0, 5 * 0 + 1, 0), offset=2)
    y = Operand(F32, strides_of(shape))
    check(
        ElementwiseSpec(shape, (x, y), (out,), add_program()),
        [numbers([200]), numbers([720], seed=1)],
        720,
        isa,
    )


@pytest.mark.parametrize("isa", ISAS)
def test_run_time_strides_and_offsets(isa: str) -> None:
    r, n, pitch, shift = 6, 21, 30, 4
    static = ElementwiseSpec(
        (r, n),
        (Operand(F32, (pitch, 1), shift), Operand(F32, (-1, 2), 5)),
        (Operand(F32, (1, 6)),),
        add_program(),
    )
    spec = ElementwiseSpec(
        (RuntimeDim(0), RuntimeDim(1)),
        (
            Operand(F32, (RuntimeDim(2), 1), RuntimeDim(3)),
            Operand(F32, (RuntimeDim(4), RuntimeDim(5)), RuntimeDim(6)),
        ),
        (Operand(F32, (RuntimeDim(7), RuntimeDim(8))),),
        add_program(),
    )
    dims = (r, n, pitch, shift, -1, 2, 5, 1, 6)
    buffers = [numbers([200]), numbers([60], seed=1)]
    check(spec, buffers, 126, isa, axes=(r, n), operands=static.operands(), dims=dims)


@pytest.mark.aarch64
@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
def test_several_outputs_of_mixed_types(isa: str) -> None:
    b = Builder()
    i, x = b.input(0, I64), b.input(1, F32)
    near = b.op("lt", i, b.const(3, I64))
    y = b.op("select", near, x, b.op("neg", x))
    program = b.finish(y, near, b.cast(y, U8), b.cast(y, DType.f16))
    for n in (1, 7, 16, 40, 150):
        line = (1,)
        outs = tuple(Operand(t, line) for t in (F32, DType.boolean, U8, DType.f16))
        spec = ElementwiseSpec((n,), (Operand(I64, line), Operand(F32, line)), outs, program)
        inputs = [numbers([n], I64), numbers([n], seed=1)]
        wanted = evaluate_program(program, inputs)
        for workers in (1, 3):
            found = run(spec, inputs, [(n,)] * 4, isa=isa, workers=workers)
            assert all(same_bits(a, b) for a, b in zip(found.outs, wanted, strict=True))


PERMUTED = [
    ((5, 7), (1, 0)),
    ((16, 16), (1, 0)),
    ((33, 65), (1, 0)),
    ((100, 1), (1, 0)),
    ((2, 17, 19), (0, 2, 1)),
    ((3, 18, 2, 20), (0, 2, 1, 3)),
    ((4, 9, 35), (2, 1, 0)),
    ((4, 9, 35), (1, 2, 0)),
    ((0, 9), (1, 0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [F32, DType.f64, DType.f16, U8, DType.boolean], ids=str)
def test_transposes(isa: str, dynamic: bool, dtype: DType) -> None:
    for shape, order in PERMUTED if dtype is F32 else PERMUTED[2::3]:
        x = numbers(shape, dtype)
        axes = tuple(shape[p] for p in order)
        source = strides_of(shape)
        strides = tuple(source[p] for p in order)
        spec = ElementwiseSpec(
            axes,
            (Operand(dtype, strides),),
            (Operand(dtype, strides_of(axes)),),
            identity(dtype),
        )
        dims: list[int] = []
        if dynamic:
            dims = [*axes, *strides[:-1], *strides_of(axes)[:-1]]
            rank = len(axes)
            moving = [RuntimeDim(i) for i in range(3 * rank - 2)]
            last = strides[-1] if strides[-1] in (0, 1) else RuntimeDim(len(dims))
            dims.append(strides[-1])
            ones: list[Size] = [
                1 if s == 1 else m for s, m in zip(strides, moving[rank:], strict=False)
            ]
            spec = ElementwiseSpec(
                tuple(moving[:rank]),
                (Operand(dtype, (*ones[: rank - 1], last)),),
                (Operand(dtype, (*moving[2 * rank - 1 :], 1)),),
                identity(dtype),
            )
        for workers in (1, 2, 3, 4):
            found = run(spec, [x], [axes], isa=isa, workers=workers, dims=dims)
            assert same_bits(found.outs[0], np.transpose(x, order)), (shape, order, workers)


@pytest.mark.aarch64
@pytest.mark.parametrize("isa", ISAS)
def test_output_may_be_its_input(isa: str) -> None:
    n = 133
    line = Operand(F32, (1,))
    b = Builder()
    x = b.input(0, F32)
    program = b.finish(b.op("exp", x), b.op("neg", x))
    spec = ElementwiseSpec((n,), (line,), (line, line), program)
    given = numbers([n]) / 4
    wanted = run(spec, [given], [(n,)] * 2, isa=isa).outs
    for workers in (1, 3):
        memory, other = (guarded(n * 4).view(np.float32) for _ in range(2))
        memory[...] = given
        assert compile_spec(spec, isa)([memory, memory, other], (), workers) == (0, 0)
        assert same_bits(memory.copy(), wanted[0])
        assert same_bits(other.copy(), wanted[1])


def test_generation_is_pure() -> None:
    line = Operand(F32, (1,))
    spec = ElementwiseSpec((RuntimeDim(0),), (line, line), (line,), add_program())
    target = target_of(ISAS[0])
    assert generate(spec, target, "k") == generate(spec, target, "k")
    assert "@k9(" in generate(spec, target, "k9").text


@pytest.mark.slow
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dynamic", [False, True])
def test_some_inputs_transposed(isa: str, dynamic: bool) -> None:
    """x + y.T + column, light and long, also in place of x, at sizes with and without edges."""
    for long in (False, True):
        b = Builder()
        x, y, c = (b.input(i, F32) for i in range(3))
        z = b.op("add", x, b.op("add", y, c))
        for _ in range(3 if long else 0):
            z = b.op("sub", b.op("mul", z, b.const(2.0, F32)), b.op("neg", x))
        program = b.finish(z, b.cast(b.op("lt", x, y), DType.f16))
        for r, n in ((16, 32), (21, 19), (40, 5), (3, 50), (64, 17)):
            d: list[Size] = [RuntimeDim(0), RuntimeDim(1)] if dynamic else [r, n]
            line, turned, column = (
                Operand(F32, (d[1], 1)),
                Operand(F32, (1, d[0])),
                Operand(F32, (1, 0)),
            )
            outs = (line, Operand(DType.f16, (d[1], 1)))
            spec = ElementwiseSpec((d[0], d[1]), (line, turned, column), outs, program)
            given = [numbers((r, n)), numbers((n, r), seed=1), numbers((r,), seed=2)]
            views = [given[0], given[1].T, np.broadcast_to(given[2][:, None], (r, n))]
            wanted = evaluate_program(program, views)
            for workers in (1, 2, 3):
                found = run(spec, given, [(r, n)] * 2, isa=isa, workers=workers, dims=(r, n))
                assert all(same_bits(g, w) for g, w in zip(found.outs, wanted, strict=True))
                inputs = [guard_copy(g) for g in given]
                other = guarded(r * n * 2).view(np.float16)
                status = compile_spec(spec, isa)([*inputs, inputs[0], other], (r, n), workers)
                assert status == (0, 0)
                assert same_bits(inputs[0].copy(), wanted[0]), (r, n, workers)
