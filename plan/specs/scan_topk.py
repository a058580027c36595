"""Specs of scans (cumulative sum and product) and of top-k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar

from ...ir.dtype import DType
from ...ir.lazy_dataclass import dataclass
from ..ranges import COUNT, Range
from ..target import Target
from .base import Operand, Resolve, Size, Spec, describe_sizes
from .checks import ORDERED, spec_error


@dataclass(frozen=True)
class ScanSpec(Spec):
    """out[p, i] = the sum (or product) of data[p, 0..i], `exclusive`: of data[p, 0..i - 1],
    `reverse`: from the end of the axis. Floats add up in f64, integers in their own type.
    Both operands walk (axes..., size). Buffers: data, out.
    """

    family: ClassVar[str] = "scan"
    ranges: ClassVar[Mapping[str, Range]] = {"axes": COUNT, "size": COUNT}

    axes: tuple[Size, ...]
    size: Size
    data: Operand
    out: Operand
    product: bool = False
    exclusive: bool = False
    reverse: bool = False

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.out)

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        return [(*self.axes, self.size)] * 2

    def verify(self, target: Target) -> None:
        dtype = self.data.dtype
        if dtype is not self.out.dtype or dtype not in ORDERED:
            raise spec_error("no running sums of this type", self.where, dtype, None)

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes(self.axes, size)


@dataclass(frozen=True)
class TopKSpec(Spec):
    """The `count` largest (or smallest) of data[p, 0..size] and their indices, the best first
    or, with `by_index`, in their own order. Of equal elements the first is the better one; NaN is
    larger than every number.

    data walks (axes..., size), the others (axes..., count), which is at most `size`: what is
    beyond it is not written. most: what `count` is at most, where it is known at run time only.
    Buffers: data, values, indices.
    """

    family: ClassVar[str] = "topk"
    ranges: ClassVar[Mapping[str, Range]] = dict.fromkeys("axes size count most".split(), COUNT)

    axes: tuple[Size, ...]
    size: Size
    count: Size
    data: Operand
    values: Operand
    indices: Operand
    largest: bool = True
    by_index: bool = False
    most: int | None = None

    @property
    def limit(self) -> int | None:
        """What the count is at most; None where that is not known."""
        return self.count if isinstance(self.count, int) else self.most

    def operands(self) -> tuple[Operand, ...]:
        return (self.data, self.values, self.indices)

    def output_count(self) -> int:
        return 2

    def iteration_spaces(self) -> list[tuple[Size, ...]]:
        best = (*self.axes, self.count)
        return [(*self.axes, self.size), best, best]

    def reduced_axes(self) -> tuple[Size, ...]:
        return (self.size,)

    def verify_sizes(self, at: Resolve, where: str) -> None:
        if self.most is not None and at(self.count) > self.most:
            raise spec_error("more ranks than at most", where, at(self.count), self.most)

    def verify(self, target: Target) -> None:
        dtype = self.data.dtype
        if dtype is not self.values.dtype or dtype not in ORDERED:
            raise spec_error("no ranking of this type", self.where, dtype, None)
        if self.indices.dtype not in (DType.i32, DType.i64):
            raise spec_error("no positions of this type", self.where, self.indices.dtype, None)

    def distinguishes_denormals(self) -> bool:
        return True

    def writes_all(self, at: Resolve) -> bool:
        return at(self.count) <= at(self.size)

    def describe(self, size: Callable[[Size], str]) -> str:
        return describe_sizes(self.axes, size)
