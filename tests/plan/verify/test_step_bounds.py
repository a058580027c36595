"""Forged steps whose numbers wrap in 64 bits, or that would run for ever, are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from irc_compiler.ir.errors import Error, MemoryLimitError, VerificationError
from irc_compiler.plan.specs.base import Operand, RuntimeDim
from irc_compiler.plan.specs.convolution import ConvSpec, Window
from irc_compiler.plan.specs.elementwise import ElementwiseSpec
from irc_compiler.plan.specs.pooling import PoolSpec
from irc_compiler.plan.specs.resample import ResampleSpec
from irc_compiler.plan.specs.rows import ReduceSpec
from irc_compiler.plan.verify.plan import verify_plan
from irc_compiler.plan.verify.values import RegionLayoutTables
from support.tiny_plans import f32, pointwise

from fuzz.forged_steps import Seed, accept, seeds
from tests.runtime.execution.test_written_coverage import plan_of

FAR = [1 << 31, 1 << 47, 1 << 48, 1 << 61, 1 << 62, (1 << 63) - 1, (1 << 64) // 3 >> 1]


def sliding(family: type) -> list[Seed]:
    return [s for s in seeds() if isinstance(s.step.spec, family)]


def put(seed: Seed, **changes: Any) -> Seed:
    return dataclasses.replace(
        seed,
        step=dataclasses.replace(seed.step, spec=dataclasses.replace(seed.step.spec, **changes)),
    )


def is_refused(seed: Seed) -> bool:
    try:
        accept(seed)
    except Error:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("family", [ConvSpec, PoolSpec])
@pytest.mark.parametrize("field", ["dilations", "strides", "pads"])
def test_step_bounds_reject_windows_that_wrap(family: type, field: str) -> None:
    tried = 0
    for seed in sliding(family):
        spec: Any = seed.step.spec
        window: Window = spec.window
        assert not is_refused(seed)
        for far in FAR:
            changed = (*getattr(window, field)[:-1], far)
            forged = put(seed, window=dataclasses.replace(window, **{field: changed}))
            alone = field == "dilations" and window.kernel[-1] == 1
            assert is_refused(forged) or alone or far <= 1 << 48, (seed.name, far)
            tried += 1
    assert tried > 10


@pytest.mark.slow
def test_step_bounds_accept_windows_whose_sums_fit() -> None:
    """(k - 1) * dilation wraps to 0 with 2^63 and three taps."""
    seed = next(s for s in sliding(ConvSpec) if s.name == "conv2d dynamic")
    spec: Any = seed.step.spec
    for dilation in (1 << 62, (1 << 63) - 1, 1 << 47):
        forged = dataclasses.replace(spec.window, dilations=(1, dilation))
        assert is_refused(put(seed, window=forged))


@pytest.mark.slow
def test_step_bounds_limit_dynamic_pads() -> None:
    seed = next(s for s in sliding(ConvSpec) if s.name == "conv2d dynamic")
    spec: Any = seed.step.spec
    pads = (RuntimeDim(len(seed.dims)), *spec.window.pads[1:])
    forged = put(seed, window=dataclasses.replace(spec.window, pads=pads))
    forged = dataclasses.replace(
        forged,
        step=dataclasses.replace(forged.step, dims=tuple(range(len(seed.dims) + 1))),
    )
    assert not is_refused(dataclasses.replace(forged, dims=(*seed.dims, 2)))
    for far in (1 << 49, -(1 << 49), 1 << 61):
        assert is_refused(dataclasses.replace(forged, dims=(*seed.dims, far)))


def check(spec: Any) -> None:
    plan = plan_of(4, 8, spec)
    verify_plan(plan)
    RegionLayoutTables(plan.regions[0], plan.constants).sizes({})


def test_step_bounds_ignore_an_axis_without_memory() -> None:
    """Every element is written once; so loops are as long as outputs are."""
    walk = Operand(f32, (0, 1))
    good: ElementwiseSpec = dataclasses.replace(
        pointwise("copy", 4), axes=(2, 4), inputs=(walk,), outs=(Operand(f32, (4, 1)),)
    )
    check(good)
    for size in (2, 1 << 40, 1 << 48):
        with pytest.raises(VerificationError, match="more than once"):
            check(dataclasses.replace(good, axes=(size, 4), outs=(walk,)))
    with pytest.raises(VerificationError, match="out of range"):
        check(dataclasses.replace(good, axes=(1 << 60, 4), outs=(walk,)))


def test_step_bounds_limit_a_reduction() -> None:
    copy = pointwise("copy", 4)
    good = ReduceSpec(
        "sum",
        (8,),
        (4,),
        (Operand(f32, (0, 1)),),
        (Operand(f32, (1,)),),
        copy.program,
        copy.program,
    )
    check(good)
    broadcast = (Operand(f32, (0, 0)),)
    check(dataclasses.replace(good, reduced=(1 << 20,), inputs=broadcast))
    for reduced in ((1 << 35,), (1 << 48,), (1 << 20, 1 << 20)):
        inputs = (Operand(f32, (0,) * (1 + len(reduced))),)
        with pytest.raises(MemoryLimitError, match="reduces more elements"):
            check(dataclasses.replace(good, reduced=reduced, inputs=inputs))


def test_step_bounds_reject_long_loops_around_an_empty_axis() -> None:
    """Nothing is written, and the kernel would count to 2^47 all the same."""
    seed = next(s for s in seeds() if isinstance(s.step.spec, ResampleSpec) and s.name == "pad")
    assert not is_refused(seed)
    spec: Any = seed.step.spec
    empty = dataclasses.replace(seed, dims=(0,) * len(seed.dims))
    far = put(empty, middle=1 << 47, inner=RuntimeDim(0), data=flat(spec.data), out=flat(spec.out))
    with pytest.raises(MemoryLimitError, match="too large to loop over"):
        accept(far)


def flat(operand: Operand) -> Operand:
    """The operand without steps, so that no size leads outside its buffer."""
    return dataclasses.replace(operand, strides=(0,) * len(operand.strides))
