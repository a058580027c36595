"""Convolutions on tiles of AMX: exact for integers, the same bits for every kind of kernel.

Where the machine has no tiles, those instructions of the machine code are caught and emulated
(amx_trap.py); where it has, the other tests of convolutions run on them as well.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.runtime.jit.llvm import emit_assembly
from irc_compiler.runtime.kernels.conv.amx_geometry import plan_im2col, step_cells
from irc_compiler.runtime.kernels.conv.tile_partition import three_axes
from irc_compiler.runtime.kernels.kernel_table import generate
from support.kernels.harness import AMX, TILED, compile_spec, run, same_bits

from tests.runtime.kernels.conv import test_int8 as test_conv_bytes
from tests.runtime.kernels.conv.test_direct import Case, check, computed, make
from tests.runtime.kernels.gemm.test_amx import sapphire_rapids

BF16, ISA = DType.bf16, "avx512" + AMX
tiled = pytest.mark.skipif(
    not TILED, reason="not run: kernels on tiles need AVX512-BF16 and VNNI, not on this machine"
)
CASES = {
    "wide": Case((5, 43), (3, 3), 32, 33, pads=(1, 1), epilogue="bias"),
    "pairs of rows": Case((7, 7), (3, 3), 64, 65, pads=(1, 1), epilogue="residual", batch=2),
    "rows as one": Case((8, 8), (3, 3), 32, 33, pads=(1, 1), epilogue="bias"),
    "some rows as one": Case((7, 40), (3, 3), 16, 64, pads=(1, 1), epilogue="residual"),
    "odd rows": Case((13, 16), (3, 3), 16, 18, pads=(1, 1), out_last=False),
    "strided": Case((9, 37), (3, 3), 48, 17, strides=(2, 2), pads=(1, 1), epilogue="residual"),
    "dilated": Case((11, 21), (3, 3), 32, 5, dilations=(2, 3), pads=(2, 3)),
    "point": Case((6, 9), (1, 1), 64, 34, strides=(2, 2), epilogue="bias"),
    "groups": Case((5, 15), (3, 3), 32, 6, groups=3, pads=(1, 1), epilogue="bias"),
    "line": Case((50,), (5,), 16, 12, pads=(2,), batch=3, epilogue="residual"),
    "volume": Case((3, 4, 7), (3, 2, 3), 32, 9, strides=(1, 2, 1), pads=(1, 0, 1)),
    "planes": Case((6, 20), (3, 3), 32, 8, pads=(1, 1), data_last=False),
    # Unfolded: a step and a bit, a gap within a row of taps, taps apart, few cells, one cell.
    "first": Case((19, 37), (7, 7), 3, 33, strides=(2, 2), pads=(3, 3), data_last=False),
    "odd": Case((5, 39), (3, 3), 17, 34, pads=(1, 1), epilogue="residual", batch=2),
    "odd, dilated": Case((9, 14), (2, 3), 5, 130, dilations=(3, 2), pads=(1, 2)),
    "few": Case((7, 20), (3, 3), 1, 9, pads=(1, 1), epilogue="bias", out_last=False),
    "pair": Case((9,), (1,), 1, 3, groups=2, strides=(2,)),
    "odd volume": Case((3, 4, 7), (3, 2, 3), 3, 20, groups=2, strides=(1, 2, 1), pads=(1, 0, 1)),
    "far": Case((2, 2), (3, 3), 32, 3, pads=(4, 4)),
}
each = pytest.mark.parametrize("name", CASES)


@pytest.mark.slow
@tiled
@each
def test_rounded_factors_are_exact(name: str) -> None:
    kind = DType.f32 if len(name) % 2 else BF16
    case = replace(CASES[name], dtype=kind, compute_dtype=BF16)
    assert "tdpbf16ps" in compile_spec(make(case, ISA)[0], ISA).text
    check(case, ISA, workers=1 + len(name) % 4)
    check(replace(case, dynamic=True), ISA, workers=2, at="start")


@pytest.mark.slow
@tiled
@each
def test_bytes_are_exact(name: str) -> None:
    case = replace(CASES[name], epilogue="none")
    for kind, zero, out in (
        (DType.u8, 131, DType.i32),
        (DType.i8, None, DType.u8),
        (DType.i8, -7, DType.i8),
    ):
        test_conv_bytes.check(case, ISA, kind, zero, out, workers=2)


@tiled
@pytest.mark.parametrize("channels", [3, 8, 12, 17, 18, 19, 20, 21, 33])
def test_channels_that_end_within_a_step(channels: int) -> None:
    """Steps of copies as they stand, or unfolded; bytes end within a cell, too."""
    case = Case((5, 19), (3, 3), channels, 9, pads=(1, 1))
    check(replace(case, compute_dtype=BF16), ISA)
    test_conv_bytes.check(case, ISA, DType.u8, 77, workers=3)


@pytest.mark.parametrize(
    "channels, kernel, kr, cells",
    [(64, 3, 2, 16), (16, 3, 2, 12), (24, 3, 2, 12), (17, 3, 2, 0), (3, 7, 2, 0), (8, 1, 2, 0),
     (34, 1, 2, 0), (3, 7, 4, 0), (3, 11, 4, 9), (512, 3, 4, 16), (0, 3, 2, 0)],
)  # fmt: skip
def test_steps(channels: int, kernel: int, kr: int, cells: int) -> None:
    """No step reaches beyond a run of values, and half of a tile is worth it."""
    case = Case((9, 19), (1, kernel), 1, 5, compute_dtype=BF16 if kr == 2 else None)
    spec = three_axes(make(case, "plain")[0])
    spec = replace(spec, channels=channels, packed=replace(spec.packed, kr=kr))
    if kr == 4:
        spec = replace(spec, data=replace(spec.data, dtype=DType.u8))
    assert step_cells(spec) == cells


@tiled
@pytest.mark.parametrize(
    "name", ["wide", "rows as one", "pairs of rows", "strided", "first", "odd"]
)
def test_bits_depend_on_neither_threads_nor_kind_of_kernel(name: str) -> None:
    case = replace(CASES[name], epilogue="none", compute_dtype=BF16)
    first, _ = computed(case, ISA, floats=True)
    assert same_bits(computed(case, ISA, 3, floats=True)[0], first)
    for other in ({"dynamic": True}, {"out_last": False}):
        assert same_bits(computed(replace(case, **other), ISA, 2, floats=True)[0], first)


@tiled
@pytest.mark.parametrize("channels", [16, 3, 17])
def test_infinity_stays_in_its_neighbourhood(channels: int) -> None:
    case = Case((16, 16), (3, 3), channels, 8, pads=(1, 1), compute_dtype=BF16)
    spec, inputs, dims, shape, _ = make(case, ISA)
    inputs[0][0, 8, 8, 1] = np.inf
    (out,) = run(spec, inputs, [shape], isa=ISA, dims=dims).outs
    bad = np.argwhere(~np.isfinite(out).all(axis=-1))[:, 1:]
    assert len(bad) and np.abs(bad - 8).max() <= 1


@tiled
def test_infinite_filters_stay_in_their_channels() -> None:
    """Unfolded places end in zeros: what they meet are weights of the same channel."""
    case = Case((8, 8), (3, 3), 17, 64, compute_dtype=BF16)
    spec, inputs, dims, shape, _ = make(case, ISA)
    inputs[1].reshape(2, -1)[1, ::64] = np.inf  # channel 32: the second panel's first column
    (out,) = run(spec, inputs, [shape], isa=ISA, dims=dims).outs
    assert np.isfinite(np.delete(out, 32, axis=-1)).all()


def test_code_for_a_machine_with_tiles() -> None:
    """Four products for four loads, no registers spilled, tiles given back."""
    target = sapphire_rapids()
    case = Case((56, 56), (3, 3), 64, 64, pads=(1, 1), compute_dtype=BF16)
    spec = make(case, "plain")[0]
    spec = replace(spec, packed=replace(spec.packed, nr=32, kr=2, runs=True))
    assembly = emit_assembly(generate(spec, target, "k").text, target)
    assert assembly.count("tilerelease") == 1
    (body,) = re.findall(r"^amx_1x28:\n(.*?)retq", assembly, re.S | re.M)
    assert body.count("tdpbf16ps") == body.count("tileloadd") == body.count("tilestored") == 4
    assert "ldtilecfg" not in body and assembly.count("ldtilecfg") == 1


def test_unfolded_tiles_read_whole_rows_of_their_buffer() -> None:
    """Rows of left factors are as far apart as the rows that `unfold` writes; of every machine."""
    case = Case((9, 40), (3, 3), 17, 16, pads=(1, 1), compute_dtype=BF16)
    spec = make(case, "plain")[0]
    spec = replace(spec, packed=replace(spec.packed, nr=32, kr=2, runs=True))
    plan = plan_im2col(three_axes(spec))
    text = generate(spec, sapphire_rapids(), "k").text
    strides = re.findall(r"tileloadd64\(i8 4, ptr %\w+, i64 (\d+)\)", text)
    assert strides and set(strides) == {str(plan.pitch)}
