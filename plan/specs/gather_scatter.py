"""Specs of accesses by indices: gather and scatter, of blocks and of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Size, Spec, describe_sizes, resolver
from .checks import ORDERED, require_types, spec_error

COMBINED: Final = ("sum", "prod", "min", "max")


@dataclass(frozen=True)
class GatherSpec(Spec):
    """out[o, i, e] = data[o, index[i], e]: blocks of `inner` elements picked along one axis.

    data walks (outer, axis, inner), index (i), out (outer, i, inner); `inner` strides are 1 where
    rows are contiguous. Negative indices count from the end. `out_of_range`: "error" gives status
    GATHER_OUT_OF_RANGE with the index position as the element, "zeros" writes zeros.
    Buffers: data, index, out.
    """

    family: ClassVar[str] = "gather"
    ranges: ClassVar[Mapping[str, Range]] = dict.fromkeys("outer axis count inner".split(), COUNT)

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

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        data = (self.outer, self.axis, self.inner)
        return [data, (self.count,), (self.outer, self.count, self.inner)]

    def verify(self, target: Target) -> None:
        where, index = self.where, self.index.dtype
        if self.out_of_range not in ("error", "zeros"):
            got = self.out_of_range
            raise spec_error("no rule for indices out of range", where, got, "error, zeros")
        if not index.is_int or index.bits < 8:
            raise spec_error("an index is not an integer", where, index, "an integer type")
        require_types([self.data.dtype], [self.out.dtype], where)

    def nbytes(self, dims: Sequence[int]) -> int:
        at = resolver(dims)
        count = at(self.count)
        elements = at(self.outer) * count * at(self.inner)
        return 2 * self.out.dtype.nbytes(elements) + self.index.dtype.nbytes(count)


@dataclass(frozen=True)
class GatherScatterSpec(Spec):
    """out[p] = data[p, i0[p], i1[p], ...] for p in `axes`, where i0, i1, ... are the indices and
    `indexed_sizes` the sizes they index; with `is_scatter`, out[p, i0[p], i1[p], ...] = data[p], in
    the order of p, and the rest of out stays. `combine` (sum, prod, min, max): what is put joins
    what was there.

    The operand that is picked from (put into) walks (axes..., indexed_sizes...), all others `axes`.
    Negative indices count from the end. `out_of_range`: "error" gives status GATHER_OUT_OF_RANGE
    with the number of p as the element, "zeros" writes 0 there. Buffers: data, indices..., out.
    """

    family: ClassVar[str] = "gather_scatter"
    ranges: ClassVar[Mapping[str, Range]] = {"axes": COUNT, "indexed_sizes": COUNT}

    axes: tuple[Size, ...]
    indexed_sizes: tuple[Size, ...]
    data: Operand
    indices: tuple[Operand, ...]
    out: Operand
    is_scatter: bool = False
    out_of_range: str = "error"
    combine: str = ""

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, *self.indices, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        space = (*self.axes, *self.indexed_sizes)
        ends = (self.axes, space) if self.is_scatter else (space, self.axes)
        return [ends[0], *[self.axes] * len(self.indices), ends[1]]

    def reduced_axes(self) -> tuple[Size, ...]:
        return self.axes if self.is_scatter else ()

    def scatters(self) -> bool:
        return self.is_scatter

    def verify(self, target: Target) -> None:
        where, dtype = self.where, self.data.dtype
        if self.out_of_range not in ("error", "zeros") or (
            self.is_scatter and self.out_of_range == "zeros"
        ):
            raise spec_error("no rule for indices out of range", where, self.out_of_range, None)
        if self.combine not in ("", *COMBINED) or (self.combine and not self.is_scatter):
            raise spec_error("no rule joins what is put", where, self.combine, None)
        if self.combine and dtype not in ORDERED:
            raise spec_error("nothing joins elements of this type", where, dtype, None)
        if len(self.indices) != len(self.indexed_sizes):
            raise spec_error("not one index per picked axis", where, len(self.indices), None)
        for index in self.indices:
            if not index.dtype.is_int or index.dtype.bits < 8:
                raise spec_error("an index is not an integer", where, index.dtype, None)
        if dtype is not self.out.dtype or dtype.bits < 8 and dtype.is_int:
            raise spec_error("no kernel picks elements of this type", where, dtype, None)

    def nbytes(self, dims: Sequence[int]) -> int:
        count = math.prod(map(resolver(dims), self.axes))
        indices = sum(index.dtype.nbytes(count) for index in self.indices)
        return 2 * self.out.dtype.nbytes(count) + indices

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes(self.axes, size)
