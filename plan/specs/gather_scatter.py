"""Specs of what indices and order decide: blocks and elements picked, put, ranked, summed on the
way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .base import Operand, Size, Spec


@dataclass(frozen=True)
class GatherSpec(Spec):
    """out[o, i, e] = data[o, index[i], e]: blocks of `inner` elements picked along one axis.

    data walks (outer, axis, inner), index (i), out (outer, i, inner); `inner` strides are 1 where
    rows are contiguous. Negative indices count from the end. `out_of_range`: "error" gives status
    GATHER_OUT_OF_RANGE with the index position as the element, "zeros" writes zeros.
    Buffers: data, index, out.
    """

    family: ClassVar[str] = "gather"

    outer: Size
    axis: Size
    count: Size
    inner: Size
    data: Operand
    index: Operand
    out: Operand
    out_of_range: str = "error"

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.index, self.out)


@dataclass(frozen=True)
class GatherScatterSpec(Spec):
    """out[p] = data[p, i0[p], i1[p], ...] for p in `axes`, where i0, i1, ... are the indices and
    `picked` the sizes they pick from; with `put`, out[p, i0[p], i1[p], ...] = data[p], in the
    order of p, and the rest of out stays. `combine` (sum, prod, min, max): what is put joins what
    was there.

    The operand that is picked from (put into) walks (axes..., picked...), all others `axes`.
    Negative indices count from the end. `out_of_range`: "error" gives status GATHER_OUT_OF_RANGE
    with the number of p as the element, "zeros" writes 0 there. Buffers: data, indices..., out.
    """

    family: ClassVar[str] = "pick"

    axes: tuple[Size, ...]
    picked: tuple[Size, ...]
    data: Operand
    indices: tuple[Operand, ...]
    out: Operand
    put: bool = False
    out_of_range: str = "error"
    combine: str = ""

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, *self.indices, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        """The iteration space of each operand."""
        whole = (*self.axes, *self.picked)
        ends = (self.axes, whole) if self.put else (whole, self.axes)
        return [ends[0], *[self.axes] * len(self.indices), ends[1]]
