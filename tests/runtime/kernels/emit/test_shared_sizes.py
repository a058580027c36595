"""Kernels that differ in sizes alone: their bodies are equal, and each computes its own sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.scalar.program import Instr, Program
from irc_compiler.plan.specs.base import Operand, RuntimeDim, Spec
from irc_compiler.plan.specs.convolution import Window
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.specs.gather_scatter import GatherSpec
from irc_compiler.plan.specs.pooling import PoolSpec
from irc_compiler.plan.specs.resample import ResampleSpec
from irc_compiler.plan.specs.rows import NormSpec, ReduceSpec
from irc_compiler.runtime.jit.equal_functions import FunctionPool
from irc_compiler.runtime.kernels.emit.shared_sizes import SharedSize, SharedSizes
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import ISAS, run, target_of

F32, I64 = DType.f32, DType.i64


def operand(*strides: int, dtype: DType = F32, offset: int = 0) -> Operand:
    return Operand(dtype, strides, offset)


def inputs_of(count: int) -> tuple[Instr, ...]:
    return tuple(Instr("input", (i,), F32) for i in range(count))


SAME = Program(inputs_of(1), (0,))
TOTAL = Program(inputs_of(2), (0,))
RELU = Program((*inputs_of(1), Instr("const", (), F32, 0.0), Instr("max", (0, 1), F32)), (2,))
MEAN = Program((*inputs_of(2), Instr("div", (0, 1), F32)), (2,))


def relu(rows: int, columns: int, pitch: int, offset: int = 2) -> Spec:
    data, out = operand(pitch, 1, offset=offset), operand(columns, 1)
    return ElementwiseSpec((rows, columns), (data,), (out,), RELU)


def columns_mean(rows: int, columns: int) -> Spec:
    data, out = operand(1, columns), operand(1)
    return ReduceSpec("sum", (columns,), (rows,), (data,), (out,), SAME, MEAN)


def norm(rows: int, outer: int) -> Spec:
    data = operand(outer * 32, 32, 1)
    return NormSpec((rows, outer, 32), (data,), (), (data,), SAME, SAME, 1e-5)


def pool(size: int, channels: int) -> Spec:
    out = size // 2
    return PoolSpec(
        *("max", 1, channels, (size, size), (out, out)),
        Window((2, 2), (2, 2), (1, 1), (0, 0)),
        *((0, 0), "window"),
        operand(0, 1, size * channels, channels),
        operand(0, 1, out * channels, channels),
        *(F32, TOTAL),
    )


def reflect(axis: int, inner: int, pad: int) -> Spec:
    count = axis + 2 * pad
    strides = operand(axis * inner, inner, 0, 1), operand(count * inner, inner, 0, 1)
    return ResampleSpec("reflect", 3, axis, count, 1, inner, *strides, F32, begin=pad)


def gather(axis: int, count: int, inner: int) -> Spec:
    index = operand(2, dtype=I64, offset=1)
    return GatherSpec(
        *(1, axis, count, inner, operand(0, inner, 1), index, operand(0, inner, 1)), "error"
    )


def name_bodies(specs: Sequence[Spec], isa: str) -> list[bool]:
    """Whether each kernel takes its body from an earlier one."""
    functions, target = FunctionPool(), target_of(isa)
    kernels = [generate(spec, target, f"k{i}") for i, spec in enumerate(specs)]
    return [bool(functions.reduce(i, k.text).sources) for i, k in enumerate(kernels)]


EQUAL = {
    "elementwise": [relu(7, 192, 256), relu(12, 128, 130), relu(3, 320, 640, offset=64)],
    "whole": [relu(1, 100, 100), relu(1, 77, 77)],
    "reduce": [columns_mean(9, 192), columns_mean(33, 320)],
    "norm": [norm(3, 1), norm(8, 1)],
    "pool": [pool(8, 128), pool(14, 192)],
    "resample": [reflect(9, 64, 2), reflect(12, 192, 1)],
    "gather": [gather(9, 4, 100), gather(30, 6, 333)],
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("name", EQUAL)
def test_kernels_that_differ_in_sizes_share_a_body(name: str, isa: str) -> None:
    specs = EQUAL[name]
    assert name_bodies(specs, isa) == [False] + [True] * (len(specs) - 1)


def test_what_decides_the_code_is_not_shared() -> None:
    isa = ISAS[0]
    assert name_bodies([relu(7, 192, 256), relu(7, 193, 256)], isa) == [False, False]
    assert name_bodies([relu(7, 192, 256), relu(7, 192, 256, offset=0)], isa) == [False, False]


Case = tuple[list[np.ndarray], np.ndarray]


def _elementwise(spec: ElementwiseSpec, data: np.ndarray) -> Case:
    (a,) = spec.inputs
    view = np.lib.stride_tricks.as_strided(data[a.offset :], spec.axes, [4 * s for s in a.strides])
    return [data], np.maximum(view, 0)


def _reduce(spec: ReduceSpec, data: np.ndarray) -> Case:
    rows, columns = *spec.reduced, *spec.kept
    return [data], data[: rows * columns].reshape(rows, columns).mean(0)


def _norm(spec: NormSpec, data: np.ndarray) -> Case:
    x = data[: spec.axes[0] * spec.axes[1] * 32].reshape(-1, 32)
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + spec.eps)
    return [data], wanted


def _pool(spec: PoolSpec, data: np.ndarray) -> Case:
    side, channels = spec.out_sizes[0], spec.channels
    x = data[: 4 * side * side * channels].reshape(side, 2, side, 2, channels)
    return [data], x.max((1, 3))


def _reflect(spec: ResampleSpec, data: np.ndarray) -> Case:
    x = data[: 3 * spec.axis * spec.inner].reshape(3, spec.axis, spec.inner)
    return [data], np.pad(x, [(0, 0), (spec.begin, spec.begin), (0, 0)], mode="reflect")


def _gather(spec: GatherSpec, data: np.ndarray) -> Case:
    index = np.random.default_rng(5).integers(-spec.axis, spec.axis, 2 * spec.count + 1)
    x = data[: spec.axis * spec.inner].reshape(spec.axis, spec.inner)
    return [data, index], x[index[1::2]]


REFERENCES = {
    ElementwiseSpec: _elementwise,
    ReduceSpec: _reduce,
    NormSpec: _norm,
    PoolSpec: _pool,
    ResampleSpec: _reflect,
    GatherSpec: _gather,
}


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", EQUAL)
def test_a_kernel_computes_its_own_sizes(name: str, workers: int, isa: str) -> None:
    data = np.random.default_rng(3).standard_normal(40000).astype(np.float32)
    for spec in EQUAL[name]:
        inputs, wanted = REFERENCES[type(spec)](spec, data)
        (found,) = run(spec, inputs, [wanted.shape], isa=isa, workers=workers).outs
        if name in ("reduce", "norm"):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, wanted)


def test_sizes_become_parameters_behind_the_run_time_sizes() -> None:
    shared = SharedSizes(2)
    assert shared.share_all([0, 1, RuntimeDim(1), 7]) == (0, 1, RuntimeDim(1), SharedSize(2))
    assert shared.share_row(16, 16, 4) == 16 and shared.share_row(33, 16, 4) == 33
    assert shared.share_row(32, 16, 4) == SharedSize(3, 16)
    assert shared.share_row(128, 16, 4) == SharedSize(4, 64)
    assert shared.share_offset(operand(1)).offset == 0
    assert shared.share_offset(operand(1, offset=1)).offset == SharedSize(5)
    assert shared.numbers == [7, 32, 128, 1] and shared.runtime_dims == 2
