"""Kernel specs: what a step computes, as frozen data that lowering makes and runtime compiles.

Nothing here depends on a machine. A spec holds no buffer number, no address and no position in a
plan, so equal work has equal specs and is compiled once; a step maps a spec's local argument
positions to the plan's buffers and sizes. Sizes are `int | RuntimeDim`: an int is baked into the
code, a RuntimeDim is read at run time, so that a new shape needs no new code.

Operands stand in the order of the kernel's `buffers`: inputs first, outputs last.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, cast

from ...ir.dtype import DType
from ...ir.scalar.program import Program


@dataclass(frozen=True, order=True)
class RuntimeDim:
    """A size read at run time from position `index` of the step's `dims`."""

    index: int


Size: TypeAlias = int | RuntimeDim
# An axis in blocks: how many, and the size of each.
Split: TypeAlias = tuple[Size, Size]


@dataclass(frozen=True)
class Operand:
    """How a kernel walks one buffer: element (i0, i1, ...) of the iteration space is at
    `offset + sum(i * stride)`, counted in elements of `dtype`. Stride 0 broadcasts."""

    dtype: DType
    strides: tuple[Size, ...]
    offset: Size = 0


@dataclass(frozen=True)
class Spec:
    """Base of all kernel specs."""

    family: ClassVar[str] = ""

    def operands(self) -> tuple[Operand, ...]:
        """Operands in the order of the kernel's buffers: inputs, then outputs."""
        raise TypeError(f"{type(self).__name__} does not list its operands")

    def output_count(self) -> int:
        """How many of the operands, counted from the end, are written."""
        return 1

    def phases(self, at: Callable[[Size], int], parts: int) -> int:
        """Phases that `parts` threads go through together, or 0; `at` gives a size's value."""
        return 0

    def distinguishes_denormals(self) -> bool:
        """Does a result differ between a denormal operand and zero, as that of a comparison does?
        Such a step never runs with denormals flushed."""
        return False

    @staticmethod
    def find_subclass(name: str) -> type[Spec] | None:
        """The family whose class has this name: what a stored plan may hold for a Spec."""
        return next((c for c in Spec.__subclasses__() if c.__name__ == name), None)

    @functools.cached_property
    def runtime_dims(self) -> int:
        """How many run-time sizes the spec reads."""
        found = [d.index for d in _runtime_dims(self)]
        return max(found) + 1 if found else 0


# Status codes of kernels; the first 8 bytes of scratch then hold the offending element as i64.
OK = 0
GATHER_OUT_OF_RANGE = 1
DIVISION_BY_ZERO = 2
EMPTY_AXIS = 3
STATUS_TEXT: dict[int, str] = {
    GATHER_OUT_OF_RANGE: "an index lies outside the axis it picks from",
    DIVISION_BY_ZERO: "an integer is divided by zero",
    EMPTY_AXIS: "an empty axis has no element to take",
}


def _runtime_dims(value: object) -> list[RuntimeDim]:
    """Every RuntimeDim inside a spec."""
    if isinstance(value, RuntimeDim):
        return [value]
    if isinstance(value, tuple):
        return [d for item in cast("tuple[object, ...]", value) for d in _runtime_dims(item)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Program):
        return [d for f in dataclasses.fields(value) for d in _runtime_dims(getattr(value, f.name))]
    return []
