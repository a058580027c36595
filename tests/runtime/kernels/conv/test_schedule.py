"""Schedules of convolutions: the algorithm is the class of a value that the generator reads."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Literal

import pytest
from irc_compiler.ir.dtype import DType
from irc_compiler.plan.heuristics import Heuristics
from irc_compiler.plan.specs.base import Operand
from irc_compiler.plan.specs.convolution import ConvSpec
from irc_compiler.plan.target import Target, generic_target
from irc_compiler.runtime.kernels.conv.schedule import (
    AmxConvSchedule,
    DepthwiseSchedule,
    DirectSchedule,
    Im2colSchedule,
    PackedSchedule,
    schedule_conv,
)
from irc_compiler.runtime.kernels.conv.winograd_tiles import WinogradSchedule
from irc_compiler.runtime.kernels.kernel_table import generate

from tests.runtime.kernels.conv.test_direct import Case, make
from tests.runtime.kernels.gemm.test_amx import sapphire_rapids

WIDE = generic_target("avx512")


def packed(case: Case, **layout: object) -> ConvSpec:
    """The convolution with panels of 32 channels."""
    spec = make(case, "plain")[0]
    return replace(spec, packed=replace(spec.packed, nr=32, **layout))


def tiled(channels: int) -> ConvSpec:
    """A convolution of bf16 factors as lowering packs it for tiles of AMX."""
    case = Case((9, 40), (3, 3), channels, 16, pads=(1, 1), compute_dtype=DType.bf16)
    return packed(case, kr=2, runs=True)


FLOATS = Case((9, 40), (3, 3), 16, 16, pads=(1, 1))

SCHEDULES: dict[str, tuple[ConvSpec, Target, type]] = {
    "f32": (packed(FLOATS), WIDE, DirectSchedule),
    "winograd": (packed(FLOATS, winograd=2), WIDE, WinogradSchedule),
    "bf16 without a unit": (
        packed(replace(FLOATS, compute_dtype=DType.bf16)),
        WIDE,
        PackedSchedule,
    ),
    "whole steps of cells": (tiled(16), sapphire_rapids(), AmxConvSchedule),
    "odd channels": (tiled(17), sapphire_rapids(), Im2colSchedule),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_algorithm_follows_from_spec_and_target(name: str) -> None:
    spec, target, kind = SCHEDULES[name]
    schedule = schedule_conv(spec, target)
    assert type(schedule) is kind and schedule == schedule_conv(spec, target)
    assert repr(schedule).startswith(kind.__name__)
    with pytest.raises(dataclasses.FrozenInstanceError):
        schedule.cut = None  # type: ignore[assignment,union-attr]


@pytest.mark.parametrize(
    ("size", "tall", "columns"),
    [
        ((9, 32), 1, [32]),
        ((8, 48), 2, [16]),
        ((9, 48), 2, [16]),
        ((1, 48), 1, [24]),
        ((8, 64), 1, [32]),
        ((8, 40), 2, [14, 13]),
        ((8, 104), 2, [15, 14]),
        ((8, 112), 2, [16]),
        ((8, 224), 1, [32]),
    ],
)
def test_tiles_of_two_rows_where_they_fill_the_registers(
    size: tuple[int, int], tall: int, columns: list[int]
) -> None:
    case = Case(size, (3, 3), 32, 64, pads=(1, 1), compute_dtype=DType.bf16)
    target = replace(sapphire_rapids(), heuristics=Heuristics(conv_amx_max_flat_columns=16))
    schedule = schedule_conv(packed(case, kr=2, runs=True), target)
    assert isinstance(schedule, AmxConvSchedule) and schedule.across is not None
    assert (schedule.tall, [run.size for run in schedule.across]) == (tall, columns)
    assert schedule.cut.most == (16 if tall == 2 else 32)


def test_depthwise_tiles_follow_thresholds() -> None:
    case = Case((9, 40), (3, 3), 1, 1, groups=32, pads=(1, 1))
    spec = packed(case, grouped=True, depthwise=True)
    assert schedule_conv(spec, WIDE) == DepthwiseSchedule(
        lanes=16, columns=14, unrolls=True, inline_epilogue=True
    )
    small = Heuristics(conv_depthwise_max_tile_columns=5, conv_depthwise_max_unrolled_taps=2)
    machine = replace(WIDE, heuristics=small)
    assert schedule_conv(spec, machine) == DepthwiseSchedule(
        16, columns=5, unrolls=False, inline_epilogue=True
    )


@pytest.mark.parametrize(
    ("features", "kernel", "weights", "cells"),
    [
        (("avx512vnni",), (3, 3), DType.i8, True),
        ((), (3, 3), DType.i8, False),
        (("avx512vnni",), (3, 3), DType.i16, False),
        (("avx512vnni",), (1, 3), DType.i8, False),
        (("avx512vnni",), (3, 3, 3), DType.i8, False),
    ],
)
def test_bytes_of_rows_below_each_other_are_multiplied_at_once(
    features: tuple[str, ...], kernel: tuple[int, ...], weights: DType, cells: bool
) -> None:
    case = Case((9,) * len(kernel), kernel, 1, 1, groups=32, pads=(1,) * len(kernel))
    spec = packed(case, grouped=True, depthwise=True)
    spec = replace(
        spec, data=replace(spec.data, dtype=DType.u8), weights=Operand(weights, (1,)), acc=DType.i32
    )
    machine = replace(WIDE, cpu_features=tuple(sorted({*WIDE.cpu_features, *features})))
    schedule = schedule_conv(spec, machine)
    assert isinstance(schedule, DepthwiseSchedule) and schedule.cells is cells


def test_thresholds_change_the_schedule_and_the_code() -> None:
    spec = packed(FLOATS)
    machine = replace(WIDE, heuristics=Heuristics(gemm_max_tile_rows=3, conv_unroll=1))
    schedule = schedule_conv(spec, machine)
    assert isinstance(schedule, DirectSchedule)
    assert (schedule.cut.most, schedule.cut.unroll) == (3, 1)
    assert generate(spec, machine, "k").text != generate(spec, WIDE, "k").text


def test_tiles_of_small_images_are_known_where_paddings_are_neutral() -> None:
    case = Case((9, 9), (3, 3), 16, 16, pads=(1, 1), compute_dtype=DType.bf16)
    schedule = schedule_conv(packed(case), WIDE)
    assert isinstance(schedule, PackedSchedule) and schedule.across is not None
    assert any(run.taps for run in schedule.across)
    unknown = schedule_conv(packed(replace(case, dynamic=True)), WIDE)
    assert isinstance(unknown, PackedSchedule) and unknown.across is None


def test_long_epilogues_are_not_repeated_per_register() -> None:
    short, long = packed(FLOATS), packed(replace(FLOATS, epilogue="swish"))
    inline = [schedule_conv(spec, WIDE).cut.inline_epilogue for spec in (short, long)]  # type: ignore[union-attr]
    assert inline == [True, False]


# (values of a pixel, stride, bytes of L1): pixels of a tile. 14 have registers.
CROWDED = {
    "a way apart": ((512, 2, 32 << 10), 7),
    "two ways apart": ((1024, 2, 32 << 10), 7),
    "in a larger cache": ((512, 2, 48 << 10), 11),
    "half a way apart": ((256, 2, 32 << 10), 14),
    "an odd number of lines apart": ((528, 2, 32 << 10), 14),
}


@pytest.mark.parametrize("name", CROWDED)
def test_lines_of_a_tile_leave_a_way_of_l1_to_the_weights(name: str) -> None:
    (channels, stride, l1), pixels = CROWDED[name]
    case = Case((3, 40), (3, 3), channels, 32, pads=(1, 1), strides=(1, stride))
    schedule = schedule_conv(packed(case), replace(WIDE, l1=l1))
    assert isinstance(schedule, DirectSchedule) and schedule.cut.most == pixels
    assert schedule.cut.columns is not None
    assert max(run.size for run in schedule.cut.columns) <= pixels


def test_tiles_that_read_copies_are_not_shorter() -> None:
    case = Case((3, 40), (3, 3), 512, 32, strides=(1, 2), compute_dtype=DType.bf16)
    schedule = schedule_conv(packed(case), replace(WIDE, l1=32 << 10))
    assert isinstance(schedule, PackedSchedule) and schedule.cut.most == 14


@pytest.mark.parametrize("isa", ["avx512", "avx2"])
@pytest.mark.parametrize("m", [2, 4])
def test_products_of_transforms_fetch_the_next_weights(
    m: int, isa: Literal["avx512", "avx2"]
) -> None:
    spec = make(replace(FLOATS, winograd=m), isa)[0]
    text = generate(spec, generic_target(isa), "k").text
    assert "prefetcht0" in text


def test_the_last_transforms_of_a_dynamic_batch_have_tiles_of_fewer_rows() -> None:
    case = Case((14, 14), (3, 3), 32, 32, pads=(1, 1), winograd=2)
    known = schedule_conv(packed(case, winograd=2), WIDE)
    dynamic = schedule_conv(packed(replace(case, dynamic=True), winograd=2), WIDE)
    assert isinstance(known, WinogradSchedule) and (known.rows, known.few) == (13, 0)
    assert isinstance(dynamic, WinogradSchedule) and (dynamic.rows, dynamic.few) == (14, 7)
    assert known.block % 13 == 0 and dynamic.block % 14 == 0
