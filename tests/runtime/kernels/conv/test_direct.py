"""Convolutions against `evaluate`: small integers bit for bit, on every instruction set."""

from __future__ import annotations

import ctypes
import math
import random
from dataclasses import dataclass, replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.ops import GroupConvolution
from irc_compiler.ir.scalar.builder import Builder, evaluate_program
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.packing.layouts import PackedConv
from irc_compiler.plan.packing.panel_params import accumulator, cell_depth, conv_panel
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.convolution import ConvSpec, Window
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack
from support.kernels.harness import (
    ISAS,
    Sizes,
    compile_spec,
    memory_strides,
    run,
    same_bits,
    target_of,
)

F32 = DType.f32


@dataclass(frozen=True)
class Case:
    """One convolution; sizes are spatial ones, `channels` and `outputs` count per group."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    channels: int = 3
    outputs: int = 5
    groups: int = 1
    batch: int = 1
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    dtype: DType = F32
    data_last: bool = True
    out_last: bool = True
    epilogue: str = "none"
    dynamic: bool = False
    winograd: int = 0
    compute_dtype: DType | None = None


def lay_out(array: np.ndarray, last: bool) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(array, 1, -1) if last else array)


def epilogue_of(name: str, dtype: DType, acc: DType) -> tuple[Program, list[str]]:
    b = Builder()
    x, kinds = b.input(0, acc), list[str]()
    if name in ("bias", "residual", "swish", "bytes"):
        x = b.op("add", b.cast(x, dtype), b.input(1, dtype))
        kinds.append("bias")
    if name == "residual":
        x = b.op("add", x, b.input(2, dtype))
        x = b.op("max", x, b.const(0, dtype))
        kinds.append("full")
    if name == "swish":
        x = b.op("mul", x, b.op("sigmoid", x))
    return b.finish(b.cast(x, DType.u8 if name == "bytes" else dtype)), kinds


def make(case: Case, isa: str, floats: bool = False):
    """(spec, inputs, run-time sizes, memory shape of the output, expected output)."""
    rng = np.random.default_rng(7)

    def numbers(shape: tuple[int, ...]) -> np.ndarray:
        if floats:
            return rng.standard_normal(shape).astype(np.float32)
        return rng.integers(-3, 4, shape).astype(case.dtype.numpy)

    rank = len(case.sizes)
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations = case.strides or ones, case.dilations or ones
    pads = case.pads or zeros
    data = numbers((case.batch, case.groups * case.channels, *case.sizes))
    filters = numbers((case.groups, case.outputs, case.channels, *case.kernel))
    op = GroupConvolution(
        strides=strides, dilations=dilations, pads_begin=pads, pads_end=case.pads_end or pads
    )
    (wide,) = op.evaluate(*(x if floats else x.astype(np.float64) for x in (data, filters)))
    depthwise = case.channels == case.outputs == 1 and case.data_last
    acc = accumulator(case.dtype)
    target = target_of(isa)
    nr = conv_panel(case.outputs, target, acc.bits)
    if depthwise:
        nr = target.lanes(acc.bits)
    kr = 1 if depthwise else cell_depth(target, case.compute_dtype)
    packed = PackedConv(nr, True, depthwise, kr=kr, runs=kr > 1 and dilations[-1] == 1)
    if case.winograd:
        packed, filters = PackedConv(nr, winograd=case.winograd), filters[0]
    size = Sizes(case.dynamic)

    def sized(shape: tuple[int, ...], last: bool) -> Operand:
        b, c, *rest = memory_strides(shape, last)
        c_ = c if last else size(c)
        rest_ = [size(s) for s in rest[:-1]] + [rest[-1]]
        return Operand(case.dtype, (size(b), c_, *rest_))

    out_shape = wide.shape
    program, kinds = epilogue_of(case.epilogue, case.dtype, acc)
    extras, operands, memory = [], [], []
    for kind in kinds:
        shape = out_shape if kind == "full" else (1, out_shape[1], *ones)
        x = numbers(shape)
        steps = memory_strides(shape, True)
        operands.append(
            Operand(
                case.dtype, tuple(0 if n == 1 else s for n, s in zip(shape, steps, strict=True))
            )
        )
        extras.append(x)
        memory.append(lay_out(x, True))
    spec = ConvSpec(
        batch=size(case.batch),
        groups=case.groups,
        channels=case.channels,
        outputs=case.outputs,
        in_sizes=tuple(size(s) for s in case.sizes),
        out_sizes=tuple(size(s) for s in out_shape[2:]),
        window=Window(case.kernel, strides, dilations, pads),
        data=sized(data.shape, case.data_last),
        weights=Operand(case.compute_dtype or case.dtype, (1,)),
        out=replace(
            sized(out_shape, case.out_last), dtype=program.instrs[program.results[0]].dtype
        ),
        acc=acc,
        packed=packed,
        epilogue=program,
        epilogue_operands=tuple(operands),
        compute_dtype=case.compute_dtype,
    )
    verify_specs([spec], target)
    stored, rounds = case.compute_dtype or case.dtype, case.compute_dtype not in (None, case.dtype)
    weights = pack(filters, PlanConstant(0, stored, filters.shape, packed, rounds=rounds))
    assert weights.size == spec.iteration_spaces()[1][0]
    total = wide.astype(acc.numpy)
    (expected,) = evaluate_program(
        program, [total, *(np.broadcast_to(x, out_shape) for x in extras)]
    )
    inputs = [lay_out(data, case.data_last), weights, *memory]
    return spec, inputs, size.dims, lay_out(expected, case.out_last).shape, expected


def computed(
    case: Case, isa: str, workers: int = 1, at: str = "end", floats: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    spec, inputs, dims, shape, expected = make(case, isa, floats)
    result = run(spec, inputs, [shape], isa=isa, dims=dims, workers=workers, at=at)
    assert result.status == 0
    (out,) = result.outs
    return (np.moveaxis(out, -1, 1) if case.out_last else out), expected


def check(case: Case, isa: str, workers: int = 1, at: str = "end") -> None:
    found, expected = computed(case, isa, workers, at)
    if case.epilogue == "swish":
        limit = 2e-2 if case.dtype.bits == 16 else 1e-5
        np.testing.assert_allclose(
            found.astype(float), expected.astype(float), rtol=limit, atol=limit
        )
    else:
        np.testing.assert_array_equal(found, expected)


each_isa = pytest.mark.parametrize("isa", ISAS)

CASES = {
    "padded": Case((9, 31), (3, 3), 4, 33, pads=(1, 1), epilogue="bias"),
    "strided": Case((17, 30), (3, 3), 5, 16, strides=(2, 2), pads=(1, 1), epilogue="residual"),
    "first": Case((21, 23), (7, 7), 3, 20, strides=(2, 2), pads=(3, 3), data_last=False),
    "first_last": Case((21, 23), (7, 7), 3, 20, strides=(2, 2), pads=(3, 3), epilogue="swish"),
    "one_channel": Case((10, 40), (5, 5), 1, 6, pads=(2, 2), data_last=False),
    "small": Case((7, 7), (3, 3), 18, 65, pads=(1, 1), epilogue="residual", batch=2),
    "tiny": Case((2, 3), (3, 3), 9, 40, pads=(1, 1), epilogue="swish"),
    "dot": Case((3, 3), (3, 3), 9, 40),
    "dilated": Case((13, 29), (3, 3), 6, 17, dilations=(2, 3), pads=(2, 3)),
    "uneven": Case((8, 11), (2, 4), 3, 7, strides=(3, 2), pads=(0, 2), pads_end=(1, 0)),
    "groups": Case((9, 15), (3, 3), 4, 6, groups=3, pads=(1, 1), epilogue="bias"),
    "line": Case((50,), (5,), 8, 12, pads=(2,), batch=3, epilogue="residual"),
    "volume": Case((5, 6, 7), (3, 2, 3), 3, 9, strides=(1, 2, 1), pads=(1, 0, 1)),
    "point": Case((6, 9), (1, 1), 19, 34, strides=(2, 2), epilogue="bias"),
    "far": Case((4, 4), (3, 3), 2, 3, pads=(4, 4)),
    "first_out": Case((9, 16), (3, 3), 4, 33, pads=(1, 1), out_last=False, epilogue="bias"),
    "double": Case((9, 16), (3, 3), 4, 9, pads=(1, 1), dtype=DType.f64, epilogue="bias"),
    "half": Case((9, 16), (3, 3), 4, 9, pads=(1, 1), dtype=DType.f16, epilogue="residual"),
    "depthwise": Case((9, 33), (3, 3), 1, 1, 37, pads=(1, 1), epilogue="bias", batch=2),
    "depthwise_strided": Case((12, 15), (5, 5), 1, 1, 16, strides=(2, 2), pads=(2, 2)),
    "depthwise_swish": Case((7, 7), (3, 3), 1, 1, 24, pads=(1, 1), epilogue="swish"),
    "depthwise_long": Case((40,), (15,), 1, 1, 20, pads=(7,), epilogue="residual"),
    "depthwise_dilated": Case((9, 20), (3, 3), 1, 1, 20, dilations=(3, 2), pads=(3, 2)),
    "depthwise_half": Case((9, 20), (3, 3), 1, 1, 20, pads=(1, 1), dtype=DType.bf16),
    "depthwise_volume": Case((4, 5, 6), (3, 3, 3), 1, 1, 18, pads=(1, 1, 1)),
}  # fmt: skip


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", CASES)
def test_against_evaluate(name: str, isa: str) -> None:
    rng = random.Random(f"{name} {isa}")
    check(CASES[name], isa, workers=rng.choice([1, 2, 3]), at=rng.choice(["start", "end"]))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize(
    "name", ["padded", "first", "small", "line", "volume", "depthwise", "depthwise_strided"]
)
def test_sizes_of_run_time(name: str, isa: str) -> None:
    check(replace(CASES[name], dynamic=True), isa, workers=2)


def random_case(rng: random.Random) -> Case:
    rank = rng.choice([1, 2, 2, 2, 3])

    def several(*options: int) -> tuple[int, ...]:
        return tuple(rng.choice(options) for _ in range(rank))

    kernel, dilations = several(1, 2, 3, 4), several(1, 1, 1, 2)
    sizes = tuple(rng.randint((k - 1) * d + 1, 20) for k, d in zip(kernel, dilations, strict=True))
    depthwise = rng.random() < 0.3
    return Case(
        sizes,
        kernel,
        1 if depthwise else rng.choice([1, 3, 4, 7, 16]),
        1 if depthwise else rng.choice([1, 2, 8, 17, 40]),
        rng.choice([3, 16, 35]) if depthwise else rng.choice([1, 1, 2]),
        rng.choice([1, 2]),
        several(1, 1, 2, 3),
        dilations,
        several(0, 1, 2),
        several(0, 1, 2),
        rng.choice([F32, F32, F32, DType.f64, DType.bf16]),
        rng.random() < 0.7,
        rng.random() < 0.8,
        rng.choice(["none", "bias", "residual"]),
        rng.random() < 0.3,
    )


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("number", range(6))
def test_random_convolutions_are_exact(number: int, isa: str) -> None:
    rng = random.Random(f"conv {isa} {number}")
    check(random_case(rng), isa, rng.choice([1, 2, 4]), rng.choice(["start", "end"]))


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", ["padded", "small", "depthwise"])
def test_bits_depend_on_neither_threads_nor_kind_of_kernel(name: str, isa: str) -> None:
    case = replace(CASES[name], epilogue="none")
    first, _ = computed(case, isa, floats=True)
    for workers in (2, 3, 4):
        assert same_bits(computed(case, isa, workers, floats=True)[0], first)
    for other in ({"dynamic": True}, {"out_last": False}):
        assert same_bits(computed(replace(case, **other), isa, 2, floats=True)[0], first)


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "any length"])
@pytest.mark.parametrize("length", [1, 60, 700])
@each_isa
def test_workers_share_a_long_row(length: int, dynamic: bool, isa: str) -> None:
    """One row of one panel: each worker computes some of its tiles, and none computes others'."""
    case = Case((length,), (3,), 5, 4, pads=(1,), epilogue="bias", dynamic=dynamic)
    for workers in (1, 2, 3, 70):
        check(case, isa, workers)
    spec, inputs, dims, shape, _ = make(case, isa)
    compiled, sizes = compile_spec(spec, isa), (ctypes.c_int64 * max(1, len(dims)))(*dims)
    counts = list[int]()
    for worker in range(4):
        buffers = [*inputs, np.full(shape, np.nan, np.float32)]
        table = (ctypes.c_void_p * len(buffers))(*(b.ctypes.data for b in buffers))
        scratch = np.zeros(compiled.scratch + 64, np.uint8)
        assert compiled.entry(table, sizes, worker, 4, scratch.ctypes.data) == 0
        counts.append(int(np.isfinite(buffers[-1]).sum()) // case.outputs)
    assert sum(counts) == length and (length < 700 or min(counts) > length // 8)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", ["padded", "depthwise"])
def test_error_on_random_data(name: str, isa: str) -> None:
    found, expected = computed(replace(CASES[name], epilogue="none"), isa, floats=True)
    taps = math.prod(CASES[name].kernel) * CASES[name].channels
    assert np.max(np.abs(found - expected)) <= 2.0**-24 * 5 * taps * 9


@pytest.mark.slow
@each_isa
def test_no_batch(isa: str) -> None:
    for name in ("padded", "depthwise"):
        check(replace(CASES[name], batch=0, epilogue="none"), isa)
        check(replace(CASES[name], batch=0, epilogue="none", dynamic=True), isa)


WINOGRAD = {
    "even": Case((8, 12), (3, 3), 16, 32, pads=(1, 1), epilogue="residual", winograd=2),
    "odd": Case((7, 7), (3, 3), 20, 70, pads=(1, 1), epilogue="bias", batch=3, winograd=2),
    "bare": Case((9, 5), (3, 3), 5, 9, winograd=2),
    "bytes": Case((9, 6), (3, 3), 5, 9, epilogue="bytes", winograd=2),
    "far": Case((5, 6), (3, 3), 17, 16, pads=(2, 3), epilogue="swish", winograd=2),
    "four": Case((28, 30), (3, 3), 18, 33, pads=(1, 1), epilogue="residual", winograd=4),
    "four_odd": Case((13, 9), (3, 3), 7, 40, pads=(0, 1), epilogue="swish", batch=2, winograd=4),
    "many": Case((40, 41), (3, 3), 300, 8, pads=(1, 1), epilogue="bias", winograd=4),
    "volume": Case((5, 8, 12), (3, 3, 3), 16, 32, pads=(1, 1, 1), epilogue="residual", winograd=2),
    "volume_four": Case((4, 28, 30), (3, 3, 3), 18, 33, pads=(1, 1, 1), batch=2, winograd=4),
    "slices": Case((3, 9, 14), (1, 3, 3), 20, 9, pads=(0, 1, 1), epilogue="bias", winograd=2),
    "far_slices": Case((2, 7, 9), (3, 3, 3), 5, 16, pads=(4, 1, 1), winograd=2),
    "slices_apart": Case(
        (9, 8, 7), (2, 3, 3), 16, 16, strides=(2, 1, 1), dilations=(3, 1, 1), pads=(2, 1, 0),
        epilogue="swish", winograd=4,
    ),
}  # fmt: skip


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", WINOGRAD)
def test_winograd(name: str, isa: str) -> None:
    """F(2 x 2) of small integers is exact: its transforms multiply by halves at most."""
    case = WINOGRAD[name]
    if case.winograd == 2 and case.epilogue != "swish":
        check(case, isa, workers=2)
        check(replace(case, out_last=False), isa, workers=3, at="start")
    found, expected = computed(case, isa, floats=True)
    assert np.max(np.abs(found - expected)) <= 2e-5 * np.max(np.abs(expected))
    for workers in (2, 3, 5):
        assert same_bits(computed(case, isa, workers, floats=True)[0], found)
    assert same_bits(computed(replace(case, dynamic=True), isa, floats=True)[0], found)
