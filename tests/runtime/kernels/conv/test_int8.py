"""Convolutions of bytes: exact sums with zero points on every instruction set; requantisation."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.ir.errors import VerificationError
from irc_compiler.ir.ops import GroupConvolution
from irc_compiler.ir.scalar.builder import Builder, evaluate_program
from irc_compiler.ir.scalar.program import Program
from irc_compiler.plan.packing.layouts import PackedConv
from irc_compiler.plan.packing.panel_params import conv_cells, conv_panel
from irc_compiler.plan.plan import PlanConstant
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.convolution import ConvSpec, Window
from irc_compiler.plan.target import Target
from irc_compiler.plan.verify.specs import verify_specs
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.gemm.packing.weight_packing import pack
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import (
    ISAS,
    Sizes,
    memory_strides,
    run,
    target_of,
)

from tests.runtime.kernels.conv.test_direct import CASES, Case, lay_out, random_case

U8, I8, I16, I32, F32 = DType.u8, DType.i8, DType.i16, DType.i32, DType.f32
each_isa = pytest.mark.parametrize("isa", ISAS)
NAMES = [n for n, c in CASES.items() if c.dtype is F32]


def requantise(out: DType) -> Program:
    """A scale per channel, a residual, ReLU, and a cast that saturates."""
    b = Builder()
    x = b.op("mul", b.cast(b.input(0, I32), F32), b.input(1, F32))
    x = b.op("max", b.op("add", x, b.cast(b.input(2, out), F32)), b.const(0.0, F32))
    x = b.op("add", b.op("round_even", x), b.const(3.0, F32))
    return b.finish(b.cast(x, out))


def make(
    case: Case,
    target: Target,
    data_type: DType,
    zero: int | None,
    out: DType,
    wide: bool,
    values: tuple[list[int], list[int]] | None = None,
):
    """(spec, inputs, run-time sizes, shape of the output's memory, expected output). `values`: what
    data and filters are drawn from, for all that their types hold."""
    rng = np.random.default_rng(5)
    rank = len(case.sizes)
    ones = (1,) * rank
    strides, dilations, pads = (
        case.strides or ones,
        case.dilations or ones,
        case.pads or (0,) * rank,
    )
    info = np.iinfo(data_type.numpy)
    shape = (case.batch, case.groups * case.channels, *case.sizes)
    data = rng.integers(info.min, info.max + 1, shape).astype(data_type.numpy)
    if values:
        data = rng.choice(values[0], shape).astype(data_type.numpy)
    weight = I16 if wide else I8
    reach = 255 if wide else 127
    shape = (case.groups, case.outputs, case.channels, *case.kernel)
    filters = rng.integers(-reach - (not wide), reach + 1, shape).astype(weight.numpy)
    if values:
        filters = rng.choice(values[1], shape).astype(weight.numpy)
    op = GroupConvolution(
        strides=strides, dilations=dilations, pads_begin=pads, pads_end=case.pads_end or pads
    )
    (exact,) = op.evaluate(data.astype(np.float64) - (zero or 0), filters.astype(np.float64))
    depthwise = case.channels == case.outputs == 1 and case.data_last
    kr, sums = (1, False) if depthwise else conv_cells(target, weight, None)
    nr = target.lanes(32) if depthwise else conv_panel(case.outputs, target, 32)
    runs = kr > 1 and dilations[-1] == 1
    packed = PackedConv(nr, True, depthwise, kr=kr, runs=runs, column_sums=sums)
    packed = packed.with_tails(case.channels, case.kernel)
    if case.winograd:
        packed, weight = PackedConv(nr, winograd=case.winograd, kr=2), I16
        filters = filters[0].astype(weight.numpy)
    size = Sizes(case.dynamic)

    def sized(shape: tuple[int, ...], dtype: DType, last: bool) -> Operand:
        b, c, *rest = memory_strides(shape, last)
        rest_ = [size(s) for s in rest[:-1]] + [rest[-1]]
        return Operand(dtype, (size(b), c if last else size(c), *rest_))

    inputs = [lay_out(data, case.data_last)]
    inputs.append(pack(filters, PlanConstant(0, weight, filters.shape, packed)))
    if zero is not None:
        inputs.append(np.array([zero], data_type.numpy))
    scale = (2.0 ** rng.integers(-9, -5, (1, exact.shape[1], *ones))).astype(np.float32)
    other = rng.integers(0, 100, exact.shape).astype(out.numpy)
    total = exact.astype(np.int64).astype(np.int32)
    if out is I32:
        b = Builder()
        program, extras = b.finish(b.input(0, I32)), ()
        expected = total
    else:
        program = requantise(out)
        per_channel = (0, 1, *(0,) * rank)
        extras = (Operand(F32, per_channel), sized(exact.shape, out, True))
        (expected,) = evaluate_program(program, [total, np.broadcast_to(scale, total.shape), other])
        inputs += [scale, lay_out(other, True)]
    spec = ConvSpec(
        batch=size(case.batch),
        groups=case.groups,
        channels=case.channels,
        outputs=case.outputs,
        in_sizes=tuple(size(s) for s in case.sizes),
        out_sizes=tuple(size(s) for s in exact.shape[2:]),
        window=Window(case.kernel, strides, dilations, pads),
        data=sized(data.shape, data_type, case.data_last),
        weights=Operand(weight, (1,)),
        out=sized(exact.shape, out, case.out_last),
        acc=I32,
        packed=packed,
        epilogue=program,
        epilogue_operands=extras,
        zero_point=None if zero is None else Operand(data_type, (0,)),
    )
    verify_specs([spec], target)
    assert inputs[1].size == spec.iteration_spaces()[1][0]
    return spec, inputs, size.dims, lay_out(expected, case.out_last).shape, expected


def check(
    case: Case,
    isa: str,
    data_type: DType,
    zero: int | None,
    out: DType = I32,
    wide: bool = False,
    workers: int = 1,
    at: str = "end",
    values: tuple[list[int], list[int]] | None = None,
) -> None:
    made = make(case, target_of(isa), data_type, zero, out, wide, values)
    spec, inputs, dims, shape, expected = made
    (found,) = run(spec, inputs, [shape], isa=isa, dims=dims, workers=workers, at=at).outs
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1) if case.out_last else found, expected)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", NAMES)
def test_sums_are_exact(name: str, isa: str) -> None:
    rng = random.Random(f"bytes {name} {isa}")
    kind, zero = rng.choice([(U8, 131), (U8, None), (I8, -7), (I8, None), (U8, 255), (I8, -128)])
    out = rng.choice([I32, U8, I8])
    check(
        CASES[name],
        isa,
        kind,
        zero,
        out,
        False,
        rng.choice([1, 2, 3]),
        rng.choice(["start", "end"]),
    )
    kind, zero = rng.choice([(U8, 7), (I8, 127), (I8, None)])
    dynamic = replace(CASES[name], dynamic=True)
    check(dynamic, isa, kind, zero, I32, rng.random() < 0.3, rng.choice([1, 2]))


@pytest.mark.aarch64
@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("number", range(6))
def test_random_convolutions_are_exact(number: int, isa: str) -> None:
    rng = random.Random(f"conv bytes {isa} {number}")
    kind, zero = rng.choice([(U8, 128), (U8, None), (I8, 5), (I8, None)])
    out, wide = rng.choice([I32, U8, I8]), rng.random() < 0.2
    check(random_case(rng), isa, kind, zero, out, wide, rng.choice([1, 2, 4]))


# Kernels of one cell's rows, of fewer, of more, and of one more.
ROWS = {
    "three": Case((9, 33), (3, 3), 1, 1, 37, pads=(1, 1), batch=2),
    "two": Case((8, 17), (2, 5), 1, 1, 16, strides=(2, 1), pads=(1, 2)),
    "four": Case((7, 9), (4, 1), 1, 1, 20, pads=(2, 0)),
    "five": Case((12, 15), (5, 5), 1, 1, 40, strides=(2, 2), pads=(2, 2)),
    "nine": Case((3, 20), (9, 3), 1, 1, 5, pads=(4, 1)),
    "dilated": Case((9, 20), (3, 3), 1, 1, 33, dilations=(3, 2), pads=(3, 2)),
    "none inside": Case((2, 6), (3, 3), 1, 1, 16, dilations=(4, 1), pads=(5, 1)),
}


@pytest.mark.parametrize("isa", [*ISAS, *(f"{i} - avx512vbmi" for i in ISAS if i == "avx512")])
@pytest.mark.parametrize("name", ROWS)
def test_cells_of_rows_below_each_other(name: str, isa: str) -> None:
    dynamic = replace(ROWS[name], dynamic=True)
    for case in (ROWS[name], dynamic):
        check(case, isa, U8, 131, U8, workers=2)
        check(case, isa, I8, -7)
    check(ROWS[name], isa, U8, None, at="start")
    check(ROWS[name], isa, I8, None, I8)


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
def test_few_channels_in_planes(channels: int, isa: str) -> None:
    for width in (3, 63, 64, 130):
        case = Case((4, width), (3, 3), channels, 18, strides=(2, 1), pads=(1, 1), data_last=False)
        check(case, isa, U8, 77, workers=2)


TAILS = {
    "first": Case((21, 40), (7, 7), 3, 40, strides=(2, 2), pads=(3, 3), data_last=False),
    "short": Case((5, 4), (3, 3), 3, 33, pads=(1, 1), batch=2),
    "one": Case((9, 70), (5, 5), 1, 16, pads=(2, 2)),
    "groups": Case((6, 17), (2, 3), 3, 5, groups=2),
    "deep": Case((4, 7, 9), (2, 3, 3), 3, 8, strides=(1, 2, 1), pads=(1, 0, 1)),
    "dilated": Case((12, 9), (4, 3), 3, 20, dilations=(2, 1), pads=(2, 1)),
    "apart": Case((14, 30), (2, 7), 3, 8, strides=(5, 3)),
}


@pytest.mark.slow
@each_isa
@pytest.mark.parametrize("name", sorted(TAILS))
def test_rows_of_taps_that_end_in_cells_of_their_own(name: str, isa: str) -> None:
    case, target = TAILS[name], target_of(isa)
    packed = make(case, target, U8, 3, I32, False)[0].packed
    assert packed.tails == (packed.kr == 4)
    for kind, zero, out, at in (
        (U8, 130, I32, "end"),
        (I8, None, U8, "start"),
        (U8, None, I8, "end"),
    ):
        check(case, isa, kind, zero, out, workers=2, at=at)
    check(replace(case, dynamic=True), isa, I8, -7)


@pytest.mark.skipif("avx512" not in ISAS, reason="not run: no AVX-512")
def test_without_vnni_pairs_are_multiplied() -> None:
    from support.kernels.harness import Compiled, guard_copy, unwritten

    target = target_of("avx512 - amx-tile")
    features = tuple(f for f in target.cpu_features if f != "avx512vnni")
    machine = replace(target, cpu_features=features)
    for kind, zero in ((U8, 200), (I8, -3)):
        spec, inputs, dims, shape, expected = make(CASES["padded"], machine, kind, zero, I32, False)
        assembly = emit_assembly(generate(spec, machine, "k").text, machine)
        assert "vpmaddwd" in assembly and "vpdpbusd" not in assembly
        out = unwritten(shape, np.int32)
        Compiled(spec, machine)([*map(guard_copy, inputs), out], dims)
        np.testing.assert_array_equal(np.moveaxis(out, -1, 1), expected)
    if target.has("avx512vnni"):
        made = make(CASES["padded"], target, U8, 3, I32, False)[0]
        assert "vpdpbusd" in emit_assembly(generate(made, target, "k").text, target)
        with pytest.raises(VerificationError, match="cells of another depth"):
            verify_specs([made], machine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"acc": F32}, "types do not fit|sums otherwise"),
        ({"zero_point": Operand(I8, (0,))}, "zero point"),
        ({"zero_point": Operand(U8, (1,))}, "zero point"),
        ({"weights": Operand(U8, (1,))}, "types do not fit|another depth"),
        ({"data": Operand(I32, (0, 1, 8, 8))}, "types do not fit"),
    ],
)
def test_specs_that_do_not_fit_are_refused(change: dict, message: str) -> None:
    target = target_of("plain")
    spec = make(CASES["padded"], target, U8, 3, I32, False)[0]
    with pytest.raises(VerificationError, match=message):
        verify_specs([replace(spec, **change)], target)
