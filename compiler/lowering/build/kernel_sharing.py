"""One kernel for steps whose specs differ only in their operands' offsets.

The pieces of a large Concat or Split are in one buffer at offsets of their own. An offset in the
spec is part of the machine code, so that each piece would need a kernel. Where many pieces of equal
form occur, the offset becomes a size of the step (a RuntimeDim).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

from ....ir.scalar.program import Program
from ....plan.plan import Buffer, KernelStep, Step
from ....plan.specs.base import Operand, RuntimeDim, Size, Spec
from .in_place import root_of

# Fewer kernels of equal form keep their offsets as constants of the code.
MIN_SHARED_KERNELS: Final = 32
# A spec whose integer offsets are 0, and the number of its step's sizes.
_Form: TypeAlias = tuple[Spec, int]


def share_kernels(
    buffers: Sequence[Buffer], steps: Sequence[Step], dim: Callable[[int], int]
) -> tuple[Step, ...]:
    """The steps, with offsets as sizes where many specs of equal form differ in nothing else.

    dim: the position of a size in the region's table.
    """
    if len({s.spec for s in steps if isinstance(s, KernelStep)}) < MIN_SHARED_KERNELS:
        return tuple(steps)
    form_of: dict[Spec, Spec] = {}
    forms: dict[_Form, dict[Spec, tuple[int, ...]]] = {}
    for step in steps:
        if isinstance(step, KernelStep) and not _works_in_place(buffers, step):
            spec = step.spec
            if spec not in form_of:
                form_of[spec] = _with_offsets(spec, itertools.repeat(0))
            form = form_of[spec], len(step.dims)
            forms.setdefault(form, {}).setdefault(spec, tuple(_offsets(spec)))
    shared = {
        form: _share(form, list(offsets.values()))
        for form, offsets in forms.items()
        if len(offsets) >= MIN_SHARED_KERNELS
    }

    def with_sizes(step: Step) -> Step:
        if not isinstance(step, KernelStep) or _works_in_place(buffers, step):
            return step
        form = form_of[step.spec], len(step.dims)
        if form not in shared:
            return step
        spec, moving = shared[form]
        offsets = forms[form][step.spec]
        return replace(step, spec=spec, dims=(*step.dims, *(dim(offsets[n]) for n in moving)))

    return tuple(map(with_sizes, steps)) if shared else tuple(steps)


def _share(form: _Form, offsets: Sequence[tuple[int, ...]]) -> tuple[Spec, list[int]]:
    """The spec that reads as sizes which of the offsets are not the same in all specs, and their
    numbers."""
    columns = list(zip(*offsets, strict=True))
    moving = [n for n, column in enumerate(columns) if len(set(column)) > 1]
    given: list[Size] = [column[0] for column in columns]
    for i, n in enumerate(moving):
        given[n] = RuntimeDim(form[1] + i)
    return _with_offsets(form[0], iter(given)), moving


def _works_in_place(buffers: Sequence[Buffer], step: KernelStep) -> bool:
    """Whether operands share memory: verification compares how they walk it."""
    return len({root_of(buffers, b) for b in step.buffers}) < len(step.buffers)


def _operands(value: object) -> Iterator[Operand]:
    """The operands inside a spec whose offset is an integer, field by field."""
    if isinstance(value, Operand):
        if isinstance(value.offset, int):
            yield value
    elif isinstance(value, tuple):
        for item in cast("tuple[object, ...]", value):
            yield from _operands(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | Program):
        for field in dataclasses.fields(value):
            yield from _operands(getattr(value, field.name))


def _offsets(spec: Spec) -> Iterator[int]:
    return (o.offset for o in _operands(spec) if isinstance(o.offset, int))


def _with_offsets(value: Any, offsets: Iterator[Size]) -> Any:
    """The value with these offsets, in the order of `_operands`."""
    if isinstance(value, Operand):
        return replace(value, offset=next(offsets)) if isinstance(value.offset, int) else value
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        return tuple(_with_offsets(item, offsets) for item in items)
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Program):
        fields = {
            f.name: _with_offsets(getattr(value, f.name), offsets)
            for f in dataclasses.fields(value)
        }
        changed = {k: new for k, new in fields.items() if new is not getattr(value, k)}
        return replace(value, **changed) if changed else value
    return value
