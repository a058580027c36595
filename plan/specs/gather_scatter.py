"""Specs of accesses by indices: gather and scatter, of blocks and of elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, cast

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..packing.layouts import PackedB
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, PackedOperand, Size, Spec, describe_sizes, resolver
from .checks import ORDERED, require_types, spec_error

COMBINED: Final = ("sum", "prod", "min", "max")
# Of the packed matrices that blocks are picked from.
CELL_BITS: Final = 32


@dataclass(frozen=True)
class GatherSpec(Spec):
    """out[o, i, e] = data[o, index[i], e]: blocks of `inner` elements picked along one axis.

    data walks (outer, axis, inner), index (i), out (outer, i, inner); `inner` strides are 1 where
    rows are contiguous. Negative indices count from the end. `out_of_range`: "error" gives status
    GATHER_OUT_OF_RANGE with the index position as the element, "zeros" writes zeros.
    Buffers: data, index, out.

    packed: data is a constant that products read, too: a matrix of `inner` x `axis` small integers
    in panels, with cells of 32 bits. A block is a column of it, in the order of K; out has the
    bytes of a block, of 4-bit elements two in each. Strides of data mean nothing then.
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
    packed: PackedB | None = None

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.index, self.out)

    def packed_operands(self) -> dict[int, PackedOperand]:
        if self.packed is None:
            return {}
        return {0: PackedOperand(self.packed, self.inner, self.axis)}

    @property
    def block(self) -> Size:
        """Elements of a block in the output."""
        if self.packed is None or not isinstance(self.inner, int):
            return self.inner
        return self.inner * self.data.dtype.bits // 8

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        data = (self.outer, self.axis, self.inner)
        return [data, (self.count,), (self.outer, self.count, self.block)]

    def verify(self, target: Target) -> None:
        where, index = self.where, self.index.dtype
        if self.out_of_range not in ("error", "zeros"):
            got = self.out_of_range
            raise spec_error("no rule for indices out of range", where, got, "error, zeros")
        if not index.is_int or index.bits < 8:
            raise spec_error("an index is not an integer", where, index, "an integer type")
        if self.packed is not None:
            self._verify_packed(self.packed)
        else:
            require_types([self.data.dtype], [self.out.dtype], where)

    def _verify_packed(self, packed: PackedB) -> None:
        where, dtype, cell = self.where, self.data.dtype, packed.kr
        if dtype not in (DType.u4, DType.i8, DType.u8) or cell * dtype.bits != CELL_BITS:
            raise spec_error("no kernel picks from such cells", where, f"{dtype} by {cell}", None)
        require_types([DType.u8 if dtype.bits < 8 else dtype], [self.out.dtype], where)
        known = isinstance(self.inner, int) and isinstance(self.axis, int) and self.outer == 1
        if not known or cast(int, self.inner) % cell or packed.column_sums:
            got = f"{self.outer} x {self.inner} x {self.axis}"
            expected = f"one matrix of known sizes, of whole cells of {cell}"
            raise spec_error("packed blocks are not whole cells", where, got, expected)
        if self.out.strides[-1] != 1:
            raise spec_error("packed blocks lie apart", where, self.out.strides[-1], 1)

    def nbytes(self, dims: Sequence[int]) -> int:
        at = resolver(dims)
        count = at(self.count)
        elements = at(self.outer) * count * at(self.block)
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
