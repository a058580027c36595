"""Decides whether a plan's kernels flush denormal numbers to zero.

A denormal is a floating-point number below the smallest normal one of its type (2^-126 in f32).
Many processors compute with them up to a hundred times slower. Option "auto" flushes them unless
the model holds one as a constant that arithmetic reads, as masks written `log(mask + 1e-45)` do.
Weights and biases of products do not count: flushing one changes a result by less than 2^-126 times
an activation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.deferred_array import StoredArray, unpack_stored
from ...ir.dtype import DType
from ...ir.op import Array
from ...ir.scalar.program import Program
from ...plan.plan import CONSTANT, Denormals, KernelStep, Plan, PlanConstant, Region
from ...plan.specs.base import Spec
from ...plan.specs.elementwise import ElementwiseSpec
from ..options import Options

_TYPES = (DType.f32, DType.f64, DType.bf16)
# Programs of these instructions only move elements.
_MOVES = frozenset(["input", "select"])


def decide_denormals(plan: Plan, weights: Mapping[int, StoredArray], options: Options) -> Denormals:
    """What the option says; for "auto" what follows from the plan's constants."""
    if options.denormals != "auto":
        return Denormals(options.denormals == "flush", "as requested")
    for region in plan.all_regions():
        for step in region.steps:
            if isinstance(step, KernelStep):
                for value in _read_constants(step, region, plan.constants, weights):
                    if _has_denormal(value):
                        return Denormals(False, f"{step.name!r} reads a denormal constant")
    return Denormals(True, "the model holds none")


def _read_constants(
    step: KernelStep,
    region: Region,
    constants: Sequence[PlanConstant],
    weights: Mapping[int, StoredArray],
) -> Iterator[Array]:
    """The floating-point constants with which a step computes elementwise."""
    programs = list(_programs(step.spec))
    for program in programs:
        for instr in program.instrs:
            if instr.op == "const" and instr.dtype in _TYPES and instr.value is not None:
                yield np.array(instr.value, instr.dtype.numpy)
    moves = all(i.op in _MOVES for program in programs for i in program.instrs)
    elementwise = isinstance(step.spec, ElementwiseSpec)
    for buffer in dict.fromkeys(step.buffers):
        made = region.buffers[buffer]
        if moves or made.kind != CONSTANT or made.dtype not in _TYPES:
            continue
        constant = constants[made.index]
        value = unpack_stored(weights[constant.source])
        # Of the constants of a product only those of one number.
        if constant.layout is None and (elementwise or _is_uniform(value)):
            yield value


def _programs(value: Any) -> Iterator[Program]:
    """The scalar programs in a spec."""
    if isinstance(value, Program):
        yield value
    elif isinstance(value, Spec) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        for field in dataclasses.fields(value):
            yield from _programs(getattr(value, field.name))


def _is_uniform(value: Array) -> bool:
    return value.size > 0 and bool((value == value.flat[0]).all())


def _has_denormal(value: Array) -> bool:
    """Is an element not zero and below the smallest normal number of its type?"""
    bits = value.dtype.itemsize * 8
    unsigned = np.ascontiguousarray(value).view(f"u{bits // 8}")
    mantissa = {16: 7, 32: 23, 64: 52}[bits]
    magnitude = unsigned & unsigned.dtype.type((1 << (bits - 1)) - 1)
    return bool(((magnitude != 0) & (magnitude < (1 << mantissa))).any())
